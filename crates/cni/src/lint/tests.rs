use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::sample;

/// The findings as lines, without their fixes.
fn lines(text: &str, surroundings: &Surroundings) -> Vec<String> {
    let findings = check(text.as_bytes(), surroundings, &crate::registry());
    assert!(findings.iter().all(|finding| !finding.fix.is_empty()), "{findings:?}");
    findings.iter().map(|finding| format!("{}:{} {} {}", finding.line, finding.column, finding.severity.text(), finding.message)).collect()
}

/// The findings of a list with one plugin, without their places and fixes.
fn of_plugin(plugin: Value, surroundings: &Surroundings) -> Vec<String> {
    let text = json!({"cniVersion": "1.0.0", "name": "n", "plugins": [plugin]}).to_string();
    lines(&text, surroundings).iter().filter_map(|line| Some(line.split_once(' ')?.1.replace("plugins[0].", ""))).collect()
}

fn plugin(plugin: Value) -> Vec<String> {
    of_plugin(plugin, &Surroundings::default())
}

fn fix_of(document: Value) -> String {
    check(document.to_string().as_bytes(), &Surroundings::default(), &crate::registry()).remove(0).fix
}

fn overlay(policy: Value) -> Value {
    let ipam = json!({"type": "host-local", "subnet": "10.244.1.0/24"});
    json!({"type": "win-overlay", "apiVersion": 2, "ipam": ipam, "policies": [{"name": "EndpointPolicy", "value": policy}]})
}

fn bridge(ipam: Value) -> Value {
    json!({"type": "win-bridge", "apiVersion": 2, "ipam": ipam})
}

#[test]
fn findings_have_their_place() {
    let text = r#"{
  "cniVersion": "1.0.0",
  "name": "n",
  "plugins": [
    { "type": "win-overlay", "apiVersion": "2",
      "polcies": [], "master": "é", "x": 1,
      "ipam": { "type": "host-local", "subnet": "10.244.1.5/24" } }
  ]
}"#;
    assert_eq!(
        lines(text, &Surroundings::default()),
        [
            "5:44 error plugins[0].apiVersion: a whole number from 0 to 2 is expected, but there is the string \"2\"",
            "6:7 error plugins[0].polcies: nobody reads this key",
            "6:22 warning plugins[0].master: nobody reads this key",
            "6:37 warning plugins[0].x: nobody reads this key",
            "7:49 error plugins[0].ipam.subnet: 10.244.1.5/24 has bits set beyond its prefix",
        ]
    );
    let findings = check(text.as_bytes(), &Surroundings::default(), &crate::registry());
    assert_eq!(findings[1].fix, "write \"policies\"");
    assert!(findings[2].fix.starts_with("leave it out; known are apiVersion, args, capabilities"), "{}", findings[2].fix);
    assert_eq!(findings[4].to_string(), format!("7:49: error: {}\n  fix: write \"10.244.1.0/24\"", findings[4].message));
}

#[test]
fn what_is_no_configuration_is_told() {
    for (text, line) in [
        ("", "1:1 error the file is no JSON: EOF while parsing a value"),
        ("{\n \"a\": }", "2:7 error the file is no JSON: expected value"),
        ("[]", "1:1 error an object is expected, but there is a list"),
        ("\u{feff}{}", "1:1 error the file begins with a byte order mark, which runtimes do not read"),
    ] {
        assert_eq!(lines(text, &Surroundings::default()), [line], "{text}");
    }
    let findings = check(b"{\n\"a\":\"\xff\"}", &Surroundings::default(), &crate::registry());
    assert_eq!((findings[0].line, findings[0].column, findings[0].message.as_str()), (2, 6, "the file is not UTF-8"));
}

