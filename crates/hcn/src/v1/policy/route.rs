//! Policies about where packets go: `ROUTE`, `PA` and `VNET`.

use super::Flat;
use crate::policy::endpoint::SdnRouteSettings;
use crate::policy::network::ProviderAddressSettings;

document! {
    /// `ROUTE`: where packets for a prefix go, on an endpoint or in a policy list.
    /// `AutomaticEndpointMonitor` is v2's.
    pub struct RoutePolicy {
        "Type" policy_type: String => always,
        "DestinationPrefix" destination_prefix: String,
        "NextHop" next_hop: String,
        "NeedEncap" need_encap: bool,
        "AutomaticEndpointMonitor" automatic_endpoint_monitor: bool,
    }
}

impl RoutePolicy {
    /// The entry of an SDN route that this policy stands for.
    pub fn to_v2(self) -> SdnRouteSettings {
        self.raise()
    }

    /// The policy that stands for an entry of an SDN route.
    pub fn from_v2(settings: SdnRouteSettings) -> Self {
        Self::lower(settings)
    }
}

impl Flat for RoutePolicy {
    const V2_TYPE: &'static str = "SDNRoute";
    type Settings = SdnRouteSettings;

    fn raise(self) -> SdnRouteSettings {
        SdnRouteSettings {
            destination_prefix: self.destination_prefix,
            next_hop: self.next_hop,
            need_encap: self.need_encap,
            automatic_endpoint_monitor: self.automatic_endpoint_monitor,
            extra: self.extra,
        }
    }

    fn lower(settings: SdnRouteSettings) -> Self {
        Self {
            policy_type: "ROUTE".to_owned(),
            destination_prefix: settings.destination_prefix,
            next_hop: settings.next_hop,
            need_encap: settings.need_encap,
            automatic_endpoint_monitor: settings.automatic_endpoint_monitor,
            extra: settings.extra,
        }
    }
}

document! {
    /// `PA`, and `VNET`, which carries one: the host behind which a remote endpoint is.
    pub struct ProviderAddressPolicy {
        "Type" policy_type: String => always,
        "PA" | "ProviderAddress" provider_address: String,
    }
}

impl Flat for ProviderAddressPolicy {
    const V2_TYPE: &'static str = "ProviderAddress";
    type Settings = ProviderAddressSettings;

    fn raise(self) -> ProviderAddressSettings {
        ProviderAddressSettings { provider_address: self.provider_address, extra: self.extra }
    }

    fn lower(settings: ProviderAddressSettings) -> Self {
        Self { policy_type: "PA".to_owned(), provider_address: settings.provider_address, extra: settings.extra }
    }
}
