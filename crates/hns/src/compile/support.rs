//! Which policies become true in the switch. What does not is refused at the API by name, where a switch is there to be programmed.

use hcn::policy::Policy;
use hcn::policy::endpoint::EndpointPolicyType;
use hcn::policy::network::NetworkPolicyType;
use hcn::policy::subnet::SubnetPolicyType;

use super::network::Mode;

/// What the switch makes of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It becomes rules, or settings of a NIC or tunnel. The text says which.
    Compiled(&'static str),
    /// It asks nothing of packets; it is kept and shown. The text says why.
    Kept(&'static str),
    /// It is refused.
    Refused,
}

/// What the switch makes of a policy of an endpoint.
pub fn endpoint(kind: &EndpointPolicyType, mode: Mode) -> Support {
    use Support::{Compiled, Kept, Refused};
    match kind {
        EndpointPolicyType::OutBoundNat if mode == Mode::Nat => Kept("networks of type NAT are translated as a whole"),
        // Answers come to the node's hardware address, by which a transparent network would give them to the node.
        EndpointPolicyType::OutBoundNat if mode == Mode::Transparent => Refused,
        EndpointPolicyType::OutBoundNat if mode.has_adapter() => Compiled("layer `nat`, outwards"),
        EndpointPolicyType::PortMapping if mode == Mode::Nat => Compiled("translation by the node"),
        EndpointPolicyType::PortMapping if mode.has_services() => Compiled("layer `service`, as a load balancer with one backend"),
        EndpointPolicyType::ProviderAddress if mode == Mode::Overlay => Compiled("tunnel to a remote endpoint"),
        EndpointPolicyType::EncapOverhead => Compiled("MTU of the NIC"),
        EndpointPolicyType::InterfaceParameters => Compiled("MTU of the NIC"),
        EndpointPolicyType::L4Proxy if mode.has_services() => Compiled("layer `proxy`, outwards"),
        EndpointPolicyType::L4WfpProxy => Compiled("translation in the endpoint's namespace"),
        EndpointPolicyType::Vlan if mode.has_vlans() => Compiled("a domain and an uplink for each VLAN"),
        EndpointPolicyType::Qos => Compiled("rate at which the NIC is read"),
        EndpointPolicyType::Acl => Compiled("layer `acl`, or `firewall` for host rules; both directions"),
        EndpointPolicyType::TierAcl => Compiled("layer `acl`, a group for each tier"),
        EndpointPolicyType::InterfaceConstraint if mode.has_adapter() => Kept("checked: it must mean the network's adapter"),
        EndpointPolicyType::SdnRoute if matches!(mode, Mode::L2Bridge | Mode::Overlay) => {
            Compiled("forwarding to the node where `NextHop` is the node; without `NextHop` as the network forwards")
        }
        EndpointPolicyType::SdnRoute if mode == Mode::L2Tunnel => Kept("the fabric forwards; with a `NextHop` it is refused"),
        EndpointPolicyType::Iov => Kept("there is no hardware to offload to"),
        EndpointPolicyType::Firewall => Kept("settings of the firewall of virtual machines; endpoints here are containers"),
        EndpointPolicyType::PortName => Kept("a name"),
        EndpointPolicyType::L2Driver => Kept("HNS adds it itself; it has no settings"),
        _ => Refused,
    }
}

/// What the switch makes of a policy of an endpoint on another node, beyond what the mode says: that endpoint has no port here to filter
/// at.
pub fn remote_endpoint(kind: &EndpointPolicyType) -> Support {
    match kind {
        EndpointPolicyType::Acl
        | EndpointPolicyType::TierAcl
        | EndpointPolicyType::SdnRoute
        | EndpointPolicyType::PortMapping
        | EndpointPolicyType::L4Proxy
        | EndpointPolicyType::L4WfpProxy => Support::Refused,
        _ => Support::Kept(""),
    }
}

/// What the switch makes of a policy of a network.
pub fn network(kind: &NetworkPolicyType, mode: Mode) -> Support {
    use Support::{Compiled, Kept, Refused};
    match kind {
        NetworkPolicyType::NetAdapterName | NetworkPolicyType::InterfaceConstraint => Compiled("choice of the adapter"),
        NetworkPolicyType::ProviderAddress => Compiled("address of the tunnel"),
        NetworkPolicyType::DrMacAddress => Compiled("hardware address of the distributed router"),
        NetworkPolicyType::RemoteSubnetRoute => Compiled("tunnels to other nodes; on Overlay networks"),
        NetworkPolicyType::L4Proxy if mode.has_services() => Compiled("layer `proxy` of every endpoint, outwards"),
        NetworkPolicyType::VxlanPort => Compiled("UDP port of the tunnel"),
        NetworkPolicyType::HostRoute => Compiled("the node's route to the network, which it always has"),
        NetworkPolicyType::AutomaticDns => Kept("settings for names, which containers read"),
        NetworkPolicyType::SourceMacAddress if matches!(mode, Mode::L2Bridge | Mode::L2Tunnel) => {
            Compiled("hardware address on the wire; on L2Bridge and L2Tunnel networks")
        }
        NetworkPolicyType::SetPolicy => Compiled("addresses of access lists that name the set"),
        NetworkPolicyType::NetworkAcl => Compiled("layer `acl`, or `firewall` for host rules, on every endpoint"),
        // There whatever the fabric answers is where packets go.
        NetworkPolicyType::NeighborDiscovery if mode != Mode::L2Tunnel => {
            Compiled("answers to endpoints that ask for neighbours; not on L2Tunnel networks")
        }
        NetworkPolicyType::LayerConstraint => Kept("checked: the layer must exist"),
        NetworkPolicyType::VSwitchExtension => Kept("there are no extensions to switch on"),
        _ => Refused,
    }
}

/// What the switch makes of a policy of a subnet.
pub fn subnet(kind: &SubnetPolicyType, mode: Mode) -> Support {
    match kind {
        SubnetPolicyType::Vsid if mode == Mode::Overlay => Support::Compiled("the virtual network of the tunnel; on Overlay networks"),
        SubnetPolicyType::Vsid => Support::Kept("on other networks it is only a number"),
        SubnetPolicyType::Vlan if mode.has_vlans() => {
            Support::Compiled("a domain and an uplink for each VLAN; on L2Bridge, L2Tunnel and Transparent networks")
        }
        _ => Support::Refused,
    }
}

/// The first policy of a list that the switch refuses, by name.
pub fn refused<K: hcn::Field>(policies: &[Policy], support: impl Fn(&K) -> Support) -> Option<String> {
    let is_refused = |policy: &&Policy| policy.kind::<K>().map_or(Support::Refused, |kind| support(&kind)) == Support::Refused;
    policies.iter().find(is_refused).map(|policy| policy.policy_type.as_str().map_or_else(|| policy.policy_type.to_string(), str::to_owned))
}

/// The modes that the table has columns for.
const MODES: [(&str, Mode); 5] = [
    ("L2Bridge", Mode::L2Bridge),
    ("L2Tunnel", Mode::L2Tunnel),
    ("Overlay", Mode::Overlay),
    ("Transparent", Mode::Transparent),
    ("NAT", Mode::Nat),
];

/// The table of all policies, in Markdown: `docs/reference/policies.md` holds it.
pub fn table() -> String {
    let mut text = String::from("| on | policy | compiled | how |\n|---|---|---|---|\n");
    let mut row = |on: &str, name: &dyn std::fmt::Display, compiled: &str, how: &str| {
        text.push_str(&format!("| {on} | `{name}` | {compiled} | {how} |\n"))
    };
    let one = |support: Support| match support {
        Support::Compiled(how) => ("yes", how),
        Support::Kept(why) => ("kept", why),
        Support::Refused => ("refused", ""),
    };
    for kind in NetworkPolicyType::ALL {
        // Of networks that a policy has a meaning on: it is refused on others.
        let (compiled, how) = one(network(kind, Mode::L2Bridge));
        row("network", kind, compiled, how);
    }
    for kind in SubnetPolicyType::ALL {
        let mode = if *kind == SubnetPolicyType::Vsid { Mode::Overlay } else { Mode::L2Bridge };
        let (compiled, how) = one(subnet(kind, mode));
        row("subnet", kind, compiled, how);
    }
    for kind in EndpointPolicyType::ALL {
        let by_mode: Vec<(&str, (&str, &str))> = MODES.iter().map(|(name, mode)| (*name, one(endpoint(kind, *mode)))).collect();
        let mut answers: Vec<(&str, &str)> = by_mode.iter().map(|(_, answer)| *answer).collect();
        answers.dedup();
        match answers.as_slice() {
            [(compiled, how)] => row("endpoint", kind, compiled, how),
            _ => {
                let on = |(name, (compiled, _)): &(&str, (&str, &str))| format!("{name}: {compiled}");
                let compiled = by_mode.iter().map(on).collect::<Vec<_>>().join(", ");
                answers.retain(|(_, how)| !how.is_empty());
                let mut how: Vec<&str> = answers.iter().map(|(_, how)| *how).collect();
                how.dedup();
                row("endpoint", kind, &compiled, &how.join("; "));
            }
        }
    }
    text
}
