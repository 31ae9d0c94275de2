//! `host-gw` on HNS: an L2Bridge network, an endpoint on it by which the node is the pods' gateway, and routes of the machine.
//!
//! It speaks schema 1, as the original does, so that CNI plugins of either schema find what they expect.

use std::net::IpAddr;
use std::sync::Arc;

use hcn::Hcn;
use ipnet::IpNet;
use serde_json::{Value, json};

use super::wait_for;
use crate::backend::router::{self, Router};
use crate::backend::{Backend, Prepared, Site};
use crate::desired::Own;
use crate::lease::Lease;
use crate::net_conf::HostGwConf;
use crate::trouble::{Subject, Trouble};
use crate::{nth, prefix_like};

/// The compartment of the machine itself.
const HOST: u16 = 1;

/// The backend.
pub struct HostGw {
    hcn: Arc<dyn Hcn>,
    router: Box<dyn Router>,
    conf: HostGwConf,
}

impl HostGw {
    /// On an HNS, with the machine's routes.
    pub fn new(hcn: Arc<dyn Hcn>, router: Box<dyn Router>, conf: &HostGwConf) -> Self {
        Self { hcn, router, conf: conf.clone() }
    }

    fn call(&self, method: &str, path: &str, body: &Value, doing: &str) -> Result<Value, Trouble> {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        self.hcn.call(method, path, &text).map_err(|error| Trouble::of_hns(doing, &error))
    }

    /// The objects of a collection with a name.
    fn named(&self, collection: &str, name: &str) -> Result<Vec<Value>, Trouble> {
        let all = self.call("GET", &format!("/{collection}/"), &Value::Null, &format!("listing {collection}"))?;
        let Value::Array(all) = all else { return Ok(Vec::new()) };
        Ok(all.into_iter().filter(|object| object["Name"] == name).collect())
    }

    fn document(&self, own: &Own, site: &Site) -> Value {
        let subnet = |subnet: &IpNet| json!({ "AddressPrefix": subnet.to_string(), "GatewayAddress": nth(*subnet, 1).to_string() });
        let subnets: Vec<Value> = own.subnets.iter().map(subnet).collect();
        let mut document =
            json!({ "Name": self.conf.name, "Type": "L2Bridge", "DNSServerList": self.conf.dns_servers, "Subnets": subnets });
        if site.is_chosen {
            // The original leaves the choice to HNS even if somebody has made it.
            document["NetworkAdapterName"] = json!(site.interface.name);
        }
        document
    }

    /// The network: the one that is there if it is right, else a new one in its place.
    fn ensure_network(&self, own: &Own, site: &Site) -> Result<Value, Trouble> {
        let name = &self.conf.name;
        let (ours, others): (Vec<Value>, Vec<Value>) = self.named("networks", name)?.into_iter().partition(|network| is_ours(network, own));
        if let Some(network) = ours.into_iter().next() {
            return Ok(network);
        }
        for other in others {
            tracing::info!(network = %name, "the network is for another subnet; it goes");
            // Our own endpoint would hold it.
            for endpoint in self.named("endpoints", &self.endpoint_name())? {
                self.delete("endpoints", &endpoint)?;
            }
            self.delete("networks", &other)?;
        }
        let made = self.call("POST", "/networks/", &self.document(own, site), &format!("making the network {name}"))?;
        tracing::info!(network = %name, "made the network");
        Ok(made)
    }

    fn endpoint_name(&self) -> String {
        format!("{}_ep", self.conf.name)
    }

    fn delete(&self, collection: &str, object: &Value) -> Result<(), Trouble> {
        let (id, name) = (object["ID"].as_str().unwrap_or_default(), object["Name"].as_str().unwrap_or_default());
        self.call("DELETE", &format!("/{collection}/{id}"), &Value::Null, &format!("replacing {name}")).map(drop)
    }

    /// Waits until HNS has given the network the node's address.
    fn wait_for_management(&self, network: &Value) -> Result<IpAddr, Trouble> {
        let id = network["ID"].as_str().unwrap_or_default();
        let ask = || {
            let network = self.call("GET", &format!("/networks/{id}"), &Value::Null, "looking at the network")?;
            Ok(management(&network))
        };
        match management(network) {
            Some(address) => Ok(address),
            None => wait_for(ask)?.ok_or_else(|| {
                let text = format!("the network {} got no management address; see whether its adapter has one", self.conf.name);
                Trouble::new(Subject::Hns, text)
            }),
        }
    }

