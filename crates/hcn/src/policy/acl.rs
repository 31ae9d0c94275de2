//! Access control lists: which packets pass.

open_enum! {
    /// What a matching rule does.
    pub enum ActionType as text {
        /// Let the packet through.
        Allow = 0 "Allow",
        /// Drop it.
        Block = 1 "Block",
        /// Leave it to the next tier.
        Pass = 2 "Pass",
    }
}

open_enum! {
    /// Direction, seen from the container.
    pub enum DirectionType as text {
        /// Towards the container.
        In = 0 "In",
        /// Away from it.
        Out = 1 "Out",
    }
}

open_enum! {
    /// Where a rule is enforced.
    pub enum RuleType as text {
        /// By the host firewall.
        Host = 0 "Host",
        /// By the virtual switch.
        Switch = 1 "Switch",
    }
}

document! {
    /// Settings of `ACL` and `NetworkACL`. Absent lists match anything.
    pub struct AclSettings {
        "Protocols" protocols: String,
        "Action" action: Option<ActionType> => always,
        "Direction" direction: Option<DirectionType> => always,
        "LocalAddresses" local_addresses: String,
        "RemoteAddresses" remote_addresses: String,
        "LocalPorts" local_ports: String,
        "RemotePorts" remote_ports: String,
        "RuleType" rule_type: Option<RuleType>,
        "Priority" priority: u16,
        "Id" id: String,
    }
}

document! {
    /// One rule of a tier.
    pub struct TierAclRule {
        "Id" id: String,
        "Protocols" protocols: String,
        "TierAclRuleAction" action: Option<ActionType> => always,
        "LocalAddresses" local_addresses: String,
        "RemoteAddresses" remote_addresses: String,
        "LocalPorts" local_ports: String,
        "RemotePorts" remote_ports: String,
        "Priority" priority: u16,
    }
}

document! {
    /// Settings of `TierAcl`: an ordered group of rules.
    pub struct TierAclSettings {
        "Name" name: String,
        "Direction" direction: Option<DirectionType> => always,
        "Order" order: u16,
        "TierAclRules" rules: Vec<TierAclRule>,
    }
}
