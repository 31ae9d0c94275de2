//! Labs: mixed clusters on this machine.

mod capture;
mod check;
mod flows;
mod graph;
mod join;
mod look;
mod run;
mod steps;
mod tour;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use lab::control::{Conversation, Reply, Request, TalkError};
use lab::enter;
use lab::home::{self, Home};
use lab::launch::{self, LaunchError, Role};
use lab::topology::{self, DEFAULT, NodeSpec, Plan};
use serde_json::Value;

use crate::exit::{Exit, Failure};
use crate::output::{Output, note};

pub(crate) use look::ask_status;
pub(crate) use run::{find_pod, registry, running_container};

/// What can be done with labs.
#[derive(Debug, Subcommand)]
pub(crate) enum LabVerb {
    /// Start a lab: nodes, networks, the Kubernetes API, names and pods
    #[command(after_help = UP_EXAMPLES)]
    Up(UpArgs),
    /// End a lab, with everything that is in it
    Down(DownArgs),
    /// The labs that run
    #[command(visible_aliases = ["ls"])]
    List,
    /// Nodes, pods and Services of a lab, and how they are
    Status(OfLab),
    /// Apply the manifests of a file to a lab
    Apply(ApplyArgs),
    /// Try the flows of the documents with real packets: who reaches whom, and why not
    Flows(flows::FlowsArgs),
    /// Try every setting and limit of the documents: what they say of the build, what is observed, and whether it is the same
    #[command(after_help = check::EXAMPLES)]
    Check(check::CheckArgs),
    /// Run a command in a pod, on a node (node/NAME), on the router or outside
    #[command(after_help = EXEC_EXAMPLES)]
    Exec(run::ExecArgs),
    /// What a pod's container has written
    Logs(run::LogsArgs),
    /// Packets of a pod, a node, the router or the host outside, as they pass
    #[command(after_help = capture::EXAMPLES)]
    Capture(capture::CaptureArgs),
    /// Draw the lab: an SVG of hosts, networks, pods and Services, with their addresses
    Graph(graph::GraphArgs),
    /// Be shown around, in a dozen steps
    Tour(tour::TourArgs),
    /// The file that kubectl needs: its path, or its content with --raw
    Kubeconfig(KubeconfigArgs),
    /// One of the first processes of a lab; not for people
    #[command(hide = true)]
    Process {
        /// Which one.
        role: String,
        /// The lab.
        name: String,
        /// Where to go on, and the command.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
}

/// What can be done with a container of a lab.
#[derive(Debug, Subcommand)]
pub(crate) enum ContainerVerb {
    /// The registry of a pod's container: its DNS, routes and metrics under the keys of Windows
    Registry(run::RegistryArgs),
}

/// Which lab.
#[derive(Args, Clone, Debug)]
pub(crate) struct OfLab {
    /// The lab's name
    #[arg(long, value_name = "NAME", env = "TRANSOM_LAB", default_value = home::DEFAULT_NAME)]
    pub(crate) name: String,
}

impl OfLab {
    /// Where it is.
    pub(crate) fn home(&self) -> Home {
        Home::of(&self.name)
    }
}

/// What is to be started.
#[derive(Args, Clone, Debug)]
pub(crate) struct UpArgs {
    /// A topology, manifests, or both; without it a lab of one Linux and two Windows nodes is started
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The lab's name; by default the one that the file gives, or `default`
    #[arg(long, value_name = "NAME", env = "TRANSOM_LAB")]
    name: Option<String>,
    /// The port of this machine at which the Kubernetes API is; 0 takes any
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    api_port: u16,
    /// Be in a cluster that is there already, and not in one of the lab's own
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of that file, unless the current one is meant
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    context: Option<String>,
    /// The build of Windows that all Windows nodes run as, whatever the file says; see `transom profile list`
    #[arg(long, value_name = "BUILD")]
    build: Option<String>,
    /// Apply the manifests again whenever the file changes, until Ctrl-C
    #[arg(long, requires = "file")]
    watch: bool,
}

/// What is to end.
#[derive(Args, Clone, Debug)]
pub(crate) struct DownArgs {
    /// Which lab.
    #[command(flatten)]
    of: OfLab,
    /// End all labs
    #[arg(long)]
    all: bool,
}

/// What is to be applied.
#[derive(Args, Clone, Debug)]
pub(crate) struct ApplyArgs {
    /// Manifests; a topology in the file is left alone
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Which lab.
    #[command(flatten)]
    of: OfLab,
}

/// How the kubeconfig is told.
#[derive(Args, Clone, Debug)]
pub(crate) struct KubeconfigArgs {
    /// Which lab.
    #[command(flatten)]
    of: OfLab,
    /// Print the content
    #[arg(long)]
    raw: bool,
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  transom lab up
  transom lab tour
  transom lab status
  transom lab exec client-win1 -- transom agnhost connect web:80
  kubectl --kubeconfig $(transom lab kubeconfig) get pods -o wide
  transom lab down";

const UP_EXAMPLES: &str = "\
It needs root, or a kernel that lets users have namespaces; nothing outside of the lab's own namespaces is touched.

Examples:
  transom lab up
  transom lab up my-lab.yaml --name mine --watch
  transom lab up --build ws2022
  transom lab up --kubeconfig ~/.kube/config --context kind-kind";

const EXEC_EXAMPLES: &str = "\
Examples:
  transom lab exec client-win1 -- cat /etc/resolv.conf
  transom lab exec -n shop web-0 -- sh
  transom lab exec node/win1 -- ip address
  transom lab exec outside -- ip route";

/// Does what the verb says.
pub(crate) fn run(output: &Output, verb: LabVerb) -> Result<(), Failure> {
    match verb {
        LabVerb::Up(args) => up(&args),
        LabVerb::Down(args) => down(&args),
        LabVerb::List => look::list(output),
        LabVerb::Status(of) => look::status(output, &of.home()),
        LabVerb::Apply(args) => {
            let text = read(&args.file)?;
            plan(&args.file.display().to_string(), &text)?;
            steps::follow(ask(&args.of.home(), &Request::Apply { text })?)
        }
        LabVerb::Flows(args) => flows::run(output, &args),
        LabVerb::Check(args) => check::run(output, &args),
        LabVerb::Exec(args) => run::exec(args),
        LabVerb::Logs(args) => run::logs(output, &args),
        LabVerb::Capture(args) => capture::run(&args),
        LabVerb::Graph(args) => graph::run(output, &args),
        LabVerb::Tour(args) => tour::run(output, &args),
        LabVerb::Kubeconfig(args) => look::kubeconfig(output, &args.of.home(), args.raw),
        LabVerb::Process { role, name, rest } => process(&role, &name, &rest),
    }
}

/// Whether a node's build is one.
fn is_build(node: &NodeSpec) -> Result<(), String> {
    let Some(build) = node.build.as_deref().or((!node.with.is_empty() || !node.without.is_empty()).then_some("transom")) else {
        return Ok(());
    };
    hns::Build::named(build, &node.with, &node.without).map(drop).map_err(|error| error.to_string())
}

fn read(file: &PathBuf) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|error| Failure::new(Exit::Usage, format!("{}: {error}", file.display())))
}

