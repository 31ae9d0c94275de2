//! The flows of the documents, as a matrix.

use clap::{Args, ValueEnum};
use lab::control::{Reply, Request};
use lab::flows::{Ends, Flow, Outcome, Protocol, Sample};

use super::{OfLab, ask, failure, talk_failure};
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Output, Table, Tone};

/// How flows are tried.
#[derive(Args, Clone, Debug)]
pub(crate) struct FlowsArgs {
    /// Which lab.
    #[command(flatten)]
    of: OfLab,
    /// Compare with what the documents promise for the builds, and fail if something is not so
    #[arg(long, value_enum, value_name = "WHAT")]
    expect: Option<Expect>,
    /// Try so many pairs of the pods that are there, drawn from all kinds of pairs alike, instead of pods made for it
    #[arg(long, value_name = "PAIRS")]
    sample: Option<usize>,
    /// Draw other pairs; the same seed draws the same
    #[arg(long, value_name = "NUMBER", default_value_t = 1, requires = "sample")]
    seed: u64,
}

/// What flows are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Expect {
    /// What Kubernetes' pages on Windows say.
    Documents,
    /// Everything works.
    All,
}

/// Tries everything, and shows what came of it.
pub(crate) fn run(output: &Output, args: &FlowsArgs) -> Result<(), Failure> {
    let sample = args.sample.map(|pairs| Sample { pairs, seed: args.seed });
    let outcomes = match ask(&args.of.home(), &Request::Flows { sample })?.hear().map_err(talk_failure)? {
        Reply::Flows { outcomes } => outcomes,
        other => return Err(failure(other)),
    };
    match output.is_for_people() {
        true => show(output, &outcomes, args.expect)?,
        false => {
            let value = serde_json::to_value(&outcomes).map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
            output.value(&value)?;
        }
    }
    let unexpected = outcomes.iter().filter(|outcome| !is_as_expected(outcome, args.expect)).count();
    match unexpected {
        0 => Ok(()),
        count => Err(Failure::new(Exit::Failed, format!("{count} of {} flows are not as expected", outcomes.len()))),
    }
}

fn is_as_expected(outcome: &Outcome, expect: Option<Expect>) -> bool {
    match expect {
        None => true,
        Some(Expect::All) => outcome.works,
        Some(Expect::Documents) => outcome.works == outcome.documents.works,
    }
}

fn show(output: &Output, outcomes: &[Outcome], expect: Option<Expect>) -> Result<(), Failure> {
    let mut pairs: Vec<&Ends> = outcomes.iter().map(|outcome| &outcome.ends).collect();
    pairs.sort_by(|a, b| (&b.title, a).cmp(&(&a.title, b)));
    pairs.dedup();
    for kind in pairs.chunk_by(|a, b| a.title == b.title) {
        let whose = match kind {
            [Ends { from, to, pods: None, .. }] => format!("{from} to {to}"),
            [_] => "1 pair".to_owned(),
            _ => format!("{} pairs", kind.len()),
        };
        output.line(&format!("{} ({whose})", kind[0].title))?;
        output.table(&matrix(outcomes, &kind[0].title, expect))?;
        output.line("")?;
    }
    let reasons: Vec<String> = outcomes.iter().filter(|outcome| !outcome.works).map(reason).collect();
    reasons.iter().try_for_each(|reason| output.line(reason))
}

fn matrix(outcomes: &[Outcome], title: &str, expect: Option<Expect>) -> Table {
    let mut table = Table::new(vec!["FLOW", "TCP/IPv4", "TCP/IPv6", "UDP/IPv4", "UDP/IPv6"]);
    for flow in Flow::ALL {
        let cell = |protocol, v6| {
            let of = |outcome: &&Outcome| {
                outcome.flow == flow && outcome.protocol == protocol && outcome.v6 == v6 && outcome.ends.title == title
            };
            marks(&outcomes.iter().filter(of).collect::<Vec<_>>(), expect)
        };
        let cells = [cell(Protocol::Tcp, false), cell(Protocol::Tcp, true), cell(Protocol::Udp, false), cell(Protocol::Udp, true)];
        if outcomes.iter().any(|outcome| outcome.flow == flow && outcome.ends.title == title) {
            table.row([vec![Cell::from(flow.title())], cells.to_vec()].concat());
        }
    }
    table
}

/// What came of one flow, or of the same flow between several pairs.
fn marks(outcomes: &[&Outcome], expect: Option<Expect>) -> Cell {
    match outcomes {
        [] => Cell::default(),
        [outcome] => mark(outcome, expect),
        [first, rest @ ..] if rest.iter().all(|outcome| kind(outcome, expect) == kind(first, expect)) => mark(first, expect),
        _ => {
            let works = outcomes.iter().filter(|outcome| outcome.works).count();
            let are_good = expect.is_some() && outcomes.iter().all(|outcome| is_as_expected(outcome, expect));
            Cell::toned(format!("{works} of {}", outcomes.len()), if are_good { Tone::Good } else { Tone::Bad })
        }
    }
}

/// What outcomes are told apart by.
fn kind(outcome: &Outcome, expect: Option<Expect>) -> (bool, bool) {
    (outcome.works, is_as_expected(outcome, expect))
}

fn mark(outcome: &Outcome, expect: Option<Expect>) -> Cell {
    let text = match kind(outcome, expect) {
        (true, true) => "yes",
        (false, true) if expect.is_some() => "no, as documented",
        (true, false) => "yes, unexpected",
        (false, _) => "no",
    };
    let is_good = if expect.is_some() { is_as_expected(outcome, expect) } else { outcome.works };
    Cell::toned(text, if is_good { Tone::Good } else { Tone::Bad })
}

fn reason(outcome: &Outcome) -> String {
    let protocol = if outcome.protocol == Protocol::Tcp { "TCP" } else { "UDP" };
    let family = if outcome.v6 { "IPv6" } else { "IPv4" };
    let documents = match outcome.documents.because.as_str() {
        "" => String::new(),
        because => format!(" (documents: {because})"),
    };
    let pods = outcome.ends.pods.as_ref().map(|(from, to)| format!(", {from} to {to}")).unwrap_or_default();
    format!("no: {}, {}{pods}, {protocol}/{family}: {}{documents}", outcome.flow.title(), outcome.ends.title, outcome.reason)
}
