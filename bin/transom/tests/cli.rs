//! The real binary against the real service: every noun, every verb, and what happens when things go wrong.
#![cfg(unix)]

#[path = "cli/service.rs"]
mod service;

use serde_json::{Value, json};

use self::service::{Service, transom};

const NETWORK: &str = "\
Name: cbr0
Type: L2Bridge
Policies:
- {Type: NetAdapterName, Settings: {NetworkAdapterName: Ethernet}}
Ipams:
- Subnets:
  - IpAddressPrefix: 10.244.3.0/24
    Routes: [{DestinationPrefix: 0.0.0.0/0, NextHop: 10.244.3.1}]
";

/// A service with a network, and two endpoints on it.
fn with_pods() -> Service {
    let service = Service::start();
    service.with_input(&["network", "create", "-f", "-"], NETWORK).ok();
    service.with_input(&["endpoint", "create", "--network", "cbr0", "-f", "-"], "Name: pod1\n---\nName: pod2\n").ok();
    service
}

/// The id of the object with a name.
fn id_of(service: &Service, noun: &str, name: &str) -> String {
    let document = service.run(&[noun, "show", name, "-o", "json"]).json();
    document["ID"].as_str().unwrap_or_else(|| panic!("no ID in {document}")).to_owned()
}

/// Puts an endpoint into a namespace of its own, and returns its id.
fn attach(service: &Service, pod: &str) -> String {
    let made = service.with_input(&["namespace", "create", "-f", "-", "-o", "json"], "{}").json();
    let id = made["ID"].as_str().unwrap().to_owned();
    service.run(&["namespace", "attach", &id, pod]).ok();
    id
}

#[test]
fn networks() {
    let service = Service::start();
    let made = service.with_input(&["network", "create", "-f", "-"], NETWORK).ok();
    assert!(made.stdout.starts_with("created network cbr0 "), "{made:?}");
    let id = id_of(&service, "network", "cbr0");

    let list = service.run(&["network", "list"]).ok().stdout;
    let lines: Vec<Vec<&str>> = list.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["ID", "NAME", "TYPE", "SUBNETS", "GATEWAY", "ENDPOINTS", "FLAGS"]);
    assert_eq!(lines[1][..6], [&id[..8], "cbr0", "L2Bridge", "10.244.3.0/24", "10.244.3.1", "0"]);
    assert!(service.run(&["net", "ls", "-o", "wide"]).ok().stdout.contains(&id));
    assert_eq!(service.run(&["network", "list", "--name", "other", "-o", "json"]).json(), json!([]));
    assert_eq!(service.run(&["network", "list", "--filter", r#"{"Name":"cbr0"}"#, "-o", "json"]).json()[0]["ID"], json!(id));

    for reference in ["cbr0", &id, &id.to_uppercase(), &id[..8], &id[..12]] {
        let shown = service.run(&["network", "show", reference]).ok().stdout;
        assert!(shown.starts_with("ID:  ") && shown.contains("Type:") && shown.contains(&id), "{shown}");
    }
    assert!(service.run(&["network", "get", "cbr0", "-o", "yaml"]).ok().stdout.contains("Name: cbr0"));

    let request = r#"{"RequestType":"Update","ResourceType":"DNS","Settings":{"ServerList":["10.96.0.10"]}}"#;
    service.with_input(&["network", "modify", "cbr0", "-f", "-"], request).ok();
    assert_eq!(service.run(&["network", "show", "cbr0", "-o", "json"]).json()["Dns"]["ServerList"], json!(["10.96.0.10"]));

    assert!(service.run(&["network", "delete", "cbr0"]).ok().stdout.contains(&id));
    for reference in ["cbr0", &id, "00000000"] {
        service.run(&["network", "show", reference]).fails(3, "error: no network");
    }
    service.run(&["network", "delete", "cbr0"]).fails(3, "no network");
    service.run(&["network", "rm", "cbr0", "--ignore-not-found"]).ok();
    assert_eq!(service.run(&["network", "list"]).ok().stderr, "no networks\n");
}

#[test]
fn endpoints() {
    let service = with_pods();
    let list = service.run(&["endpoint", "list", "--network", "cbr0"]).ok().stdout;
    assert!(list.contains("pod1") && list.contains("pod2") && list.contains("cbr0") && list.contains("10.244.3."), "{list}");
    service.run(&["endpoint", "list", "--network", "nat"]).fails(3, "no network");
    let shown = service.run(&["ep", "show", "pod1", "pod2"]).ok().stdout;
    assert!(shown.contains("Network:") && shown.contains("0.0.0.0/0 via 10.244.3.1"), "{shown}");
    assert_eq!(service.run(&["ep", "show", "pod1", "pod2", "-o", "json"]).json().as_array().map(Vec::len), Some(2));

    // The document may name the network itself, by name.
    service.with_input(&["endpoint", "create", "-f", "-"], r#"{"Name":"pod3","HostComputeNetwork":"cbr0"}"#).ok();
    let request = r#"{"RequestType":"Add","ResourceType":"Policy","Settings":{"Policies":[
        {"Type":"ACL","Settings":{"Action":"Block","Direction":"Out","RemoteAddresses":"192.0.2.0/24","Priority":200}}]}}"#;
    service.with_input(&["endpoint", "modify", "pod3", "-f", "-"], request).ok();
    assert!(service.run(&["endpoint", "show", "pod3"]).ok().stdout.contains("ACL  Action=Block Direction=Out"));

    let deleted = service.run(&["endpoint", "delete", "pod1", "nobody", "pod2"]);
    assert_eq!(deleted.code, 3, "{deleted:?}");
    assert_eq!(deleted.stdout.lines().count(), 2, "the others go all the same: {deleted:?}");
    service.run(&["endpoint", "delete", "--all"]).fails(2, "--yes");
    service.run(&["endpoint", "delete", "--all", "--yes"]).ok();
    assert_eq!(service.run(&["endpoint", "list", "-o", "json"]).json(), json!([]));
}