fn plan(file: &str, text: &str) -> Result<Plan, Failure> {
    topology::read(text, &is_build).map_err(|mistake| Failure::new(Exit::Usage, mistake.to_string()).context(file))
}

/// The text of a file with another build for all Windows nodes. Nothing else is added: what a file leaves open depends on builds.
fn with_build(text: &str, build: &str) -> Result<String, Failure> {
    let text = change(text, |topology| {
        for node in topology["nodes"].as_array_mut().into_iter().flatten().filter(|node| node["os"] == topology::Os::Windows.label()) {
            node["build"] = Value::from(build);
        }
    })?;
    plan("--build", &text).map(|_| text)
}

/// The text of a file with another topology in it.
fn change(text: &str, change: impl FnOnce(&mut Value)) -> Result<String, Failure> {
    let topology = parts(text).find(is_topology).or_else(|| parts(DEFAULT).find(is_topology)).unwrap_or_default();
    let failed = |error: serde_norway::Error| Failure::new(Exit::Failed, error.to_string());
    let mut topology: Value = serde_norway::from_str(topology).map_err(failed)?;
    change(&mut topology);
    let written = serde_norway::to_string(&topology).map_err(failed)?;
    let manifests = parts(text).filter(|part| !is_topology(part));
    Ok([written].into_iter().chain(manifests.map(str::to_owned)).collect::<Vec<_>>().join("\n---\n"))
}

/// The documents of a file.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n---")
}

fn is_topology(part: &&str) -> bool {
    part.lines().any(|line| line.trim() == "kind: Lab")
}

fn up(args: &UpArgs) -> Result<(), Failure> {
    let (file, mut text) = match &args.file {
        Some(file) => (file.display().to_string(), read(file)?),
        None => ("the built-in lab".to_owned(), DEFAULT.to_owned()),
    };
    let plan = plan(&file, &text)?;
    if let Some(build) = &args.build {
        text = with_build(&text, build)?;
    }
    let name = args.name.clone().or(plan.topology.name).unwrap_or_else(|| home::DEFAULT_NAME.to_owned());
    let home = Home::of(&name);
    let existing = match &args.kubeconfig {
        Some(kubeconfig) => {
            launch::prepare(&home).map_err(launch_failure)?;
            let (existing, changed) = join::join(kubeconfig, args.context.as_deref(), &name, &text)?;
            text = changed;
            Some(Box::new(existing))
        }
        None => None,
    };
    launch::launch(&home, args.api_port, existing.as_deref()).map_err(launch_failure)?;
    let made = steps::up(&home, text, existing);
    if let Err(failure) = made {
        return Err(match end(&home) {
            Ok(_) => failure,
            Err(left) => failure.note(left.to_string()),
        });
    }
    let of = if name == home::DEFAULT_NAME { String::new() } else { format!(" --name {name}") };
    note(&format!("\nThe lab {name:?} is up. Try:\n  transom lab status{of}\n  transom lab flows{of}"));
    note(&format!("  kubectl --kubeconfig {} get pods -o wide\n  transom lab down{of}", home.kubeconfig().display()));
    match (&args.file, args.watch) {
        (Some(file), true) => steps::watch(&home, file),
        _ => Ok(()),
    }
}

