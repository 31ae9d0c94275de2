//! Questions and answers as tables, in the order of the specification.

use hickory_proto::rr::{Name, RecordType};
use serde_json::{Value, json};

use super::*;

fn services() -> Value {
    json!([
        {"metadata": {"namespace": "default", "name": "kubernetes"},
         "spec": {"clusterIP": "10.3.0.1", "clusterIPs": ["10.3.0.1", "fd00::3:1"], "ports": [
             {"name": "https", "protocol": "TCP", "port": 443}, {"name": "metrics", "protocol": "UDP", "port": 9}, {"port": 1}]}},
        {"metadata": {"namespace": "default", "name": "old"}, "spec": {"clusterIP": "10.3.0.2", "ports": [{"port": 80}]}},
        {"metadata": {"namespace": "default", "name": "headless"},
         "spec": {"clusterIP": "None", "ports": [{"name": "https", "port": 443}]}},
        {"metadata": {"namespace": "default", "name": "waiting"},
         "spec": {"clusterIP": "None", "publishNotReadyAddresses": true, "ports": [{"name": "peer", "port": 7000}]}},
        {"metadata": {"namespace": "default", "name": "empty"}, "spec": {"clusterIP": "None"}},
        {"metadata": {"namespace": "default", "name": "foo"}, "spec": {"type": "ExternalName", "externalName": "www.example.com"}},
        {"metadata": {"namespace": "default", "name": "near"},
         "spec": {"type": "ExternalName", "externalName": "kubernetes.default.svc.cluster.local"}},
        {"metadata": {"namespace": "default", "name": "lost"},
         "spec": {"type": "ExternalName", "externalName": "nobody.default.svc.cluster.local."}},
        {"metadata": {"namespace": "default", "name": "circle"},
         "spec": {"type": "ExternalName", "externalName": "circle.default.svc.cluster.local"}},
        {"metadata": {"namespace": "other", "name": "kubernetes"}, "spec": {"clusterIP": "10.3.0.9"}},
    ])
}

fn slices() -> Value {
    let labels = |service: &str| json!({"kubernetes.io/service-name": service});
    json!([
        {"metadata": {"namespace": "default", "name": "h1", "labels": labels("headless")}, "addressType": "IPv4",
         "ports": [{"name": "https", "protocol": "TCP", "port": 8443}],
         "endpoints": [
             {"addresses": ["10.3.0.100"], "hostname": "my-pet", "conditions": {"ready": true}},
             {"addresses": ["10.3.0.101"], "conditions": {}},
             {"addresses": ["10.3.0.102"], "hostname": "late", "conditions": {"ready": false}}]},
        {"metadata": {"namespace": "default", "name": "h2", "labels": labels("headless")}, "addressType": "IPv6",
         "ports": [{"name": "https", "protocol": "TCP", "port": 8443}],
         "endpoints": [{"addresses": ["fd00::100"], "hostname": "my-pet"}, {"addresses": ["fd00::101"]}]},
        {"metadata": {"namespace": "default", "name": "w1", "labels": labels("waiting")}, "addressType": "IPv4",
         "ports": [{"name": "peer", "port": 7000}],
         "endpoints": [{"addresses": ["10.3.0.110"], "hostname": "db-0", "conditions": {"ready": false}}]},
        {"metadata": {"namespace": "default", "name": "e1", "labels": labels("empty")}, "addressType": "IPv4",
         "endpoints": [{"addresses": ["10.3.0.120"], "conditions": {"ready": false}}]},
        {"metadata": {"namespace": "default", "name": "k1", "labels": labels("kubernetes")}, "addressType": "IPv4",
         "endpoints": [{"addresses": ["192.168.0.1"], "hostname": "master"}]},
        {"metadata": {"namespace": "other", "name": "x1", "labels": labels("headless")}, "addressType": "IPv4",
         "endpoints": [{"addresses": ["10.9.9.9"]}]},
        {"metadata": {"namespace": "default", "name": "f1", "labels": labels("headless")}, "addressType": "FQDN",
         "endpoints": [{"addresses": ["host.example.com"]}]},
        {"metadata": {"namespace": "default", "name": "nobodys"}, "addressType": "IPv4", "endpoints": [{"addresses": ["10.9.9.8"]}]},
    ])
}

