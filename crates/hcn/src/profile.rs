//! Build profiles: what each Windows build reports, supports and gets wrong. All of it is data.

use std::fmt;

/// A version of HNS, as `/globals/version` reports it.
pub type Version = (u32, u32);

macro_rules! items {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $( $variant:ident $text:literal $says:literal ),* $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $( #[doc = $says] $variant, )* }

        impl $name {
            /// Every item.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The name that `--with` and `--without` take.
            pub fn name(self) -> &'static str {
                match self { $( Self::$variant => $text, )* }
            }

            /// What it means, for people.
            pub fn says(self) -> &'static str {
                match self { $( Self::$variant => $says, )* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

items! {
    /// What a build can do. Names follow the feature table that clients test for.
    pub enum Feature {
        AclAddressLists "acl-address-lists" "lists of addresses in ACLs",
        AclPortRanges "acl-port-ranges" "lists and ranges of ports in ACLs",
        AclRuleId "acl-rule-id" "ids on ACL rules",
        AclNoHostRulePriority "acl-no-host-rule-priority" "host ACL rules without a priority",
        AclProtocol252 "acl-protocol-252" "ACLs about protocol 252 (VXLAN)",
        ApiV2 "api-v2" "the HCN interface (schema 2)",
        RemoteSubnet "remote-subnet" "RemoteSubnetRoute policies",
        HostRoute "host-route" "HostRoute policies",
        Dsr "dsr" "direct server return",
        PreserveDip "preserve-dip" "load balancers that keep the virtual address (PreserveDIP)",
        Slash32EndpointPrefixes "slash32-endpoint-prefixes" "endpoints with a prefix length of 32",
        VxlanPort "vxlan-port" "VXLAN on another UDP port than 4789",
        Ipv6DualStack "ipv6-dual-stack" "IPv4 and IPv6 on one endpoint",
        SessionAffinity "session-affinity" "load balancing by source address",
        SetPolicy "set-policy" "sets of addresses (SetPolicy)",
        NestedIpSet "nested-ip-set" "sets of sets",
        L4Proxy "l4-proxy" "L4Proxy policies",
        L4WfpProxy "l4-wfp-proxy" "L4WFPPROXY policies",
        TierAcl "tier-acl" "TierAcl policies",
        NetworkAcl "network-acl" "NetworkACL policies",
        DisableHostPort "disable-host-port" "networks without a host port",
        ModifyLoadBalancer "modify-load-balancer" "load balancers changed in place",
        Accelnet "accelnet" "accelerated networking: management MAC addresses",
        Extensions "extensions" "agents are told which fields of ours there are in AdditionalParams",
    }
}

items! {
    /// What a build refuses or leaves out, by design.
    pub enum Limit {
        Backends64 "backends-64" "at most 64 backends for one load balancer",
        Backends1024 "backends-1024" "at most 1024 backends for one load balancer",
        OverlayNoIpv6 "overlay-no-ipv6" "no IPv6 and no dual stack on overlay networks",
        NoIpv6Only "no-ipv6-only" "no network with IPv6 alone",
        OverlayNodeLocalPodsOnly "overlay-node-local-pods-only" "on overlay networks the node reaches its own pods only",
        VsidFrom4096 "vsid-from-4096" "VXLAN network identifiers below 4096 are refused",
        NoHostNetworkPods "no-host-network-pods" "no pods in the host's own namespace",
        NodePortNotFromNode "node-port-not-from-node" "node ports do not answer to the node itself",
        LocalPolicyNeedsDsr "local-policy-needs-dsr" "externalTrafficPolicy Local only with DSR",
        IcmpNotTranslated "icmp-not-translated" "outbound ICMP is not translated",
        NodeCannotReachServices "node-cannot-reach-services" "the node does not reach Service addresses",
        AffinityTimeoutIgnored "affinity-timeout-ignored" "the timeout of session affinity is ignored",
        InwardProtocols "inward-protocols" "endpoints receive TCP, UDP, ICMP and IGMP only, unless an ACL allows more",
        OneDnsSuffix "one-dns-suffix" "one DNS suffix only, and names with a dot skip it",
    }
}

items! {
    /// What a build gets wrong.
    pub enum Defect {
        LoadBalancerModifyIneffective "load-balancer-modify-ineffective" "a change to a load balancer is accepted and has no effect",
        OverlayOutBoundNatExceptions "overlay-outbound-nat-exceptions" "OutBoundNAT with exceptions is refused on overlay networks",
        OverlayNodePort "overlay-node-port" "node ports do not work on overlay networks",
        L2BridgePodToPodWithDsr "l2bridge-pod-to-pod-with-dsr" "pods on L2Bridge do not reach each other while DSR is on (KB5005619)",
    }
}

/// One Windows build, as far as its networking goes.
#[derive(Debug)]
pub struct Profile {
    /// The name that `--profile` takes.
    pub name: &'static str,
    /// The product, for people.
    pub windows: &'static str,
    /// The build number of Windows; 0 for transom itself.
    pub build: u32,
    /// The version of HNS it reports.
    pub version: Version,
    /// The newest schema version of its documents.
    pub schema: Version,
    /// What it refuses or leaves out.
    pub limits: &'static [Limit],
    /// What it gets wrong.
    pub defects: &'static [Defect],
    /// Where the numbers come from.
    pub notes: &'static str,
}

const EVERY_WINDOWS: [Limit; 9] = [
    Limit::NoHostNetworkPods,
    Limit::NodePortNotFromNode,
    Limit::LocalPolicyNeedsDsr,
    Limit::IcmpNotTranslated,
    Limit::NodeCannotReachServices,
    Limit::AffinityTimeoutIgnored,
    Limit::OneDnsSuffix,
    Limit::NoIpv6Only,
    Limit::InwardProtocols,
];

const fn windows_limits(backends: Limit) -> [Limit; 13] {
    let [a, b, c, d, e, f, g, h, i] = EVERY_WINDOWS;
    [backends, Limit::OverlayNoIpv6, Limit::OverlayNodeLocalPodsOnly, Limit::VsidFrom4096, a, b, c, d, e, f, g, h, i]
}

const OLDER: &[Limit] = &windows_limits(Limit::Backends64);
const NEWER: &[Limit] = &windows_limits(Limit::Backends1024);

/// Every profile, oldest build first.
pub const ALL: &[Profile] = &[
    Profile {
        name: "ws2019",
        windows: "Windows Server 2019 (1809)",
        build: 17763,
        version: (9, 5),
        schema: (2, 0),
        limits: OLDER,
        defects: &[],
        notes: "fully updated: 9.2 brought the HCN interface, 9.3 DSR, 9.5 L4Proxy",
    },
    Profile {
        name: "1903",
        windows: "Windows Server 1903 and 1909",
        build: 18362,
        version: (10, 5),
        schema: (2, 2),
        limits: OLDER,
        defects: &[],
        notes: "fully updated: 10.5 brought L4Proxy",
    },
    Profile {
        name: "20h2",
        windows: "Windows Server 2004 and 20H2",
        build: 19042,
        version: (11, 11),
        schema: (2, 6),
        limits: OLDER,
        defects: &[],
        notes: "fully updated: 11.10 brought dual stack, 11.11 L4Proxy",
    },
    Profile {
        name: "ws2022",
        windows: "Windows Server 2022",
        build: 20348,
        version: (13, 3),
        schema: (2, 11),
        limits: NEWER,
        defects: &[Defect::OverlayOutBoundNatExceptions, Defect::OverlayNodePort, Defect::L2BridgePodToPodWithDsr],
        notes: "13.3 as reported in 2024",
    },
    Profile {
        name: "ws2025",
        windows: "Windows Server 2025",
        build: 26100,
        version: (15, 4),
        schema: (2, 16),
        limits: NEWER,
        defects: &[Defect::LoadBalancerModifyIneffective],
        notes: "15.4 as first released; later updates report 15.5 and change load balancers in place",
    },
    Profile {
        name: "transom",
        windows: "transom (no Windows build)",
        build: 0,
        version: (16, 0),
        schema: (2, 16),
        limits: &[],
        defects: &[],
        notes: "everything on, no limits, no defects",
    },
];

/// The profile used when none is asked for.
pub fn default() -> &'static Profile {
    ALL.iter().find(|profile| profile.name == "transom").unwrap_or(&ALL[0])
}

/// The profile with this name.
pub fn find(name: &str) -> Option<&'static Profile> {
    ALL.iter().find(|profile| profile.name.eq_ignore_ascii_case(name))
}

impl Profile {
    /// Whether this build has a feature, by the version ranges that clients use.
    pub fn supports(&self, feature: Feature) -> bool {
        ranges(feature).iter().any(|(from, to)| *from <= self.version && self.version <= *to)
    }

    /// Every feature of this build.
    pub fn features(&self) -> impl Iterator<Item = Feature> {
        Feature::ALL.iter().copied().filter(|feature| self.supports(*feature))
    }
}

const EVER: u32 = u32::MAX;

/// From which to which version of HNS a feature is there, both included.
fn ranges(feature: Feature) -> &'static [(Version, Version)] {
    match feature {
        Feature::AclAddressLists | Feature::AclPortRanges | Feature::AclRuleId | Feature::AclNoHostRulePriority => {
            &[((7, 2), (EVER, EVER))]
        }
        Feature::ApiV2 | Feature::RemoteSubnet | Feature::HostRoute => &[((9, 2), (EVER, EVER))],
        Feature::Dsr => &[((9, 3), (9, EVER)), ((10, 2), (EVER, EVER))],
        // Documented by product: Windows Server 1903, which reports 10.x.
        Feature::PreserveDip => &[((10, 0), (EVER, EVER))],
        Feature::Slash32EndpointPrefixes => &[((9, 3), (9, EVER)), ((10, 4), (EVER, EVER))],
        Feature::VxlanPort => &[((10, 3), (EVER, EVER))],
        Feature::AclProtocol252 => &[((11, 0), (EVER, EVER))],
        Feature::Ipv6DualStack => &[((11, 10), (EVER, EVER))],
        Feature::SessionAffinity => &[((12, 0), (EVER, EVER))],
        Feature::SetPolicy => &[((13, 0), (EVER, EVER))],
        Feature::L4Proxy => {
            &[((9, 5), (9, EVER)), ((10, 5), (10, EVER)), ((11, 11), (11, EVER)), ((12, 1), (12, EVER)), ((13, 1), (EVER, EVER))]
        }
        Feature::L4WfpProxy => &[((13, 2), (EVER, EVER))],
        Feature::TierAcl => &[((14, 0), (EVER, EVER))],
        Feature::NetworkAcl | Feature::NestedIpSet => &[((15, 0), (EVER, EVER))],
        Feature::DisableHostPort => &[((15, 1), (EVER, EVER))],
        Feature::ModifyLoadBalancer | Feature::Accelnet => &[((15, 4), (EVER, EVER))],
        // No Windows has them.
        Feature::Extensions => &[((16, 0), (EVER, EVER))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_rise_with_builds_and_transom_has_everything() {
        let versions: Vec<Version> = ALL.iter().map(|profile| profile.version).collect();
        assert!(versions.is_sorted());
        assert_eq!(default().features().count(), Feature::ALL.len());
    }

    #[test]
    fn features_follow_the_version_table() {
        let has = |name: &str, feature| find(name).unwrap().supports(feature);
        assert!(has("ws2019", Feature::Dsr) && has("ws2019", Feature::L4Proxy) && !has("ws2019", Feature::SetPolicy));
        assert!(has("1903", Feature::VxlanPort) && !has("1903", Feature::Ipv6DualStack));
        assert!(has("20h2", Feature::Ipv6DualStack) && !has("20h2", Feature::SessionAffinity));
        assert!(has("ws2022", Feature::SetPolicy) && has("ws2022", Feature::L4WfpProxy) && !has("ws2022", Feature::TierAcl));
        assert!(has("ws2025", Feature::ModifyLoadBalancer) && has("ws2025", Feature::NetworkAcl));
    }
}
