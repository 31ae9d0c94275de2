//! All scenarios: first the rows of the documents' table of settings, then their limitations and known issues, and at last what is heavy.

use super::stage::Stage;
use super::subject::Subject;
use super::{
    Documented, Finding, Observed, affinity, backends, client_address, cni_check, direct, families, host_network, icmp, names, node,
    overlay, pod_to_pod, update,
};

/// Something that the documents say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scenario {
    SessionAffinity,
    AffinityTimeout,
    DirectServerReturn,
    PreserveDestination,
    DualStack,
    ClientAddress,
    LocalWithoutDsr,
    HostNetwork,
    NodePort,
    NodePortFromNode,
    NodeToService,
    Ipv6OnOverlay,
    Ipv6Alone,
    IcmpToOutside,
    IcmpInside,
    CniCheck,
    OverlayUpdate,
    VniAndPort,
    RemoteNodeToPod,
    PodToPod,
    DottedNames,
    SearchList,
    Backends,
}

impl Scenario {
    /// All of them.
    pub(super) const ALL: [Self; 23] = [
        Self::SessionAffinity,
        Self::AffinityTimeout,
        Self::DirectServerReturn,
        Self::PreserveDestination,
        Self::DualStack,
        Self::ClientAddress,
        Self::LocalWithoutDsr,
        Self::HostNetwork,
        Self::NodePort,
        Self::NodePortFromNode,
        Self::NodeToService,
        Self::Ipv6OnOverlay,
        Self::Ipv6Alone,
        Self::IcmpToOutside,
        Self::IcmpInside,
        Self::CniCheck,
        Self::OverlayUpdate,
        Self::VniAndPort,
        Self::RemoteNodeToPod,
        Self::PodToPod,
        Self::DottedNames,
        Self::SearchList,
        Self::Backends,
    ];

    /// Whether it keeps kube-proxy so busy that others had to wait.
    pub(super) fn is_heavy(self) -> bool {
        self == Self::Backends
    }

    /// For people.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::SessionAffinity => "session affinity",
            Self::AffinityTimeout => "timeout of session affinity",
            Self::DirectServerReturn => "direct server return",
            Self::PreserveDestination => "preserve-destination",
            Self::DualStack => "dual-stack networking",
            Self::ClientAddress => "client IP preservation",
            Self::LocalWithoutDsr => "Local policy without DSR",
            Self::HostNetwork => "host networking for pods",
            Self::NodePort => "node port from outside",
            Self::NodePortFromNode => "node port from the node itself",
            Self::NodeToService => "cluster IP from the node",
            Self::Backends => "backends of one Service",
            Self::Ipv6OnOverlay => "IPv6 between pods on overlay",
            Self::Ipv6Alone => "IPv6 alone",
            Self::IcmpToOutside => "ICMP to outside",
            Self::IcmpInside => "ICMP between pods",
            Self::CniCheck => "CNI CHECK",
            Self::OverlayUpdate => "overlay without KB4489899",
            Self::VniAndPort => "flannel VXLAN, other VNI and port",
            Self::RemoteNodeToPod => "node to pods of other nodes",
            Self::PodToPod => "pod to pod",
            Self::DottedNames => "short names with a dot",
            Self::SearchList => "several DNS suffixes",
        }
    }

    /// Whether it is about what kube-proxy has HNS do.
    fn is_about_load_balancers(self) -> bool {
        match self {
            Self::SessionAffinity | Self::AffinityTimeout | Self::DirectServerReturn | Self::PreserveDestination => true,
            Self::ClientAddress | Self::LocalWithoutDsr | Self::NodePort | Self::NodePortFromNode => true,
            Self::NodeToService | Self::Backends => true,
            Self::DualStack | Self::HostNetwork | Self::Ipv6OnOverlay | Self::Ipv6Alone | Self::IcmpToOutside | Self::IcmpInside => false,
            Self::OverlayUpdate => false,
            Self::CniCheck | Self::VniAndPort | Self::RemoteNodeToPod | Self::PodToPod | Self::DottedNames | Self::SearchList => false,
        }
    }

    /// What the documents say of it.
    pub(super) fn documented(self, subject: &Subject) -> Documented {
        if self.is_about_load_balancers() && !subject.mode.has_load_balancers() {
            return Documented::other(Finding::NotHere, "HNS has no load balancers on such networks: Linux nodes serve Services");
        }
        match self {
            Self::SessionAffinity => affinity::documented(subject),
            Self::AffinityTimeout => affinity::timeout_documented(subject),
            Self::DirectServerReturn => direct::documented(subject),
            Self::PreserveDestination => direct::preserved_documented(subject),
            Self::DualStack => families::documented(subject),
            Self::ClientAddress => client_address::documented(subject),
            Self::LocalWithoutDsr => client_address::without_dsr_documented(subject),
            Self::HostNetwork => host_network::documented(subject),
            Self::NodePort => node::port_documented(subject),
            Self::NodePortFromNode => node::own_port_documented(subject),
            Self::NodeToService => node::service_documented(subject),
            Self::Backends => backends::documented(subject),
            Self::Ipv6OnOverlay => families::overlay_documented(subject),
            Self::Ipv6Alone => families::alone_documented(subject),
            Self::IcmpToOutside => icmp::outward_documented(subject),
            Self::IcmpInside => icmp::inside_documented(subject),
            Self::CniCheck => cni_check::documented(subject),
            Self::OverlayUpdate => update::documented(subject),
            Self::VniAndPort => overlay::tunnel_documented(subject),
            Self::RemoteNodeToPod => overlay::remote_node_documented(subject),
            Self::PodToPod => pod_to_pod::documented(subject),
            Self::DottedNames => names::dotted_documented(subject),
            Self::SearchList => names::list_documented(subject),
        }
    }

    /// What is observed of it.
    pub(super) async fn observe(self, stage: &Stage) -> Observed {
        match self {
            Self::SessionAffinity => affinity::observe(stage).await,
            Self::AffinityTimeout => affinity::observe_timeout(stage).await,
            Self::DirectServerReturn => direct::observe(stage).await,
            Self::PreserveDestination => direct::observe_preserved(stage).await,
            Self::DualStack => families::observe(stage).await,
            Self::ClientAddress => client_address::observe(stage).await,
            Self::LocalWithoutDsr => client_address::observe_without_dsr(stage).await,
            Self::HostNetwork => host_network::observe(stage).await,
            Self::NodePort => node::observe_port(stage).await,
            Self::NodePortFromNode => node::observe_own_port(stage).await,
            Self::NodeToService => node::observe_service(stage).await,
            Self::Backends => backends::observe(stage).await,
            Self::Ipv6OnOverlay => families::observe_overlay(stage).await,
            Self::Ipv6Alone => families::observe_alone(stage).await,
            Self::IcmpToOutside => icmp::observe_outward(stage).await,
            Self::IcmpInside => icmp::observe_inside(stage).await,
            Self::CniCheck => cni_check::observe(stage).await,
            Self::OverlayUpdate => update::observe(stage).await,
            Self::VniAndPort => overlay::observe_tunnel(stage).await,
            Self::RemoteNodeToPod => overlay::observe_remote_node(stage).await,
            Self::PodToPod => pod_to_pod::observe(stage).await,
            Self::DottedNames => names::observe_dotted(stage).await,
            Self::SearchList => names::observe_list(stage).await,
        }
    }
}
