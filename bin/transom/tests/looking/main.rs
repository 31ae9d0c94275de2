//! Looking at a lab: packets, names and the picture, with a real lab of one Windows node.
//!
//! It takes root, or a system that lets users make namespaces; elsewhere the tests say that they were skipped.

#![cfg(target_os = "linux")]

mod world;

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use wire::number::tcp_flag;
use wire::pcapng::{Block, Direction, Packet, blocks};
use wire::{Headers, Ip};

use world::World;

/// One test, since a lab takes longer to make than to look at.
#[test]
fn a_lab_can_be_looked_at() {
    let Some(world) = World::up() else { return };
    packets_of_a_pod_have_their_verdicts(&world);
    packets_of_the_host_outside_are_seen_both_ways(&world);
    names_are_resolved_as_the_pod_does(&world);
    the_picture_has_all_of_it(&world);
    mistakes_are_told(&world);
}

/// Captures at a place while the client connects, and gives the file's bytes.
fn capture(world: &World, place: &str, filter: &[&str], target: &str) -> Vec<u8> {
    let file = world.directory().join(format!("{place}.pcapng"));
    let mut capture = world.command(&["lab", "capture", place]);
    capture.args(filter).arg("-w").arg(&file).args(["--count", "4", "--seconds", "15"]).stderr(Stdio::null());
    let mut capture = capture.spawn().unwrap();
    // Its head is written when it has begun.
    world::wait_for("the capture", || file.metadata().is_ok_and(|metadata| metadata.len() > 0));
    let connected = world.run(&["lab", "exec", "client", "--", "transom", "agnhost", "connect", target, "--timeout", "5s"]);
    assert!(connected.status.success(), "{}", String::from_utf8_lossy(&connected.stderr));
    assert!(capture.wait().unwrap().success());
    read(&file)
}

fn read(file: &Path) -> Vec<u8> {
    let bytes = std::fs::read(file).unwrap();
    assert!(bytes.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]), "no pcapng");
    bytes
}

fn packets(bytes: &[u8]) -> Vec<(Packet<'_>, Headers)> {
    let packet = |block| match block {
        Block::Packet(packet) => Some((packet, Headers::parse(packet.bytes).unwrap())),
        _ => None,
    };
    blocks(bytes).filter_map(packet).collect()
}

fn packets_of_a_pod_have_their_verdicts(world: &World) {
    let (client, server) = (world.address_of("client"), world.address_of("server"));
    let bytes = capture(world, "server", &["tcp", "and", "port", "8080"], &format!("{server}:8080"));
    let packets = packets(&bytes);
    assert_eq!(packets.len(), 4);
    let (first, headers) = &packets[0];
    assert_eq!((headers.id.source, headers.id.destination_port), (Ip::from(client), 8080));
    assert_eq!((headers.tcp_flags, first.direction), (tcp_flag::SYN, Some(Direction::Inbound)));
    let (answer, headers) = packets.iter().find(|(packet, _)| packet.direction == Some(Direction::Outbound)).expect("an answer");
    assert_eq!(headers.id.source, Ip::from(server));
    assert!(answer.comment.contains("to port"), "{}", answer.comment);
}

fn packets_of_the_host_outside_are_seen_both_ways(world: &World) {
    let bytes = capture(world, "outside", &["tcp and host 203.0.113.9"], "203.0.113.9:8080");
    let packets = packets(&bytes);
    let of = |direction| packets.iter().filter(|(packet, _)| packet.direction == Some(direction)).count();
    assert!(of(Direction::Inbound) > 0 && of(Direction::Outbound) > 0, "{packets:?}");
}

fn names_are_resolved_as_the_pod_does(world: &World) {
    let resolve = |name: &str| {
        let output = world.run(&["resolve", "--pod", "client", name, "--type", "A", "--lab", world::LAB, "-o", "json"]);
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), value)
    };
    let (code, short) = resolve("web");
    assert_eq!((code, &short["Windows"]["Steps"][0]["Name"]), (Some(0), &Value::from("web.default.svc.cluster.local")));
    let (code, dotted) = resolve("web.default");
    assert_eq!(code, Some(3));
    assert_eq!((&dotted["Windows"]["Found"], &dotted["Linux"]["Found"]), (&Value::from(false), &Value::from(true)));
}

fn the_picture_has_all_of_it(world: &World) {
    let drawn = String::from_utf8(world.run(&["lab", "graph"]).stdout).unwrap();
    let address = world.address_of("client").to_string();
    for text in ["win1", "client", "web", "203.0.113.9", address.as_str(), "leads to server"] {
        assert!(drawn.contains(text), "{text}: {drawn}");
    }
}

fn mistakes_are_told(world: &World) {
    let table = [
        (vec!["lab", "capture", "client", "tpc"], 2, "\"tpc\" is no word of a filter"),
        (vec!["lab", "capture", "nobody"], 3, "there is no pod \"nobody\""),
        (vec!["lab", "capture", "node/win7"], 3, "there is no node \"win7\"; there are win1"),
    ];
    for (arguments, code, text) in table {
        let output = world.run(&arguments);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{told}");
        assert!(told.contains(text), "{told}");
    }
}
