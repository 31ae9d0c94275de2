//! The documents of a trial. Addresses are of ranges that are kept for measurements and for documentation.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hcn::Guid;
use ipnet::IpNet;
use serde_json::{Value, json};

use super::{Site, Trial};
use crate::topology::Mode;

impl Trial {
    /// The network on one side, with the way to the other side if that is another node.
    pub(super) fn network(&self, side: u8, other: Option<&Site>) -> Value {
        json!({
            "Name": format!("transom-check-{}", self.number), "Type": self.mode.network_type(), "Policies": self.policies(side, other),
            "Ipams": [{"Type": "Static", "Subnets": self.families.iter().map(|v6| self.subnet(side, *v6)).collect::<Vec<_>>()}],
            "SchemaVersion": schema()})
    }

    fn policies(&self, side: u8, other: Option<&Site>) -> Vec<Value> {
        let adapter = policy("NetAdapterName", json!({"NetworkAdapterName": "eth0"}));
        // What is behind NAT has no adapter.
        let mut policies: Vec<Value> = Some(adapter).filter(|_| self.mode != Mode::Nat).into_iter().collect();
        policies.extend(self.port.map(|port| policy("VxlanPort", json!({"Port": port}))));
        if let Some(other) = other {
            policies.push(policy("DrMacAddress", json!({"Address": self.router(side)})));
            let there = 1 - side;
            policies.extend(self.families.iter().map(|v6| {
                policy(
                    "RemoteSubnetRoute",
                    json!({
                        "DestinationPrefix": self.range(there, *v6), "IsolationId": self.vni,
                        "ProviderAddress": other.address, "DistributedRouterMacAddress": self.router(there)}),
                )
            }));
        }
        policies
    }

    fn subnet(&self, side: u8, v6: bool) -> Value {
        let policies = if self.is_overlay() { vec![policy("VSID", json!({"IsolationId": self.vni}))] } else { Vec::new() };
        json!({"IpAddressPrefix": self.range(side, v6), "Routes": [self.route(side, v6)], "Policies": policies})
    }

    /// The endpoint on one side.
    pub(super) fn endpoint(&self, side: u8) -> Value {
        let address = |v6: &bool| json!({"IpAddress": self.address(side, *v6), "PrefixLength": self.range(side, *v6).prefix_len()});
        json!({
            "IpConfigurations": self.families.iter().map(address).collect::<Vec<_>>(),
            "Routes": self.families.iter().map(|v6| self.route(side, *v6)).collect::<Vec<_>>(), "SchemaVersion": schema()})
    }

    fn route(&self, side: u8, v6: bool) -> Value {
        json!({"NextHop": self.host(side, v6, 1), "DestinationPrefix": if v6 { "::/0" } else { "0.0.0.0/0" }})
    }

    /// The hardware address of a side's router.
    fn router(&self, side: u8) -> String {
        format!("00-15-5D-CE-{:02X}-{side:02X}", self.number)
    }

    /// The addresses of a side. On a bridge both are on one link.
    pub(super) fn range(&self, side: u8, v6: bool) -> IpNet {
        let length = if v6 { 64 } else { 24 };
        IpNet::new_assert(self.host(side, v6, 0), length)
    }

    /// The address of the end on one side.
    pub(super) fn address(&self, side: u8, v6: bool) -> IpAddr {
        self.host(side, v6, 9 + side)
    }

    fn host(&self, side: u8, v6: bool, number: u8) -> IpAddr {
        let part = if self.is_overlay() { 2 * self.number + side } else { 2 * self.number };
        match v6 {
            false => Ipv4Addr::new(198, 18, part, number).into(),
            true => Ipv6Addr::new(0x2001, 0xdb8, 0xc, part.into(), 0, 0, 0, number.into()).into(),
        }
    }
}

/// An HCN namespace.
pub(super) fn namespace() -> Value {
    json!({"Type": "Host", "SchemaVersion": schema()})
}

/// The request that puts an endpoint into a namespace.
pub(super) fn attach(endpoint: Guid) -> Value {
    json!({"ResourceType": "Endpoint", "RequestType": "Add", "Settings": {"EndpointId": endpoint.to_string()}})
}

fn policy(kind: &str, settings: Value) -> Value {
    json!({"Type": kind, "Settings": settings})
}

fn schema() -> Value {
    json!({"Major": 2, "Minor": 0})
}
