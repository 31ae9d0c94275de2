//! The whole run: set up, measure, report.

use std::process::Command;

use rig::figure::{in_project, save_as};

use crate::first_packet;
use crate::load::Span;
use crate::loaded;
use crate::measure::{self, Outcome, SUBJECTS, Subjects};
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
    let loaded: Vec<Row> = loaded::rows().into_iter().filter(|row| options.wants(&row.name())).collect();
    let progress = Progress::new((rows.len() + loaded.len()) * SUBJECTS * options.rounds());
    for topology in [Topology::SameNode, Topology::TwoNodes, Topology::Service] {
        let rows: Vec<Row> = rows.iter().copied().filter(|row| row.topology == topology).collect();
        if !rows.is_empty() {
            report.outcomes.extend(measure_topology(topology, &rows, options, &progress, &mut report.notes));
        }
    }
    if !loaded.is_empty() {
        report.loaded = loaded::measure(&loaded, options, &progress, &mut report.notes);
    }
    if options.wants(first_packet::NAME) {
        report.first_packets = Some(first_packet::measure(options, &progress));
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
    if report.is_empty() {
        return Err("no test has a name like that".to_owned());
    }
    let text = report.print();
    println!("\n{text}");
    if !report.is_complete() {
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
    for note in subjects.missing(topology.name()) {
        progress.say(&note);
        notes.push(note);
    }
    let span = Span::of(options.seconds());
    rows.iter().map(|row| measure::measure(*row, &subjects, options.rounds(), span, progress)).collect()
}

fn set_up(topology: Topology, options: &Options) -> Subjects {
    let connected = |system: Result<System, String>| system.and_then(System::connected);
    let other = match options.no_ovs {
        true => Err("left out".to_owned()),
        false => connected(open_vswitch::set_up(topology)),
    };
    let systems = [connected(kernel::set_up(topology)), connected(ours::set_up(topology, options)), other];
    Subjects { names: ["kernel", "transom", "OVS"], systems }
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
