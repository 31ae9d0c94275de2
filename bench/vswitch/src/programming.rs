//! How long it takes to program the switch through HNS, one request after the other and many at once.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::options::Options;
use crate::system::ours::Bridged;

/// What a node has at most, by its documentation, and more.
const BALANCERS: u32 = 5000;
const BACKENDS: usize = 10;
const POLICIES: u16 = 500;

/// How many requests are under way at once, as of an agent that does not wait for each.
const AT_ONCE: u32 = 16;

/// Measures, and answers lines of text.
pub(crate) fn measure(options: &Options) -> Result<String, String> {
    let node = Bridged::start("p", BACKENDS, options)?;
    let one_by_one = timed(|| node.load_balancers(Ipv4Addr::new(10, 97, 0, 0), BALANCERS, 1))?;
    node.check_load_balancers(BALANCERS as usize)?;
    let at_once = timed(|| node.load_balancers(Ipv4Addr::new(10, 98, 0, 0), BALANCERS, AT_ONCE))?;
    node.check_load_balancers(2 * BALANCERS as usize)?;
    let policies = timed(|| node.add_policies(&acls()))?;
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let each = |time: Duration| millis(time) * 1e3 / f64::from(BALANCERS);
    Ok(format!(
        "{BALANCERS} load balancers with {BACKENDS} backends each, one after the other: {:.0} ms ({:.0} µs each)\n\
         {BALANCERS} more, {AT_ONCE} requests at once: {:.0} ms ({:.0} µs each)\n\
         {POLICIES} ACL policies on one endpoint, in one request: {:.1} ms\n",
        millis(one_by_one),
        each(one_by_one),
        millis(at_once),
        each(at_once),
        millis(policies)
    ))
}

fn timed(task: impl FnOnce() -> Result<(), String>) -> Result<Duration, String> {
    let begin = Instant::now();
    task().map(|()| begin.elapsed())
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
