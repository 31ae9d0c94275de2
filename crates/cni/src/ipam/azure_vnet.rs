//! `azure-vnet-ipam` and `azure-vnet-ipamv6`: give out the addresses that the cloud has assigned to the machine's interfaces,
//! the former those of IPv4, the latter those of IPv6.
//!
//! Which they are is told by the host agent, or a file. Who has which is kept in one file for the machine, in the shape
//! and under the lock of the reference, so that either can take over. Different from the reference:
//!
//! * Without `ipam.subnet`, a pool that is in use is taken when none is free, and DEL finds the address in any pool.
//! * DEL asks nobody for anything: it works while the host agent is away.
//! * CHECK, GC and STATUS do something. An address says the network it was given out on, so that GC knows which are its.
//! * The default route of an IPv6 pool is `::/0`.

mod http;
mod pool;
mod settings;
mod source;
mod store;

use std::net::IpAddr;

use host::interface::{self, Interface};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::error::{Error, Result};
use crate::plugin::{Call, Plugin};
use crate::result::{AddResult, Dns, IpConfig, Route};

use pool::{Pool, Refusal, Wish};
use settings::Settings;
use store::{State, Store};

/// Where names are resolved, on every machine of that cloud.
const NAMESERVER: &str = "168.63.129.16";

/// Which of the two plugins it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// `azure-vnet-ipam`.
    Ipv4,
    /// `azure-vnet-ipamv6`.
    Ipv6,
}

/// One of the plugins.
#[derive(Debug)]
pub struct AzureVnetIpam {
    name: Name,
    interfaces: fn() -> Vec<Interface>,
}

impl AzureVnetIpam {
    /// Under a name, on the machine that this is.
    pub fn new(name: Name) -> Self {
        Self::with_interfaces(name, interface::list)
    }

    /// Under a name, on a machine with these interfaces.
    pub fn with_interfaces(name: Name, interfaces: fn() -> Vec<Interface>) -> Self {
        Self { name, interfaces }
    }
}

impl Plugin for AzureVnetIpam {
    fn name(&self) -> &'static str {
        match self.name {
            Name::Ipv4 => "azure-vnet-ipam",
            Name::Ipv6 => "azure-vnet-ipamv6",
        }
    }

    fn about(&self) -> &'static str {
        match self.name {
            Name::Ipv4 => "gives out the IPv4 addresses that the cloud has assigned to this machine",
            Name::Ipv6 => "gives out the IPv6 addresses that the cloud has assigned to this machine",
        }
    }

    fn add(&self, call: &Call<'_>) -> Result<AddResult> {
        let settings = self.settings(call)?;
        self.with_fresh_state(&settings, |store, away| {
            let result = request(&mut store.state, &settings, away)?;
            store.save()?;
            Ok(result)
        })
    }

    fn del(&self, call: &Call<'_>) -> Result<()> {
        let Settings { wish, place, .. } = self.settings(call)?;
        if !place.state.exists() {
            return Ok(());
        }
        let mut store = Store::open(&place)?;
        let released = store.state.local().release(|pool, record| {
            let asked_for = wish.address.is_empty() || record.addr == wish.address;
            record.id == wish.container_id && asked_for && wish.pool.as_deref().is_none_or(|wanted| wanted == pool)
        });
        if released > 0 { store.save() } else { Ok(()) }
    }

    fn check(&self, call: &Call<'_>) -> Result<()> {
        let Settings { wish, place, .. } = self.settings(call)?;
        let mut store = Store::open(&place)?;
        let space = store.state.local();
        let held = space.held(&wish.container_id);
        let lost = |what: String| {
            Error::internal(format!("{}: {what}", self.name()))
                .details(format!("somebody changed {}; DEL and ADD the container again", place.state.display()))
        };
        if held.is_empty() {
            return Err(lost(format!("container {} has no address", wish.container_id)));
        }
        let subnets: Vec<IpNet> = space.pools.keys().filter_map(|id| id.parse().ok()).collect();
        for ip in call.config.prev_result()?.unwrap_or_default().ips {
            // A later plugin may have added addresses of its own, so that only those of our pools are for us to answer for.
            let address = ip.address.addr();
            if subnets.iter().any(|subnet| subnet.contains(&address)) && !held.contains(&address.to_string().as_str()) {
                return Err(lost(format!("address {address}, which ADD gave, is not container {}'s now", wish.container_id)));
            }
        }
        Ok(())
    }

    /// Gives back what this network has given to containers that are not valid. What the reference has given out says no
    /// network, so that it is this network's only if the pool is.
    fn gc(&self, call: &Call<'_>) -> Result<()> {
        let valid = call.config.valid_attachments()?;
        let Settings { wish, place, .. } = self.settings(call)?;
        if !place.state.exists() {
            return Ok(());
        }
        let mut store = Store::open(&place)?;
        let released = store.state.local().release(|pool, record| {
            let ours = match record.network.as_str() {
                "" => wish.pool.as_deref() == Some(pool),
                network => network == wish.network,
            };
            ours && !valid.iter().any(|attachment| attachment.container_id == record.id)
        });
        if released > 0 { store.save() } else { Ok(()) }
    }

    fn status(&self, call: &Call<'_>) -> Result<()> {
        let unavailable = |error: Error| Error { code: Error::plugin_not_available("").code, ..error };
        let settings = self.settings(call).map_err(unavailable)?;
        self.with_fresh_state(&settings, |store, away| {
            // Nobody takes the address; but that the state can be written is part of the answer.
            request(&mut store.state.clone(), &settings, away)?;
            store.save()
        })
        .map_err(unavailable)
    }
}

