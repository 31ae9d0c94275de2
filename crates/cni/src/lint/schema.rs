//! Which keys our plugins read, and of which type they are.

/// What a value may be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// Anything; somebody else looks at it, or nobody.
    Any,
    Text,
    Flag,
    /// True or false, also as text.
    FlagOrText,
    /// A whole number within bounds.
    Whole(i64, i64),
    Address,
    Prefix,
    /// The first two bytes of an Ethernet address, as in `0E-2A`.
    MacPrefix,
    List(&'static Kind),
    /// An object with these keys.
    Object(&'static [Key]),
    /// An object with any keys, all of whose values are of one kind.
    Map(&'static Kind),
}

/// A key and what its value may be.
pub(super) type Key = (&'static str, Kind);

/// Keys of a list.
pub(super) const LIST: &[Key] = &[
    ("cniVersion", Kind::Text),
    ("cniVersions", Kind::List(&Kind::Text)),
    ("name", Kind::Text),
    ("disableCheck", Kind::FlagOrText),
    ("disableGC", Kind::FlagOrText),
    ("loadOnlyInlinedPlugins", Kind::FlagOrText),
    ("plugins", Kind::List(&Kind::Any)),
];

/// Keys that every plugin has.
pub(super) const STANDARD: &[Key] = &[
    ("cniVersion", Kind::Text),
    ("name", Kind::Text),
    ("type", Kind::Text),
    ("capabilities", Kind::Map(&Kind::Flag)),
    ("ipam", Kind::Any),
    ("dns", Kind::Object(DNS)),
    ("args", Kind::Any),
    ("prevResult", Kind::Any),
    ("runtimeConfig", Kind::Any),
];

const DNS: &[Key] = &[
    ("nameservers", Kind::List(&Kind::Address)),
    ("domain", Kind::Text),
    ("search", Kind::List(&Kind::Text)),
    ("options", Kind::List(&Kind::Text)),
];

const NAMED_VALUE: Kind = Kind::Object(&[("name", Kind::Text), ("value", Kind::Any)]);

const WIN_BRIDGE: &[Key] = &[
    ("apiVersion", Kind::Whole(0, 2)),
    ("policies", Kind::List(&NAMED_VALUE)),
    ("loopbackDSR", Kind::Flag),
    ("ipMasq", Kind::Flag),
    ("ipMasqNetwork", Kind::Prefix),
];

const WIN_OVERLAY: &[Key] = &[
    ("apiVersion", Kind::Whole(0, 2)),
    ("policies", Kind::List(&NAMED_VALUE)),
    ("loopbackDSR", Kind::Flag),
    ("ipMasq", Kind::Flag),
    ("endpointMacPrefix", Kind::MacPrefix),
];

const NAT: &[Key] = &[
    ("optionalFlags", Kind::Object(OPTIONAL_FLAGS)),
    ("additionalRoutes", Kind::List(&Kind::Object(ROUTE))),
    ("additionalArgs", Kind::List(&NAMED_VALUE)),
];

const OPTIONAL_FLAGS: &[Key] = &[
    ("localRoutedPortMapping", Kind::Flag),
    ("allowAclPortMapping", Kind::Flag),
    ("forceBridgeGateway", Kind::Flag),
    ("enableDualStack", Kind::Flag),
    ("loopbackDSR", Kind::Flag),
    ("gatewayFromAdditionalRoutes", Kind::Flag),
];

const FLANNEL: &[Key] = &[("subnetFile", Kind::Text), ("dataDir", Kind::Text), ("delegate", Kind::Any)];

const AZURE_VNET: &[Key] = &[
    ("mode", Kind::Text),
    ("master", Kind::Text),
    ("adapterName", Kind::Text),
    ("bridge", Kind::Text),
    ("logLevel", Kind::Text),
    ("logTarget", Kind::Text),
    ("infraVnetAddressSpace", Kind::Text),
    ("ipv6Mode", Kind::Text),
    ("serviceCidrs", Kind::Text),
    ("vnetCidrs", Kind::Text),
    ("podNamespaceForDualNetwork", Kind::List(&Kind::Text)),
    ("ipsToRouteViaHost", Kind::List(&Kind::Text)),
    ("multiTenancy", Kind::Flag),
    ("enableSnatOnHost", Kind::Flag),
    ("enableExactMatchForPodName", Kind::Flag),
    ("disableHairpinOnHostInterface", Kind::Flag),
    ("disableIPTableLock", Kind::Flag),
    ("disableAsyncDelete", Kind::Flag),
    ("cnsurl", Kind::Text),
    ("executionMode", Kind::Text),
    ("windowsSettings", Kind::Object(&[("enableLoopbackDSR", Kind::Flag), ("hnsTimeoutDurationInSeconds", Kind::Whole(0, 86400))])),
    ("additionalArgs", Kind::List(&NAMED_VALUE)),
    ("env", Kind::Text),
];

const ROUTE: &[Key] = &[
    ("dst", Kind::Prefix),
    ("gw", Kind::Address),
    ("mtu", Kind::Whole(0, 65535)),
    ("advmss", Kind::Whole(0, 65535)),
    ("priority", Kind::Whole(0, i64::MAX)),
    ("table", Kind::Whole(0, i64::MAX)),
    ("scope", Kind::Whole(0, 255)),
];

const RANGE: &[Key] = &[("subnet", Kind::Prefix), ("rangeStart", Kind::Address), ("rangeEnd", Kind::Address), ("gateway", Kind::Address)];

const HOST_LOCAL: &[Key] = &[
    ("type", Kind::Text),
    ("subnet", Kind::Prefix),
    ("rangeStart", Kind::Address),
    ("rangeEnd", Kind::Address),
    ("gateway", Kind::Address),
    ("ranges", Kind::List(&Kind::List(&Kind::Object(RANGE)))),
    ("routes", Kind::List(&Kind::Object(ROUTE))),
    ("resolvConf", Kind::Text),
    ("dataDir", Kind::Text),
];

const AZURE_VNET_IPAM: &[Key] = &[
    ("type", Kind::Text),
    ("mode", Kind::Text),
    ("environment", Kind::Text),
    ("addressSpace", Kind::Text),
    ("subnet", Kind::Prefix),
    ("ipAddress", Kind::Address),
    ("queryInterval", Kind::Text),
    ("url", Kind::Text),
    ("file", Kind::Text),
    ("stateDir", Kind::Text),
];

/// What `nat` reads of `ipam` itself.
const NAT_IPAM: &[Key] = &[
    ("type", Kind::Text),
    ("environment", Kind::Text),
    ("addressSpace", Kind::Text),
    ("subnet", Kind::Prefix),
    ("ipAddress", Kind::Address),
    ("queryInterval", Kind::Text),
    ("routes", Kind::List(&Kind::Object(ROUTE))),
];

/// Every plugin whose keys are known here, and the keys that it has beside the standard ones.
const PLUGINS: &[(&str, &[Key])] = &[
    ("win-bridge", WIN_BRIDGE),
    ("win-overlay", WIN_OVERLAY),
    ("nat", NAT),
    ("sdnbridge", NAT),
    ("sdnoverlay", NAT),
    ("flannel", FLANNEL),
    ("azure-vnet", AZURE_VNET),
];

const IPAMS: &[(&str, &[Key])] =
    &[("host-local", HOST_LOCAL), ("azure-vnet-ipam", AZURE_VNET_IPAM), ("azure-vnet-ipamv6", AZURE_VNET_IPAM)];

/// The keys of a plugin of ours beside the standard ones.
pub(super) fn plugin(name: &str) -> Option<&'static [Key]> {
    PLUGINS.iter().find(|(plugin, _)| *plugin == name).map(|(_, keys)| *keys)
}

/// The keys in `ipam`, of the plugin itself and of the IPAM plugin; none if somebody else reads them.
pub(super) fn ipam(plugin: &str, name: &str) -> Option<Vec<Key>> {
    let own = if plugin == "nat" || plugin.starts_with("sdn") { NAT_IPAM } else { &[("type", Kind::Text)] };
    match name {
        "" => Some(own.to_vec()),
        name => IPAMS.iter().find(|(ipam, _)| *ipam == name).map(|(_, keys)| [keys, own].concat()),
    }
}

/// The name among these that somebody may have meant.
pub(super) fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_ascii_lowercase();
    let distance = |name: &str| distance(written.as_bytes(), name.to_ascii_lowercase().as_bytes());
    let near = known.into_iter().map(|name| (distance(name), name)).min()?;
    // Of a short name, two letters are too much of it to be a slip.
    (near.0 <= if written.len() < 5 { 1 } else { 2 }).then_some(near.1)
}

/// Every plugin and IPAM plugin whose keys are known here.
pub(super) fn names(ipam: bool) -> impl Iterator<Item = &'static str> {
    let table = if ipam { IPAMS } else { PLUGINS };
    table.iter().map(|(name, _)| *name)
}

/// How many letters must be put in, left out or changed. Names longer than any key are far from all of them.
fn distance(a: &[u8], b: &[u8]) -> usize {
    if a.len().abs_diff(b.len()) > 2 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (index, left) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, right) in b.iter().enumerate() {
            let changed = diagonal + usize::from(left != right);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_near_and_other_words_far() {
        let known = ["policies", "name", "ipam", "apiVersion"];
        assert_eq!(nearest("polcies", known), Some("policies"));
        assert_eq!(nearest("ApiVerison", known), Some("apiVersion"));
        assert_eq!(nearest("ipma", known), None);
        assert_eq!(nearest("ipm", known), Some("ipam"));
        assert_eq!(nearest("master", known), None);
        assert_eq!(nearest(&"x".repeat(100_000), known), None);
    }
}
