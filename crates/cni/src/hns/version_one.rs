//! Runtimes from before HCN namespaces, by HNS schema 1: an endpoint is attached to containers by their ids.
//!
//! CNI_NETNS is `none` for the sandbox container, whose endpoint is made, and `container:ID` for the others, which share it.

use hcn::endpoint::Endpoint;
use hcn::v1::attach::{AttachRequest, SystemType};
use hcn::v1::endpoint::HnsEndpoint;
use hcn::v1::policy::{FlatPolicy, Holder};
use hcn::{Field, Guid, Hcn, HcnExt, Path, print};
use serde_json::Value;

use super::flow::{Mode, Site, undo};
use super::{endpoint, failed, ipam, is_gone};
use crate::error::{Error, Result};
use crate::netns::Netns;
use crate::plugin::Call;
use crate::result::AddResult;

/// ADD.
pub(super) fn add(mode: &dyn Mode, site: &Site<'_>, lease: Option<AddResult>) -> Result<AddResult> {
    if lease.is_none()
        && let Some(found) = site.existing(mode)?
    {
        return match attach(&*site.hcn, found.id, &site.call.environment.container_id) {
            Ok(()) | Err(hcn::Error::ComputeSystemNotFound(_)) => Ok(report(mode, site, &found)),
            Err(error) => Err(attaching(&site.name, &error)),
        };
    }
    if site.call.environment.namespace() != Netns::None {
        if lease.is_some() {
            ipam::give_back(site.call);
        }
        return Err(Error::invalid_environment(format!(
            "CNI_NETNS is {:?}, but there is no endpoint {:?} to share",
            site.call.environment.netns, site.name
        ))
        .details("with an HCN namespace set apiVersion to 2; without, call ADD for the sandbox with CNI_NETNS=none first"));
    }
    let lease = lease.map_or_else(|| ipam::take(site.call), |lease| Ok(Some(lease)))?;
    let made = mode.endpoint(site, lease.as_ref()).and_then(|wanted| make(site, &wanted));
    made.map(|made| report(mode, site, &made)).map_err(|error| undo(site, error))
}

fn make(site: &Site<'_>, wanted: &Endpoint) -> Result<Endpoint> {
    let making = |error: hcn::Error| failed(format!("making the endpoint {:?}", wanted.name), &error);
    let answer = site.hcn.call("POST", "/endpoints/", &print(&flat(wanted))).map_err(making)?;
    let id = answer.get("ID").and_then(Value::as_str).and_then(hcn::parse_guid);
    let id = id.ok_or_else(|| making(hcn::not_a_guid("")))?;
    let made = site.hcn.object(id).map_err(making)?;
    attach(&*site.hcn, id, &site.call.environment.container_id).map_err(|error| attaching(&site.name, &error))?;
    Ok(made)
}

/// The endpoint in schema 1, with the fields that its clients send.
fn flat(wanted: &Endpoint) -> HnsEndpoint {
    let address = |ipv4: bool| wanted.ip_configurations.iter().find(|ip| ip.ip_address.contains('.') == ipv4);
    let address = |ipv4: bool| address(ipv4).map(|ip| ip.ip_address.clone()).unwrap_or_default();
    let gateway = |ipv4: bool| endpoint::gateway(wanted, ipv4).map(|gateway| gateway.to_string()).unwrap_or_default();
    HnsEndpoint {
        owner: wanted.owner.clone(),
        name: wanted.name.clone(),
        virtual_network: wanted.network.to_string(),
        dns_server_list: wanted.dns.server_list.join(","),
        dns_suffix: wanted.dns.search.join(","),
        ip_address: address(true),
        ipv6_address: address(false),
        gateway_address: gateway(true),
        gateway_address_v6: gateway(false),
        mac_address: wanted.mac_address.clone(),
        policies: wanted.policies.iter().map(|policy| FlatPolicy::from_v2(policy, Holder::Endpoint)).collect(),
        ..HnsEndpoint::default()
    }
}

/// As clients of schema 1 report it: lists that were text are never empty.
fn report(mode: &dyn Mode, site: &Site<'_>, endpoint: &Endpoint) -> AddResult {
    let mut result = mode.report(site, endpoint);
    for list in [&mut result.dns.nameservers, &mut result.dns.search] {
        if list.is_empty() {
            list.push(String::new());
        }
    }
    result.dns.domain.clear();
    result.dns.options.clear();
    result
}

fn attaching(name: &str, error: &hcn::Error) -> Error {
    failed(format!("attaching the endpoint {name:?} to the container"), error)
}

/// The containers that an endpoint is attached to.
fn containers(hcn: &dyn Hcn, id: Guid) -> hcn::Result<Vec<String>> {
    let view = hcn.call("GET", &format!("/endpoints/{id}"), "")?;
    Ok(HnsEndpoint::read(view, &Path::Root)?.shared_containers)
}

fn attach(hcn: &dyn Hcn, id: Guid, container: &str) -> hcn::Result<()> {
    match containers(hcn, id)?.iter().any(|known| known == container) {
        true => Ok(()),
        false => hcn.call("POST", &format!("/endpoints/{id}/attach"), &request(container)).map(|_| ()),
    }
}

fn request(container: &str) -> String {
    let system_type = Some(SystemType::Container);
    print(&AttachRequest { container_id: container.to_owned(), system_type, ..AttachRequest::default() })
}

/// DEL: a container that shares an endpoint is detached, a sandbox takes it along.
pub(super) fn del(hcn: &dyn Hcn, call: &Call<'_>, endpoints: &[Endpoint]) -> Result<()> {
    for found in endpoints {
        let detached = hcn.call("POST", &format!("/endpoints/{}/detach", found.id), &request(&call.environment.container_id));
        match (call.environment.namespace(), detached) {
            (Netns::Container(_), Err(error)) if !is_gone(&error) && !matches!(error, hcn::Error::ComputeSystemNotFound(_)) => {
                return Err(failed(format!("detaching the endpoint {:?}", found.name), &error));
            }
            (Netns::Container(_), _) => {}
            // Whoever could not be detached is detached by the deletion.
            _ => endpoint::remove(hcn, found)?,
        }
    }
    Ok(())
}

/// CHECK: whether the container has the endpoint.
pub(super) fn difference(site: &Site<'_>, found: &Endpoint) -> Result<Option<String>> {
    let container = &site.call.environment.container_id;
    let containers =
        containers(&*site.hcn, found.id).map_err(|error| failed(format!("asking for the endpoint {:?}", site.name), &error))?;
    Ok((!containers.contains(container)).then(|| format!("it is not attached to the container {container}")))
}