#[test]
fn namespaces() {
    let service = with_pods();
    let made = service.with_input(&["namespace", "create", "-f", "-", "-o", "json"], "{}").json();
    let id = made["ID"].as_str().unwrap().to_owned();
    let pod = id_of(&service, "endpoint", "pod1");
    assert!(service.run(&["namespace", "attach", &id[..8], "pod1"]).ok().stdout.contains("attached"));
    let list = service.run(&["ns", "ls"]).ok().stdout;
    assert!(list.lines().any(|line| line.starts_with(&id[..8]) && line.contains(&pod[..8])), "{list}");
    assert!(service.run(&["ns", "show", &id]).ok().stdout.contains("pod1"));
    assert!(service.run(&["endpoint", "list"]).ok().stdout.contains(&id[..8]));
    service.run(&["namespace", "detach", &id, &pod[..8]]).ok();
    assert!(!service.run(&["ns", "show", &id]).ok().stdout.contains("pod1"));
    let request = r#"{"RequestType":"Add","ResourceType":"Container","Settings":{"ContainerId":"c1"}}"#;
    assert!(service.with_input(&["ns", "modify", &id, "-f", "-"], request).ok().stdout.contains("modified namespace"));
    service.run(&["ns", "rm", &id]).fails(6, "c1");
    service.with_input(&["ns", "modify", &id, "-f", "-"], &request.replace("Add", "Remove")).ok();
    service.run(&["ns", "rm", &id]).ok();
    service.run(&["ns", "show", &id]).fails(3, "no namespace");
}