    /// The endpoint by which the node is the pods' gateway.
    fn ensure_endpoint(&self, own: &Own, network: &Value) -> Result<(), Trouble> {
        let Some(subnet) = own.subnets.first() else { return Ok(()) };
        let (name, address) = (self.endpoint_name(), nth(*subnet, 2).to_string());
        let mut found = None;
        for endpoint in self.named("endpoints", &name)? {
            let is_right = endpoint["IPAddress"] == address.as_str() && same_id(&endpoint["VirtualNetwork"], &network["ID"]);
            match found.is_none() && is_right {
                true => found = Some(endpoint),
                false => self.delete("endpoints", &endpoint)?,
            }
        }
        let endpoint = match found {
            Some(endpoint) => endpoint,
            None => {
                let mut document = json!({ "Name": name, "IPAddress": address, "VirtualNetwork": network["ID"] });
                if subnet.addr().is_ipv6() {
                    document = json!({ "Name": name, "IPv6Address": address, "VirtualNetwork": network["ID"] });
                } else if let Some(v6) = prefix_like(&own.subnets, false) {
                    document["IPv6Address"] = json!(nth(v6, 2).to_string());
                }
                self.call("POST", "/endpoints/", &document, &format!("making the endpoint {name}"))?
            }
        };
        self.attach(&endpoint)
    }

    fn attach(&self, endpoint: &Value) -> Result<(), Trouble> {
        let id = endpoint["ID"].as_str().unwrap_or_default();
        let request = json!({ "SystemType": "Host", "CompartmentId": HOST }).to_string();
        match self.hcn.call("POST", &format!("/endpoints/{id}/attach"), &request) {
            Ok(_) | Err(hcn::Error::EndpointAlreadyAttached(_)) => Ok(()),
            // Windows says it in words.
            Err(error) if error.to_string().contains("already attached") => Ok(()),
            Err(error) => Err(Trouble::of_hns(&format!("attaching the endpoint {} to the node", self.endpoint_name()), &error)),
        }
    }
}

impl Backend for HostGw {
    fn kind(&self) -> &'static str {
        "host-gw"
    }

    fn vni(&self) -> Option<u32> {
        None
    }

    fn prepare(&mut self, own: &Own, site: &Site) -> Result<Prepared, Trouble> {
        let network = self.ensure_network(own, site)?;
        let management = self.wait_for_management(&network)?;
        self.ensure_endpoint(own, &network)?;
        let mut at: Vec<IpAddr> = own.subnets.iter().map(|subnet| nth(*subnet, 2)).collect();
        at.push(management);
        self.router.forward(&at).map_err(|cause| Trouble::new(Subject::Kernel, cause))?;
        Ok(Prepared { vtep: None, mtu: site.interface.mtu })
    }

    fn apply(&mut self, _own: &Own, site: &Site, peers: &[Lease]) -> Vec<Trouble> {
        router::reconcile(self.router.as_ref(), site.interface.index, &site.networks, &router::by_address(peers), Subject::Kernel)
    }
}

fn is_ours(network: &Value, own: &Own) -> bool {
    let subnets = network["Subnets"].as_array();
    let read = |subnet: &Value| -> Option<(IpNet, IpAddr)> {
        Some((subnet["AddressPrefix"].as_str()?.parse().ok()?, subnet["GatewayAddress"].as_str()?.parse().ok()?))
    };
    let mut there: Vec<(IpNet, IpAddr)> = subnets.into_iter().flatten().filter_map(read).collect();
    there.sort_by_key(|(prefix, _)| prefix.addr().is_ipv6());
    let wanted: Vec<(IpNet, IpAddr)> = own.subnets.iter().map(|subnet| (*subnet, nth(*subnet, 1))).collect();
    network["Type"].as_str().is_some_and(|kind| kind.eq_ignore_ascii_case("L2Bridge")) && there == wanted
}

fn management(network: &Value) -> Option<IpAddr> {
    network["ManagementIP"].as_str()?.parse().ok()
}

fn same_id(one: &Value, other: &Value) -> bool {
    one.as_str().zip(other.as_str()).is_some_and(|(one, other)| one.eq_ignore_ascii_case(other))
}
