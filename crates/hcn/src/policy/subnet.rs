//! Policies of subnets.

open_enum! {
    /// Types of subnet policies.
    pub enum SubnetPolicyType as text {
        /// A VLAN tag.
        Vlan = 0 "VLAN",
        /// A virtual subnet: the VXLAN network identifier.
        Vsid = 1 "VSID",
    }
}

document! {
    /// Settings of `VLAN` and `VSID`.
    pub struct IsolationSettings {
        "IsolationId" isolation_id: u32 => always,
    }
}
