//! What the documents say, build by build.

use hcn::profile;

use super::subject::Subject;
use super::*;
use crate::topology::{Mode, NetworkSpec, Plugin};

const BUILDS: [&str; 6] = ["ws2019", "1903", "20h2", "ws2022", "ws2025", "transom"];

fn said(scenario: Scenario, mode: Mode, dsr: bool) -> String {
    said_of(scenario, NetworkSpec { mode, ..NetworkSpec::default() }, dsr)
}

fn said_of(scenario: Scenario, network: NetworkSpec, dsr: bool) -> String {
    let of = |name: &str| {
        let profile = profile::find(name).expect("a profile");
        scenario.documented(&Subject { profile, mode: network.mode, plugin: network.plugin(), dsr }).finding.to_string()
    };
    BUILDS
        .map(of)
        .map(|text| match text.as_str() {
            "works" => "yes".to_owned(),
            "does not work" => "no".to_owned(),
            "at most 64" => "64".to_owned(),
            "at most 1024" => "1024".to_owned(),
            "no limit" => "any".to_owned(),
            other => other.replace(' ', "-"),
        })
        .join(" ")
}

#[test]
fn settings_have_the_least_builds_of_the_table() {
    let table = [
        (Scenario::SessionAffinity, "no no no yes yes yes"),
        (Scenario::DirectServerReturn, "yes yes yes yes yes yes"),
        (Scenario::PreserveDestination, "no yes yes yes yes yes"),
        (Scenario::DualStack, "no no yes yes yes yes"),
        (Scenario::ClientAddress, "yes yes yes yes yes yes"),
    ];
    for (scenario, expected) in table {
        assert_eq!(said(scenario, Mode::L2bridge, true), expected, "{}", scenario.title());
    }
    assert_eq!(said(Scenario::DualStack, Mode::Overlay, true), "no no no no no yes");
    assert!(said(Scenario::DirectServerReturn, Mode::Overlay, false).starts_with("not-asked-for not-asked-for"));
}

#[test]
fn limits_hold_on_every_windows_and_on_transom_none() {
    let rest = "no no no no no yes";
    let all = "yes yes yes yes yes yes";
    let absent = ["not-in-this-lab"; 6].join(" ");
    let table = [
        (Scenario::AffinityTimeout, rest, rest),
        (Scenario::LocalWithoutDsr, rest, rest),
        (Scenario::HostNetwork, rest, rest),
        (Scenario::NodePortFromNode, rest, rest),
        (Scenario::NodeToService, rest, rest),
        (Scenario::Backends, "64 64 64 1024 1024 any", "64 64 64 1024 1024 any"),
        (Scenario::Ipv6OnOverlay, rest, &absent),
        (Scenario::Ipv6Alone, rest, rest),
        (Scenario::IcmpToOutside, rest, rest),
        (Scenario::IcmpInside, all, all),
        (Scenario::CniCheck, rest, rest),
        (Scenario::VniAndPort, rest, &absent),
        (Scenario::RemoteNodeToPod, rest, all),
        (Scenario::DottedNames, rest, rest),
        (Scenario::SearchList, rest, rest),
    ];
    for (scenario, overlay, l2bridge) in table {
        assert_eq!(said(scenario, Mode::Overlay, false), overlay, "{}", scenario.title());
        assert_eq!(said(scenario, Mode::L2bridge, false), l2bridge, "{}", scenario.title());
    }
}

#[test]
fn known_issues_are_those_of_ws2022() {
    let (broken, fine) = ("yes yes yes no yes yes", "yes yes yes yes yes yes");
    assert_eq!(said(Scenario::NodePort, Mode::Overlay, true), broken);
    assert_eq!(said(Scenario::NodePort, Mode::L2bridge, true), fine);
    assert_eq!(said(Scenario::PodToPod, Mode::L2bridge, true), broken);
    assert_eq!(said(Scenario::PodToPod, Mode::L2bridge, false), broken);
    assert_eq!(said(Scenario::PodToPod, Mode::Overlay, true), fine);
}

#[test]
fn an_update_is_needed_on_ws2019_alone() {
    assert_eq!(said(Scenario::OverlayUpdate, Mode::Overlay, false), "no yes yes yes yes yes");
    assert_eq!(said(Scenario::OverlayUpdate, Mode::L2bridge, false), ["not-in-this-lab"; 6].join(" "));
}

#[test]
fn what_is_said_of_one_plugin_is_not_said_of_others() {
    let (rest, all) = ("no no no no no yes", "yes yes yes yes yes yes");
    let azure = |mode| NetworkSpec { mode, plugin: Some(Plugin::AzureVnet), ..NetworkSpec::default() };
    let (bridge, tunnel) = (azure(Mode::L2bridge), azure(Mode::L2tunnel));
    for network in [bridge.clone(), tunnel.clone()] {
        assert_eq!(said_of(Scenario::CniCheck, network.clone(), false), all);
        assert_eq!(said_of(Scenario::IcmpToOutside, network.clone(), false), rest, "it is said of azure-vnet too");
        assert_eq!(said_of(Scenario::NodePortFromNode, network, false), rest);
    }
    assert_eq!(said_of(Scenario::PodToPod, bridge, false), "yes yes yes no yes yes");
    assert_eq!(said_of(Scenario::PodToPod, tunnel, false), all);
}

#[test]
fn modes_without_load_balancers_have_no_service_settings() {
    let (all, none) = (["yes"; 6].join(" "), ["no"; 6].join(" "));
    let absent = ["not-in-this-lab"; 6].join(" ");
    for mode in [Mode::Transparent, Mode::Nat] {
        for scenario in [Scenario::SessionAffinity, Scenario::NodePort, Scenario::NodeToService, Scenario::Backends] {
            assert_eq!(said(scenario, mode, false), absent, "{}", scenario.title());
        }
        assert_eq!(said(Scenario::IcmpToOutside, mode, false), all);
        assert_eq!(said(Scenario::HostNetwork, mode, false), "no no no no no yes");
    }
    assert_eq!(said(Scenario::PodToPod, Mode::Transparent, false), all);
    assert_eq!(said(Scenario::RemoteNodeToPod, Mode::Transparent, false), all);
    assert_eq!(said(Scenario::PodToPod, Mode::Nat, false), none, "whatever the build");
    assert_eq!(said(Scenario::RemoteNodeToPod, Mode::Nat, false), none);
}

#[test]
fn titles_are_different() {
    let mut titles = Scenario::ALL.map(Scenario::title).to_vec();
    titles.sort_unstable();
    titles.dedup();
    assert_eq!(titles.len(), Scenario::ALL.len());
}