#[test]
fn lists_need_a_name_a_version_and_plugins() {
    let found = |document: Value| lines(&document.to_string(), &Surroundings::default());
    assert_eq!(
        found(json!({"plugins": []})),
        ["1:1 error name is missing", "1:1 warning cniVersion is missing, which means 0.1.0", "1:12 error plugins: there is none"]
    );
    assert_eq!(
        found(json!({"name": "a/b", "cniVersion": "1.1", "plugins": [{"type": "other", "x": 1}]})),
        ["1:9 error name: the string \"a/b\" has characters that no name has", "1:28 error cniVersion: there is no version \"1.1\"",]
    );
    assert_eq!(
        found(json!({"name": "n", "cniVersion": "1.0.0", "plugins": [5, {}, {"type": "win-brigde"}]})),
        [
            "1:45 error plugins[0]: an object is expected, but there is the number 5",
            "1:47 error plugins[1] has no type",
            "1:58 error plugins[2].type: there is no plugin \"win-brigde\"",
        ]
    );
    assert_eq!(
        found(json!({"name": "n", "cniVersion": "1.0.0", "plugins": [{"type": "nat"}, {"type": "nat"}, {"type": "x"}, {"type": "x"}]})),
        ["1:60 error plugins[1].type: \"nat\" is there twice, and both would make the same endpoint"]
    );
    assert_eq!(
        lines(r#"{"name":"n","cniVersion":"1.0.0","type":"nat","Name":"m"}"#, &Surroundings::default()),
        ["1:47 error Name: the key is there twice"]
    );
    assert_eq!(found(json!({"name": "n", "cniVersion": "1.0.0", "type": "nat", "cni.dev/x": 5})), [] as [&str; 0]);
}

/// Speaks one version only.
struct Old;

impl crate::Plugin for Old {
    fn name(&self) -> &'static str {
        "nat"
    }
    fn about(&self) -> &'static str {
        "old"
    }
    fn versions(&self) -> &'static [Version] {
        &[Version::V0_2_0]
    }
    fn add(&self, _: &crate::Call<'_>) -> crate::Result<crate::AddResult> {
        Ok(crate::AddResult::default())
    }
    fn del(&self, _: &crate::Call<'_>) -> crate::Result<()> {
        Ok(())
    }
    fn check(&self, _: &crate::Call<'_>) -> crate::Result<()> {
        Ok(())
    }
    fn gc(&self, _: &crate::Call<'_>) -> crate::Result<()> {
        Ok(())
    }
    fn status(&self, _: &crate::Call<'_>) -> crate::Result<()> {
        Ok(())
    }
}

#[test]
fn versions_must_be_spoken_by_plugins() {
    let text = sample::find("nat").unwrap();
    let findings = check(text.as_bytes(), &Surroundings::default(), &Registry::new(vec![Box::new(Old)]));
    assert_eq!(findings.len(), 1);
    assert_eq!((findings[0].message.as_str(), findings[0].fix.as_str()), ("cniVersion: nat does not speak 1.0.0", "use one of 0.2.0"));
}

#[test]
fn addresses_must_come_from_somewhere() {
    let missing = "ipam.type is missing, and the endpoints of an overlay are named after their addresses";
    assert_eq!(plugin(json!({"type": "win-overlay"})), [format!("error {missing}")]);
    assert_eq!(plugin(json!({"type": "win-overlay", "ipam": {}})), [format!("error {missing}")]);
    assert_eq!(plugin(json!({"type": "azure-vnet"})), ["error ipam.type is missing"]);
    assert_eq!(
        plugin(json!({"type": "win-bridge"})),
        ["warning ipam.type is missing, so that HNS chooses addresses, also those that other nodes use"]
    );
    assert_eq!(plugin(bridge(json!({"type": "hostlocal"}))), ["error ipam.type: there is no IPAM plugin \"hostlocal\""]);
    assert_eq!(plugin(bridge(json!({"type": "dhcp", "x": 1}))), [] as [&str; 0]);
    assert_eq!(plugin(bridge(json!({"type": "host-local"}))), ["error ipam: host-local has no range to give addresses out from"]);
    let by_runtime = json!({"type": "win-bridge", "capabilities": {"ipRanges": true}, "ipam": {"type": "host-local"}});
    assert_eq!(plugin(by_runtime), [] as [&str; 0]);
    assert_eq!(
        plugin(json!({"type": "azure-vnet", "ipam": {"type": "azure-vnet-ipam", "environment": "ipv6NodeIpam"}})),
        ["error ipam.environment: the string \"ipv6NodeIpam\" is not supported"]
    );
}

