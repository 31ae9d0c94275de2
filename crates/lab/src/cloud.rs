//! A stand-in for the load balancer in front of the cluster: gives Services of type LoadBalancer an address, and leads what comes for it from
//! outside to the nodes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use cluster::mirror::{Config, Mirror};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use crate::owner::Owner;
use crate::topology::Topology;

/// Begins to give out addresses: to all Services, or in a cluster of others to those of the lab.
pub(crate) fn start(client: Client, topology: Arc<Topology>, owner: Option<Owner>) {
    tokio::spawn(async move {
        let mirror: Mirror<Service> = Mirror::start(Api::all(client.clone()), Config::default());
        mirror.complete().await;
        let mut health = mirror.health();
        loop {
            let mut services = mirror.all();
            services.retain(|service| owner.as_ref().is_none_or(|owner| owner.has(service.metadata.labels.as_ref())));
            for (service, address) in decide(topology.cluster.load_balancer_subnet, &services) {
                give(&client, &service, address).await;
            }
            if health.changed().await.is_err() {
                return;
            }
        }
    });
}

/// The addresses of Services that have none yet: the one they ask for, or the first that is free.
fn decide(range: IpNet, services: &[Arc<Service>]) -> Vec<(Arc<Service>, IpAddr)> {
    let mut taken: BTreeMap<IpAddr, ()> = services.iter().filter_map(|service| given(service)).map(|address| (address, ())).collect();
    let mut waiting: Vec<&Arc<Service>> = services.iter().filter(|service| is_balanced(service) && given(service).is_none()).collect();
    waiting.sort_by_key(|service| (service.metadata.namespace.clone(), service.metadata.name.clone()));
    let mut decisions = Vec::new();
    for service in waiting {
        let asked = service.spec.as_ref().and_then(|spec| spec.load_balancer_ip.as_deref()?.parse::<IpAddr>().ok());
        let asked = asked.filter(|address| range.contains(address) && !taken.contains_key(address));
        let Some(address) = asked.or_else(|| range.hosts().find(|address| !taken.contains_key(address))) else { continue };
        taken.insert(address, ());
        decisions.push((service.clone(), address));
    }
    decisions
}

fn is_balanced(service: &Service) -> bool {
    service.metadata.deletion_timestamp.is_none() && service.spec.as_ref().is_some_and(|spec| spec.type_.as_deref() == Some("LoadBalancer"))
}

fn given(service: &Service) -> Option<IpAddr> {
    let ingress = service.status.as_ref()?.load_balancer.as_ref()?.ingress.as_ref()?;
    ingress.first()?.ip.as_deref()?.parse().ok()
}

async fn give(client: &Client, service: &Service, address: IpAddr) {
    let namespace = service.metadata.namespace.as_deref().unwrap_or("default");
    let name = service.metadata.name.as_deref().unwrap_or_default();
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": address.to_string(), "ipMode": "VIP"}]}}});
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);
    if let Err(error) = services.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await {
        tracing::warn!(namespace, name, %error, "a Service got no address; trying again when something changes");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_of_the_type_gets_an_address_of_its_own() {
        let service = |name: &str, asked: Option<&str>, given: Option<&str>| -> Arc<Service> {
            let ingress: Vec<_> = given.iter().map(|ip| json!({"ip": ip})).collect();
            Arc::new(
                serde_json::from_value(json!({
                    "metadata": {"name": name}, "spec": {"type": "LoadBalancer", "loadBalancerIP": asked},
                    "status": {"loadBalancer": {"ingress": ingress}}}))
                .unwrap(),
            )
        };
        let services = [
            service("a", None, None),
            service("b", Some("198.51.100.9"), None),
            service("c", Some("192.0.2.1"), None),
            service("d", None, Some("198.51.100.1")),
            Arc::new(Service::default()),
        ];
        let decisions = decide("198.51.100.0/24".parse().unwrap(), &services);
        let told: Vec<String> =
            decisions.iter().map(|(service, address)| format!("{} {address}", service.metadata.name.as_deref().unwrap())).collect();
        assert_eq!(told, ["a 198.51.100.2", "b 198.51.100.9", "c 198.51.100.3"]);
    }
}
