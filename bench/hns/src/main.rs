//! Measures hnsd over its socket, as its clients see it: `cargo xtask bench hns`.
//!
//! Three services with 100, 1,000 and 10,000 endpoints and as many load balancers run side by side, and every kind of call
//! is made to one after the other in turn, so that whatever else the machine does falls on all three alike. What is printed
//! is the median. Then eight clients together make endpoints in a fresh service, first as threads, then as processes.

mod cost;
mod documents;
mod report;
mod service;
mod throughput;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use report::{Claim, Report};

/// Measures hnsd over its socket.
#[derive(Parser)]
struct Arguments {
    /// The `transom` program to measure.
    #[arg(long)]
    transom: Option<PathBuf>,
    /// How often every kind of call is sampled.
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Also write the results to bench/results/hns.md.
    #[arg(long)]
    save: bool,
    /// Be one of the eight processes: make endpoints in the service at this socket.
    #[arg(long, hide = true)]
    worker: Option<PathBuf>,
    /// Which of the eight.
    #[arg(long, hide = true, default_value_t = 0)]
    number: usize,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match &arguments.worker {
        Some(socket) => throughput::be_worker(socket, arguments.number).map(|()| true),
        None => measure(&arguments),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            println!("error: {message}");
            ExitCode::from(2)
        }
    }
}

/// Measures everything, prints it and answers whether all claims hold.
fn measure(arguments: &Arguments) -> Result<bool, String> {
    let transom = arguments.transom.as_deref().ok_or("name the program to measure with --transom; `cargo xtask bench hns` does")?;
    let costs = cost::measure(transom, arguments.rounds)?;
    let rates = throughput::measure(transom)?;
    let report = Report { claims: claims(&costs, &rates), costs, rates };
    let text = report.print();
    println!("\n{text}");
    if arguments.save {
        rig::figure::save("hns", &text)?;
    }
    Ok(report.claims.iter().all(Claim::holds))
}

/// What must be true of the numbers.
fn claims(costs: &cost::Costs, rates: &throughput::Rates) -> Vec<Claim> {
    let mut claims: Vec<Claim> = costs
        .rows
        .iter()
        .filter(|row| row.is_create)
        .map(|row| Claim::at_most(format!("{}: at 10,000 against at 100", row.name), row.ratio(), 1.5, "times"))
        .collect();
    claims.push(Claim::at_least("durable creates, eight threads".into(), rates.threads, 5000.0, "per second"));
    claims.push(Claim::at_least("durable creates, eight processes".into(), rates.processes, 5000.0, "per second"));
    let memory = "resident memory with 10,000 endpoints and 10,000 load balancers";
    claims.push(Claim::at_most(memory.into(), costs.resident_mb, 100.0, "MB"));
    claims
}