#[test]
fn addresses_that_somebody_has_are_not_given_out() {
    let of = |range: Value| {
        let mut ipam = json!({"type": "host-local", "subnet": "10.1.0.0/24"});
        ipam.as_object_mut().unwrap().extend(range.as_object().unwrap().clone());
        plugin(bridge(ipam))
    };
    let second = "error ipam: host-local would give out 10.1.0.2, which is the gateway that win-bridge gives to pods";
    assert_eq!(of(json!({})), [second]);
    assert_eq!(of(json!({"gateway": "10.1.0.2"})), ["error ipam: host-local would give out 10.1.0.1, which is the gateway of the network"]);
    assert_eq!(of(json!({"rangeStart": "10.1.0.3"})), [] as [&str; 0]);
    assert_eq!(
        of(json!({"rangeStart": "10.1.0.3", "rangeEnd": "10.1.0.9", "gateway": "10.1.0.5"})),
        ["warning ipam: the gateway 10.1.0.5 is inside 10.1.0.3..10.1.0.9"]
    );
    assert_eq!(of(json!({"rangeStart": "10.2.0.3"})), ["error ipam.rangeStart: 10.2.0.3 is not in 10.1.0.0/24"]);
    assert_eq!(
        of(json!({"rangeStart": "10.1.0.9", "rangeEnd": "10.1.0.8"})),
        ["error ipam.rangeStart: 10.1.0.9 comes after the end, 10.1.0.8"]
    );
    assert_eq!(of(json!({"subnet": "10.1.0.0/31"})), ["error ipam.subnet: 10.1.0.0/31 is too small to give addresses out"]);
    assert_eq!(
        of(json!({"rangeStart": "10.1.0.3", "ranges": [[{"subnet": "10.1.0.0/25", "rangeStart": "10.1.0.100"}, {}]]})),
        ["error ipam.ranges[0][0]: the range overlaps ipam", "error ipam.ranges[0][1]: the range has no subnet"]
    );
    let document = json!({"cniVersion": "1.0.0", "name": "n", "plugins": [bridge(json!({"type": "host-local", "subnet": "10.1.0.0/24"}))]});
    assert_eq!(fix_of(document), "set rangeStart to \"10.1.0.3\" or later");
}

