//! Where a switch makes documents true: what it cannot make true is refused, never silently accepted.

use hcn::Guid;
use hcn::endpoint::Endpoint;
use hcn::error::{Error, Result, detail};
use hcn::network::Network;
use hcn::policy::Policy;
use hcn::route::SdnRoute;

use crate::compile::network::Mode;
use crate::compile::support::{self, Support};
use crate::compile::{load_balancer, port_mapping};
use crate::journal::Change;
use crate::record::AnyRecord;
use crate::state::State;

/// Checks a change about to be made. What was there before may stay, so that it can be taken apart: a state may have been made while no switch
/// moved packets.
pub(crate) fn check(change: &Change, before: &State, after: &State) -> Result<()> {
    match change {
        Change::Put(AnyRecord::Network(record)) => {
            network(&record.document, before.networks.get(record.document.id).map(|record| &record.document))
        }
        Change::Put(AnyRecord::Endpoint(record)) => {
            let mode = after.networks.get(record.document.network).and_then(|network| Mode::of(&network.document).ok());
            let before = before.endpoints.get(record.document.id).map(|record| &record.document);
            endpoint(&record.document, before, mode.unwrap_or(Mode::Private))
        }
        Change::Put(AnyRecord::LoadBalancer(record)) => match load_balancer::Extras::of(&record.document) {
            Ok(_) => Ok(()),
            Err(error) => Err(Error::InvalidPolicy(detail(error.cause).field(error.field).remedy("correct it, or leave it out"))),
        },
        Change::Put(AnyRecord::Route(record)) => {
            let loses = |before: &SdnRoute| SdnRoute { endpoints: record.document.endpoints.clone(), ..before.clone() };
            let known = before.routes.get(record.document.id).map(|record| &record.document);
            match known.is_some_and(|before| loses(before) == record.document && is_part(&record.document.endpoints, &before.endpoints)) {
                true => Ok(()),
                false => Err(untrue("SDN routes", "SDNRoute")),
            }
        }
        Change::Put(_) | Change::Remove(..) | Change::ManagementMacs(_) => Ok(()),
    }
}

fn is_part(list: &[Guid], of: &[Guid]) -> bool {
    list.iter().all(|id| of.contains(id))
}

/// The policies that were not there before.
fn added<'a>(policies: impl Iterator<Item = &'a Policy>, before: &[&Policy]) -> Vec<Policy> {
    policies.filter(|policy| !before.contains(policy)).cloned().collect()
}

fn network(network: &Network, before: Option<&Network>) -> Result<()> {
    if let (Err(error), None) = (Mode::of(network), before) {
        return Err(Error::InvalidNetworkType(
            detail(error.cause).field("Type").remedy("use L2Bridge, L2Tunnel, Overlay, Transparent, NAT, Internal or Private"),
        ));
    }
    let known: Vec<&Policy> = before.iter().flat_map(|before| &before.policies).collect();
    refuse(support::refused(&added(network.policies.iter(), &known), support::network), "a network")?;
    let known: Vec<&Policy> = before.iter().flat_map(|before| before.subnets()).flat_map(|subnet| &subnet.policies).collect();
    let subnets = added(network.subnets().flat_map(|subnet| &subnet.policies), &known);
    refuse(
        support::refused(&subnets, |kind| match support::subnet(kind) {
            // On other networks a subnet's virtual network is only a number.
            Support::Compiled(_) if network.network_type != hcn::network::NetworkType::Overlay => Support::Kept(""),
            other => other,
        }),
        "a subnet of this network",
    )
}

fn endpoint(endpoint: &Endpoint, before: Option<&Endpoint>, mode: Mode) -> Result<()> {
    let known: Vec<&Policy> = before.iter().flat_map(|before| &before.policies).collect();
    let policies = added(endpoint.policies.iter(), &known);
    refuse(support::refused(&policies, |kind| support::endpoint(kind, mode)), "an endpoint of this network")?;
    match port_mapping::mappings(&Endpoint { policies, ..endpoint.clone() }) {
        Ok(_) => Ok(()),
        // The settings may name SCTP, which the node cannot translate.
        Err(error) => Err(Error::InvalidPolicy(detail(error.cause).field(error.field).remedy("map ports of TCP (6) or UDP (17)"))),
    }
}

fn refuse(policy: Option<String>, on: &str) -> Result<()> {
    match policy {
        None => Ok(()),
        Some(name) => Err(untrue(&format!("the policy {name} on {on}"), &name)),
    }
}

fn untrue(what: &str, name: &str) -> Error {
    let cause = format!("the switch cannot make {what} true");
    let remedy = format!(
        "leave {name} out; `docs/reference/policies.md` lists what is compiled. `transom hnsd --switch none` keeps documents without moving packets"
    );
    Error::InvalidPolicyType(detail(cause).field("Type").remedy(remedy))
}
