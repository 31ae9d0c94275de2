//! The build that a node runs as: its profile, with what the topology adds to it and takes away.

use hcn::profile::{self, Defect, Feature, Limit, Profile};

use crate::topology::{NodeSpec, Os};

impl NodeSpec {
    /// The profile of its build; none for a Linux node.
    pub(crate) fn profile(&self) -> Option<&'static Profile> {
        let named = || self.build.as_deref().map_or(Some(profile::default()), profile::find);
        (self.os == Os::Windows).then(named).flatten()
    }

    /// Whether its build is one of Microsoft's.
    pub(crate) fn is_real_windows(&self) -> bool {
        self.profile().is_some_and(|profile| profile.build != 0)
    }

    /// Whether it has a feature. Linux has no HNS, and no features of it.
    pub(crate) fn has(&self, feature: Feature) -> bool {
        self.switched(feature.name(), |profile| profile.supports(feature))
    }

    /// Whether it has a limit.
    pub(crate) fn is_limited(&self, limit: Limit) -> bool {
        self.switched(limit.name(), |profile| profile.limits.contains(&limit))
    }

    /// Whether it has a defect.
    pub(crate) fn is_defective(&self, defect: Defect) -> bool {
        self.switched(defect.name(), |profile| profile.defects.contains(&defect))
    }

    fn switched(&self, item: &str, usual: impl FnOnce(&Profile) -> bool) -> bool {
        let is_in = |list: &[String]| list.iter().any(|name| name == item);
        self.profile().is_some_and(|profile| !is_in(&self.without) && (is_in(&self.with) || usual(profile)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(text: &str) -> NodeSpec {
        serde_norway::from_str(&format!("{{name: it, {text}}}")).expect("a node")
    }

    #[test]
    fn items_are_those_of_the_profile_unless_the_topology_says_otherwise() {
        let (limit, defect) = (Limit::NoHostNetworkPods, Defect::OverlayNodePort);
        let table = [
            ("os: linux", false, false),
            ("os: windows", false, false),
            ("os: windows, build: ws2022", true, true),
            ("os: windows, build: ws2025", true, false),
            ("os: windows, build: ws2022, without: [no-host-network-pods, overlay-node-port]", false, false),
            ("os: windows, with: [no-host-network-pods, overlay-node-port]", true, true),
        ];
        for (text, is_limited, is_defective) in table {
            let node = node(text);
            assert_eq!((node.is_limited(limit), node.is_defective(defect)), (is_limited, is_defective), "{text}");
        }
        assert!(node("os: windows").has(Feature::Extensions) && !node("os: windows, build: ws2022").has(Feature::Extensions));
        assert!(node("os: windows, build: 20h2").is_real_windows() && !node("os: windows, build: transom").is_real_windows());
    }
}