#[test]
fn policies_have_the_shape_of_their_api() {
    let old = json!({"Type": "OutBoundNAT", "ExceptionList": ["10.244.0.0/16"]});
    let new = json!({"Type": "OutBoundNAT", "Settings": {"Exceptions": ["10.244.0.0/16"]}});
    let lost = "error policies[0].value: apiVersion is 2, and a policy of apiVersion 1 reaches HCN without its settings";
    assert_eq!(plugin(overlay(new.clone())), [] as [&str; 0]);
    assert_eq!(plugin(overlay(old.clone())), [lost]);
    assert_eq!(plugin(overlay(json!({"Type": "ROUTE", "DestinationPrefix": "10.244.0.0/16", "NeedEncap": true}))), [lost]);
    assert_eq!(plugin(overlay(json!({"Type": "ROUTE", "Settings": {}}))), ["error policies[0].value: HCN knows no policy \"ROUTE\""]);
    assert_eq!(plugin(overlay(json!({"Type": "SDNROUTE", "Settings": {}}))), [] as [&str; 0]);
    let document = |policy: Value| json!({"cniVersion": "1.0.0", "name": "n", "plugins": [overlay(policy)]});
    assert_eq!(fix_of(document(old.clone())), "write {\"Type\": \"OutBoundNAT\", \"Settings\": {\"Exceptions\": …}}");
    let mut before = overlay(new.clone());
    before.as_object_mut().unwrap().remove("apiVersion");
    assert_eq!(plugin(before.clone()), ["error policies[0].value.Settings: apiVersion is not 2, and HNS knows no Settings there"]);
    before["policies"][0]["value"] = old.clone();
    assert_eq!(plugin(before), [] as [&str; 0]);
    let azure = |policy: Value| json!({"type": "azure-vnet", "ipam": {"type": "azure-vnet-ipam"}, "AdditionalArgs": [{"Name": "EndpointPolicy", "Value": policy}]});
    assert_eq!(plugin(azure(old)), [] as [&str; 0]);
    assert_eq!(plugin(azure(new)), ["error additionalArgs[0].value.Settings: azure-vnet reads policies without Settings"]);
    assert_eq!(
        plugin(overlay(json!({"type": "ACL", "Settings": {}}))),
        ["warning policies[0].value.type: policies are compared by the key \"Type\", in this spelling"]
    );
    assert_eq!(plugin(overlay(json!(5))), ["error policies[0].value: a policy with a Type is expected, but there is the number 5"]);
    let mut unnamed = overlay(json!({}));
    unnamed["policies"][0]["name"] = json!("Endpoint");
    assert_eq!(plugin(unnamed), ["warning policies[0].name: nobody reads an entry named \"Endpoint\""]);
}

#[test]
fn exceptions_must_hold_what_pods_reach_as_themselves() {
    let prefix = |text: &str| vec![text.parse().unwrap()];
    let surroundings = Surroundings {
        cluster: prefix("10.244.0.0/16"),
        service: prefix("10.96.0.0/12"),
        management: prefix("192.168.1.0/24"),
        ..Surroundings::default()
    };
    let lacks =
        |what: &str| format!("error the exceptions of OutBoundNAT lack the {what}, so that what pods send there gets the node's address");
    let with = |exceptions: Value| overlay(json!({"Type": "OutBoundNAT", "Settings": {"Exceptions": exceptions}}));
    assert_eq!(of_plugin(with(json!(["10.0.0.0/8"])), &surroundings), [] as [&str; 0]);
    assert_eq!(of_plugin(with(json!(["10.244.0.0/16"])), &surroundings), [lacks("Service subnet 10.96.0.0/12")]);
    assert_eq!(of_plugin(with(json!([])), &surroundings), [lacks("Service subnet 10.96.0.0/12"), lacks("cluster subnet 10.244.0.0/16")]);
    assert_eq!(plugin(with(json!([]))), [lacks("cluster subnet 10.244.1.0/24")], "the pods' own subnet is known from ipam");
    assert_eq!(plugin(with(json!(["10.0.0.0/8", "x"]))), ["error policies[0].value: exception 1 is no prefix, but the string \"x\""]);
    let mut on_bridge = bridge(json!({"type": "host-local", "subnet": "10.244.1.0/24", "rangeStart": "10.244.1.9"}));
    assert_eq!(of_plugin(on_bridge.clone(), &surroundings), [] as [&str; 0], "without a policy nothing is translated");
    on_bridge["ipMasqNetwork"] = json!("10.0.0.0/8");
    assert_eq!(of_plugin(on_bridge, &surroundings), [lacks("management subnet 192.168.1.0/24")]);
    let mut routed = with(json!(["10.244.0.0/16"]));
    let route = |prefix: &str| json!({"name": "EndpointPolicy", "value": {"Type": "SDNRoute", "Settings": {"DestinationPrefix": prefix, "NeedEncap": true}}});
    routed["policies"].as_array_mut().unwrap().extend([route("10.96.0.0/12"), route("192.168.1.7/32")]);
    assert_eq!(plugin(routed), [lacks("Service subnet 10.96.0.0/12")], "a route to a prefix is to Services");
}

