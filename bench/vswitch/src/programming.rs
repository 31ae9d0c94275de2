//! How long it takes to program the switch through HNS, one request after the other, as an agent does it.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::options::Options;
use crate::system::ours::{Programmed, programmed};

/// What a node has at most, by its documentation, and more.
const BALANCERS: u32 = 5000;
const BACKENDS: usize = 10;
const POLICIES: u16 = 500;

/// Measures, and answers lines of text.
pub(crate) fn measure(options: &Options) -> Result<String, String> {
    let node = programmed(options, BACKENDS)?;
    let balancers = timed(|| (0..BALANCERS).try_for_each(|number| balancer(&node, number)))?;
    node.check_held(BALANCERS as usize)?;
    let policies = timed(|| node.add_policies(&acls()))?;
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let each = millis(balancers) * 1e3 / f64::from(BALANCERS);
    Ok(format!(
        "{BALANCERS} load balancers with {BACKENDS} backends each, one after the other: {:.0} ms ({each:.0} µs each)\n\
         {POLICIES} ACL policies on one endpoint, in one request: {:.1} ms\n",
        millis(balancers),
        millis(policies)
    ))
}

fn timed(task: impl FnOnce() -> Result<(), String>) -> Result<Duration, String> {
    let begin = Instant::now();
    task().map(|()| begin.elapsed())
}

fn balancer(node: &Programmed, number: u32) -> Result<(), String> {
    node.load_balancer(Ipv4Addr::from_bits(Ipv4Addr::new(10, 97, 0, 0).to_bits() + number), 80)
}

fn acls() -> Vec<Value> {
    let acl = |number: u16| {
        let [high, low] = number.to_be_bytes();
        json!({"Type": "ACL", "Settings": {
            "Protocols": "6", "Action": "Block", "Direction": "In", "RuleType": "Switch", "Priority": 100 + number,
            "RemoteAddresses": format!("198.18.{high}.{low}"), "LocalPorts": format!("{}", 1000 + number),
        }})
    };
    (0..POLICIES).map(acl).collect()
}
