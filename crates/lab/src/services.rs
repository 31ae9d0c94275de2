//! The Services of a lab, as its API has them, with the pods that they lead to.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::ListParams;
use kube::{Api, Client};

use crate::api::cause;
use crate::lab::Failure;
use crate::status::{PortStatus, ServiceStatus};

/// The label by which a slice says whose it is.
const OWNER: &str = "kubernetes.io/service-name";

/// Kubernetes namespace and name.
type Key = (String, String);

/// All Services, in the order of their names.
pub(crate) async fn list(client: &Client) -> Result<Vec<ServiceStatus>, Failure> {
    let failed = |error: kube::Error| Failure::new(format!("Services cannot be listed: {}", cause(&error)));
    let services = Api::<Service>::all(client.clone()).list(&ListParams::default()).await.map_err(failed)?;
    let slices = Api::<EndpointSlice>::all(client.clone()).list(&ListParams::default()).await.map_err(failed)?;
    Ok(describe(services.items, &slices.items))
}

fn describe(services: Vec<Service>, slices: &[EndpointSlice]) -> Vec<ServiceStatus> {
    let mut backends: BTreeMap<Key, Vec<String>> = BTreeMap::new();
    for slice in slices {
        if let Some(owner) = slice.metadata.labels.as_ref().and_then(|labels| labels.get(OWNER)) {
            let key = (slice.metadata.namespace.clone().unwrap_or_default(), owner.clone());
            backends.entry(key).or_default().extend(ready_pods(slice));
        }
    }
    let mut all: Vec<ServiceStatus> = services.into_iter().map(|service| status(service, &mut backends)).collect();
    all.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    all
}

/// The pods of a slice that connections are sent to.
fn ready_pods(slice: &EndpointSlice) -> impl Iterator<Item = String> + '_ {
    let is_ready = |ready: Option<bool>| ready.unwrap_or(true);
    let ready = slice.endpoints.iter().flatten().filter(move |it| is_ready(it.conditions.as_ref().and_then(|conditions| conditions.ready)));
    ready.filter_map(|endpoint| endpoint.target_ref.as_ref().filter(|target| target.kind.as_deref() == Some("Pod"))?.name.clone())
}

fn status(service: Service, backends: &mut BTreeMap<Key, Vec<String>>) -> ServiceStatus {
    let key = (service.metadata.namespace.unwrap_or_default(), service.metadata.name.unwrap_or_default());
    // A pod of both families is in a slice of each.
    let mut pods = backends.remove(&key).unwrap_or_default();
    pods.sort();
    pods.dedup();
    let spec = service.spec.unwrap_or_default();
    let ingress = service.status.and_then(|status| status.load_balancer?.ingress).unwrap_or_default();
    let given = ingress.iter().filter_map(|ingress| ingress.ip.as_deref()).chain(spec.external_ips.iter().flatten().map(String::as_str));
    ServiceStatus {
        namespace: key.0,
        name: key.1,
        kind: spec.type_.clone().unwrap_or_else(|| "ClusterIP".to_owned()),
        addresses: addresses(spec.cluster_ips.iter().flatten().map(String::as_str)),
        outside: addresses(given),
        external_name: spec.external_name.clone().unwrap_or_default(),
        ports: ports(&spec),
        backends: pods,
    }
}

/// What is an address; `None` of a headless Service is none.
fn addresses<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<IpAddr> {
    texts.filter_map(|text| text.parse().ok()).collect()
}

fn ports(spec: &ServiceSpec) -> Vec<PortStatus> {
    let number = |value: i32| u16::try_from(value).unwrap_or(0);
    let target = |port: &ServicePort| match &port.target_port {
        Some(IntOrString::Int(number)) => number.to_string(),
        Some(IntOrString::String(name)) => name.clone(),
        None => String::new(),
    };
    let read = |port: &ServicePort| PortStatus {
        protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
        port: number(port.port),
        target: target(port),
        node_port: port.node_port.map(number).filter(|port| *port != 0),
    };
    spec.ports.iter().flatten().map(read).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_service_leads_to_the_ready_pods_of_its_slices() {
        let service = json!({
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"type": "LoadBalancer", "clusterIPs": ["10.96.0.7", "fd00::7"], "externalIPs": ["192.0.2.8"],
                "ports": [{"port": 80, "targetPort": "http", "nodePort": 30080}, {"port": 53, "targetPort": 53, "protocol": "UDP"}]},
            "status": {"loadBalancer": {"ingress": [{"ip": "198.51.100.1"}]}}});
        let slice = |family: &str, pods: &[(&str, bool)]| {
            let endpoints: Vec<_> = pods
                .iter()
                .map(|(name, ready)| json!({"addresses": [], "conditions": {"ready": ready}, "targetRef": {"kind": "Pod", "name": name}}))
                .collect();
            serde_json::from_value::<EndpointSlice>(json!({
                "metadata": {"namespace": "shop", "labels": {OWNER: "web"}}, "addressType": family, "endpoints": endpoints}))
            .unwrap()
        };
        let slices = [slice("IPv4", &[("b", true), ("a", true), ("c", false)]), slice("IPv6", &[("a", true)])];
        let headless = json!({"metadata": {"name": "a"}, "spec": {"clusterIPs": ["None"]}});
        let read = |value| serde_json::from_value::<Service>(value).unwrap();
        let all = describe(vec![read(service), read(headless)], &slices);
        assert_eq!(all[0], ServiceStatus { name: "a".to_owned(), kind: "ClusterIP".to_owned(), ..ServiceStatus::default() });
        assert_eq!(all[1].backends, ["a", "b"]);
        assert_eq!(all[1].outside, addresses(["198.51.100.1", "192.0.2.8"].into_iter()));
        let ports: Vec<String> = all[1].ports.iter().map(ToString::to_string).collect();
        assert_eq!(ports, ["80:30080/TCP > http", "53/UDP"]);
    }
}