#[test]
fn flannel_says_where_the_cluster_is() {
    let env = SubnetEnv::parse("FLANNEL_NETWORK=10.50.0.0/16\nFLANNEL_SUBNET=10.50.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true").unwrap();
    let known = Surroundings { subnet_env: Some(env), ..Surroundings::default() };
    let of = |kind: &str| {
        let policy = json!({"Type": "OutBoundNAT", "Settings": {"Exceptions": ["10.96.0.0/12"]}});
        json!({"type": "flannel", "delegate": {"type": kind, "apiVersion": 2, "policies": [{"name": "EndpointPolicy", "value": policy}]}})
    };
    let lacking =
        "error the exceptions of OutBoundNAT lack the cluster subnet 10.50.0.0/16, so that what pods send there gets the node's address";
    assert_eq!(of_plugin(of("win-overlay"), &known), [lacking]);
    assert_eq!(of_plugin(of("win-bridge"), &known), [] as [&str; 0], "flannel adds it for win-bridge");
}

#[test]
fn keys_of_flannel_stand_in_the_right_place() {
    let document = json!({"type": "flannel", "ipam": {}, "subnetfile": "/nowhere", "delegate": {
        "type": "win-bridge", "name": "x", "ipam": {}, "capabilities": {"portMappings": true}, "ipMasq": true, "hairpinMode": true,
    }});
    assert_eq!(
        plugin(document),
        [
            "warning ipam: nobody reads this key",
            "error delegate.name: flannel sets it, and refuses to find it there",
            "error delegate.ipam: flannel sets it, and refuses to find it there",
            "error delegate.capabilities: runtimes look for it beside the delegate, not in it",
            "warning delegate.ipMasq: flannel overwrites it",
            "warning delegate.hairpinMode: nobody reads this key",
        ]
    );
    assert_eq!(plugin(json!({"type": "flannel", "delegate": 5})), ["error delegate: an object is expected, but there is the number 5"]);
    assert_eq!(plugin(json!({"type": "flannel", "delegate": {"type": 5}})), ["error delegate.type: the name of a plugin is expected"]);
}

#[test]
fn builds_have_limits() {
    let old = Surroundings {
        build: Build { name: "old".to_owned(), vxlan_port: false, dsr: false, overlay_exceptions: false, ..Build::default() },
        ..Surroundings::default()
    };
    let network = |policy: Value| json!({"type": "sdnoverlay", "AdditionalArgs": [{"Name": "NetworkPolicy", "Value": policy}]});
    let vsid = |id: i64| network(json!({"Type": "VSID", "Settings": {"IsolationId": id}}));
    assert_eq!(plugin(vsid(4096)), [] as [&str; 0]);
    assert_eq!(plugin(vsid(100)), ["error additionalArgs[0].value: 100 is no VXLAN network identifier of Windows"]);
    assert_eq!(plugin(vsid(1 << 24)), ["error additionalArgs[0].value: 16777216 is no VXLAN network identifier of Windows"]);
    let free = Surroundings { build: Build { lowest_vni: 1, ..Build::default() }, ..Surroundings::default() };
    assert_eq!(of_plugin(vsid(100), &free), [] as [&str; 0]);
    let port = |port: i64| network(json!({"Type": "VxlanPort", "Settings": {"Port": port}}));
    assert_eq!(plugin(port(8472)), [] as [&str; 0]);
    assert_eq!(of_plugin(port(8472), &old), ["error additionalArgs[0].value: 8472 is no VXLAN port of old"]);
    assert_eq!(plugin(port(0)), ["error additionalArgs[0].value: 0 is no VXLAN port of Windows"]);
    let mut direct = overlay(json!({"Type": "OutBoundNAT", "Settings": {"Exceptions": ["10.0.0.0/8"]}}));
    direct["loopbackDSR"] = json!(true);
    assert_eq!(
        of_plugin(direct, &old),
        ["error policies: old refuses exceptions on overlay networks", "error loopbackDSR: old has no direct server return"]
    );
    let mut ipv6 = overlay(json!({"Type": "ACL"}));
    ipv6["ipam"] = json!({"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00::/64"}]]});
    assert_eq!(plugin(ipv6), ["error ipam.ranges[1][0]: Windows has no IPv6 on overlay networks"]);
    assert_eq!(
        plugin(bridge(json!({"type": "host-local", "subnet": "fd00::/64", "rangeStart": "fd00::3"}))),
        ["error ipam: Windows has no network with IPv6 alone"]
    );
}

