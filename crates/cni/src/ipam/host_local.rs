//! `host-local`: addresses from ranges in the configuration, kept as files of this machine.
//!
//! The files and the lock are those of the reference plugin of the same name, so that either may take over from the
//! other at any time, with containers running, and both may even be used at once. In `<dataDir>/<network>/`:
//!
//! | file | content |
//! |---|---|
//! | an address (`:` is `_` on Windows) | the container id, CR LF, the interface's name; files of old versions have the id alone |
//! | `last_reserved_ip.<n>` | the address that set `n` gave out last |
//! | `lock` | nothing; whoever reads or changes the others holds an exclusive lock on it |
//!
//! A process that is killed leaves its lock with the operating system, which drops it, and at worst an address file
//! without content. Since content is written under the lock, whoever has the lock and sees an empty file knows that its
//! writer is dead: such an address is nobody's, and is given out again.

mod cursor;
mod range;
mod resolv_conf;
mod settings;
mod store;

use std::net::IpAddr;

use ipnet::IpNet;

use crate::config::Attachment;
use crate::error::{Error, Result};
use crate::plugin::{Call, Plugin};
use crate::result::{AddResult, Dns, IpConfig};
use cursor::Cursor;
use range::{Range, RangeSet};
use settings::Settings;
use store::{Owner, Store};

/// The plugin.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostLocal;

impl Plugin for HostLocal {
    fn name(&self) -> &'static str {
        "host-local"
    }

    fn about(&self) -> &'static str {
        "gives out addresses from ranges, and keeps them in files of this machine"
    }

    fn add(&self, call: &Call<'_>) -> Result<AddResult> {
        let settings = Settings::read(call)?;
        let dns = match settings.resolv_conf.as_str() {
            "" => Dns::default(),
            path => resolv_conf::read(path.as_ref())?,
        };
        let store = Store::create(&settings.directory)?;
        let ips = Allocation::new(&store, attachment_of(call)).allocate(&settings)?;
        Ok(AddResult { ips, routes: settings.routes, dns, ..AddResult::default() })
    }

    /// Needs nothing of the configuration but where the files are: ranges that have become wrong keep no address.
    fn del(&self, call: &Call<'_>) -> Result<()> {
        let Some(store) = Store::open(&settings::directory(&call.config)?)? else { return Ok(()) };
        let attachment = attachment_of(call);
        // Only where no file names both are files of old versions meant, which name the container alone.
        for old in [false, true] {
            if store.release(|owner| owner.is_some_and(|owner| owner.is(&attachment, old)))? > 0 {
                break;
            }
        }
        Ok(())
    }

    fn check(&self, call: &Call<'_>) -> Result<()> {
        let settings = Settings::read(call)?;
        let attachment = attachment_of(call);
        let missing = || {
            let who = format!("container {} on interface {}", attachment.container_id, attachment.ifname);
            Error::unknown_container(format!("host-local: Failed to find address added by {who}"))
                .details(format!("no file in {} names it; DEL and ADD it again", settings.directory.display()))
        };
        let store = Store::open(&settings.directory)?.ok_or_else(missing)?;
        let addresses = store.addresses()?;
        let is_ours = |owner: &Owner| owner.is(&attachment, false) || owner.is(&attachment, true);
        if !addresses.values().flatten().any(is_ours) {
            return Err(missing());
        }
        // A later plugin may have added addresses of its own, so that only those of our ranges are for us to answer for.
        let promised = call.config.prev_result()?.unwrap_or_default().ips.into_iter().map(|ip| ip.address.addr());
        for address in promised.filter(|address| settings.sets.iter().any(|set| set.contains(*address))) {
            match addresses.get(&address).cloned().flatten() {
                Some(owner) if is_ours(&owner) => {}
                owner => return Err(lost(address, owner, &settings)),
            }
        }
        Ok(())
    }

    /// Releases what belongs to none of the valid attachments, and what is nobody's after a crash.
    fn gc(&self, call: &Call<'_>) -> Result<()> {
        let valid = call.config.valid_attachments()?;
        let Some(store) = Store::open(&settings::directory(&call.config)?)? else { return Ok(()) };
        let is_valid = |owner: &Owner| valid.iter().any(|attachment| owner.is(attachment, false) || owner.is(attachment, true));
        store.release(|owner| !owner.is_some_and(is_valid)).map(|_| ())
    }

    fn status(&self, call: &Call<'_>) -> Result<()> {
        let settings = Settings::read(call)?;
        let unavailable = |error: Error| Error { code: Error::plugin_not_available("").code, ..error };
        let store = Store::create(&settings.directory).map_err(unavailable)?;
        store.probe().map_err(unavailable)?;
        let addresses = store.addresses().map_err(unavailable)?;
        for set in &settings.sets {
            let taken = addresses.iter().filter(|(address, owner)| owner.is_some() && set.gives_out(**address)).count() as u128;
            if taken >= set.size() {
                let message = format!("no IP addresses available in range set: {set}: {taken} of {} are taken", set.size());
                return Err(Error::plugin_not_available(message).details(remedy(&settings)));
            }
        }
        Ok(())
    }
}

