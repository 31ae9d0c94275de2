//! Where a switch makes documents true: what it cannot make true is refused, never silently accepted.

use hcn::error::{Error, Result, detail};
use hcn::network::Network;
use hcn::policy::Policy;

use crate::compile::network::Mode;
use crate::compile::support::{self, Support};
use crate::journal::Change;
use crate::record::AnyRecord;
use crate::state::State;

/// Checks a change about to be made.
pub(crate) fn check(change: &Change, state: &State) -> Result<()> {
    match change {
        Change::Put(AnyRecord::Network(record)) => network(&record.document),
        Change::Put(AnyRecord::Endpoint(record)) => {
            let mode = state.networks.get(record.document.network).and_then(|network| Mode::of(&network.document).ok());
            let mode = mode.unwrap_or(Mode::Private);
            refuse(support::refused(&record.document.policies, |kind| support::endpoint(kind, mode)), "an endpoint of this network")
        }
        Change::Put(AnyRecord::LoadBalancer(_)) => Err(untrue("load balancers", "LoadBalancer")),
        Change::Put(AnyRecord::Route(_)) => Err(untrue("SDN routes", "SDNRoute")),
        Change::Put(_) | Change::Remove(..) | Change::ManagementMacs(_) => Ok(()),
    }
}

fn network(network: &Network) -> Result<()> {
    if let Err(error) = Mode::of(network) {
        return Err(Error::InvalidNetworkType(
            detail(error.cause).field("Type").remedy("use L2Bridge, L2Tunnel, Overlay, Transparent, NAT, Internal or Private"),
        ));
    }
    refuse(support::refused(&network.policies, support::network), "a network")?;
    let subnets: Vec<Policy> = network.subnets().flat_map(|subnet| subnet.policies.clone()).collect();
    refuse(
        support::refused(&subnets, |kind| match support::subnet(kind) {
            // On other networks a subnet's virtual network is only a number.
            Support::Compiled(_) if network.network_type != hcn::network::NetworkType::Overlay => Support::Kept(""),
            other => other,
        }),
        "a subnet of this network",
    )
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
