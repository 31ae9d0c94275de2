//! How a Windows node comes to the network that its pods are on: by flanneld, by the first pod, or by the lab.

use std::net::IpAddr;

use hcn::{Hcn, Kind};
use host::netlink::Netlink;
use ipnet::IpNet;
use serde_json::{Value, json};

use super::super::{LabNode, strings};
use super::{Windows, blocking, not_ready};
use crate::cni::CniError;
use crate::daemon::NotReady;
use crate::topology::{Plugin, Topology};

/// The addresses of a subnet that the cloud keeps for itself.
const RESERVED: usize = 4;

/// How many addresses the cloud gives to a node at most.
const ADDRESSES: usize = 250;

impl Windows {
    /// Has the network made, so that kube-proxy finds it.
    pub(super) async fn make_network(&self, node: &LabNode) -> Result<(), NotReady> {
        let refused = |error: CniError| not_ready(&node.spec.name, "no network for pods", &error);
        let subnets = node.surroundings.topology.node_subnets(node.position);
        match self.spec.plugin() {
            Plugin::Flannel => {
                let hnsd = format!("unix:{}", self.directory.join("hnsd.sock").display());
                node.run(node.flanneld(&strings(&["--hnsd", &hnsd]))).await
            }
            Plugin::AzureVnet => {
                self.list_addresses(&subnets).map_err(refused)?;
                // The plugin makes the network with the first pod.
                self.try_sandbox(false).await.map_err(refused)
            }
            Plugin::Sdnbridge => self.make_transparent(&subnets).await.map_err(refused),
            // The plugin makes the network with the first pod, and nobody else needs it.
            Plugin::Nat => Ok(()),
        }
    }

    /// Lists the addresses that the node has for pods, as the host agent of a cloud does.
    fn list_addresses(&self, subnets: &[IpNet]) -> Result<(), CniError> {
        let netlink = Netlink::open_in(&self.network.namespace).map_err(|error| CniError::new(error.to_string()))?;
        let adapter = netlink.link_by_name("eth0").map_err(|error| CniError::new(error.to_string()))?;
        let mac = adapter.ok_or_else(|| CniError::new("the node has no eth0"))?.mac;
        let own: Vec<Value> = subnets.iter().filter(|subnet| subnet.addr().is_ipv4()).map(listed).collect();
        let list = json!({"Interfaces": [{"MacAddress": mac.to_string(), "IsPrimary": true, "IPSubnets": own}]});
        Ok(std::fs::write(self.directory.join("interfaces.json"), list.to_string())?)
    }

    /// As an administrator makes it by hand: the gateway is the router.
    async fn make_transparent(&self, subnets: &[IpNet]) -> Result<(), CniError> {
        let subnets: Vec<Value> = subnets.iter().map(|subnet| described(*subnet)).collect();
        let document = json!({
            "Name": self.spec.name(), "Type": self.spec.mode.network_type(),
            "Policies": [{"Type": "NetAdapterName", "Settings": {"NetworkAdapterName": "eth0"}}],
            "Ipams": [{"Type": "Static", "Subnets": subnets}], "SchemaVersion": {"Major": 2, "Minor": 0}});
        let client = self.client.clone();
        blocking(move || client.create(Kind::Network, None, None, &document.to_string())).await.map(drop)
    }
}

fn listed(subnet: &IpNet) -> Value {
    let addresses = subnet.hosts().skip(RESERVED - 1).take(ADDRESSES);
    json!({"Prefix": subnet, "IPAddresses": addresses.map(|address| json!({"Address": address, "IsPrimary": false})).collect::<Vec<_>>()})
}

fn described(subnet: IpNet) -> Value {
    let gateway: IpAddr = Topology::gateway_of(subnet).addr();
    let everything = if gateway.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
    json!({"IpAddressPrefix": subnet, "Routes": [{"NextHop": gateway, "DestinationPrefix": everything}]})
}
