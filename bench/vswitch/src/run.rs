//! The whole run: set up, measure, report.

use std::process::Command;

use rig::figure::{in_project, save_as};

use crate::load::Span;
use crate::measure::{self, KERNEL, NAMES, OURS, Outcome, SUBJECTS, Subjects};
use crate::options::Options;
use crate::process;
use crate::programming;
use crate::progress::Progress;
use crate::report::{self, Report};
use crate::row::{ROWS, Row};
use crate::system::{System, Topology, kernel, open_vswitch, ours};

/// The name of the test that needs no system.
const ENGINE: &str = "engine alone";

/// The name of the test of programming.
const PROGRAMMING: &str = "programming";

/// Measures everything that was asked for, prints it and keeps it. A figure short of its floor is no error; none at all is one.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let mut report = Report::new(options);
    let rows: Vec<Row> = ROWS.iter().copied().filter(|row| options.wants(&row.name())).collect();
    let progress = Progress::new(rows.len() * SUBJECTS * options.rounds());
    for topology in [Topology::SameNode, Topology::TwoNodes, Topology::Service] {
        let rows: Vec<Row> = rows.iter().copied().filter(|row| row.topology == topology).collect();
        if !rows.is_empty() {
            report.outcomes.extend(measure_topology(topology, &rows, options, &progress, &mut report.notes));
        }
    }
    if options.wants(ENGINE) {
        progress.say(ENGINE);
        report.engine = engine(options).unwrap_or_else(|error| format!("{error}\n"));
    }
    if options.wants(PROGRAMMING) {
        progress.say(PROGRAMMING);
        report.programming = programming::measure(options).unwrap_or_else(|error| format!("{error}\n"));
    }
    drop(progress);
    if report.outcomes.is_empty() && report.engine.is_empty() && report.programming.is_empty() {
        return Err("no test has a name like that".to_owned());
    }
    let text = report.print();
    println!("\n{text}");
    if report.outcomes.iter().any(|outcome| outcome.ratios(OURS, KERNEL).is_empty()) {
        return Err("some tests could not be measured, see above; the results are not saved".to_owned());
    }
    match options.only {
        None => save_as(options.data_path.results(), options.data_path.command(), &text),
        Some(_) => Ok(()),
    }
}

/// Measures all tests of a topology, with everything that is compared set up at the same time.
fn measure_topology(topology: Topology, rows: &[Row], options: &Options, progress: &Progress, notes: &mut Vec<String>) -> Vec<Outcome> {
    progress.say(&format!("setting up: {}", topology.name()));
    let subjects = set_up(topology, options);
    for (name, subject) in NAMES.iter().zip(&subjects) {
        if let Err(error) = subject {
            let note = format!("{}: {name} is not measured: {error}", topology.name());
            progress.say(&note);
            notes.push(note);
        }
    }
    let span = Span::of(options.seconds());
    rows.iter().map(|row| measure::measure(*row, &subjects, options.rounds(), span, progress)).collect()
}

fn set_up(topology: Topology, options: &Options) -> Subjects {
    let connected = |system: Result<System, String>| system.and_then(|system| system.wait_until_connected().map(|()| system));
    let other = match options.no_ovs {
        true => Err("left out".to_owned()),
        false => connected(open_vswitch::set_up(topology)),
    };
    [connected(kernel::set_up(topology)), connected(ours::set_up(topology, options)), other]
}

/// What the benchmark of the engine prints. Where results are kept, the curve of services is drawn too.
fn engine(options: &Options) -> Result<String, String> {
    let program = options.vfp_bench.as_deref();
    let program = program.ok_or("name the program that measures the engine with --vfp-bench; `cargo xtask bench vswitch` does")?;
    let mut command = Command::new(program);
    if options.only.is_none() {
        command.arg("--svg").arg(in_project(report::CURVE));
    }
    process::run(&mut command)
}
