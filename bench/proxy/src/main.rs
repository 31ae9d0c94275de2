//! Measures `transom kube-proxy` against Kubernetes' own `kube-proxy.exe` under Wine: `cargo xtask bench proxy`.
//!
//! Both drive an hnsd of their own, empty at the beginning, from the same API server with the same content. What they make is counted at hnsd,
//! and what they ask for at a relay before it.

mod content;
mod hns;
mod relay;
mod report;
mod subject;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;

use content::Content;
use hns::Hns;
use report::Figures;
use subject::Subject;

/// Measures kube-proxy.
#[derive(Debug, Parser)]
struct Options {
    /// The program of ours.
    #[arg(long, value_name = "FILE")]
    transom: PathBuf,
    /// Kubernetes' own, compiled for Windows; without it only ours is measured.
    #[arg(long, value_name = "FILE", requires = "wine_prefix")]
    original: Option<PathBuf>,
    /// The Wine prefix with our DLLs that it is started in.
    #[arg(long, value_name = "DIR")]
    wine_prefix: Option<PathBuf>,
    /// How many Services there are.
    #[arg(long, default_value_t = 2000)]
    services: usize,
    /// How many backends they have together.
    #[arg(long, default_value_t = 5000)]
    backends: usize,
    /// How many backends are replaced afterwards.
    #[arg(long, default_value_t = 1000)]
    changes: usize,
}

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(900);

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
    let directory = tempfile::tempdir().map_err(|error| format!("no directory: {error}"))?;
    let mut content = Content::start(&options.transom, directory.path(), options.services, options.backends).await?;
    println!("{} Services with {} backends are in the API server", options.services, options.backends);
    let ours = measure(options, &mut content, &Subject::Ours, directory.path()).await?;
    let original = match (&options.original, &options.wine_prefix) {
        (Some(program), Some(prefix)) => {
            let subject = Subject::Original { program: program.clone(), prefix: prefix.clone() };
            Some(measure(options, &mut content, &subject, directory.path()).await?)
        }
        _ => None,
    };
    let text = report::text(&machine, options.services, options.backends, options.changes, &ours, original.as_ref());
    println!("{text}");
    match original.is_some() {
        true => rig::figure::save("proxy", &text),
        false => Ok(()),
    }
}

/// Everything about one of the two.
async fn measure(options: &Options, content: &mut Content, subject: &Subject, directory: &std::path::Path) -> Result<Figures, String> {
    let name = subject.name();
    // Without the relay first: that is how long it takes.
    let hns = Hns::start(&options.transom, &directory.join(format!("{name}-time")))?;
    let begin = Instant::now();
    let mut process = subject.start(&options.transom, content.kubeconfig(), &hns, None)?;
    hns.wait(&mut process, |hns| Ok(hns.load_balancers()? >= content.frontends()), PATIENCE)?;
    let cold = begin.elapsed();
    println!("{name}: cold start: {cold:?}");
    let wanted = content.wanted();
    hns.wait(&mut process, |hns| hns.reaches(&wanted), PATIENCE)?;
    drop((process, hns));
    let hns = Hns::start(&options.transom, &directory.join(format!("{name}-calls")))?;
    let relay = relay::Relay::start(hns.port()?)?;
    let mut process = subject.start(&options.transom, content.kubeconfig(), &hns, Some(relay.port()))?;
    hns.wait(&mut process, |hns| Ok(hns.load_balancers()? >= content.frontends()), PATIENCE)?;
    // What comes after the first sync belongs to it.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let cold_calls = relay.calls();
    println!("{name}: calls of the cold start: {cold_calls}");
    let begin = Instant::now();
    content.change(options.changes).await?;
    let wanted = content.wanted();
    hns.wait(&mut process, |hns| hns.reaches(&wanted), PATIENCE)?;
    let changed = begin.elapsed();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let calls = relay.calls() - cold_calls;
    println!("{name}: {} changes: {changed:?}, {calls} calls", options.changes);
    Ok(Figures { cold, cold_calls, changed, calls, memory: subject::memory(&process)? })
}
