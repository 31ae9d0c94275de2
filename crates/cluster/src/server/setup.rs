//! The objects that every cluster has from the beginning.

use std::net::{IpAddr, SocketAddr};

use serde_json::{Value, json};

use super::allocation::Ranges;
use super::document::now;
use super::operation::{Api, create_in};
use super::resource::{DEFAULT_SERVICE_CIDR, ENDPOINT_SLICES, ENDPOINTS, NAMESPACES, Resource, SERVICE_CIDRS, SERVICES};
use super::status::Result;
use super::store::{Draft, Key};

/// Makes the namespaces and the Service of the API itself, where they are missing.
pub(crate) async fn prepare(api: &Api, address: SocketAddr, service_address: IpAddr) -> Result<()> {
    let ranges = api.ranges.clone();
    let operation = move |draft: &mut Draft| {
        let is_new = draft.state.revision() == 0;
        let mut ensure = |resource: &'static Resource, namespace: &str, document: Value| {
            let name = document["metadata"]["name"].as_str().unwrap_or_default();
            match draft.state.get(&Key::new(resource, namespace, name)) {
                Some(_) => Ok(()),
                None => create_in(draft, &ranges, resource, document).map(drop),
            }
        };
        for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            ensure(&NAMESPACES, "", json!({"metadata": {"name": name}}))?;
        }
        ensure(&SERVICES, "default", kubernetes(address, service_address))?;
        if is_new {
            // What every cluster begins with is not something that happened to it.
            draft.forget_past();
        }
        Ok(())
    };
    api.store.change(operation).await?;
    let ranges = api.ranges.clone();
    api.store.change(move |draft| tell_ranges(draft, &ranges)).await?;
    api.store.change(move |draft| point_at(draft, address)).await
}

/// The Service by which pods reach the API.
fn kubernetes(address: SocketAddr, service_address: IpAddr) -> Value {
    let labels = json!({"component": "apiserver", "provider": "kubernetes"});
    let port = json!({"name": "https", "port": 443, "protocol": "TCP", "targetPort": address.port()});
    json!({
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
        "spec": {"clusterIP": service_address.to_string(), "ports": [port], "type": "ClusterIP", "sessionAffinity": "None"},
    })
}

/// Tells which ranges Services get their addresses from this time.
fn tell_ranges(draft: &mut Draft, ranges: &Ranges) -> Result<()> {
    let ranges: Vec<String> = ranges.addresses.iter().map(ToString::to_string).collect();
    let key = Key::new(&SERVICE_CIDRS, "", DEFAULT_SERVICE_CIDR);
    let mut status = json!({"conditions": [{
        "type": "Ready", "status": "True", "reason": "", "message": "Kubernetes default Service CIDR is ready", "lastTransitionTime": now(),
    }]});
    if let Some(stored) = draft.state.get(&key) {
        // It has been ready ever since.
        status["conditions"][0]["lastTransitionTime"] = stored.document()["status"]["conditions"][0]["lastTransitionTime"].clone();
    }
    let document = json!({"metadata": {"name": DEFAULT_SERVICE_CIDR}, "spec": {"cidrs": ranges}, "status": status});
    place(draft, &SERVICE_CIDRS, &key, document, &["spec", "status"])
}

/// Points that Service at where the server listens this time.
fn point_at(draft: &mut Draft, address: SocketAddr) -> Result<()> {
    let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    let ip = address.ip().to_string();
    let slice = json!({
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": family,
        "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": address.port(), "protocol": "TCP"}],
    });
    let endpoints = json!({
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{"addresses": [{"ip": ip}], "ports": [{"name": "https", "port": address.port(), "protocol": "TCP"}]}],
    });
    let key = |resource| Key::new(resource, "default", "kubernetes");
    place(draft, &ENDPOINT_SLICES, &key(&ENDPOINT_SLICES), slice, &["addressType", "endpoints", "ports"])?;
    place(draft, &ENDPOINTS, &key(&ENDPOINTS), endpoints, &["subsets"])
}

/// Stores a document of our own. Where we listen may be a loopback address, so it is not validated as a client's would be.
fn place(draft: &mut Draft, resource: &'static Resource, key: &Key, document: Value, keys: &[&str]) -> Result<()> {
    let stored = draft.state.get(key).cloned();
    let mut next = match stored {
        Some(stored) => stored.document(),
        None => {
            let mut fresh = document.clone();
            let metadata = super::document::metadata(&mut fresh);
            metadata.insert("uid".into(), uuid::Uuid::new_v4().to_string().into());
            metadata.insert("creationTimestamp".into(), now().into());
            fresh
        }
    };
    for name in keys {
        super::document::as_map(&mut next).insert((*name).to_owned(), document[*name].clone());
    }
    draft.put(resource, key, next).map(drop)
}
