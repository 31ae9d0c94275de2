//! Commands in pods, and what their containers write.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use lab::control::{Reply, Request};
use lab::enter::{self, Place};
use lab::home::Home;
use lab::status::{ContainerStatus, NodeStatus, PodStatus, Status};

use super::look::ask_status;
use super::{OfLab, ask, failure, talk_failure};
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Where a command is to run.
#[derive(Args, Clone, Debug)]
pub(crate) struct ExecArgs {
    /// A pod, node/NAME, router or outside
    #[arg(value_name = "POD")]
    place: String,
    /// The pod's Kubernetes namespace
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    namespace: String,
    /// The container, if the pod has several
    #[arg(short, long, value_name = "CONTAINER")]
    container: Option<String>,
    /// Which lab.
    #[command(flatten)]
    of: OfLab,
    /// The command
    #[arg(value_name = "COMMAND", required = true, last = true)]
    command: Vec<String>,
}

/// Whose log.
#[derive(Args, Clone, Debug)]
pub(crate) struct LogsArgs {
    /// The pod
    #[arg(value_name = "POD")]
    pod: String,
    /// The pod's Kubernetes namespace
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    namespace: String,
    /// The container, if the pod has several
    #[arg(short, long, value_name = "CONTAINER")]
    container: Option<String>,
    /// Wait for more
    #[arg(short, long)]
    follow: bool,
    /// How many of the last lines to show; all by default
    #[arg(long, value_name = "COUNT")]
    tail: Option<usize>,
    /// When each line was written
    #[arg(long)]
    timestamps: bool,
    /// Which lab.
    #[command(flatten)]
    of: OfLab,
}

/// Runs a command somewhere in a lab. Its exit code is ours.
pub(crate) fn exec(args: ExecArgs) -> Result<(), Failure> {
    let home = args.of.home();
    let status = ask_status(&home)?;
    let place = find(&status, &args)?;
    let ended = enter::run(&home, &place, &args.command);
    let status = ended.map_err(|error| Failure::new(Exit::Failed, format!("{} cannot be entered: {error}", args.place)))?;
    std::process::exit(enter::code(status))
}

fn find(status: &Status, args: &ExecArgs) -> Result<Place, Failure> {
    match args.place.as_str() {
        "outside" => return Ok(Place::outside()),
        "router" => return Ok(Place::router()),
        _ => {}
    }
    if let Some(name) = args.place.strip_prefix("node/") {
        return Ok(Place::Network(find_node(status, name)?.namespace.clone()));
    }
    let name = args.place.strip_prefix("pod/").unwrap_or(&args.place);
    let pod = find_pod(status, &args.namespace, name)?;
    running_container(pod, args.container.as_deref()).map(Place::Container)
}

pub(super) fn find_node<'a>(status: &'a Status, name: &str) -> Result<&'a NodeStatus, Failure> {
    let node = status.nodes.iter().find(|node| node.name == name);
    let names = || status.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>().join(", ");
    node.ok_or_else(|| Failure::new(Exit::NotFound, format!("there is no node {name:?}; there are {}", names())))
}

/// The process of a pod's container that runs.
pub(crate) fn running_container(pod: &PodStatus, name: Option<&str>) -> Result<u32, Failure> {
    let container = container(pod, name)?;
    container.pid.ok_or_else(|| Failure::new(Exit::Unavailable, format!("{} does not run: {}", container.name, pod.trouble)))
}

pub(crate) fn find_pod<'a>(status: &'a Status, namespace: &str, name: &str) -> Result<&'a PodStatus, Failure> {
    let pod = status.pods.iter().find(|pod| pod.namespace == namespace && pod.name == name);
    pod.ok_or_else(|| {
        Failure::new(
            Exit::NotFound,
            format!("there is no pod {name:?} in the Kubernetes namespace {namespace:?}; see `transom lab status`"),
        )
    })
}

/// A container of a pod: the one that is named, or the first that runs, or the first.
fn container<'a>(pod: &'a PodStatus, name: Option<&str>) -> Result<&'a ContainerStatus, Failure> {
    let all = &pod.containers;
    let found = match name {
        Some(name) => all.iter().find(|container| container.name == name),
        None => all.iter().find(|container| container.pid.is_some()).or(all.first()),
    };
    let names: Vec<&str> = all.iter().map(|container| container.name.as_str()).collect();
    found.ok_or_else(|| Failure::new(Exit::NotFound, format!("{} has no such container; it has {}", pod.name, names.join(", "))))
}

