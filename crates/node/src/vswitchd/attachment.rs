//! The NIC of an endpoint: a TAP device in its namespace or, where known flows go by the kernel, one end of a pair of links.
//!
//! It outlives this process: pods keep their NIC, with its addresses and routes, while vswitchd is away, and the next one finds it by its alias.

use std::sync::Arc;

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
use super::offload::KernelOffload;
use super::pair::Pair;

/// As much as one train of datagrams carries: what a tunnel sends of one large segment then goes in one call.
const GSO_MAX: u32 = 61_000;

/// What the kernel calls pairs of links.
const PAIR: &str = "veth";

/// The link by which programs of a namespace talk to each other.
const LOOPBACK: &str = "lo";

/// The largest number that is tried for a NIC's name.
const NICS_MAX: u32 = 64;

/// A NIC in a namespace.
pub(super) struct Attachment {
    /// By which the engine reads and writes: the NIC itself, or what is beside the other end of its pair.
    tap: Tap,
    /// The switch's end, if flows can be in the kernel.
    pair: Option<Pair>,
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
    pub(super) fn open(
        endpoint: &Endpoint,
        namespace: &Namespace,
        plan: &NicPlan,
        kernel: Option<&Arc<KernelOffload>>,
    ) -> Result<Self, Error> {
        let hold = || namespace.try_clone().map_err(|error| Error::io(format!("hold the namespace {}", endpoint.namespace), error));
        match kernel.map(|kernel| Self::open_pair(hold()?, endpoint, plan, kernel)).transpose() {
            Ok(Some(Some(opened))) => return Ok(opened),
            Ok(Some(None)) => {}
            // What another data path has left is of no use.
            Ok(None) => Pair::discard(endpoint.id)?,
            Err(error) => {
                tracing::warn!(endpoint = %endpoint.id, %error, "its packets all go by this process");
                Pair::discard(endpoint.id)?;
            }
        }
        let held = hold()?;
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
        raise_loopback(&netlink, &links)?;
        let own = links.iter().find(|link| link.alias.as_deref() == Some(&alias));
        let name = match own {
            Some(own) => own.name.clone(),
            None => free_name(&links, asked)?,
        };
        let tap = Tap::open(&name, TapOptions { persistent: true })?;
        let link = netlink.link_by_name(&name)?.ok_or_else(|| Error::Message(format!("the NIC {name} has vanished from its namespace")))?;
        netlink.set_alias(link.index, &alias)?;
        Ok(Self { tap, pair: None, netlink, namespace, index: link.index, name, alias, plan: None, proxies: None })
    }

    /// Takes up the endpoint's pair of links, or makes it, and configures it. None if the endpoint has a TAP device already, which its pod is not to lose.
    fn open_pair(namespace: Namespace, endpoint: &Endpoint, plan: &NicPlan, kernel: &Arc<KernelOffload>) -> Result<Option<Self>, Error> {
        let netlink = Netlink::open_in(&namespace)?;
        let links = netlink.links()?;
        raise_loopback(&netlink, &links)?;
        let alias = endpoint.id.to_string();
        let own = links.iter().find(|link| link.alias.as_deref() == Some(&alias));
        if own.is_some_and(|own| own.kind.as_deref() != Some(PAIR)) {
            return Ok(None);
        }
        let name = match own {
            Some(own) => own.name.clone(),
            None => free_name(&links, plan.name.as_deref())?,
        };
        let (pair, tap, inner) = Pair::open(endpoint.id, (&namespace, &netlink), own, kernel)?;
        if inner.name != name {
            netlink.set_name(inner.index, &name)?;
        }
        netlink.set_alias(inner.index, &alias)?;
        let mut opened = Self { tap, pair: Some(pair), netlink, namespace, index: inner.index, name, alias, plan: None, proxies: None };
        opened.configure(plan).inspect_err(|_| opened.retire())?;
        Ok(Some(opened))
    }

    /// The switch's end of the NIC, if flows can be in the kernel.
    pub(super) fn kernel_end(&self) -> Option<u32> {
        self.pair.as_ref().map(Pair::end)
    }

    /// The links that have programs of ours.
    pub(super) fn programmed(&self) -> Vec<String> {
        self.pair.as_ref().map_or_else(Vec::new, Pair::programmed)
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
        if let Some(pair) = &self.pair {
            pair.set_mtu(config.mtu)?;
        }
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
        if let Some(pair) = &self.pair {
            pair.retire();
        }
        let index = self.index;
        let moved = self.netlink.set_alias(index, "").and_then(|()| self.netlink.set_down(index));
        if let Err(error) = moved.and_then(|()| self.netlink.set_name(index, &format!("gone{index}"))) {
            tracing::debug!(nic = self.name, %error, "the NIC keeps its name until it is closed");
        }
    }

    /// Closes what was taken out of use.
    pub(super) fn close(self) {
        if let Some(pair) = self.pair {
            pair.close();
        }
    }

    /// Whether a worker still has the device.
    pub(super) fn is_held_elsewhere(&self) -> bool {
        self.tap.is_shared()
    }
}

/// Programs in a namespace talk to themselves at 127.0.0.1, as everywhere.
fn raise_loopback(netlink: &Netlink, links: &[Link]) -> Result<(), Error> {
    let loopback = links.iter().find(|link| link.name == LOOPBACK && !link.up);
    Ok(loopback.map_or(Ok(()), |loopback| netlink.set_up(loopback.index))?)
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