#[test]
fn values_have_types() {
    let document = json!({"type": "win-overlay", "ipam": {"type": "host-local", "subnet": "10.1.0.0/24", "routes": [{"dst": "x"}]}, "endpointMacPrefix": "0E2A",
        "dns": {"nameservers": ["a", "10.0.0.1"], "serch": []}, "capabilities": {"dns": "yes"}, "policies": {}});
    assert_eq!(
        plugin(document),
        [
            "error ipam.routes[0].dst: a prefix such as \"10.244.1.0/24\" is expected, but there is the string \"x\"",
            "error endpointMacPrefix: two bytes such as \"0E-2A\" is expected, but there is the string \"0E2A\"",
            "error dns.nameservers[0]: an address such as \"10.244.1.1\" is expected, but there is the string \"a\"",
            "error dns.serch: nobody reads this key",
            "error capabilities.dns: true or false is expected, but there is the string \"yes\"",
            "error policies: a list is expected, but there is an object",
        ]
    );
}

proptest! {
    #[test]
    fn any_bytes_are_looked_at(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let findings = check(&bytes, &Surroundings::default(), &crate::registry());
        prop_assert!(!findings.is_empty());
    }

    /// Samples in which something was cut out or put in somewhere.
    #[test]
    fn any_damage_is_looked_at(which in 0..5usize, at in 0..2000usize, length in 0..40usize, put in "[\\[\\]{}\",:0-9a-z/. ]{0,8}|.{0,3}") {
        let text = sample::ALL[which].1;
        let start = at.min(text.len());
        let end = (start + length).min(text.len());
        let damaged = format!("{}{put}{}", &text[..start], &text[end..]);
        for finding in check(damaged.as_bytes(), &Surroundings::default(), &crate::registry()) {
            prop_assert!(finding.line >= 1 && finding.column >= 1 && !finding.fix.is_empty());
            prop_assert!(finding.line <= damaged.matches('\n').count() + 1);
        }
    }
}

#[test]
fn what_azure_vnet_refuses() {
    let azure = |changes: Value| {
        let mut config = json!({"type": "azure-vnet", "ipam": {"type": "azure-vnet-ipam"}});
        config.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        plugin(config)
    };
    for mode in ["", "bridge", "tunnel", "l2-bridge", "l2-tunnel"] {
        assert_eq!(azure(json!({"mode": mode, "multiTenancy": false})), [] as [&str; 0]);
    }
    for (changes, expected) in [
        (json!({"mode": "transparent"}), "error mode: \"transparent\" is not supported"),
        (json!({"multiTenancy": true}), "error multiTenancy: true is not supported"),
        (json!({"ipv6Mode": "ipv6nat"}), "error ipv6Mode: \"ipv6nat\" is not supported"),
        (json!({"executionMode": "v4swift"}), "error executionMode: \"v4swift\" is not supported"),
        (json!({"ipam": {"type": "azure-cns"}}), "error ipam.type: \"azure-cns\" is not supported"),
        (json!({"dns": {"nameservers": ["10.0.0.10"]}}), "error dns.search is missing beside the other"),
    ] {
        assert_eq!(azure(changes), [expected]);
    }
}
