//! Where a switch makes documents true: what it cannot make true is refused, never silently accepted.

use std::collections::HashSet;

use hcn::Guid;
use hcn::endpoint::Endpoint;
use hcn::error::{Error, Result, detail};
use hcn::load_balancer::LoadBalancer;
use hcn::network::Network;
use hcn::policy::Policy;
use hcn::policy::endpoint::{EndpointPolicyType, SdnRouteSettings};
use hcn::policy::network::InterfaceConstraintSettings;
use hcn::route::SdnRoute;
use wire::Ip;

use crate::compile::load_balancer::Extras;
use crate::compile::network::Mode;
use crate::compile::{CompileError, guard, namespace, port_mapping, sdn_route, support, vlan};
use crate::fingerprint::Seen;
use crate::journal::Change;
use crate::machine::{Adapter, Machine};
use crate::record::{AnyRecord, Record};
use crate::state::State;

/// Checks a change about to be made. What was there before may stay, so that it can be taken apart: a state may have been made while no switch
/// moved packets.
pub(crate) fn check(change: &Change, before: &State, after: &State, machine: &dyn Machine) -> Result<()> {
    match change {
        Change::Put(AnyRecord::Network(record)) => {
            network(&record.document, before.networks.get(record.document.id).map(|record| &record.document))
        }
        Change::Put(AnyRecord::Endpoint(record)) => {
            let network = after.networks.get(record.document.network);
            let before = before.endpoints.get(record.document.id).map(|record| &record.document);
            endpoint(&record.document, before, network.map(|network| &**network), machine)
        }
        Change::Put(AnyRecord::LoadBalancer(record)) => {
            let network = after.networks.get(record.document.network).and_then(|network| Mode::of(&network.document).ok());
            let known = before.load_balancers.get(record.document.id).is_some();
            let before = before.load_balancers.get(record.document.id).map_or(&[][..], |before| &before.document.endpoints);
            backends_in_vlans(&record.document, before, after)?;
            load_balancer(&record.document, known, network)
        }
        Change::Put(AnyRecord::Namespace(record)) => {
            let existing = namespace::existing(&record.document);
            existing.map(drop).map_err(unreadable)
        }
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
    let seen = Seen::of(before.iter().copied());
    policies.filter(|policy| !seen.candidates(policy).iter().any(|old| before[*old] == *policy)).cloned().collect()
}

fn network(network: &Network, before: Option<&Network>) -> Result<()> {
    if let (Err(error), None) = (Mode::of(network), before) {
        return Err(Error::InvalidNetworkType(
            detail(error.cause).field("Type").remedy("use L2Bridge, L2Tunnel, Overlay, Transparent, NAT, Internal or Private"),
        ));
    }
    let known: Vec<&Policy> = before.iter().flat_map(|before| &before.policies).collect();
    let mode = Mode::of(network).unwrap_or(Mode::Private);
    refuse(support::refused(&added(network.policies.iter(), &known), |kind| support::network(kind, mode)), "this network")?;
    let known: Vec<&Policy> = before.iter().flat_map(|before| before.subnets()).flat_map(|subnet| &subnet.policies).collect();
    let subnets = added(network.subnets().flat_map(|subnet| &subnet.policies), &known);
    refuse(support::refused(&subnets, |kind| support::subnet(kind, mode)), "a subnet of this network")
}

fn endpoint(endpoint: &Endpoint, before: Option<&Endpoint>, network: Option<&Record<Network>>, machine: &dyn Machine) -> Result<()> {
    let mode = network.and_then(|network| Mode::of(&network.document).ok()).unwrap_or(Mode::Private);
    guard::may_spoof(endpoint).map_err(unreadable)?;
    let known: Vec<&Policy> = before.iter().flat_map(|before| &before.policies).collect();
    let policies = added(endpoint.policies.iter(), &known);
    refuse(support::refused(&policies, |kind| support::endpoint(kind, mode)), "an endpoint of this network")?;
    if endpoint.is_remote() {
        refuse(support::refused(&policies, support::remote_endpoint), "an endpoint of another node")?;
    }
    if let (Some(network), false) = (network, endpoint.is_remote()) {
        in_vlan(endpoint, &network.document, before.is_none(), &policies)?;
    }
    namespace::interface_name(endpoint).map_err(unreadable)?;
    if let Some(network) = network {
        interface_constraints(&policies, &network.inside.adapter, machine)?;
        next_hops(&policies, mode, &network.inside.adapter, machine)?;
    }
    match port_mapping::mappings(&Endpoint { policies, ..endpoint.clone() }) {
        Ok(_) => Ok(()),
        // The settings may name SCTP, which the node cannot translate.
        Err(error) => Err(Error::InvalidPolicy(detail(error.cause).field(error.field).remedy("map ports of TCP (6) or UDP (17)"))),
    }
}

/// What an endpoint in a VLAN cannot have, as the node is not there.
fn in_vlan(endpoint: &Endpoint, network: &Network, is_new: bool, added: &[Policy]) -> Result<()> {
    let concerns = is_new || vlan::needs_node(added).is_some() || added.iter().any(|policy| policy.is(&EndpointPolicyType::Vlan));
    if !concerns || !Mode::of(network).is_ok_and(Mode::has_vlans) {
        return Ok(());
    }
    let remedy = "use addresses of subnets in one VLAN, or give the endpoint a VLAN policy of its own";
    let found = vlan::of(endpoint, network);
    let found = found.map_err(|error| Error::InvalidPolicy(detail(error.cause).field(error.field).remedy(remedy)))?;
    match (found, vlan::needs_node(&endpoint.policies)) {
        (Some(id), Some(name)) => {
            let cause = format!("the endpoint is in VLAN {id}, where the node is not, and {name} needs its address");
            Err(Error::InvalidPolicy(detail(cause).field("Policies").remedy("leave that policy out, or the VLAN")))
        }
        _ => Ok(()),
    }
}

/// An endpoint is on its network's adapter; a constraint that means another one cannot hold. What the machine does not know of an adapter is
/// not compared.
fn interface_constraints(policies: &[Policy], adapter: &str, machine: &dyn Machine) -> Result<()> {
    for policy in policies.iter().filter(|policy| policy.is(&EndpointPolicyType::InterfaceConstraint)) {
        let InterfaceConstraintSettings { interface_alias: alias, interface_index: index, .. } = policy.settings()?;
        let own = machine.adapters().into_iter().find(|own| own.name == adapter);
        let is_met = |own: &Adapter| (alias.is_empty() || own.is_called(&alias)) && (index == 0 || own.index == index);
        if own.as_ref().is_some_and(is_met) || (alias.is_empty() && index == 0) {
            continue;
        }
        let (field, found) =
            if alias.is_empty() { ("InterfaceIndex", index.to_string()) } else { ("InterfaceAlias", format!("{alias:?}")) };
        let cause = format!("{found} is not the adapter {adapter:?} that the endpoint's network is on");
        let remedy = "leave the policy out, or make the endpoint on a network of that adapter";
        return Err(Error::InvalidPolicy(detail(cause).field(format!("Settings.{field}")).remedy(remedy)));
    }
    Ok(())
}

fn load_balancer(balancer: &LoadBalancer, known: bool, mode: Option<Mode>) -> Result<()> {
    if !known && mode.is_some_and(|mode| !mode.has_services()) {
        return Err(untrue("load balancers in front of endpoints that are not on L2Bridge, L2Tunnel or Overlay networks", "LoadBalancer"));
    }
    Extras::of(balancer).map(drop).map_err(unreadable)
}

/// Load balancers are no part of VLANs: clients come in by the node's addresses, or from pods that no tag keeps apart.
fn backends_in_vlans(balancer: &LoadBalancer, before: &[Guid], state: &State) -> Result<()> {
    let before: HashSet<&Guid> = before.iter().collect();
    for id in balancer.endpoints.iter().filter(|id| !before.contains(id)) {
        let Some(endpoint) = state.endpoints.get(*id).map(|record| &record.document) else { continue };
        let Some(network) = state.networks.get(endpoint.network).map(|record| &record.document) else { continue };
        let in_vlan = Mode::of(network).is_ok_and(Mode::has_vlans) && !matches!(vlan::of(endpoint, network), Ok(None) | Err(_));
        if in_vlan && !endpoint.is_remote() {
            return Err(untrue(&format!("load balancers in front of endpoints in VLANs, as {id} is,"), "LoadBalancer"));
        }
    }
    Ok(())
}

/// A field of ours in `AdditionalParams` that says nothing.
fn unreadable(error: CompileError) -> Error {
    Error::InvalidPolicy(detail(error.cause).field(error.field).remedy("correct it, or leave it out"))
}

/// Packets can be led to the node, and to nobody else.
fn next_hops(policies: &[Policy], mode: Mode, adapter: &str, machine: &dyn Machine) -> Result<()> {
    for policy in policies.iter().filter(|policy| policy.is(&EndpointPolicyType::SdnRoute)) {
        let route: SdnRouteSettings = policy.settings()?;
        let Ok(Some(next_hop)) = sdn_route::next_hop(&route) else { continue };
        let has = |own: &Adapter| own.name == adapter && own.addresses.iter().any(|address| Ip::from(address.addr()) == next_hop);
        if mode == Mode::L2Tunnel || !machine.adapters().iter().any(has) {
            let cause = format!("the switch cannot lead packets of one endpoint to {next_hop}");
            let remedy =
                "leave NextHop out, and packets go as the network forwards them; or, except on L2Tunnel, name an address of the node";
            return Err(Error::InvalidPolicy(detail(cause).field("Settings.NextHop").remedy(remedy)));
        }
    }
    Ok(())
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