#[test]
fn load_balancers() {
    let service = with_pods();
    for pod in ["pod1", "pod2"] {
        attach(&service, pod);
    }
    let document = |vip: &str| {
        format!(
            "HostComputeEndpoints: [pod1, pod2]\nFrontendVIPs: [{vip}]\n\
             PortMappings: [{{Protocol: 6, ExternalPort: 80, InternalPort: 8080}}]\n"
        )
    };
    let made = service.with_input(&["loadbalancer", "create", "-f", "-", "-o", "json"], &document("10.96.0.20")).json();
    let id = made["ID"].as_str().unwrap();
    let list = service.run(&["lb", "list"]).ok().stdout;
    assert!(list.contains("10.96.0.20  TCP 80->8080  2"), "{list}");
    service.with_input(&["lb", "modify", &id[..8], "-f", "-"], &document("10.96.0.21")).ok();
    let shown = service.run(&["lb", "show", id]).ok().stdout;
    assert!(shown.contains("VIPs:") && shown.contains("10.96.0.21") && shown.contains("pod2"), "{shown}");
    assert!(service.run(&["policy", "list", "--loadbalancer", id]).ok().stdout.contains("ELB"));
    service.run(&["lb", "delete", &id[..8]]).ok();
    service.run(&["lb", "show", id]).fails(3, "no loadbalancer");
}

#[test]
fn routes() {
    let service = with_pods();
    let route = "HostComputeEndpoints: [pod1]\nRoutes: [{DestinationPrefix: 10.1.0.0/16, NextHop: 10.244.3.1, NeedEncap: true}]\n";
    let made = service.with_input(&["route", "create", "-f", "-", "-o", "json"], route).json();
    let id = made["ID"].as_str().unwrap();
    assert!(service.run(&["route", "list"]).ok().stdout.contains("10.1.0.0/16  10.244.3.1"));
    assert!(service.run(&["route", "show", &id[..8]]).ok().stdout.contains("10.1.0.0/16 via 10.244.3.1 encapsulated"));
    // Windows does not let routes be changed; the answer must say so rather than pretend.
    let changed = service.with_input(&["route", "modify", id, "-f", "-"], route);
    assert_ne!(changed.code, 2, "{changed:?}");
    service.run(&["routes", "rm", id]).ok();
    service.run(&["route", "show", id]).fails(3, "no route");
}

#[test]
fn policies() {
    let service = with_pods();
    let acl = |priority: u16| json!({"Type": "ACL", "Settings": {"Action": "Allow", "Direction": "In", "LocalPorts": "80", "Protocols": "6", "Priority": priority}});
    let both = json!([acl(100), acl(200)]).to_string();
    let count = || {
        let policies = service.run(&["policy", "list", "--endpoint", "pod1", "--type", "acl", "-o", "json"]).json();
        policies.as_array().map(Vec::len)
    };
    let added = service.with_input(&["policy", "create", "--endpoint", "pod1", "-f", "-"], &both).ok().stdout;
    assert!(added.starts_with("2 policies added to endpoint/pod1"), "{added}");
    assert_eq!(count(), Some(2));
    assert!(service.run(&["policy", "list"]).ok().stdout.contains("endpoint/pod1  ACL"));
    assert!(service.run(&["policy", "show", "--endpoint", "pod1"]).ok().stdout.contains("LocalPorts:"));
    service.with_input(&["policy", "delete", "--endpoint", "pod1", "-f", "-"], &acl(100).to_string()).ok();
    assert_eq!(count(), Some(1));
    service.with_input(&["policy", "modify", "--endpoint", "pod1", "-f", "-"], &acl(300).to_string()).ok();
    service.run(&["policy", "delete", "--endpoint", "pod1", "--type", "ACL"]).ok();
    assert_eq!(count(), Some(0));
    service.run(&["policy", "delete", "--endpoint", "pod1", "--type", "ACL"]).fails(3, "no policy");
    service.with_input(&["policy", "create", "--endpoint", "pod1", "-f", "-"], "{}").fails(2, "no Type");
    assert!(service.run(&["policy", "list", "--network", "cbr0"]).ok().stdout.contains("NetAdapterName"));
}

