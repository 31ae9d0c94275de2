//! What is wrong is told before anything is made.

use std::net::TcpListener;

use crate::harness::{Labs, SMALL};

#[test]
fn mistakes_in_files_are_told_with_their_line() {
    let Some(labs) = Labs::new() else { return };
    let table = [
        ("apiVersion: transom/v1\nkind: Lab\nnodes:\n  - {name: win1, os: windows, build: ws1999}\n", "line 4: nodes[0].build: "),
        ("apiVersion: transom/v1\nkind: Lab\nnodes: [{name: a, os: beos}]\n", "line 3: nodes[0].os: unknown variant `beos`"),
        ("apiVersion: transom/v1\nkind: Lab\nnodes:\n  - {name: a, os: linux, bild: x}\n", "line 4: nodes[0]: unknown field `bild`"),
        (
            "apiVersion: transom/v1\nkind: Lab\ncluster: {podSubnets: [192.168.0.0/16]}\nnodes: [{name: a, os: linux}]\n",
            "line 3: cluster.podSubnets: 192.168.0.0/16 overlaps with 192.168.10.0/24 of underlay.subnets; give each a range of its own",
        ),
        ("kind: Pod\n", "line 1: apiVersion: it is missing"),
        ("a: [\n", "line "),
    ];
    for (text, expected) in table {
        let told = labs.refused(2, &["lab", "up", &labs.file("lab.yaml", text)]);
        assert!(told.contains(expected), "{told}");
    }
    let told = labs.refused(2, &["lab", "up", "/nowhere.yaml"]);
    assert!(told.contains("/nowhere.yaml"), "{told}");
    let told = labs.refused(2, &["lab", "up", "--build", "ws1999"]);
    assert!(told.contains("ws1999"), "{told}");
    assert!(!labs.home().exists());
}

#[test]
fn what_the_api_refuses_is_told_and_nothing_is_left() {
    let Some(labs) = Labs::new() else { return };
    let pod = format!("{SMALL}---\napiVersion: v1\nkind: Pod\nmetadata: {{name: UPPER}}\nspec: {{containers: [{{name: a, image: a}}]}}\n");
    let told = labs.refused(1, &["lab", "up", &labs.file("lab.yaml", &pod)]);
    assert!(told.contains("line 17: Pod UPPER: ") && told.contains("metadata.name"), "{told}");
    let told = labs
        .refused(1, &["lab", "up", &labs.file("lab.yaml", &format!("{SMALL}---\napiVersion: v7\nkind: Moon\nmetadata: {{name: a}}\n"))]);
    assert!(told.contains("the API has no kind Moon in v7"), "{told}");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: c}\nspec: {contaners: [], containers: [{name: a, image: a}]}\n";
    let told = labs.refused(1, &["lab", "up", &labs.file("lab.yaml", &format!("{SMALL}---\n{pod}"))]);
    assert!(told.contains("line 17: Pod c: ") && told.contains("unknown field \"spec.contaners\""), "{told}");
    assert_eq!(labs.processes(), [""; 0]);
}

#[test]
fn a_port_that_is_taken_and_a_lab_that_is_not_there() {
    let Some(labs) = Labs::new() else { return };
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let told = labs.refused(4, &["lab", "up", "--api-port", &port, &labs.file("lab.yaml", SMALL)]);
    assert!(told.contains(&format!("could not listen on 127.0.0.1:{port}")) && told.contains("--api-port"), "{told}");
    for verb in [&["status"][..], &["down"], &["flows"], &["exec", "a", "--", "true"], &["logs", "a"], &["kubeconfig"]] {
        let told = labs.refused(3, &[&["lab"], verb].concat());
        assert!(told.contains("there is no lab \"default\""), "{told}");
    }
}