fn sources() -> Sources {
    let pod = json!({"metadata": {"namespace": "default", "name": "p"}, "status": {"podIP": "10.4.0.1", "podIPs": [{"ip": "10.4.0.1"}]}});
    let done = json!({"metadata": {"namespace": "default", "name": "d"}, "status": {"phase": "Succeeded", "podIP": "10.4.0.2"}});
    let list = |value: Value| value.as_array().cloned().unwrap_or_default();
    Sources {
        services: list(services()).into_iter().filter_map(|it| ServiceFacts::read(&serde_json::from_value(it).unwrap())).collect(),
        slices: list(slices()).into_iter().filter_map(|it| SliceFacts::read(&serde_json::from_value(it).unwrap())).collect(),
        pods: [pod, done].into_iter().filter_map(|it| PodFacts::read(&serde_json::from_value(it).unwrap())).collect(),
    }
}

fn zone(pods: PodNames) -> Zone {
    Zone::new(Settings { domain: Name::from_ascii("cluster.local.").unwrap(), ttl: 30, pods }, sources(), 7)
}

/// What a zone says, a line for each record, and at last how it ends.
fn ask(zone: &Zone, question: &str) -> Vec<String> {
    let (name, kind) = question.split_once(' ').expect("a name and a type");
    let kind: RecordType = kind.parse().expect("a type");
    let Some(answer) = zone.answer(&Name::from_ascii(name).expect("a name"), kind) else { return vec!["not ours".into()] };
    let records = answer.records.iter().map(|record| format!("{} {} {}", record.name, record.record_type(), record.data));
    let more = answer.additionals.iter().map(|record| format!("+ {} {} {}", record.name, record.record_type(), record.data));
    let end = match answer.outcome {
        Outcome::Found => None,
        Outcome::NoRecords => Some("NODATA".to_owned()),
        Outcome::NoName => Some("NXDOMAIN".to_owned()),
        Outcome::NotRead => Some("SERVFAIL".to_owned()),
        Outcome::Elsewhere(name) => Some(format!("ask for {name}")),
    };
    records.chain(more).chain(end).collect()
}

fn check(zone: &Zone, table: &[(&str, &[&str])]) {
    for (question, expected) in table {
        assert_eq!(ask(zone, question), *expected, "{question}");
    }
}

#[test]
fn the_version_of_the_specification() {
    check(
        &zone(PodNames::Insecure),
        &[("dns-version.cluster.local. TXT", &["dns-version.cluster.local. TXT 1.1.0"]), ("dns-version.cluster.local. A", &["NODATA"])],
    );
}

#[test]
fn services_with_addresses() {
    check(
        &zone(PodNames::Insecure),
        &[
            ("kubernetes.default.svc.cluster.local. A", &["kubernetes.default.svc.cluster.local. A 10.3.0.1"]),
            ("kubernetes.default.svc.cluster.local. AAAA", &["kubernetes.default.svc.cluster.local. AAAA fd00::3:1"]),
            ("KuberneteS.Default.SVC.cluster.LOCAL. A", &["KuberneteS.Default.SVC.cluster.LOCAL. A 10.3.0.1"]),
            ("kubernetes.other.svc.cluster.local. A", &["kubernetes.other.svc.cluster.local. A 10.3.0.9"]),
            (
                "_https._tcp.kubernetes.default.svc.cluster.local. SRV",
                &[
                    "_https._tcp.kubernetes.default.svc.cluster.local. SRV 0 100 443 kubernetes.default.svc.cluster.local.",
                    "+ kubernetes.default.svc.cluster.local. A 10.3.0.1",
                    "+ kubernetes.default.svc.cluster.local. AAAA fd00::3:1",
                ],
            ),
            (
                "_metrics._udp.kubernetes.default.svc.cluster.local. SRV",
                &[
                    "_metrics._udp.kubernetes.default.svc.cluster.local. SRV 0 100 9 kubernetes.default.svc.cluster.local.",
                    "+ kubernetes.default.svc.cluster.local. A 10.3.0.1",
                    "+ kubernetes.default.svc.cluster.local. AAAA fd00::3:1",
                ],
            ),
            ("1.0.3.10.in-addr.arpa. PTR", &["1.0.3.10.in-addr.arpa. PTR kubernetes.default.svc.cluster.local."]),
            (
                "1.0.0.0.3.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa. PTR",
                &["1.0.0.0.3.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa. PTR kubernetes.default.svc.cluster.local."],
            ),
        ],
    );
}

