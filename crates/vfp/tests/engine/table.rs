//! Groups that many ports share.

use std::sync::Arc;

use vfp::{Action, Conditions, DropReason, LayerSpec, PortId, RuleSpec, SwitchError, TableId, Tier};

use super::bench::{allow, block, ip, layer, port_spec};
use super::outside::Node;
use super::vip::{ask, backend_of, plain, redirect};

fn asking(table: TableId) -> LayerSpec {
    LayerSpec { name: "service".into(), stateful: true, tables: vec![table], ..LayerSpec::default() }
}

/// A node whose first pod and third pod ask a table in which the second is the backend of a service.
fn node() -> (Node, TableId, PortId) {
    let node = Node::new(61000..=61999);
    let table = node.bench.switch.add_table("services");
    node.bench.switch.put_table_rules(table, [redirect(true, 6, plain(&[2], true))]).expect("the table");
    node.refilter(vec![asking(table)]);
    node.add_pod(2, vec![]);
    let third = node.add_pod(3, vec![asking(table)]);
    (node, table, third)
}

fn generation(node: &Node, port: PortId) -> u32 {
    node.bench.switch.ports().iter().find(|view| view.id == port).map_or(0, |view| view.generation)
}

#[test]
fn all_who_name_it_ask_it() {
    let (mut node, _, third) = node();
    assert_eq!(backend_of(&mut node.bench, node.pod, &ask(1, true, 6, 1000)), 2);
    assert_eq!(backend_of(&mut node.bench, third, &ask(3, true, 6, 1000)), 2);
    let rules = node.bench.switch.rules();
    let own: Vec<_> = rules.iter().filter(|rule| rule.place.owner == "services").collect();
    assert_eq!(own.len(), 1, "it is there once");
    assert_eq!((own[0].place.to_string().as_str(), own[0].packets), ("service/table/web 6", 2));
}

#[test]
fn a_change_is_noticed_by_those_who_ask() {
    let (mut node, table, third) = node();
    node.bench.switch.put_table_rules(table, [redirect(true, 17, plain(&[2], true))]).expect("the table");
    node.add_pod(4, vec![]);
    let asked = ask(1, true, 17, 1000);
    assert_eq!(backend_of(&mut node.bench, node.pod, &asked), 2);
    let before = [node.pod, third, node.uplink].map(|port| generation(&node, port));
    let more = (0..100).map(|number| RuleSpec::new(format!("{number}"), 1, Conditions::to(ip("10.96.9.9")), Action::Refuse));
    let rules = more.chain([redirect(true, 17, plain(&[4], true))]);
    node.bench.switch.put_table_rules(table, rules).expect("the table");
    let after = [node.pod, third, node.uplink].map(|port| generation(&node, port));
    assert_eq!(after, [before[0] + 1, before[1] + 1, before[2]], "once a call, and nobody else");
    assert_eq!(backend_of(&mut node.bench, node.pod, &asked), 4);
    node.bench.switch.put_table_rules(table, [redirect(true, 17, plain(&[4], true))]).expect("the table");
    node.bench.switch.remove_table_rules(table, ["nobody"]).expect("the table");
    assert_eq!([node.pod, third, node.uplink].map(|port| generation(&node, port)), after, "nothing has changed");
    assert_eq!(node.bench.send(node.pod, &asked).tier, Tier::Unified);
    node.bench.out.sent.clear();
    node.bench.switch.remove_table_rules(table, ["web 17"]).expect("the table");
    assert_eq!(node.bench.fail(node.pod, &asked), DropReason::NoRoute);
}

#[test]
fn the_layers_own_groups_are_asked_first() {
    let (mut node, table, _) = node();
    let with = |rule: RuleSpec| LayerSpec { tables: vec![table], ..layer("service", true, vec![rule], vec![]) };
    node.refilter(vec![with(block("own", 1, Conditions::any()))]);
    assert_eq!(node.bench.fail(node.pod, &ask(1, true, 6, 1000)), DropReason::AclBlock);
    node.refilter(vec![with(allow("own", 1, Conditions::any()))]);
    assert_eq!(node.bench.fail(node.pod, &ask(1, true, 6, 1000)), DropReason::NoRoute);
    node.refilter(vec![with(super::bench::rule("own", 1, Conditions::any(), Action::Pass))]);
    assert_eq!(backend_of(&mut node.bench, node.pod, &ask(1, true, 6, 1000)), 2);
}

#[test]
fn tables_are_asked_in_order_and_only_outwards() {
    let (mut node, table, _) = node();
    let second = node.bench.switch.add_table("more");
    node.bench.switch.put_table_rules(second, [block("all", 1, Conditions::any())]).expect("the table");
    node.refilter(vec![LayerSpec { tables: vec![table, second], ..asking(table) }]);
    assert_eq!(backend_of(&mut node.bench, node.pod, &ask(1, true, 6, 1000)), 2);
    assert_eq!(node.bench.fail(node.pod, &ask(1, true, 17, 1000)), DropReason::AclBlock);
    let inward = super::bench::udp((3, 9), ("10.0.0.3", 1), ("10.0.0.1", 2), b"in");
    assert_eq!(node.bench.send(PortId(3), &inward).drop_reason(), None);
}

#[test]
fn a_table_that_is_gone_is_empty_and_cannot_be_named() {
    let (mut node, table, _) = node();
    let asked = ask(1, true, 6, 1000);
    assert_eq!(backend_of(&mut node.bench, node.pod, &asked), 2);
    node.bench.switch.remove_table(table).expect("the table");
    assert_eq!(node.bench.fail(node.pod, &asked), DropReason::NoRoute);
    let missing = Err(SwitchError::NoTable(table));
    assert_eq!(node.bench.switch.remove_table(table), missing);
    assert_eq!(node.bench.switch.put_table_rules(table, []), missing);
    assert_eq!(node.bench.switch.remove_table_rules(table, []), missing);
    let program = vfp::ProgramSpec { layers: vec![asking(table)] };
    let spec = port_spec("new", vfp::PortKind::Nic, node.domain, 7, &[], program);
    assert_eq!(node.bench.switch.add_port(spec.clone()), Err(SwitchError::NoTable(table)));
    assert_eq!(node.bench.switch.change_port(PortId(2), spec), missing);
    assert!(node.bench.switch.rules().iter().all(|rule| rule.place.owner != "services"));
}

#[test]
fn tens_of_thousands_of_services_come_and_go_one_by_one() {
    let (mut node, table, _) = node();
    let service = Arc::new(plain(&[2], true));
    let rule = |number: u32, priority: u16| {
        let vip = wire::Ip::v4(0x0a60_0000 + number);
        let conditions = Conditions { protocols: vec![6], destination_ports: vec![80..=80], ..Conditions::to(vip) };
        RuleSpec::new(format!("service {number}"), priority, conditions, Action::Redirect(service.clone()))
    };
    let start = std::time::Instant::now();
    for priority in [1, 2] {
        for number in 100..30_100 {
            node.bench.switch.put_table_rules(table, [rule(number, priority)]).expect("the table");
        }
    }
    let asked = super::bench::tcp((1, 9), ("10.0.0.1", 1000), ("10.96.1.1", 80), 2);
    assert_eq!(backend_of(&mut node.bench, node.pod, &asked), 2);
    for number in 100..30_100 {
        node.bench.switch.remove_table_rules(table, [format!("service {number}").as_str()]).expect("the table");
    }
    // A tenth of a second in a release build; anything that grows with the number of rules would take minutes.
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    assert_eq!(node.bench.fail(node.pod, &asked), DropReason::NoRoute);
}
