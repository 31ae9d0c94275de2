//! A node that has much to remember: many ACLs, many load balancers, and then many flows, beside one of the same shape that has none.
//!
//! What a known flow costs must not depend on what else the switch knows, so the same targets hold here as on a node without all that.

use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use hcn::client::Client;
use serde_json::{Value, json};

use crate::cpu::Placement;
use crate::generator::FLOWS;
use crate::load::{self, Load, Span};
use crate::measure::{self, OURS, Outcome, Subjects};
use crate::options::Options;
use crate::progress::Progress;
use crate::row::{ROWS, Row};
use crate::system::ours::{self, Bridged};
use crate::system::{System, Topology, kernel};

/// The places of its tests: with the flow of the test alone, and with many others.
const ONE_FLOW: &str = "loaded, 1 flow";
const MANY_FLOWS: &str = "loaded, 100,000 flows";

/// What the loaded node is programmed with.
const ACLS: u16 = 1000;
const BALANCERS: u32 = 10_000;

/// After how many load balancers the user hears of them.
const CHAPTER: u32 = 2500;

/// How many connections our switches remember here. A port may have as many as are free besides, so one pod gets half of it at most.
const CONNECTIONS: u32 = 262_144;

/// How long the switch may take to hear of flows.
const SOON: Duration = Duration::from_secs(2);

/// How many requests are under way at once.
const AT_ONCE: u32 = 16;

/// The first address of load balancers.
const VIPS: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 0);

/// All its tests: some of those of one node, at both places.
pub(crate) fn rows() -> Vec<Row> {
    let is_repeated =
        |row: &&Row| row.topology == Topology::SameNode && matches!(row.load, Load::Streams(1) | Load::RoundTrips | Load::Datagrams);
    let repeated = ROWS.iter().filter(is_repeated).filter(|row| row.placement != Placement::Same);
    [ONE_FLOW, MANY_FLOWS].iter().flat_map(|place| repeated.clone().map(|row| row.at(place))).collect()
}

/// Measures the tests that are wanted, in the order of [`rows`]: flows do not go away again.
pub(crate) fn measure(rows: &[Row], options: &Options, progress: &Progress, notes: &mut Vec<String>) -> Vec<Outcome> {
    progress.say("setting up: loaded");
    let options = &options.remembering(CONNECTIONS);
    let (loaded, switch) = match set_up_loaded(options, progress) {
        Ok((system, switch)) => (Ok(system), Some(switch)),
        Err(error) => (Err(error), None),
    };
    let connected = |system: Result<System, String>| system.and_then(System::connected);
    let systems = [connected(kernel::same_node("lk")), connected(loaded), connected(ours::same_node("le", options))];
    let subjects = Subjects { names: ["kernel", "loaded", "empty"], systems };
    for note in subjects.missing("loaded") {
        progress.say(&note);
        notes.push(note);
    }
    let crowd = switch.and_then(|switch| Some(Crowd { system: subjects.systems[OURS].as_ref().ok()?, switch }));
    let span = Span::of(options.seconds());
    let measure = |row: &Row| {
        let plain = || measure::measure(*row, &subjects, options.rounds(), span, progress);
        match &crowd {
            Some(crowd) if row.is_at(MANY_FLOWS) => crowd.during(row, plain, progress),
            _ => plain(),
        }
    };
    rows.iter().map(measure).collect()
}

fn set_up_loaded(options: &Options, progress: &Progress) -> Result<(System, Client), String> {
    let node = Bridged::start("l", 2, options)?;
    for done in (0..BALANCERS).step_by(CHAPTER as usize) {
        let count = CHAPTER.min(BALANCERS - done);
        node.load_balancers(Ipv4Addr::from_bits(VIPS.to_bits() + done), count, AT_ONCE)?;
        progress.say(&format!("loaded: {} of {BALANCERS} load balancers are programmed", done + count));
    }
    node.check_load_balancers(BALANCERS as usize)?;
    node.add_policies(&acls())?;
    let rules = node.rules(|rule| rule["Layer"] == "acl")?;
    if rules < usize::from(ACLS) {
        return Err(format!("the switch has {rules} rules for {ACLS} ACLs"));
    }
    progress.say(&format!("loaded: {ACLS} ACLs are programmed"));
    let switch = node.switch();
    Ok((node.into_system(None)?, switch))
}

