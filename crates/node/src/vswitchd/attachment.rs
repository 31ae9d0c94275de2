//! The NIC of an endpoint: a TAP device in its namespace.
//!
//! It outlives this process: pods keep their NIC, with its addresses and routes, while vswitchd is away, and the next one finds it by its alias.

use hcn::endpoint::Endpoint;
use hns::compile::endpoint::{NicPlan, NicRoute};
use host::namespace::Namespace;
use host::netlink::Netlink;
use host::nic::Nic;
use host::nic::tap::{Tap, TapOptions};
use host::vnic::{self, Route, VnicConfig};

use super::error::Error;

/// As much as one train of datagrams carries: what a tunnel sends of one large segment then goes in one call.
const GSO_MAX: u32 = 61_000;

/// The largest number that is tried for a NIC's name.
const NICS_MAX: u32 = 64;

/// A NIC in a namespace.
pub(super) struct Attachment {
    tap: Tap,
    netlink: Netlink,
    index: u32,
    name: String,
    alias: String,
}

impl Attachment {
    /// Takes up the endpoint's NIC in a namespace, or makes it.
    pub(super) fn open(endpoint: &Endpoint, namespace: &Namespace) -> Result<Self, Error> {
        let alias = endpoint.id.to_string();
        let netlink = Netlink::open_in(namespace)?;
        let links = netlink.links()?;
        let own = links.iter().find(|link| link.alias.as_deref() == Some(&alias));
        let free = || (0..NICS_MAX).map(|number| format!("eth{number}")).find(|name| !links.iter().any(|link| link.name == *name));
        let name =
            own.map(|link| link.name.clone()).or_else(free).ok_or_else(|| Error::Message("the namespace has too many NICs".into()))?;
        let opened = namespace.run(|| Tap::open(&name, TapOptions { persistent: true }));
        let tap = opened.map_err(|error| Error::io(format!("enter the namespace {}", endpoint.namespace), error))??;
        let link = netlink.link_by_name(&name)?.ok_or_else(|| Error::Message(format!("the NIC {name} has vanished from its namespace")))?;
        netlink.set_alias(link.index, &alias)?;
        Ok(Self { tap, netlink, index: link.index, name, alias })
    }

    /// The device.
    pub(super) fn nic(&self) -> Nic {
        self.tap.nic()
    }

    /// Gives the NIC its addresses, routes and MTU; what is right already is left alone.
    pub(super) fn configure(&mut self, plan: &NicPlan) -> Result<(), Error> {
        let route = |route: &NicRoute| Route { destination: route.destination, next_hop: route.next_hop, metric: u32::from(route.metric) };
        let config = VnicConfig {
            name: self.name.clone(),
            mac: plan.mac,
            mtu: u32::from(plan.mtu),
            gso_max_size: Some(GSO_MAX),
            addresses: plan.addresses.clone(),
            routes: plan.routes.iter().map(route).collect(),
            neighbours: Vec::new(),
            alias: Some(self.alias.clone()),
        };
        Ok(vnic::configure(&self.netlink, self.index, &config)?)
    }

    /// Lets the device go with its last handle.
    pub(super) fn remove(&self) {
        if let Err(error) = self.tap.set_persistent(false) {
            tracing::debug!(nic = self.name, %error, "the NIC is gone already");
        }
    }
}
