//! The figures as text.

use rig::figure::{percentile, short};
use rig::table::{row, table};

use crate::measure::{AT_A_TIME, Outcome, Times};
use crate::options::Options;
use crate::subject::{REFERENCE, Subject};

/// What our plugins may take of the time of those they are compared with.
const LIMIT: f64 = 0.5;

/// Which of the times.
type Way = fn(&Outcome) -> &Times;

/// The report.
pub(crate) fn print(subjects: &[Subject], outcomes: &[Outcome], options: &Options) -> String {
    let alone: Way = |outcome| &outcome.alone;
    let together: Way = |outcome| &outcome.together;
    let mut rows = vec![row(&["ADD and DEL", "plugin", "p50 ms", "p99 ms", "ADD p50", "DEL p50", "p50 ratio", "p99 ratio", "verdict"])];
    for (way, times) in [("one by one", alone), ("together", together)] {
        let reference = times(&outcomes[REFERENCE]).both();
        for (subject, outcome) in subjects.iter().zip(outcomes) {
            rows.push(cells(way, subject.name, times(outcome), &reference));
        }
    }
    let mut answers = vec![row(&["first answer after ADD", "p50 ms", "p99 ms"])];
    for (subject, outcome) in subjects.iter().zip(outcomes) {
        let times = &outcome.alone.answer;
        answers.push(vec![subject.name.to_owned(), short(percentile(times, 50)), short(percentile(times, 99))]);
    }
    format!("{}\n{}\n{}", method(options), table(&rows, 2), table(&answers, 1))
}

fn cells(way: &str, name: &str, times: &Times, reference: &[f64]) -> Vec<String> {
    let both = times.both();
    let ratio = |percent: usize| percentile(&both, percent) / percentile(reference, percent);
    let verdict = match name {
        "bridge" => "is compared with",
        _ if ratio(50) <= LIMIT && ratio(99) <= LIMIT => "pass",
        _ => "**short**",
    };
    let of = |times: &[f64], percent: usize| short(percentile(times, percent));
    vec![
        way.to_owned(),
        name.to_owned(),
        of(&both, 50),
        of(&both, 99),
        of(&times.add, 50),
        of(&times.del, 50),
        format!("{:.2}", ratio(50)),
        format!("{:.2}", ratio(99)),
        verdict.to_owned(),
    ]
}

/// How it was measured.
fn method(options: &Options) -> String {
    format!(
        "Plugins are started as a runtime starts them, as processes, with addresses of host-local on the same disk: Debian's bridge with its\n\
         host-local, and ours on hnsd and vswitchd. They take turns: {} pods each one by one, and {} rounds with {AT_A_TIME} pods at a time,\n\
         first all ADDs, then all DELs. Times are of ADD and DEL of a pod together, from the start of the process to its end; a pod's namespace is there\n\
         before. At most {LIMIT} of bridge's time is the aim. The first answer is that of a pod of the same node to a datagram of one byte,\n\
         sent when ADD has returned, and again after every millisecond without an answer.\n",
        options.pods, options.rounds
    )
}