fn attachment_of(call: &Call<'_>) -> Attachment {
    Attachment { container_id: call.environment.container_id.clone(), ifname: call.environment.ifname.clone() }
}

fn lost(address: IpAddr, owner: Option<Owner>, settings: &Settings) -> Error {
    let whose = match owner {
        Some(owner) => format!("belongs to {owner}"),
        None => "is free".to_owned(),
    };
    Error::internal(format!("host-local: address {address}, which ADD gave, {whose} now"))
        .details(format!("somebody changed {}; DEL and ADD the container again", settings.directory.display()))
}

fn remedy(settings: &Settings) -> String {
    format!("widen the ranges, or remove containers; GC releases what no container owns in {}", settings.directory.display())
}

/// The addresses that one ADD takes. Those of an ADD that fails are given back.
struct Allocation<'a> {
    store: &'a Store,
    attachment: Attachment,
    reserved: Vec<IpAddr>,
}

impl<'a> Allocation<'a> {
    fn new(store: &'a Store, attachment: Attachment) -> Self {
        Self { store, attachment, reserved: Vec::new() }
    }

    fn allocate(mut self, settings: &Settings) -> Result<Vec<IpConfig>> {
        let ips = self.allocate_all(settings);
        if ips.is_err() {
            for address in &self.reserved {
                // The failure that brought us here is the one to tell.
                let _ = self.store.remove(*address);
            }
        }
        ips
    }

    /// One address from every set, and every address that was asked for.
    fn allocate_all(&mut self, settings: &Settings) -> Result<Vec<IpConfig>> {
        let mut requested = settings.requested.clone();
        let mut ips = Vec::new();
        for (index, set) in settings.sets.iter().enumerate() {
            let wanted = requested.iter().position(|address| set.contains(*address)).map(|at| requested.remove(at));
            let (address, range) = match wanted {
                Some(address) => self.take(index, set, address),
                None => self.take_next(index, set, settings),
            }
            .map_err(|error| error.context(format!("failed to allocate for range {index}")))?;
            let address =
                IpNet::new(address, range.subnet().prefix_len()).map_err(|error| Error::internal(format!("{address}: {error}")))?;
            ips.push(IpConfig { interface: None, address, gateway: Some(range.gateway()) });
        }
        match requested.as_slice() {
            [] => Ok(ips),
            left => {
                let left: Vec<String> = left.iter().map(IpAddr::to_string).collect();
                Err(Error::invalid_network_config(format!("failed to allocate all requested IPs: {}", left.join(" ")))
                    .details("ask for addresses that are in different range sets, one in each at most"))
            }
        }
    }

    /// Takes the address that was asked for.
    fn take<'s>(&mut self, index: usize, set: &'s RangeSet, address: IpAddr) -> Result<(IpAddr, &'s Range)> {
        let outside = || Error::internal(format!("{address} not in range set {set}"));
        let range = set.range_for(address).ok_or_else(outside)?;
        if address == range.gateway() {
            return Err(
                Error::invalid_network_config(format!("requested ip {address} is subnet's gateway")).details("ask for another address")
            );
        }
        match self.reserve(index, address)? {
            true => Ok((address, range)),
            false => Err(Error::try_again_later(format!("requested IP address {address} is not available in range set {set}"))
                .details("somebody has it; ask for another address, or DEL that container first")),
        }
    }

    /// Takes the next address that is free.
    fn take_next<'s>(&mut self, index: usize, set: &'s RangeSet, settings: &Settings) -> Result<(IpAddr, &'s Range)> {
        let addresses = self.store.addresses()?;
        let held =
            addresses.iter().find(|(address, owner)| set.contains(**address) && owner.as_ref().is_some_and(|owner| self.is_mine(owner)));
        if let Some((address, _)) = held {
            let id = &self.attachment.container_id;
            return Err(Error::internal(format!("{address} has been allocated to {id}, duplicate allocation is not allowed"))
                .details("DEL the container before it is added again"));
        }
        for (address, range) in Cursor::new(set, self.store.last_reserved(index)) {
            let free = addresses.get(&address).is_none_or(Option::is_none);
            if free && self.reserve(index, address)? {
                return Ok((address, range));
            }
        }
        Err(Error::try_again_later(format!("no IP addresses available in range set: {set}")).details(remedy(settings)))
    }

    fn is_mine(&self, owner: &Owner) -> bool {
        owner.is(&self.attachment, false) || owner.is(&self.attachment, true)
    }

    fn reserve(&mut self, index: usize, address: IpAddr) -> Result<bool> {
        if !self.store.reserve(address, &self.attachment)? {
            return Ok(false);
        }
        self.reserved.push(address);
        self.store.set_last_reserved(index, address)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