#[test]
fn what_services_with_addresses_do_not_have() {
    check(
        &zone(PodNames::Insecure),
        &[
            ("kubernetes.default.svc.cluster.local. TXT", &["NODATA"]),
            ("old.default.svc.cluster.local. AAAA", &["NODATA"]),
            ("nobody.default.svc.cluster.local. A", &["NXDOMAIN"]),
            ("master.kubernetes.default.svc.cluster.local. A", &["NXDOMAIN"]),
            ("_tcp.kubernetes.default.svc.cluster.local. SRV", &["NODATA"]),
            ("_sctp.kubernetes.default.svc.cluster.local. SRV", &["NXDOMAIN"]),
            ("_http._tcp.kubernetes.default.svc.cluster.local. SRV", &["NXDOMAIN"]),
            ("_https._udp.kubernetes.default.svc.cluster.local. SRV", &["NXDOMAIN"]),
            ("_._tcp.old.default.svc.cluster.local. SRV", &["NXDOMAIN"]),
            ("_tcp.old.default.svc.cluster.local. SRV", &["NXDOMAIN"]),
            ("a._https._tcp.kubernetes.default.svc.cluster.local. SRV", &["NXDOMAIN"]),
            ("_https._tcp.kubernetes.default.svc.cluster.local. A", &["NODATA"]),
            ("1.0.3.10.in-addr.arpa. A", &["NODATA"]),
            ("01.0.3.10.in-addr.arpa. PTR", &["not ours"]),
            ("0.3.10.in-addr.arpa. PTR", &["not ours"]),
            ("1.0.168.192.in-addr.arpa. PTR", &["not ours"]),
        ],
    );
}

#[test]
fn headless_services() {
    let own = "headless.default.svc.cluster.local.";
    check(
        &zone(PodNames::Insecure),
        &[
            (
                "headless.default.svc.cluster.local. A",
                &["headless.default.svc.cluster.local. A 10.3.0.100", "headless.default.svc.cluster.local. A 10.3.0.101"],
            ),
            (
                "headless.default.svc.cluster.local. AAAA",
                &["headless.default.svc.cluster.local. AAAA fd00::100", "headless.default.svc.cluster.local. AAAA fd00::101"],
            ),
            ("my-pet.headless.default.svc.cluster.local. A", &["my-pet.headless.default.svc.cluster.local. A 10.3.0.100"]),
            ("My-Pet.headless.default.svc.cluster.local. AAAA", &["My-Pet.headless.default.svc.cluster.local. AAAA fd00::100"]),
            ("10-3-0-101.headless.default.svc.cluster.local. A", &["10-3-0-101.headless.default.svc.cluster.local. A 10.3.0.101"]),
            ("fd00--101.headless.default.svc.cluster.local. AAAA", &["fd00--101.headless.default.svc.cluster.local. AAAA fd00::101"]),
            ("10-3-0-101.headless.default.svc.cluster.local. AAAA", &["NODATA"]),
            ("10-3-0-100.headless.default.svc.cluster.local. A", &["NXDOMAIN"]),
            ("late.headless.default.svc.cluster.local. A", &["NXDOMAIN"]),
            ("100.0.3.10.in-addr.arpa. PTR", &["100.0.3.10.in-addr.arpa. PTR my-pet.headless.default.svc.cluster.local."]),
            ("101.0.3.10.in-addr.arpa. PTR", &["101.0.3.10.in-addr.arpa. PTR 10-3-0-101.headless.default.svc.cluster.local."]),
            ("102.0.3.10.in-addr.arpa. PTR", &["not ours"]),
        ],
    );
    let places = ask(&zone(PodNames::Insecure), &format!("_https._tcp.{own} SRV"));
    let expected = ["10-3-0-101", "fd00--101", "my-pet"].map(|host| format!("_https._tcp.{own} SRV 0 33 8443 {host}.{own}"));
    assert_eq!(places[..3], expected);
    let addresses = ["10-3-0-101 A 10.3.0.101", "fd00--101 AAAA fd00::101", "my-pet A 10.3.0.100", "my-pet AAAA fd00::100"];
    assert_eq!(places[3..], addresses.map(|line| format!("+ {}", line.replacen(' ', &format!(".{own} "), 1))));
}

#[test]
fn headless_services_and_readiness() {
    check(
        &zone(PodNames::Insecure),
        &[
            ("waiting.default.svc.cluster.local. A", &["waiting.default.svc.cluster.local. A 10.3.0.110"]),
            ("db-0.waiting.default.svc.cluster.local. A", &["db-0.waiting.default.svc.cluster.local. A 10.3.0.110"]),
            ("empty.default.svc.cluster.local. A", &["NXDOMAIN"]),
            ("120.0.3.10.in-addr.arpa. PTR", &["not ours"]),
        ],
    );
}

