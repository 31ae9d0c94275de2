//! What the kernel should do for Services, as tables.

use super::*;
use crate::backend::Backend;
use crate::service::{ServiceName, ServicePort};

/// A port of a Service with all kinds of addresses.
fn port(name: &str, number: u8) -> ServicePort {
    let service = ServiceName { namespace: "default".into(), name: name.into() };
    ServicePort {
        key: PortKey { service, family: Family::V4, name: String::new(), protocol: Protocol::Tcp },
        cluster_ip: IpAddr::from([10, 96, 0, number]),
        port: 80,
        node_port: Some(30_000 + u16::from(number)),
        external_ips: vec![IpAddr::from([198, 51, 100, number])],
        ingress_ips: vec![IpAddr::from([203, 0, 113, number])],
        source_ranges: Vec::new(),
        affinity_seconds: None,
        internal_local: false,
        external_local: false,
        health_check_port: None,
        preserve_destination: true,
    }
}

/// Two backends: the first here, the second elsewhere.
fn backends() -> Vec<Backend> {
    let backend = |number: u8| Backend {
        address: IpAddr::from([10, 244, 0, number]),
        port: 8080,
        is_local: number == 1,
        is_ready: true,
        is_serving: true,
        is_terminating: false,
        zones: None,
        nodes: None,
    };
    vec![backend(1), backend(2)]
}

fn computed(ports: Vec<ServicePort>, backends: &[Backend], pods: &[&str]) -> Rules {
    let offered = ports.iter().map(|port| (port.key.clone(), backends.to_vec())).collect();
    let cluster = Cluster { ports, backends: offered, ..Cluster::default() };
    let setting = Setting { external_ips: true, dsr: true, ..Setting::default() };
    let pods: Vec<IpNet> = pods.iter().map(|text| text.parse().unwrap()).collect();
    rules(&desired(cluster, &setting), &pods)
}

/// Frontends as lines: where, and the last numbers of the backends that pods, the node and others are led to. A star hides the source.
fn table(rules: &Rules) -> String {
    let way = |way: Way| match way {
        Way::Refused => "-".to_owned(),
        Way::Pool { index, is_hidden } => {
            let last = |target: &SocketAddr| target.ip().to_string().rsplit('.').next().unwrap_or_default().to_owned();
            let numbers: Vec<String> = rules.pools[index].targets.iter().map(last).collect();
            format!("{}{}", numbers.join("+"), if is_hidden { "*" } else { "" })
        }
    };
    let line = |it: &Front| {
        let front = SocketAddr::new(it.address, it.port);
        format!("{front:<18} {:<4} {:<4} {}\n", way(it.for_pods), way(it.for_node), way(it.for_others))
    };
    rules.frontends.iter().map(line).collect()
}

#[test]
fn sources_are_hidden_but_for_pods() {
    let rules = computed(vec![port("web", 1)], &backends(), &["10.244.0.0/16"]);
    let expected = "\
0.0.0.0:30001      1+2  1+2* 1+2*
10.96.0.1:80       1+2  1+2* 1+2*
198.51.100.1:80    1+2  1+2* 1+2*
203.0.113.1:80     1+2  1+2* 1+2*
";
    assert_eq!(table(&rules), expected);
    assert_eq!(rules.pools.len(), 1, "all share a pool");
    assert_eq!(rules.own_backends, [IpAddr::from([10, 244, 0, 1])]);
}

#[test]
fn policies_choose_backends_and_keep_sources() {
    let mut local = port("local", 1);
    local.external_local = true;
    let mut inner = port("inner", 2);
    (inner.internal_local, inner.external_ips, inner.ingress_ips) = (true, Vec::new(), Vec::new());
    let here = "\
0.0.0.0:30001      1+2  1+2* 1
0.0.0.0:30002      1+2  1+2* 1+2*
10.96.0.1:80       1+2  1+2* 1+2*
10.96.0.2:80       1    1*   1*
198.51.100.1:80    1+2  1+2* 1
203.0.113.1:80     1+2  1+2* 1
";
    assert_eq!(table(&computed(vec![inner.clone(), local.clone()], &backends(), &["10.244.0.0/16"])), here);
    let elsewhere = "\
0.0.0.0:30001      2    2*   -
0.0.0.0:30002      2    2*   2*
10.96.0.1:80       2    2*   2*
10.96.0.2:80       -    -    -
198.51.100.1:80    2    2*   -
203.0.113.1:80     2    2*   -
";
    assert_eq!(table(&computed(vec![inner, local], &backends()[1..], &["10.244.0.0/16"])), elsewhere);
}

#[test]
fn unknown_pods_keep_their_address_at_cluster_ips() {
    let mut plain = port("web", 1);
    (plain.external_ips, plain.ingress_ips) = (Vec::new(), Vec::new());
    let expected = "\
0.0.0.0:30001      1+2  1+2* 1+2*
10.96.0.1:80       1+2  1+2* 1+2
";
    assert_eq!(table(&computed(vec![plain], &backends(), &["fd00::/8"])), expected);
}

#[test]
fn affinity_has_a_number_that_stays() {
    let sticky = |name: &str, number: u8| ServicePort { affinity_seconds: Some(60), external_local: true, ..port(name, number) };
    let both = computed(vec![sticky("a", 1), sticky("b", 2)], &backends(), &[]);
    let numbers = |rules: &Rules, name: &str| -> BTreeSet<u32> {
        rules.pools.iter().filter(|pool| pool.cause.service.name == name).filter_map(|pool| Some(pool.affinity?.id)).collect()
    };
    let (a, b) = (numbers(&both, "a"), numbers(&both, "b"));
    assert_eq!((both.pools.len(), a.len(), b.len()), (4, 1, 1), "each has two pools and one number");
    assert!(a.is_disjoint(&b));
    let alone = computed(vec![sticky("b", 2)], &backends()[1..], &[]);
    assert_eq!(numbers(&alone, "b"), b);
    assert!(alone.pools.iter().all(|pool| pool.affinity.is_some_and(|affinity| affinity.seconds == 60)));
}

#[test]
fn source_ranges_are_of_ingress_addresses() {
    let mut guarded = port("web", 1);
    guarded.source_ranges = vec!["192.0.2.0/24".parse().unwrap()];
    let rules = computed(vec![guarded], &backends(), &[]);
    let restricted: Vec<IpAddr> = rules.frontends.iter().filter(|it| !it.source_ranges.is_empty()).map(|it| it.address).collect();
    assert_eq!(restricted, [IpAddr::from([203, 0, 113, 1])]);
}