#[test]
fn ids_may_be_shortened_while_they_are_unambiguous() {
    let service = Service::start();
    let ids = ["aaaaaaaa-0000-4000-8000-000000000001", "aaaaaaaa-1111-4000-8000-000000000002"];
    for id in ids {
        service.with_input(&["namespace", "create", "-f", "-"], &json!({"ID": id}).to_string()).ok();
    }
    service.run(&["namespace", "show", "aaaaaaaa"]).fails(2, "2 namespaces match");
    assert!(service.run(&["namespace", "show", "aaaaaaaa-1"]).ok().stdout.contains(ids[1]));
    let list = service.run(&["namespace", "list"]).ok().stdout;
    assert!(list.contains("aaaaaaaa-0000 ") && list.contains("aaaaaaaa-1111 "), "{list}");
}

#[test]
fn several_documents_are_made_in_order_until_one_fails() {
    let service = Service::start();
    let file =
        service.file("nets.yaml", "Name: a\n---\nName: b\n---\nName: c\nIpams: [{Subnets: [{IpAddressPrefix: nonsense}]}]\n---\nName: d\n");
    let ran = service.run(&["network", "create", "-f", &file]);
    assert!(![0, 2, 3, 5].contains(&ran.code), "{ran:?}");
    assert_eq!(ran.stdout.lines().count(), 2, "{ran:?}");
    assert!(ran.stderr.contains("nets.yaml, document 3 of 4 (c): "), "{ran:?}");
    assert!(ran.stderr.contains("  code: ") && ran.stderr.contains("made before it, and still there: "), "{ran:?}");
    let names: Vec<Value> =
        service.run(&["network", "list", "-o", "json"]).json().as_array().unwrap().iter().map(|net| net["Name"].clone()).collect();
    assert!(names.contains(&json!("a")) && names.contains(&json!("b")) && !names.contains(&json!("d")), "{names:?}");
    service.with_input(&["network", "create", "-f", "-"], &json!({"ID": id_of(&service, "network", "a")}).to_string()).fails(4, "error: ");
}

#[test]
fn bad_input_is_a_usage_error() {
    let service = Service::start();
    service.run(&["network", "create", "-f", "/nowhere/net.json"]).fails(2, "cannot read /nowhere/net.json");
    let broken = service.file("broken.json", "{\"Name\": ");
    service.run(&["network", "create", "-f", &broken]).fails(2, "is no JSON");
    let number = service.file("number.yaml", "5\n");
    service.run(&["network", "create", "-f", &number]).fails(2, "an object is expected");
    service.run(&["network", "list", "--filter", "Name"]).fails(2, "the filter is no JSON object");
    service.run(&["network", "conjure"]).fails(2, "unrecognized subcommand");
    let typed = service.with_input(&["network", "create", "-f", "-"], r#"{"Name": 5}"#);
    typed.fails(1, "  field: Name");
}

#[test]
fn hnsdiag() {
    let service = with_pods();
    let (network, pod) = (id_of(&service, "network", "cbr0"), id_of(&service, "endpoint", "pod1"));
    let namespace = attach(&service, "pod1");
    let all = service.run(&["hnsdiag", "list", "all"]).ok().stdout;
    for expected in [
        format!("Networks:\nName             ID\ncbr0             {}\n", network.to_uppercase()),
        "\nEndpoints:\nName             ID                                   Virtual Network Name\n".to_owned(),
        format!("pod1             {pod} cbr0\n"),
        "\nNamespaces:\nID                                   | Endpoint IDs\n".to_owned(),
        format!("{namespace} | {pod}\n"),
        "\nLoadBalancers:\nID                                   | Virtual IPs      | Direct IP IDs\n".to_owned(),
    ] {
        assert!(all.contains(&expected), "{expected:?} is missing in\n{all}");
    }
    let details = service.run(&["hnsdiag", "list", "endpoints", "-df"]).ok().stdout;
    assert!(details.contains("    \"VirtualNetworkName\":\"cbr0\""), "{details}");
    assert_eq!(service.run(&["hnsdiag", "list", "networks", "-o", "json"]).json()[0]["Name"], json!("cbr0"));
    service.run(&["hnsdiag", "delete", "endpoints", &id_of(&service, "endpoint", "pod2")]).ok();
    service.run(&["endpoint", "show", "pod2"]).fails(3, "no endpoint");
}

#[test]
fn watching_survives_a_restart_and_ends_with_ctrl_c() {
    let mut service = Service::start();
    let mut watch = service.spawn(&["namespace", "watch", "-o", "json"]);
    let event: Value = serde_json::from_str(&watch.first_line(|| _ = service.with_input(&["ns", "create", "-f", "-"], "{}"))).unwrap();
    assert_eq!(event["Kind"], json!("Namespace"), "{event}");
    service.restart();
    watch.wait_for_message("connected again");
    watch.first_line(|| _ = service.with_input(&["ns", "create", "-f", "-"], "{}"));
    assert_eq!(watch.interrupt(), Some(0));
}

#[test]
fn watching_ends_when_nobody_reads() {
    let service = Service::start();
    let mut watch = service.spawn(&["namespace", "watch"]);
    watch.first_line(|| _ = service.with_input(&["ns", "create", "-f", "-"], "{}"));
    watch.close_output();
    let code = watch.exit_code(|| _ = service.with_input(&["ns", "create", "-f", "-"], "{}"));
    assert_eq!((code, watch.messages()), (Some(0), String::new()));
}

#[test]
fn watching_policies_tells_which() {
    let service = with_pods();
    let mut watch = service.spawn(&["policy", "watch", "--endpoint", "pod1", "-o", "json"]);
    let mut priority = 100;
    let line = watch.first_line(|| {
        // Another one each time: the watcher may have seen the ones before as there from the start.
        priority += 1;
        let policy = json!({"Type": "ACL", "Settings": {"Action": "Allow", "Direction": "Out", "Priority": priority}});
        service.with_input(&["policy", "create", "--endpoint", "pod1", "-f", "-"], &policy.to_string()).ok();
    });
    let event: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&event["Change"], &event["Policy"]["Type"]), (&json!("Added"), &json!("ACL")), "{event}");
}

