//! The NIC of an endpoint: a TAP device in its namespace.
//!
//! It outlives this process: pods keep their NIC, with its addresses and routes, while vswitchd is away, and the next one finds it by its alias.

use hcn::endpoint::Endpoint;
use hns::compile::endpoint::{NicPlan, NicRoute};
use hns::compile::l4_wfp_proxy::Interception;
use host::namespace::Namespace;
use host::netlink::{Link, Netlink};
use host::nftables::{self, Course, Exempt, Interceptions};
use host::nic::Nic;
use host::nic::tap::{Tap, TapOptions};
use host::vnic::{self, Route, VnicConfig};
use vfp::Direction;

use super::error::Error;

/// As much as one train of datagrams carries: what a tunnel sends of one large segment then goes in one call.
const GSO_MAX: u32 = 61_000;

/// The link by which programs of a namespace talk to each other.
const LOOPBACK: &str = "lo";

/// The largest number that is tried for a NIC's name.
const NICS_MAX: u32 = 64;

/// A NIC in a namespace.
pub(super) struct Attachment {
    tap: Tap,
    netlink: Netlink,
    namespace: Namespace,
    index: u32,
    name: String,
    alias: String,
    /// What it was given last.
    plan: Option<NicPlan>,
    /// What proxies in the namespace take, while there is something.
    proxies: Option<Interceptions>,
}

impl Attachment {
    /// Takes up the endpoint's NIC in a namespace, or makes it, and configures it. All of this is done by one thread in the namespace.
    pub(super) fn open(endpoint: &Endpoint, namespace: &Namespace, plan: &NicPlan) -> Result<Self, Error> {
        let held = namespace.try_clone().map_err(|error| Error::io(format!("hold the namespace {}", endpoint.namespace), error))?;
        let opened = namespace.run(|| {
            let mut opened = Self::open_within(held, endpoint.id.to_string(), plan.name.as_deref())?;
            // What could not be configured does not stay.
            opened.configure(plan).inspect_err(|_| opened.retire())?;
            Ok(opened)
        });
        opened.map_err(|error| Error::io(format!("enter the namespace {}", endpoint.namespace), error))?
    }

    /// Takes up the NIC with an alias in the namespace of the calling thread, or makes it, with a name if one is asked for.
    fn open_within(namespace: Namespace, alias: String, asked: Option<&str>) -> Result<Self, Error> {
        let netlink = Netlink::open()?;
        let links = netlink.links()?;
        // Programs in it talk to themselves at 127.0.0.1, as everywhere.
        if let Some(loopback) = links.iter().find(|link| link.name == LOOPBACK && !link.up) {
            netlink.set_up(loopback.index)?;
        }
        let own = links.iter().find(|link| link.alias.as_deref() == Some(&alias));
        let name = match own {
            Some(own) => own.name.clone(),
            None => free_name(&links, asked)?,
        };
        let tap = Tap::open(&name, TapOptions { persistent: true })?;
        let link = netlink.link_by_name(&name)?.ok_or_else(|| Error::Message(format!("the NIC {name} has vanished from its namespace")))?;
        netlink.set_alias(link.index, &alias)?;
        Ok(Self { tap, netlink, namespace, index: link.index, name, alias, plan: None, proxies: None })
    }

    /// The device.
    pub(super) fn nic(&self) -> Nic {
        self.tap.nic()
    }

    /// Gives the NIC its addresses, routes and MTU; what is right already is left alone, and what others have changed since stays as long
    /// as the same is asked for.
    pub(super) fn configure(&mut self, plan: &NicPlan) -> Result<(), Error> {
        if self.plan.as_ref() == Some(plan) {
            return Ok(());
        }
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
        vnic::configure(&self.netlink, self.index, &config)?;
        self.plan = Some(plan.clone());
        Ok(())
    }

    /// Leads connections by the NIC to proxies in its namespace: these, and no others any more.
    pub(super) fn intercept(&mut self, list: &[Interception]) -> Result<(), Error> {
        let list: Vec<nftables::Interception> = list.iter().map(in_namespace).collect();
        match &mut self.proxies {
            _ if list.is_empty() => self.proxies = None,
            Some(proxies) => proxies.update(&list)?,
            None => {
                let installed = self.namespace.run(|| Interceptions::install(&self.name, &list));
                self.proxies = Some(installed.map_err(|error| Error::io("enter the namespace", error))??);
            }
        }
        Ok(())
    }

    /// Takes the NIC out of use: it goes with its last handle. Until then its namespace has it under another name, and stopped, so that
    /// the next one can have its place at once.
    pub(super) fn retire(&self) {
        if let Err(error) = self.tap.set_persistent(false) {
            tracing::debug!(nic = self.name, %error, "the NIC is gone already");
            return;
        }
        let index = self.index;
        let moved = self.netlink.set_alias(index, "").and_then(|()| self.netlink.set_down(index));
        if let Err(error) = moved.and_then(|()| self.netlink.set_name(index, &format!("gone{index}"))) {
            tracing::debug!(nic = self.name, %error, "the NIC keeps its name until it is closed");
        }
    }

    /// Whether a worker still has the device.
    pub(super) fn is_held_elsewhere(&self) -> bool {
        self.tap.is_shared()
    }
}

/// The name that is asked for, or the first that nobody has.
fn free_name(links: &[Link], asked: Option<&str>) -> Result<String, Error> {
    let is_free = |name: &String| !links.iter().any(|link| link.name == *name);
    match asked {
        Some(name) => Some(name.to_owned()).filter(is_free).ok_or_else(|| {
            Error::Message(format!("the namespace has another NIC that is called {name}; delete it, or ask for another name"))
        }),
        None => (0..NICS_MAX)
            .map(|number| format!("eth{number}"))
            .find(is_free)
            .ok_or_else(|| Error::Message("the namespace has too many NICs".into())),
    }
}

fn in_namespace(of: &Interception) -> nftables::Interception {
    nftables::Interception {
        course: match of.direction {
            Direction::In => Course::Inward,
            Direction::Out => Course::Outward,
        },
        proxy: of.proxy,
        protocols: of.protocols.clone(),
        local: of.local.clone(),
        remote: of.remote.clone(),
        local_ports: of.local_ports.clone(),
        remote_ports: of.remote_ports.clone(),
        exempt: Exempt { remote: of.exempt_addresses.clone(), ports: of.exempt_ports.clone(), user: of.exempt_user },
    }
}
