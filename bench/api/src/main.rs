//! Measures the embedded API server against kube-apiserver with etcd: `cargo xtask bench api`.
//!
//! Both are running, both write to the same disk and answer when what they wrote is on it. They take turns in everything, so that
//! whatever else the machine does falls on both alike.

mod measure;
mod report;
mod subject;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use measure::Sizes;
use subject::Subject;

/// Measures the embedded API server against kube-apiserver with etcd.
#[derive(Debug, Parser)]
struct Options {
    /// How ours is reached.
    #[arg(long, value_name = "KUBECONFIG")]
    ours: PathBuf,
    /// Its process.
    #[arg(long, value_name = "PID", value_delimiter = ',', required = true)]
    ours_process: Vec<u32>,
    /// How another one of ours is reached, in which there never is much: what little costs is measured at the same time as what much does.
    #[arg(long, value_name = "KUBECONFIG")]
    small: PathBuf,
    /// How the original is reached.
    #[arg(long, value_name = "KUBECONFIG")]
    original: PathBuf,
    /// Its processes: kube-apiserver and etcd.
    #[arg(long, value_name = "PID", value_delimiter = ',', required = true)]
    original_process: Vec<u32>,
    /// A tenth of the objects, and fewer of everything else, to see whether it works; nothing is saved.
    #[arg(long)]
    quick: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let outcome = runtime.map_err(|error| format!("no runtime: {error}")).and_then(|runtime| runtime.block_on(run(&options)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: &Options) -> Result<(), String> {
    let machine = rig::figure::machine();
    let sizes = if options.quick { Sizes::QUICK } else { Sizes::FULL };
    let ours = Subject::connect("transom", &options.ours, &options.ours_process).await?;
    let original = Subject::connect("kube-apiserver, etcd", &options.original, &options.original_process).await?;
    let small = Subject::connect("transom with little in it", &options.small, &[]).await?;
    let rows = measure::all(&ours, &small, &original, &sizes).await?;
    let text = report::text(&machine, &sizes, &rows);
    println!("{text}");
    if options.quick { Ok(()) } else { rig::figure::save("api", &text) }
}