/// ACLs both ways: all but two are about others, and must be looked past; the last of each direction allows.
fn acls() -> Vec<Value> {
    let acl = |number: u16| {
        let [high, low] = number.to_be_bytes();
        let direction = if number.is_multiple_of(2) { "In" } else { "Out" };
        let mut settings = json!({"Direction": direction, "RuleType": "Switch", "Priority": 100 + number});
        match number < ACLS - 2 {
            true => {
                settings["Action"] = json!("Block");
                settings["Protocols"] = json!(if number.is_multiple_of(3) { "17" } else { "6" });
                settings["RemoteAddresses"] = json!(format!("198.18.{high}.{low}"));
                settings["RemotePorts"] = json!((1000 + number).to_string());
            }
            false => settings["Action"] = json!("Allow"),
        }
        json!({"Type": "ACL", "Settings": settings})
    };
    (0..ACLS).map(acl).collect()
}

/// The many flows of the loaded node.
struct Crowd<'a> {
    system: &'a System,
    switch: Client,
}

impl Crowd<'_> {
    /// Does something while all flows are there. They are used once before, or some would be forgotten from one test to the next.
    fn during(&self, row: &Row, measure: impl FnOnce() -> Outcome, progress: &Progress) -> Outcome {
        let opened = load::open_flows(self.system).map_err(|error| format!("the flows cannot be opened: {error}; {}", self.state()));
        let before = opened.and_then(|()| self.check());
        match &before {
            Ok(count) => progress.say(&format!("{}: the switch remembers {count} connections", row.name())),
            Err(error) => progress.say(&format!("{}: {error}", row.name())),
        }
        let mut outcome = measure();
        outcome.failures.extend(before.and_then(|_| self.check()).err().map(|error| format!("{error}; the row is worth nothing")));
        outcome
    }

    /// What the switch remembers and what it has dropped, for whoever has to find out why.
    fn state(&self) -> String {
        let counters = self.switch.request("GET", "/counters", "").unwrap_or_default();
        format!("the switch remembers {} connections, and has dropped {}", counters["Switch"]["connections"], counters["Drops"])
    }

    /// Objects unless the switch remembers all of them soon: of those that the kernel has opened it hears a little later.
    fn check(&self) -> Result<u64, String> {
        let deadline = Instant::now() + SOON;
        loop {
            match self.count() {
                Err(_) if Instant::now() < deadline => thread::sleep(SOON / 20),
                outcome => return outcome,
            }
        }
    }

    /// How many it remembers, if those are all. A flow and its answers are one connection.
    fn count(&self) -> Result<u64, String> {
        let counters = self.switch.request("GET", "/counters", "").map_err(|error| error.to_string())?;
        match counters["Switch"]["connections"].as_u64() {
            Some(count) if count >= u64::from(FLOWS) => Ok(count),
            count => Err(format!("the switch remembers {} connections of {FLOWS}", count.unwrap_or_default())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_path::DataPath;

    #[test]
    fn streams_round_trips_and_datagrams_are_measured_twice() {
        let names: Vec<String> = rows().iter().map(Row::name).collect();
        let tests = ["1 stream", "RTT, cross-CPU", "UDP, 64 bytes"];
        let expected: Vec<String> = [ONE_FLOW, MANY_FLOWS].iter().flat_map(|place| tests.map(|test| format!("{place}: {test}"))).collect();
        assert_eq!(names, expected);
        assert!(rows().iter().all(|row| row.targets(DataPath::Bpf).is_some()));
    }

    #[test]
    fn only_the_last_acl_of_a_direction_is_about_the_test() {
        let acls = acls();
        assert_eq!(acls.len(), usize::from(ACLS));
        for direction in ["In", "Out"] {
            let of: Vec<&Value> = acls.iter().map(|acl| &acl["Settings"]).filter(|acl| acl["Direction"] == direction).collect();
            let (last, others) = of.split_last().unwrap();
            assert_eq!(last["Action"], "Allow");
            assert!(others.iter().all(|acl| acl["Action"] == "Block" && acl["RemoteAddresses"].is_string()));
            assert!(others.iter().all(|acl| acl["Priority"].as_u64() < last["Priority"].as_u64()));
        }
    }
}