/// Whose registry.
#[derive(Args, Clone, Debug)]
pub(crate) struct RegistryArgs {
    /// The pod
    #[arg(value_name = "POD")]
    pod: String,
    /// The pod's Kubernetes namespace
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    namespace: String,
    /// The container, if the pod has several
    #[arg(short, long, value_name = "CONTAINER")]
    container: Option<String>,
    /// The key to begin at
    #[arg(long, value_name = "KEY", default_value = "HKLM")]
    key: String,
    /// Print a file that `reg import` reads, all of it
    #[arg(long)]
    export: bool,
    /// Which lab.
    #[command(flatten)]
    of: OfLab,
}

/// Prints the registry of a container, as `reg query /s` does.
pub(crate) fn registry(output: &Output, args: &RegistryArgs) -> Result<(), Failure> {
    let home = args.of.home();
    let status = ask_status(&home)?;
    let pod = find_pod(&status, &args.namespace, &args.pod)?;
    let container = container(pod, args.container.as_deref())?;
    let request = Request::Registry { node: pod.node.clone(), id: container.id.clone(), export: args.export, key: args.key.clone() };
    match ask(&home, &request)?.hear().map_err(talk_failure)? {
        Reply::Text { text } => output.text(&text),
        other => Err(failure(other)),
    }
}

/// Joins a lab, and runs a command there.
pub(super) fn join(home: &Home, rest: &[String]) -> Result<(), Failure> {
    let (place, command) = place(rest)?;
    match enter::run(home, &place, command) {
        Ok(status) => std::process::exit(enter::code(status)),
        Err(error) => Err(Failure::new(Exit::Failed, format!("the lab cannot be entered: {error}"))),
    }
}

/// Writes packets to standard output for as long as anybody reads them.
pub(super) fn capture(links: &[String]) -> Result<(), Failure> {
    match lab::capture::run(links, &mut std::io::stdout()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::new(Exit::Failed, error.to_string())),
        _ => Ok(()),
    }
}

fn place(rest: &[String]) -> Result<(Place, &[String]), Failure> {
    let [kind, value, command @ ..] = rest else { return Err(Failure::new(Exit::Usage, "nowhere to go on")) };
    let place = Place::read(kind, value).ok_or_else(|| Failure::new(Exit::Usage, format!("{kind:?} is no place")))?;
    Ok((place, command))
}

/// Goes on from inside of the lab.
pub(super) fn go_on(rest: &[String]) -> Result<(), Failure> {
    let (place, command) = place(rest)?;
    match enter::go_on(&place, command.to_vec()) {
        Ok(code) => std::process::exit(code),
        Err(error) => Err(Failure::new(Exit::Failed, error.to_string())),
    }
}

/// Prints what a container has written.
pub(crate) fn logs(output: &Output, args: &LogsArgs) -> Result<(), Failure> {
    let home = args.of.home();
    let status = ask_status(&home)?;
    let pod = find_pod(&status, &args.namespace, &args.pod)?;
    let path = log_file(&home, container(pod, args.container.as_deref())?)?;
    let failed = |error: std::io::Error| Failure::new(Exit::NotFound, format!("there is no log of {}: {error}", args.pod));
    let mut reader = BufReader::new(std::fs::File::open(&path).map_err(failed)?);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        match reader.read_line(&mut line).map_err(failed)? {
            0 => break,
            _ => lines.push(shown(&line, args.timestamps)),
        }
    }
    let first = args.tail.map_or(0, |count| lines.len().saturating_sub(count));
    lines[first..].iter().try_for_each(|line| output.text(line))?;
    while args.follow && home.is_running() {
        let mut line = String::new();
        match reader.read_line(&mut line).map_err(failed)? {
            0 => std::thread::sleep(Duration::from_millis(100)),
            _ => output.text(&shown(&line, args.timestamps))?,
        }
    }
    Ok(())
}

/// The file of a log, as the machine sees it: through the lab's first process.
fn log_file(home: &Home, container: &ContainerStatus) -> Result<PathBuf, Failure> {
    let root = home.root().ok_or_else(|| Failure::new(Exit::Unavailable, "the lab has no process"))?;
    Ok(root.join(container.log.trim_start_matches('/')))
}

/// A line of a log: time, stream, whether it is whole, and the text.
fn shown(line: &str, timestamps: bool) -> String {
    let mut parts = line.splitn(4, ' ');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(time), Some(_), Some(_), Some(text)) if timestamps => format!("{time} {text}"),
        (Some(_), Some(_), Some(_), Some(text)) => text.to_owned(),
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_shown_without_their_marks() {
        let line = "2026-11-16T10:00:00.1Z stdout F hello you\n";
        assert_eq!(shown(line, false), "hello you\n");
        assert_eq!(shown(line, true), "2026-11-16T10:00:00.1Z hello you\n");
        assert_eq!(shown("odd\n", false), "odd\n");
    }
}
