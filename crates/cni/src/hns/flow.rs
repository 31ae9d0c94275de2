//! The five commands, as far as they are the same for all plugins that make endpoints.

use std::sync::Arc;

use hcn::endpoint::Endpoint;
use hcn::network::Network;
use hcn::{Hcn, HcnExt};

use super::namespace::Target;
use super::{Hns, OWNER, endpoint, failed, ipam, namespace, network, nic, version_one};
use crate::config::{Attachment, Config};
use crate::environment::{Command, Environment};
use crate::error::{Error, Result};
use crate::netns::Netns;
use crate::plugin::Call;
use crate::result::AddResult;

/// What a plugin does its own way.
pub(crate) trait Mode {
    /// The network, to be found and not to be made.
    fn network(&self, hcn: &dyn Hcn, call: &Call<'_>) -> Result<Network>;

    /// The network for an ADD, if it is there. Some plugins make one that is not, with [`Mode::make_network`].
    fn network_to_use(&self, hcn: &dyn Hcn, call: &Call<'_>) -> Result<Option<Network>> {
        self.network(hcn, call).map(Some)
    }

    /// Makes the network, for the addresses that IPAM gave.
    fn make_network(&self, hcn: &dyn Hcn, call: &Call<'_>, _lease: Option<&AddResult>) -> Result<Network> {
        self.network(hcn, call)
    }

    /// The configuration for calls of IPAM on a network that is there.
    fn config_on(&self, call: &Call<'_>, _network: &Network) -> Result<Config> {
        Ok(call.config.clone())
    }

    /// Objects to a configuration that no network could serve.
    fn check_config(&self, call: &Call<'_>) -> Result<()>;

    /// The endpoint to make, with the addresses that IPAM gave, if there is one.
    fn endpoint(&self, site: &Site<'_>, lease: Option<&AddResult>) -> Result<Endpoint>;

    /// What to answer.
    fn report(&self, site: &Site<'_>, endpoint: &Endpoint) -> AddResult;

    /// Whether the configuration asks for HNS schema 1.
    fn is_version_one(&self, _call: &Call<'_>) -> Result<bool> {
        Ok(false)
    }

    /// What the endpoint of a container is called.
    fn endpoint_name(&self, environment: &Environment, network: &str) -> String {
        endpoint::name(environment, network)
    }

    /// What the reference calls it, where that is something else.
    fn foreign_name(&self, _environment: &Environment) -> Option<String> {
        None
    }

    /// Whether an endpoint of ours on a network is of a container, and none of those that are valid.
    fn is_stale(&self, endpoint: &Endpoint, network: &str, valid: &[Attachment]) -> bool {
        let is_valid = |sandbox: &str| valid.iter().any(|attachment| attachment.container_id == sandbox);
        endpoint::sandbox_of(endpoint, network).is_some_and(|sandbox| !is_valid(sandbox))
    }
}

/// The endpoints of a container, whatever network they are on: those with its name, and those that the reference made.
pub(super) fn endpoints_of(mode: &dyn Mode, hcn: &dyn Hcn, call: &Call<'_>) -> Result<Vec<Endpoint>> {
    let mut found = endpoint::find(hcn, &mode.endpoint_name(&call.environment, call.config.name()))?;
    if let Some(name) = mode.foreign_name(&call.environment) {
        found.extend(endpoint::find(hcn, &name)?.into_iter().filter(|endpoint| endpoint.owner != OWNER));
    }
    Ok(found)
}

/// The five commands of a plugin that is a [`Mode`] and has an `hns`.
macro_rules! commands {
    () => {
        fn add(&self, call: &Call<'_>) -> Result<AddResult> {
            hns::add(&self.hns, self, call)
        }

        fn del(&self, call: &Call<'_>) -> Result<()> {
            hns::del(&self.hns, self, call)
        }

        fn check(&self, call: &Call<'_>) -> Result<()> {
            hns::check(&self.hns, self, call)
        }

        fn gc(&self, call: &Call<'_>) -> Result<()> {
            hns::gc(&self.hns, self, call)
        }

        fn status(&self, call: &Call<'_>) -> Result<()> {
            hns::status(&self.hns, self, call)
        }
    };
}

pub(crate) use commands;

/// One call on one network.
pub(crate) struct Site<'a> {
    /// The service.
    pub(crate) hcn: Arc<dyn Hcn>,
    /// The call.
    pub(crate) call: &'a Call<'a>,
    /// The network.
    pub(crate) network: Network,
    /// What the endpoint is called.
    pub(crate) name: String,
}

impl<'a> Site<'a> {
    fn new(mode: &dyn Mode, hcn: Arc<dyn Hcn>, call: &'a Call<'a>, network: Network) -> Self {
        let name = mode.endpoint_name(&call.environment, &network.name);
        Self { hcn, call, network, name }
    }

    /// The endpoint that this container has on this network. One with its name on another network is left over from a network
    /// that was called the same, and goes.
    pub(super) fn existing(&self, mode: &dyn Mode) -> Result<Option<Endpoint>> {
        let (ours, strays): (Vec<Endpoint>, Vec<Endpoint>) =
            endpoints_of(mode, &*self.hcn, self.call)?.into_iter().partition(|endpoint| endpoint.network == self.network.id);
        strays.iter().try_for_each(|stray| endpoint::remove(&*self.hcn, stray))?;
        Ok(ours.into_iter().next())
    }
}

/// Linux namespaces have no older way.
fn is_version_one(mode: &dyn Mode, call: &Call<'_>) -> Result<bool> {
    Ok(mode.is_version_one(call)? && !matches!(call.environment.namespace(), Netns::Path(_)))
}

/// ADD.
pub(crate) fn add(hns: &Hns, mode: &dyn Mode, call: &Call<'_>) -> Result<AddResult> {
    mode.check_config(call)?;
    let target = if is_version_one(mode, call)? { None } else { Some(Target::read(&call.environment)?) };
    let hcn = hns.hcn()?;
    let (network, lease) = match mode.network_to_use(&*hcn, call)? {
        Some(network) => (network, None),
        None => found(mode, &*hcn, call)?,
    };
    let call = on(mode, call, &network)?;
    let site = Site::new(mode, hcn, &call, network);
    match target {
        Some(target) => attach(hns, mode, &site, &target, lease),
        None => version_one::add(mode, &site, lease),
    }
}

/// Makes a network with the addresses for the first endpoint on it.
fn found(mode: &dyn Mode, hcn: &dyn Hcn, call: &Call<'_>) -> Result<(Network, Option<AddResult>)> {
    let lease = ipam::take(call)?;
    let network = mode.make_network(hcn, call, lease.as_ref()).inspect_err(|_| ipam::give_back(call))?;
    // Somebody else, for another container, may have been faster, with addresses from elsewhere.
    let fits = |lease: &AddResult| lease.ips.iter().all(|ip| network::has_room_for(&network, ip.address.addr()));
    if lease.as_ref().is_some_and(|lease| !fits(lease)) {
        ipam::give_back(call);
        return Ok((network, None));
    }
    Ok((network, lease))
}

/// The call as IPAM is to see it on a network.
fn on<'a>(mode: &dyn Mode, call: &Call<'a>, network: &Network) -> Result<Call<'a>> {
    let config = mode.config_on(call, network)?;
    Ok(Call { environment: call.environment.clone(), config, delegates: call.delegates })
}

/// Makes the endpoint, unless it is there. Addresses that were taken already are for it.
fn attach(hns: &Hns, mode: &dyn Mode, site: &Site<'_>, target: &Target, lease: Option<AddResult>) -> Result<AddResult> {
    let lease = match lease {
        Some(lease) => Some(lease),
        None => {
            if let Some(found) = site.existing(mode)? {
                // It is another ADD's, which was told to be done or died. Whatever fails now, it stays as it is.
                namespace::enter(&*site.hcn, target, &found)?;
                ready(hns, site, target)?;
                return Ok(mode.report(site, &found));
            }
            ipam::take(site.call)?
        }
    };
    let made = mode.endpoint(site, lease.as_ref()).and_then(|wanted| make(hns, site, target, &wanted));
    made.map(|endpoint| mode.report(site, &endpoint)).map_err(|error| undo(site, error))
}

fn make(hns: &Hns, site: &Site<'_>, target: &Target, wanted: &Endpoint) -> Result<Endpoint> {
    let made: Endpoint =
        site.hcn.create_object(wanted).map_err(|error| failed(format!("making the endpoint {:?}", wanted.name), &error))?;
    namespace::enter(&*site.hcn, target, &made)?;
    ready(hns, site, target)?;
    Ok(made)
}

/// Returns when packets can pass.
fn ready(hns: &Hns, site: &Site<'_>, target: &Target) -> Result<()> {
    match target {
        Target::Path(path) if hns.looks_at_nics => nic::await_up(path, &site.call.environment.ifname),
        _ => Ok(()),
    }
}

/// Takes back what a failed ADD has made. The addresses go only if the endpoint is gone for certain: as long as there may be
/// one that has them, nobody else must get them.
pub(super) fn undo(site: &Site<'_>, error: Error) -> Error {
    let undone = endpoint::remove_named(&*site.hcn, &site.name);
    let undone = undone
        .map_err(|left| format!("the endpoint {:?} may be left with its address: {}", site.name, left.msg))
        .and_then(|()| site.call.ipam(Command::Del).map_err(|left| format!("the address may be left: {}", left.msg)));
    match undone {
        Ok(()) => error,
        Err(left) => {
            let details =
                [error.details.as_str(), &left, "DEL removes it"].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>();
            let details = details.join("; ");
            error.details(details)
        }
    }
}

/// DEL. The endpoint goes before its addresses, so that nobody gets them while it has them.
pub(crate) fn del(hns: &Hns, mode: &dyn Mode, call: &Call<'_>) -> Result<()> {
    let hcn = hns.hcn()?;
    let endpoints = endpoints_of(mode, &*hcn, call)?;
    match is_version_one(mode, call)? {
        true => version_one::del(&*hcn, call, &endpoints)?,
        false => {
            endpoints.iter().try_for_each(|endpoint| endpoint::remove(&*hcn, endpoint))?;
            sweep(&*hcn, call)?;
        }
    }
    call.ipam(Command::Del)
}

/// An ADD may have died after it made the namespace object, or DEL after it deleted the endpoint.
fn sweep(hcn: &dyn Hcn, call: &Call<'_>) -> Result<()> {
    let Ok(target @ Target::Path(_)) = Target::read(&call.environment) else { return Ok(()) };
    namespace::find(hcn, &target)?.map_or(Ok(()), |found| namespace::sweep(hcn, found.id))
}

/// CHECK.
pub(crate) fn check(hns: &Hns, mode: &dyn Mode, call: &Call<'_>) -> Result<()> {
    mode.check_config(call)?;
    let promised = call.config.prev_result()?.ok_or_else(|| {
        Error::invalid_network_config("prevResult is missing, so that nobody knows what ADD promised")
            .details("call CHECK with the result of ADD, as runtimes do")
    })?;
    let hcn = hns.hcn()?;
    let network = mode.network(&*hcn, call)?;
    let site = Site::new(mode, hcn, call, network);
    let version_one = is_version_one(mode, call)?;
    super::check::compare(hns, mode, &site, &promised, version_one)?;
    match call.environment.namespace() {
        // The address is the sandbox's, whose own CHECK asks for it.
        Netns::Container(_) if version_one => Ok(()),
        _ => call.ipam(Command::Check),
    }
}

/// GC.
pub(crate) fn gc(hns: &Hns, mode: &dyn Mode, call: &Call<'_>) -> Result<()> {
    let valid = call.config.valid_attachments()?;
    let removed = hns.hcn().and_then(|hcn| super::gc::collect(mode, &*hcn, call.config.name(), &valid));
    // IPAM is told in any case; it knows its own.
    match (removed, call.ipam(Command::Gc)) {
        (Err(first), Err(second)) => Err(Error { msg: format!("{}; {}", first.msg, second.msg), ..first }),
        (first, second) => first.and(second),
    }
}

/// STATUS.
pub(crate) fn status(hns: &Hns, mode: &dyn Mode, call: &Call<'_>) -> Result<()> {
    let status = || {
        mode.check_config(call)?;
        let hcn = hns.hcn()?;
        hns.check_switch()?;
        match mode.network_to_use(&*hcn, call)? {
            Some(network) => on(mode, call, &network)?.ipam(Command::Status),
            // ADD would make it.
            None => call.ipam(Command::Status),
        }
    };
    status().map_err(|error| match error.code {
        50 | 51 => error,
        _ => Error { code: 50, ..error },
    })
}
