//! The reference's CNI plugins and ours, with the same inputs against the same HNS: what they answer and what they leave there.
//!
//! Every case of a table is played by three subjects, each from an empty state: the reference's own Windows programs under
//! Wine, our program of this system, and our program for Windows under Wine. After every command what was printed and all
//! that HNS and the address files hold is compared with the reference's. Where we differ on purpose the table says so and why;
//! any other difference is a failure, and so is one that is listed and does not occur.

mod cases;
mod compare;
mod masks;
mod record;
pub(super) mod reference;
mod sandbox;
mod subject;

use std::fs;
use std::path::Path;

use self::cases::Case;
use self::compare::Judge;
use self::record::Record;
use self::subject::{Subject, Troupe};
use super::{Ground, Log, step};
use crate::{dist, shell};

/// The variable with a text that the names of cases must have to be played.
const ONLY: &str = "TRANSOM_CASES";

/// Builds all plugins, and plays the whole table in a sandbox.
pub(super) fn run() -> Result<(), String> {
    if sandbox::is_inside() {
        return play_all();
    }
    if !dist::can_start("wine") || shell::output(shell::program("go").arg("version")).is_err() {
        return Err("wine and go are needed; install them, for example with `apt install wine64 golang-go`".to_owned());
    }
    let ground = Ground::prepare()?;
    step("build the reference's plugins, and install ours");
    Troupe::gather(&ground)?;
    ground.prefix.end()?;
    sandbox::run_inside()
}

/// Plays the whole table, with nothing but the sandbox around.
fn play_all() -> Result<(), String> {
    sandbox::furnish()?;
    let ground = Ground::prepared()?;
    let troupe = Troupe::gathered(&ground);
    let directory = ground.directory.join("cni");
    // What an earlier run left is not of this one.
    let _ = fs::remove_dir_all(&directory);
    let mut log = Log::create(&ground.directory.join("cni.log"))?;
    let only = std::env::var(ONLY).unwrap_or_default();
    let cases: Vec<Case> = cases::all().into_iter().filter(|case| case.name.contains(&only)).collect();
    step(&format!("play {} cases", cases.len()));
    let mut judge = Judge::new(cases::everywhere());
    for (index, case) in cases.iter().enumerate() {
        judged_twice(&mut judge, case, &directory, |judge, place| compared(&troupe, case, place, judge))?;
        println!("[{:>2}/{}] {:<44} {}", index + 1, cases.len(), case.name, judge.take_line());
        judge.take_log().iter().for_each(|line| log.add(line));
    }
    if !only.is_empty() {
        return judge.partial_verdict(cases.len());
    }
    step("hand pods over, from the reference to us and back");
    let handed = handovers(&troupe, &directory, &mut judge)?;
    let outcome = judge.verdict(cases.len() + handed);
    judge.take_log().iter().for_each(|line| log.add(line));
    outcome.map_err(|error| format!("{error}; see {}", log.path.display()))
}

/// Pods that one program has made and the other goes on with, compared with those of the reference alone. Gives how many cases.
fn handovers(troupe: &Troupe<'_>, directory: &Path, judge: &mut Judge) -> Result<usize, String> {
    let cases = cases::handovers();
    for case in &cases {
        judged_twice(judge, case, directory, |judge, place| handed_over(troupe, case, place, judge))?;
        println!("{:<44} {}", case.name, judge.take_line());
    }
    Ok(cases.len())
}

/// One case, handed over in all ways.
fn handed_over(troupe: &Troupe<'_>, case: &Case, place: &Path, judge: &mut Judge) -> Result<(), String> {
    let reference = play(troupe, Subject::Reference, case, place)?;
    for ours in [Subject::Linux, Subject::Windows] {
        for (name, first, then) in [("to", Subject::Reference, ours), ("from", ours, Subject::Reference)] {
            let who = format!("{name}-{}", ours.name());
            let stage = troupe.stage(case, &place.join(&who))?;
            let mixed = stage.play(case, |index| if index == 0 { first } else { then })?;
            judge.compare(case, &who, &reference, &mixed);
        }
    }
    Ok(())
}

/// One case, by all subjects.
fn compared(troupe: &Troupe<'_>, case: &Case, place: &Path, judge: &mut Judge) -> Result<(), String> {
    let reference = play(troupe, Subject::Reference, case, place)?;
    for subject in [Subject::Linux, Subject::Windows] {
        let ours = play(troupe, subject, case, place)?;
        judge.compare(case, subject.name(), &reference, &ours);
    }
    Ok(())
}

/// Has a case judged, and if it fails once more, from an empty state: now and then Wine does not start a program that another one calls, which says so in
/// words of its own. What really differs does so again.
fn judged_twice(
    judge: &mut Judge,
    case: &Case,
    directory: &Path,
    play: impl Fn(&mut Judge, &Path) -> Result<(), String>,
) -> Result<(), String> {
    let place = directory.join(case.name.replace(' ', "-"));
    let before = judge.clone();
    play(judge, &place)?;
    if judge.has_failed(case) {
        println!("{}: once more, in case Wine did not start a program", case.name);
        *judge = before;
        play(judge, &place.join("again"))?;
    }
    Ok(())
}

/// One case by one subject.
fn play(troupe: &Troupe<'_>, subject: Subject, case: &Case, place: &Path) -> Result<Vec<Record>, String> {
    let played = troupe.stage(case, &place.join(subject.name())).and_then(|stage| stage.play(case, |_| subject));
    played.map_err(|error| format!("{}, {}: {error}", case.name, subject.name()))
}