#[test]
fn the_service_over_tcp_asks_for_its_token() {
    let service = Service::start_with(&["--listen", "127.0.0.1:0"]);
    let address = format!("127.0.0.1:{}", service.port());
    let token = service.path("state/token");
    assert_eq!(transom(&["network", "list", "-o", "json", "--hnsd", &address, "--token-file", &token]).json(), json!([]));
    let wrong = service.file("wrong", "wrong");
    transom(&["network", "list", "--hnsd", &address, "--token-file", &wrong]).fails(6, "error: ");
    transom(&["network", "list", "--hnsd", &address]).fails(2, "token");
}

#[test]
fn a_profile_changes_what_the_service_says_it_is() {
    let service = Service::start_with(&["--profile", "ws2022"]);
    assert_eq!(service.run(&["version", "-o", "json"]).json()["Hns"], json!("13.3"));
    transom(&["hnsd", "--profile", "ws2016"]).fails(2, "ws2022");
    transom(&["hnsd", "--listen", "0.0.0.0:1"]).fails(2, "loopback");
}

#[test]
fn without_a_service() {
    transom(&["network", "list", "--hnsd", "/nowhere/hnsd.sock"]).fails(5, "hnsd does not answer at unix:/nowhere/hnsd.sock");
    transom(&["network", "watch", "--hnsd", "/nowhere/hnsd.sock"]).fails(5, "hnsd does not answer");
    assert!(transom(&["version", "--hnsd", "/nowhere/hnsd.sock"]).ok().stdout.contains("does not answer"));
    assert!(transom(&["profile", "list"]).ok().stdout.contains("ws2022"));
    assert_eq!(transom(&["profile", "show", "WS2022", "-o", "json"]).json()["Build"], json!(20348));
    transom(&["profile", "show", "ws2016"]).fails(3, "ws2019");
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(transom(&["completion", shell]).ok().stdout.contains("loadbalancer"), "{shell}");
    }
    assert!(transom(&["--help"]).ok().stdout.contains("Exit codes:"));
    assert!(transom(&["--version"]).ok().stdout.starts_with("transom "));
}