fn launch_failure(error: LaunchError) -> Failure {
    let exit = match &error {
        LaunchError::Running(_) | LaunchError::Port(..) => Exit::Conflict,
        LaunchError::Obstacle(_) => Exit::Refused,
        LaunchError::Left(_) => Exit::Unavailable,
        LaunchError::Io(..) => Exit::Failed,
    };
    Failure::new(exit, error.to_string())
}

/// Asks a lab for something.
pub(crate) fn ask(home: &Home, request: &Request) -> Result<Conversation, Failure> {
    Conversation::begin(home, request).map_err(talk_failure)
}

pub(crate) fn talk_failure(error: TalkError) -> Failure {
    let exit = match &error {
        TalkError::NoLab(_) => Exit::NotFound,
        TalkError::Ended(_) | TalkError::Io(_) => Exit::Unavailable,
    };
    Failure::new(exit, error.to_string())
}

fn down(args: &DownArgs) -> Result<(), Failure> {
    let homes = match args.all {
        true => home::list().map_err(|error| Failure::new(Exit::Failed, format!("labs cannot be listed: {error}")))?,
        false => vec![args.of.home()],
    };
    let mut is_any = false;
    for home in homes {
        is_any |= end(&home)?;
    }
    match is_any || args.all {
        true => Ok(()),
        false => Err(talk_failure(TalkError::NoLab(args.of.name.clone()))),
    }
}

/// Ends a lab, and waits until nothing of it is left. Returns whether there was one.
fn end(home: &Home) -> Result<bool, Failure> {
    lab::end::end(home).map_err(|error| Failure::new(Exit::Failed, format!("the lab {:?} does not end: {error}", home.name())))
}

/// Runs as one of a lab's first processes, or goes on from inside of it.
fn process(role: &str, name: &str, rest: &[String]) -> Result<(), Failure> {
    let home = Home::of(name);
    match role {
        enter::ARGUMENT => return run::go_on(rest),
        enter::JOIN => return run::join(&home, rest),
        lab::capture::ARGUMENT => return run::capture(rest),
        _ => {}
    }
    let outcome = match Role::read(role) {
        Some(Role::Launcher) => launch::run_launcher(&home),
        Some(Role::Init) => launch::run_init(&home),
        Some(Role::Gateway) => launch::run_gateway(rest),
        Some(Role::Supervisor) => {
            super::log::start("info,kube=warn,hyper=warn,tower=warn")?;
            lab::supervisor::run(&home)
        }
        None => Err(format!("{role:?} is none of a lab's processes")),
    };
    outcome.map_err(|cause| Failure::new(Exit::Failed, cause))
}

/// What a lab says at the end of a request.
pub(crate) fn failure(reply: Reply) -> Failure {
    match reply {
        Reply::Failed { cause, log } => log.into_iter().fold(Failure::new(Exit::Failed, cause), Failure::note),
        other => Failure::new(Exit::Failed, format!("the lab says something else than expected: {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_build_changes_windows_nodes_and_what_the_file_leaves_open() {
        let text = "apiVersion: transom/v1\nkind: Lab\nnodes:\n- {name: a, os: windows, build: ws2019}\n- {name: b, os: linux}\n---\n\
                    apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n";
        let changed = with_build(text, "ws2022").expect("a text");
        let Plan { topology, manifests } = plan("it", &changed).expect("a plan");
        assert_eq!(topology.nodes.iter().map(|node| node.build.as_deref()).collect::<Vec<_>>(), [Some("ws2022"), None]);
        assert_eq!((topology.cluster.pod_subnets.len(), manifests.len()), (1, 1));
        let lifted = plan("it", &with_build(text, "transom").expect("a text")).expect("a plan");
        assert_eq!(lifted.topology.cluster.pod_subnets.len(), 2);
        assert!(with_build(text, "ws1999").is_err());
    }

    #[test]
    fn manifests_alone_get_the_usual_lab_with_the_build() {
        let text = with_build("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n", "ws2025").expect("a text");
        let builds: Vec<Option<String>> = plan("it", &text).expect("a plan").topology.nodes.into_iter().map(|node| node.build).collect();
        assert_eq!(builds, [None, Some("ws2025".to_owned()), Some("ws2025".to_owned())]);
    }
}