#[test]
fn external_names() {
    let circle = ["circle.default.svc.cluster.local. CNAME circle.default.svc.cluster.local."; 8];
    check(
        &zone(PodNames::Insecure),
        &[
            ("foo.default.svc.cluster.local. A", &["foo.default.svc.cluster.local. CNAME www.example.com.", "ask for www.example.com."]),
            ("foo.default.svc.cluster.local. CNAME", &["foo.default.svc.cluster.local. CNAME www.example.com."]),
            (
                "near.default.svc.cluster.local. A",
                &[
                    "near.default.svc.cluster.local. CNAME kubernetes.default.svc.cluster.local.",
                    "kubernetes.default.svc.cluster.local. A 10.3.0.1",
                ],
            ),
            (
                "near.default.svc.cluster.local. TXT",
                &["near.default.svc.cluster.local. CNAME kubernetes.default.svc.cluster.local.", "NODATA"],
            ),
            ("lost.default.svc.cluster.local. A", &["lost.default.svc.cluster.local. CNAME nobody.default.svc.cluster.local.", "NXDOMAIN"]),
            ("circle.default.svc.cluster.local. A", &circle),
            ("_https._tcp.foo.default.svc.cluster.local. SRV", &["NXDOMAIN"]),
        ],
    );
}

#[test]
fn pods() {
    let any = "1-2-3-4.nowhere.pod.cluster.local. A";
    let known = "10-4-0-1.default.pod.cluster.local. A";
    let found: &[&str] = &["10-4-0-1.default.pod.cluster.local. A 10.4.0.1"];
    check(&zone(PodNames::Disabled), &[(any, &["NXDOMAIN"]), (known, &["NXDOMAIN"]), ("pod.cluster.local. A", &["NXDOMAIN"])]);
    check(
        &zone(PodNames::Insecure),
        &[
            (any, &["1-2-3-4.nowhere.pod.cluster.local. A 1.2.3.4"]),
            (known, found),
            ("1-2-3-4.nowhere.pod.cluster.local. AAAA", &["NODATA"]),
            ("fd00--1.default.pod.cluster.local. AAAA", &["fd00--1.default.pod.cluster.local. AAAA fd00::1"]),
            ("1-2-3-400.default.pod.cluster.local. A", &["NXDOMAIN"]),
            ("web.default.pod.cluster.local. A", &["NXDOMAIN"]),
            ("1-2-3.4.default.pod.cluster.local. A", &["NXDOMAIN"]),
            ("default.pod.cluster.local. A", &["NODATA"]),
        ],
    );
    check(
        &zone(PodNames::Verified),
        &[
            (any, &["NXDOMAIN"]),
            (known, found),
            ("10-4-0-1.other.pod.cluster.local. A", &["NXDOMAIN"]),
            ("10-4-0-2.default.pod.cluster.local. A", &["NXDOMAIN"]),
        ],
    );
}

#[test]
fn what_is_above_services() {
    check(
        &zone(PodNames::Insecure),
        &[
            ("cluster.local. SOA", &["cluster.local. SOA ns.dns.cluster.local. hostmaster.cluster.local. 7 7200 1800 86400 5"]),
            ("cluster.local. A", &["NODATA"]),
            ("svc.cluster.local. A", &["NODATA"]),
            ("default.svc.cluster.local. A", &["NODATA"]),
            ("nowhere.svc.cluster.local. A", &["NXDOMAIN"]),
            ("web.nowhere.svc.cluster.local. A", &["NXDOMAIN"]),
            ("kubernetes.default.cluster.local. A", &["NXDOMAIN"]),
            ("local. A", &["not ours"]),
            ("xcluster.local. A", &["not ours"]),
            ("kubernetes.default. A", &["not ours"]),
            ("www.example.com. A", &["not ours"]),
            (". NS", &["not ours"]),
        ],
    );
}

#[test]
fn before_the_cluster_was_read() {
    check(
        &Zone::unread(Settings { domain: Name::from_ascii("cluster.local.").unwrap(), ttl: 30, pods: PodNames::Insecure }),
        &[
            ("kubernetes.default.svc.cluster.local. A", &["SERVFAIL"]),
            ("1.0.3.10.in-addr.arpa. PTR", &["SERVFAIL"]),
            ("www.example.com. A", &["not ours"]),
        ],
    );
}

#[test]
fn times_to_live() {
    let zone = zone(PodNames::Insecure);
    let answer = zone.answer(&Name::from_ascii("kubernetes.default.svc.cluster.local.").unwrap(), RecordType::A).unwrap();
    assert_eq!(answer.records[0].ttl, 30);
    assert_eq!(zone.start_of_authority().ttl, NEGATIVE_TTL);
    assert_eq!(zone.len(), 9);
}
