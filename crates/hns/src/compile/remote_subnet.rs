//! `RemoteSubnetRoute`: a prefix behind another node of an overlay.
//!
//! | field | meaning |
//! |---|---|
//! | `DestinationPrefix` | the prefix |
//! | `IsolationId` | the virtual network |
//! | `ProviderAddress` | the node |
//! | `DistributedRouterMacAddress` | the hardware address of that node's router, to which inner frames go |
//!
//! Endpoints reach it by the network's own domain; the node does so too, unless the build cannot.

use hcn::network::Network;
use hcn::policy::network::{NetworkPolicyType, RemoteSubnetRouteSettings};
use ipnet::IpNet;
use vfp::{Action, Conditions, PortId, RuleSpec, Stage};
use wire::{Encapsulation, Ip, MacAddress, TunnelKind};

use super::network::Overlay;
use super::{CompileError, Placed, Realm, Site, address, mac, prefix, prefix_priority, settings};
use crate::profile::Limit;

/// A route to another node.
#[derive(Clone, Debug, PartialEq)]
pub struct Remote {
    /// What is behind it.
    pub prefix: IpNet,
    /// The router there.
    pub mac: MacAddress,
    /// The way to it.
    pub encapsulation: Encapsulation,
}

/// All routes of a network.
pub fn routes(network: &Network, overlay: &Overlay) -> Result<Vec<Remote>, CompileError> {
    let policies: Vec<RemoteSubnetRouteSettings> = settings(&network.policies, &NetworkPolicyType::RemoteSubnetRoute)?;
    let route = |policy: &RemoteSubnetRouteSettings| {
        let remote = Ip::from(address("ProviderAddress", &policy.provider_address)?);
        let vni = if policy.isolation_id == 0 { overlay.vni } else { policy.isolation_id };
        Ok(Remote {
            prefix: prefix("DestinationPrefix", &policy.destination_prefix)?,
            mac: mac("DistributedRouterMacAddress", &policy.distributed_router_mac_address)?,
            encapsulation: Encapsulation { kind: TunnelKind::Vxlan, vni, local: overlay.provider, remote, port: overlay.port },
        })
    };
    policies.iter().map(route).collect()
}

/// The rules of the routes.
pub fn rules(network: &Network, overlay: &Overlay, tunnel: PortId, site: &Site) -> Result<Vec<Placed>, CompileError> {
    let mut rules = Vec::new();
    let realms: &[Realm] = match site.has(Limit::OverlayNodeLocalPodsOnly) {
        true => &[Realm::Own],
        false => &[Realm::Own, Realm::Host],
    };
    for remote in routes(network, overlay)? {
        let push = Action::Push {
            port: tunnel,
            encapsulation: remote.encapsulation,
            source_mac: Some(overlay.router_mac),
            destination_mac: Some(remote.mac),
        };
        let name = format!("{} remote {}", super::network::label(network), remote.prefix);
        let priority = prefix_priority(&remote.prefix);
        for realm in realms {
            let conditions = Conditions::to_prefix(remote.prefix);
            rules.push(Placed::new(*realm, Stage::ForwardOut, RuleSpec::new(&name, priority, conditions.clone(), push.clone())));
            let answer = Action::Answer(overlay.router_mac);
            rules.push(Placed::new(*realm, Stage::NeighbourOut, RuleSpec::new(&name, priority, conditions, answer)));
        }
    }
    Ok(rules)
}
