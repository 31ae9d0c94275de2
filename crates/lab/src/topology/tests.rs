use super::*;

fn any_build(node: &NodeSpec) -> Result<(), String> {
    match node.build.as_deref() {
        None | Some("ws2022") => Ok(()),
        Some(other) => Err(format!("{other:?} is no build")),
    }
}

fn mistake(text: &str) -> String {
    read(text, &any_build).expect_err("a mistake").to_string()
}

fn lab(more: &str) -> String {
    format!("apiVersion: transom/v1\nkind: Lab\n{more}\nnodes:\n  - name: win1\n    os: windows\n")
}

#[test]
fn the_default_is_a_lab_with_every_type_of_service() {
    let plan = read(DEFAULT, &any_build).expect("a plan");
    let oses: Vec<Os> = plan.topology.nodes.iter().map(|node| node.os).collect();
    assert_eq!(oses, [Os::Linux, Os::Windows, Os::Windows]);
    let services = plan.manifests.iter().filter(|manifest| manifest.object["kind"] == "Service");
    let mut types: Vec<&str> = services.map(|manifest| manifest.object["spec"]["type"].as_str().unwrap_or("ClusterIP")).collect();
    types.sort_unstable();
    types.dedup();
    assert_eq!(types, ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
}

#[test]
fn every_node_has_addresses_and_subnets_of_its_own() {
    let topology = read(DEFAULT, &any_build).expect("a plan").topology;
    let text = |nets: Vec<IpNet>| nets.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    assert_eq!(text(topology.router()), "192.168.10.1/24 fd00:10::1/64");
    assert_eq!(text(topology.node_addresses(2)), "192.168.10.12/24 fd00:10::c/64");
    assert_eq!(text(topology.node_subnets(0)), "10.244.1.0/24 fd00:244:0:1::/64");
    assert_eq!(text(topology.node_subnets(2)), "10.244.3.0/24 fd00:244:0:3::/64");
    assert_eq!(text(topology.outside()), "203.0.113.9/24 2001:db8:203::9/64");
    assert_eq!(topology.dns_address().to_string(), "10.96.0.10");
}

#[test]
fn ipv6_is_left_away_where_a_build_cannot_have_it_and_the_file_does_not_ask_for_it() {
    let ranges = |more: &str, build: &str| {
        let text = format!("{}    build: {build}\n", lab(more));
        let cluster = read(&text, &|_| Ok(())).expect("a plan").topology.cluster;
        (cluster.pod_subnets.len(), cluster.service_subnets.len())
    };
    let asked = "cluster: {podSubnets: [10.244.0.0/16, 'fd00:244::/48']}";
    let table = [
        ("", "transom", (2, 2)),
        ("", "ws2022", (1, 1)),
        ("network: {mode: l2bridge}", "ws2022", (2, 2)),
        ("network: {mode: l2bridge}", "ws2019", (1, 1)),
        (asked, "ws2022", (2, 2)),
        ("network: {mode: l2bridge, plugin: azure-vnet}", "transom", (1, 1)),
        ("network: {mode: l2tunnel}", "ws2025", (1, 1)),
        ("cluster: {podSubnets: [10.244.0.0/16]}", "transom", (1, 1)),
    ];
    for (more, build, expected) in table {
        assert_eq!(ranges(more, build), expected, "{more} {build}");
    }
}

#[test]
fn everything_but_some_ranges_is_told_in_few_ranges() {
    let text = |ranges: &[&str], v6| {
        let ranges: Vec<IpNet> = ranges.iter().map(|range| range.parse().unwrap()).collect();
        all_but(&ranges, v6).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(text(&[], false), "0.0.0.0/0");
    assert_eq!(text(&["0.0.0.0/2", "128.0.0.0/1"], false), "64.0.0.0/2");
    assert_eq!(text(&["8000::/1"], true), "::/1");
    assert_eq!(all_but(&["10.244.0.0/16".parse().unwrap(), "10.96.0.0/16".parse().unwrap()], false).len(), 22);
}

#[test]
fn manifests_alone_run_in_the_usual_cluster() {
    let text = "# ours\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n\n---\napiVersion: v1\nkind: Service\nmetadata: {name: b, namespace: n}\n";
    let plan = read(text, &any_build).expect("a plan");
    assert_eq!(plan.topology, read(DEFAULT, &any_build).expect("a plan").topology);
    let titles: Vec<(usize, String)> = plan.manifests.iter().map(|manifest| (manifest.line, manifest.title())).collect();
    assert_eq!(titles, [(1, "Pod a".to_owned()), (8, "Service n/b".to_owned())]);
}

#[test]
fn lists_of_manifests_are_taken_apart() {
    let text = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n- {apiVersion: v1, kind: Pod, metadata: {name: b}}\n";
    assert_eq!(read(text, &any_build).expect("a plan").manifests.len(), 2);
}

#[test]
fn mistakes_are_told_with_line_field_and_remedy() {
    let table = [
        (lab("netwrok: {}"), "line 3: unknown field `netwrok`"),
        (lab("network: {mode: bridge}"), "line 3: network.mode: unknown variant `bridge`, expected one of `overlay`, `l2bridge`"),
        (lab("name: A_b"), "line 3: name: \"A_b\" is no name; use at most 40 small letters"),
        (lab("cluster: {podSubnets: [10.0.0.0/99]}"), "line 3: cluster.podSubnets[0]: invalid"),
        (
            lab("cluster:\n  podSubnets: [10.96.0.0/16]"),
            "line 3: cluster.serviceSubnets: 10.96.0.0/16 overlaps with 10.96.0.0/16 of cluster.podSubnets",
        ),
        (lab("cluster:\n  podSubnets: [10.1.0.0/24]"), "line 4: cluster.podSubnets: 10.1.0.0/24 is too small for 1 nodes"),
        (lab("cluster: {podSubnets: [10.1.0.0/16, 10.2.0.0/16]}"), "line 3: cluster.podSubnets: give one range, or two of different"),
        (lab("network: {mode: l2bridge, vni: 5}"), "line 3: network.vni: only an overlay has a VNI"),
        (lab("network: {vni: 99999999}"), "line 3: network.vni: 99999999 is no VNI from 1 to 16777215"),
        (lab("a: [1"), "line 4: did not find expected ',' or ']'"),
        (format!("{}    build: ws1999\n", lab("")), "line 7: nodes[0].build: \"ws1999\" is no build"),
        (format!("{}  - name: win1\n    os: linux\n", lab("")), "line 7: nodes[1].name: there is another node \"win1\""),
        (
            format!("{}    kubeProxy: {{variables: {{A: b}}}}\n", lab("")),
            "line 7: nodes[0].kubeProxy.variables: they are for a kube-proxy of",
        ),
        (format!("{}    kubeProxy: {{command: ['']}}\n", lab("")), "line 7: nodes[0].kubeProxy.command: its first word is empty"),
        (
            format!("{}    cni: {{path: a, config: {{name: b}}}}\n", lab("")),
            "line 7: nodes[0].cni.config: it names no plugin; write type: NAME",
        ),
        (format!("{}  - name: linux1\n    os: linux\n    cni: {{path: a}}\n", lab("")), "line 9: nodes[1].cni: pods of Linux nodes are"),
        (format!("{}---\nkind: Pod\n", lab("")), "line 8: apiVersion: it is missing"),
        (format!("{0}---\n{0}", lab("")), "line 8: kind: there is a second topology"),
        ("apiVersion: v2\nkind: Lab\nnodes: []\n".to_owned(), "line 1: apiVersion: \"v2\" is not known; write transom/v1"),
        ("apiVersion: transom/v1\nkind: Lab\nnodes: []\n".to_owned(), "line 3: nodes: a lab needs at least one node"),
    ];
    for (text, expected) in table {
        let told = mistake(&text);
        assert!(told.starts_with(expected), "{text}\n{told}\n{expected}");
    }
}

/// A lab with a Linux node and Windows nodes, of whose networks these are.
fn nodes(more: &str, networks: &[&str]) -> String {
    let windows = |(number, network): (usize, &&str)| format!("  - {{name: win{number}, os: windows, network: {network}}}\n");
    let windows: String = networks.iter().enumerate().map(windows).collect();
    format!("apiVersion: transom/v1\nkind: Lab\n{more}\nnodes:\n  - {{name: linux1, os: linux}}\n{windows}")
}

#[test]
fn nodes_have_networks_of_their_own() {
    let text = nodes("", &["{mode: l2bridge}", "{mode: l2bridge, plugin: azure-vnet}", "{mode: transparent}", "{mode: nat}"]);
    let topology = read(&text, &any_build).expect("a plan").topology;
    let texts: Vec<String> = topology.nodes.iter().map(|node| topology.network_text_of(node)).collect();
    assert_eq!(texts, ["host-gw", "l2bridge", "l2bridge, azure-vnet", "transparent", "nat"]);
    let names: Vec<&str> = topology.nodes[1..].iter().map(|node| topology.network_of(node).name()).collect();
    assert_eq!(names, ["cbr0", "azure", "transparent", "nat"]);
    assert_eq!(topology.network_text(), "l2bridge; l2bridge, azure-vnet; nat; transparent");
    assert!(topology.is_mixed() && topology.is_routed() && topology.overlay().is_none());
    let alike = nodes("", &["{mode: overlay}", "{vni: 4096, port: 4789, plugin: flannel}"]);
    assert!(!read(&alike, &any_build).expect("a plan").topology.is_mixed(), "saying what is usual changes nothing");
}

#[test]
fn the_underlay_leads_to_pods_that_have_a_way_and_to_nodes_with_services() {
    let told = |text: &str| {
        let topology = read(text, &any_build).expect("a plan").topology;
        let told = |ways: Vec<Way>| ways.iter().map(|way| format!("{} {:?}", way.range, way.nodes)).collect::<Vec<_>>().join(", ");
        let others: Vec<String> = topology.without_services().iter().map(ToString::to_string).collect();
        (
            told(topology.ways()),
            if others.is_empty() { String::new() } else { told(topology.ways_to_services()) + " for " + &others.join(" ") },
        )
    };
    let balanced = "198.51.100.0/24";
    assert_eq!(told(DEFAULT), (format!("{balanced} [1, 2, 0]"), String::new()), "flannel leads to pods");
    let azure = nodes("", &["{mode: l2bridge}", "{mode: l2tunnel}"]);
    let pods = "10.244.1.0/24 [0], 10.244.2.0/24 [1], 10.244.3.0/24 [2]";
    assert_eq!(told(&azure), (format!("{pods}, {balanced} [1, 2, 0]"), String::new()));
    let without = nodes("", &["{mode: transparent}", "{mode: nat}", "{mode: l2bridge}"]);
    let others = "10.96.0.0/16 [0] for 10.244.2.0/24 192.168.10.12/32 fd00:10::c/128";
    let pods = "10.244.1.0/24 [0], 10.244.4.0/24 [3]";
    assert_eq!(told(&without), (format!("{pods}, {balanced} [3, 0]"), others.to_owned()), "Linux nodes serve Services for some");
}

#[test]
fn networks_that_cannot_be_are_refused_with_a_remedy() {
    let azure = |mode: &str| format!("{{mode: {mode}, plugin: azure-vnet}}");
    let table = [
        (nodes("", &[&azure("overlay")]), "line 6: nodes[1].network.plugin: azure-vnet cannot make overlay networks; choose flannel"),
        (lab("network: {mode: nat, plugin: flannel}"), "line 3: network.plugin: flannel cannot make nat networks; choose nat"),
        (nodes("", &["{mode: l2bridge, port: 4789}"]), "line 6: nodes[1].network.vni: only an overlay has a VNI"),
        (nodes("", &["{mode: overlay}", "{mode: l2bridge}"]), "line 7: nodes[2].network: pods of an overlay and of another network"),
        (nodes("", &["{vni: 4097}", "{vni: 4098}"]), "line 7: nodes[2].network: pods of an overlay and of another network"),
        (nodes("", &[&azure("l2tunnel"), "{mode: transparent}"]), "line 7: nodes[2].network.mode: the fabric of an l2tunnel network"),
        (nodes("", &["{mode: nat}", &azure("l2tunnel")]), "line 6: nodes[1].network.mode: the fabric of an l2tunnel network"),
        (nodes("underlay: {mtu: 9000}", &[&azure("l2tunnel")]), "line 3: underlay.mtu: the fabric of an l2tunnel network takes"),
        (lab("network: {mode: transparent}"), "line 3: network.mode: HNS has no load balancers on such networks"),
        (
            nodes("cluster: {podSubnets: [10.244.0.0/16, 'fd00:244::/48']}", &["{mode: nat}"]),
            "line 3: cluster.podSubnets: the plugin nat gives pods one address, of IPv4",
        ),
        (nodes("", &["{mode: nat}, kubeProxy: {dsr: true}"]), "line 6: nodes[1].kubeProxy: HNS has no load balancers on such networks"),
        (
            nodes("", &[]).replace("os: linux", "os: linux, network: {mode: l2bridge}"),
            "line 5: nodes[0].network: pods of a Linux node are connected",
        ),
    ];
    for (text, expected) in table {
        let told = mistake(&text);
        assert!(told.starts_with(expected), "{text}\n{told}\n{expected}");
    }
}
