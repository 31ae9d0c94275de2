use std::path::Path;

use super::*;
use crate::status::{ClusterStatus, DaemonStatus, NodeStatus, PodStatus, PortStatus, ServiceStatus};

/// Set to have the example written anew.
const UPDATE: &str = "TRANSOM_UPDATE_EXAMPLES";

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

fn node(name: &str, os: &str, number: u8) -> NodeStatus {
    NodeStatus {
        data_path: "tap".into(),
        name: name.to_owned(),
        os: os.to_owned(),
        build: if os == "windows" { "ws2022".to_owned() } else { String::new() },
        addresses: vec![[192, 168, 10, 10 + number].into(), format!("fd00:10::{:x}", 10 + number).parse().unwrap()],
        subnets: texts(&[&format!("10.244.{number}.0/24"), &format!("fd00:244:0:{number}::/64")]),
        network: "overlay, VNI 4096, port 4789".to_owned(),
        ..NodeStatus::default()
    }
}

fn pod(name: &str, node: &str, address: [u8; 4]) -> PodStatus {
    let (name, node, namespace) = (name.to_owned(), node.to_owned(), "default".to_owned());
    PodStatus {
        namespace,
        name,
        node,
        phase: "Running".to_owned(),
        is_ready: true,
        addresses: vec![address.into()],
        ..PodStatus::default()
    }
}

fn service(name: &str, kind: &str, backends: &[&str]) -> ServiceStatus {
    let port = PortStatus { protocol: "TCP".to_owned(), port: 80, target: "8080".to_owned(), node_port: None };
    let (name, kind, namespace) = (name.to_owned(), kind.to_owned(), "default".to_owned());
    let addresses = vec!["10.96.41.7".parse().unwrap(), "fd00:96::4107".parse().unwrap()];
    ServiceStatus { namespace, name, kind, addresses, ports: vec![port], backends: texts(backends), ..ServiceStatus::default() }
}

fn lab() -> Status {
    Status {
        name: "example".to_owned(),
        cluster: ClusterStatus {
            network: "overlay, VNI 4096, port 4789".to_owned(),
            domain: "cluster.local".to_owned(),
            pod_subnets: texts(&["10.244.0.0/16", "fd00:244::/48"]),
            service_subnets: texts(&["10.96.0.0/16", "fd00:96::/112"]),
            dns: Some([10, 96, 0, 10].into()),
        },
        router: texts(&["192.168.10.1/24", "fd00:10::1/64"]),
        far_router: texts(&["203.0.113.1/24", "2001:db8:203::1/64"]),
        outside: vec![[203, 0, 113, 9].into()],
        ..Status::default()
    }
}

fn small() -> Status {
    let mut status = lab();
    status.nodes = vec![node("linux1", "linux", 0), node("win1", "windows", 1), node("win2", "windows", 2)];
    status.nodes[2].daemons = vec![DaemonStatus { name: "win2/kube-proxy".to_owned(), ..DaemonStatus::default() }];
    status.pods = vec![
        pod("api-0", "linux1", [10, 244, 1, 2]),
        pod("web-0", "win1", [10, 244, 2, 3]),
        pod("web-1", "win2", [10, 244, 3, 3]),
        PodStatus { is_ready: false, phase: "Pending".to_owned(), ..pod("<odd> & \"slow\"", "win2", [10, 244, 3, 4]) },
    ];
    let mut balanced = service("web", "LoadBalancer", &["web-0", "web-1"]);
    balanced.outside = vec![[198, 51, 100, 1].into()];
    balanced.ports[0].node_port = Some(30080);
    let named = ServiceStatus {
        addresses: Vec::new(),
        ports: Vec::new(),
        external_name: "www.example".to_owned(),
        ..service("elsewhere", "ExternalName", &[])
    };
    let headless = ServiceStatus { addresses: Vec::new(), ..service("web-headless", "ClusterIP", &["web-0"]) };
    status.services = vec![service("api", "ClusterIP", &["api-0"]), balanced, headless, named];
    status
}

fn large() -> Status {
    let mut status = lab();
    for number in 0..20 {
        let name = format!("win-{number}");
        status.nodes.push(node(&name, "windows", number));
        status
            .pods
            .extend((0..5).map(|pod_number| pod(&format!("web-7f9c6d5b4-{number}-{pod_number}"), &name, [10, 244, number, pod_number])));
    }
    let all: Vec<&str> = status.pods.iter().map(|pod| pod.name.as_str()).collect();
    status.services = (0..12).map(|number| service(&format!("web-{number}"), "ClusterIP", &all[number * 3..])).collect();
    status
}

#[test]
fn the_example_looks_as_it_did() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/graph/example.svg");
    let drawn = svg(&small());
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&file, &drawn).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap();
    assert!(drawn == kept, "the picture has changed; look at it after a run with {UPDATE}=1");
}

#[test]
fn what_is_written_is_escaped() {
    let drawn = svg(&small());
    assert!(drawn.contains("&lt;odd&gt; &amp; &quot;slow&quot;"));
    assert!(!drawn.contains("<odd>"));
}

/// A text with the place that it takes: left, right, foot.
fn places(drawn: &str) -> Vec<(u32, u32, u32, String)> {
    let mut places = Vec::new();
    for line in drawn.lines().filter(|line| line.starts_with("<text") && !line.contains("class=\"number\"")) {
        let value = |key: &str| line.split(&format!(" {key}=\"")).nth(1).unwrap().split('"').next().unwrap();
        let text = line.split('>').nth(1).unwrap().split('<').next().unwrap().to_owned();
        let class = if value("class") == "title" { Class::Title } else { Class::Line };
        let left: u32 = value("x").parse().unwrap();
        places.push((left, left + canvas::width(class, &text), value("y").parse().unwrap(), text));
    }
    places
}

#[test]
fn no_text_is_above_another_in_a_large_lab() {
    let drawn = svg(&large());
    let places = places(&drawn);
    assert!(places.len() > 300, "{}", places.len());
    for (position, (left, right, foot, text)) in places.iter().enumerate() {
        for (other_left, other_right, other_foot, other) in &places[position + 1..] {
            let is_apart = right <= other_left || other_right <= left || foot.abs_diff(*other_foot) >= 12;
            assert!(is_apart, "{text:?} and {other:?}");
        }
    }
}
