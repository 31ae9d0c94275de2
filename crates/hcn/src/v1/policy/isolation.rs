//! Policies that keep networks apart: `VLAN`, `VSID`, `Isolation`.

use super::Flat;
use crate::policy::subnet::IsolationSettings;

macro_rules! isolation {
    ($(#[$meta:meta])* $name:ident $type:literal) => {
        document! {
            $(#[$meta])*
            pub struct $name {
                "Type" policy_type: String => always,
                $type | "IsolationId" isolation_id: u32 => always,
            }
        }

        impl Flat for $name {
            const V2_TYPE: &'static str = $type;
            type Settings = IsolationSettings;

            fn raise(self) -> IsolationSettings {
                IsolationSettings { isolation_id: self.isolation_id, extra: self.extra }
            }

            fn lower(settings: IsolationSettings) -> Self {
                Self { policy_type: $type.to_owned(), isolation_id: settings.isolation_id, extra: settings.extra }
            }
        }
    };
}

isolation! {
    /// `VLAN`: a VLAN tag.
    VlanPolicy "VLAN"
}

isolation! {
    /// `VSID`: a virtual subnet, the VXLAN network identifier.
    VsidPolicy "VSID"
}

document! {
    /// `Isolation`: both at once. v2 has no such type; the fields become its settings unchanged.
    pub struct IsolationPolicy {
        "Type" policy_type: String => always,
        "VLAN" vlan: u32,
        "VSID" vsid: u32,
        "InDefaultIsolation" in_default_isolation: bool,
    }
}