impl AzureVnetIpam {
    fn settings(&self, call: &Call<'_>) -> Result<Settings> {
        Settings::read(call, self.name == Name::Ipv6)
    }

    /// Does something with the state after the source was asked. A source that is away is no obstacle by itself, since the
    /// state has what it said before; the error is there for whoever finds no address.
    fn with_fresh_state<T>(&self, settings: &Settings, work: impl FnOnce(&mut Store, Option<Error>) -> Result<T>) -> Result<T> {
        // Asked before the lock is taken, since an answer may take long.
        let fresh = settings.source.pools(&(self.interfaces)());
        let mut store = Store::open(&settings.place)?;
        let away = match fresh {
            Ok(pools) => {
                store.state.local().merge(pools);
                None
            }
            Err(error) => Some(error),
        };
        work(&mut store, away)
    }
}

/// The addresses that a host agent's list has for pods, by the interfaces that are here. The whole of what a source says goes
/// this way, so that it can be tried without one.
pub fn listed(xml: &str, here: &[Interface]) -> Result<Vec<IpAddr>> {
    let pools = source::read(xml, here)?;
    Ok(pools.values().flat_map(|pool| pool.addresses.keys()).filter_map(|address| address.parse().ok()).collect())
}

fn request(state: &mut State, settings: &Settings, away: Option<Error>) -> Result<AddResult> {
    let (pool, address) = state.local().request(&settings.wish).map_err(|refusal| match (refusal, away) {
        (Refusal::NoPool(_) | Refusal::NoPools | Refusal::NoAddress, Some(away)) => away,
        (refusal, _) => explain(refusal, &settings.wish),
    })?;
    result(pool, &address)
}

fn result(pool: &Pool, address: &str) -> Result<AddResult> {
    let odd = |what: &str| Error::decoding_failure(format!("the state has a pool {:?} with {what}", pool.id));
    let subnet: IpNet = pool.id.parse().map_err(|_| odd("an id that is no prefix"))?;
    let address: IpAddr = address.parse().map_err(|_| odd("an address that is none"))?;
    let gateway: IpAddr = pool.gateway.parse().map_err(|_| odd("a gateway that is no address"))?;
    let dst = if subnet.addr().is_ipv4() { IpNet::V4(Ipv4Net::default()) } else { IpNet::V6(Ipv6Net::default()) };
    let address = IpNet::new(address, subnet.prefix_len()).map_err(|_| odd("an address of another family"))?;
    Ok(AddResult {
        ips: vec![IpConfig { interface: None, address, gateway: Some(gateway) }],
        routes: vec![Route::new(dst, Some(gateway))],
        dns: Dns { nameservers: vec![NAMESERVER.to_owned()], ..Dns::default() },
        ..AddResult::default()
    })
}

fn explain(refusal: Refusal, wish: &Wish) -> Error {
    match refusal {
        Refusal::NoPool(id) => Error::invalid_network_config(format!("ipam.subnet: there is no pool {id}"))
            .details("name a subnet that the source of addresses lists, or leave the key out"),
        Refusal::NoPools if wish.master.is_empty() => {
            Error::try_again_later("there are no available address pools").details("check what the source of addresses lists")
        }
        Refusal::NoPools => Error::invalid_network_config(format!("master: there are no address pools on interface {:?}", wish.master))
            .details("name an interface that the source of addresses lists, or leave the key out"),
        Refusal::NoAddress => Error::invalid_network_config(format!("ipam.ipAddress: no pool has the address {}", wish.address))
            .details("name an address that the source of addresses lists, or leave the key out"),
        Refusal::Taken(id) => {
            Error::try_again_later(format!("ipam.ipAddress: container {id} has the address {}", wish.address)).details("DEL it first")
        }
        Refusal::Exhausted(count) => Error::try_again_later(format!("there are no available addresses: all {count} are taken"))
            .details("assign more addresses to the machine's interfaces, or remove containers"),
    }
}

#[cfg(test)]
mod tests;
