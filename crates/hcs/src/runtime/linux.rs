//! Containers of Linux namespaces.
//!
//! Each has a directory: `log`, what its processes write; `scratch`, where they may write; `resolv.conf`, `hosts` and
//! `hostname`, which they find in `/etc`.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hcn::Guid;
use host::container::{self, Event, Mount, MountTable, Process, Program, Spec, Supervisor};
use host::namespace::Namespace;

use super::{Container, Happening, Listener, Plan, Runtime};
use crate::process::{ProcessParameters, Streams};
use crate::resolv_conf::{hosts, resolv_conf};

/// Finds the network namespace that stands for one of HNS; without one it is the machine's own.
pub type Namespaces = Box<dyn Fn(Option<Guid>) -> io::Result<Namespace> + Send + Sync>;

/// How containers are made.
pub struct Settings {
    /// The init of containers.
    pub program: Program,
    /// Where the directories of containers are.
    pub directory: PathBuf,
    /// Mount points that no container sees, such as the directory of all network namespaces.
    pub hidden: Vec<PathBuf>,
    /// The mount table that containers are made from; none means the table as it is then.
    pub table: Option<Arc<MountTable>>,
    /// Finds network namespaces.
    pub namespaces: Namespaces,
}

/// Makes them.
pub struct Linux {
    supervisor: Supervisor,
    settings: Settings,
}

impl Linux {
    /// A runtime without containers.
    pub fn new(settings: Settings) -> io::Result<Self> {
        Ok(Self { supervisor: Supervisor::new(settings.program.clone())?.from_table(settings.table.clone()), settings })
    }

    /// The log of a container.
    pub fn log(&self, id: &str) -> PathBuf {
        self.directory(id).join("log")
    }

    fn directory(&self, id: &str) -> PathBuf {
        self.settings.directory.join(id)
    }

    fn spec(&self, plan: &Plan<'_>) -> Spec {
        let directory = self.directory(plan.id);
        let files = ["resolv.conf", "hosts", "hostname"].map(|name| Mount {
            source: Some(directory.join(name)),
            target: Path::new("/etc").join(name),
            read_only: true,
        });
        let directories = plan.document.container.iter().flat_map(|container| &container.mapped_directories).map(|mapped| Mount {
            source: Some(mapped.host_path.clone().into()),
            target: mapped.container_path.clone().into(),
            read_only: mapped.read_only,
        });
        Spec {
            id: plan.id.to_owned(),
            host_name: plan.network.host_name.clone(),
            mounts: files.into_iter().chain(directories).collect(),
            scratch: Some(directory.join("scratch")),
            hidden: self.settings.hidden.clone(),
            log: Some(self.log(plan.id)),
            ..Spec::default()
        }
    }
}

impl Runtime for Linux {
    fn create(&self, plan: &Plan<'_>, listener: Listener) -> io::Result<Arc<dyn Container>> {
        check_id(plan.id)?;
        fs::create_dir_all(self.directory(plan.id).join("scratch"))?;
        self.update(plan)?;
        let network = (self.settings.namespaces)(plan.document.namespace())?;
        let listener = Arc::new(move |event| listener(happening(event)));
        Ok(Arc::new(Isolated { container: self.supervisor.create(&self.spec(plan), &network, listener)? }))
    }

    /// Files are written over and not replaced: a container sees the file and not its name.
    fn update(&self, plan: &Plan<'_>) -> io::Result<()> {
        let directory = self.directory(plan.id);
        fs::write(directory.join("resolv.conf"), resolv_conf(plan.network, plan.search_list))?;
        fs::write(directory.join("hosts"), hosts(plan.network))?;
        fs::write(directory.join("hostname"), format!("{}\n", plan.network.host_name))
    }

    fn clean(&self, id: &str) -> io::Result<()> {
        check_id(id)?;
        match fs::remove_dir_all(self.directory(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// An id is the name of a directory, and must not lead elsewhere.
fn check_id(id: &str) -> io::Result<()> {
    match id.is_empty() || id == "." || id == ".." || id.contains(['/', '\0']) {
        true => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{id:?} cannot be the name of a directory"))),
        false => Ok(()),
    }
}

fn happening(event: Event) -> Happening {
    match event {
        Event::Exited { pid, code } => Happening::ProcessExited { pid, code },
        Event::Ended => Happening::Ended,
    }
}

struct Isolated {
    container: container::Container,
}

impl Container for Isolated {
    fn spawn(&self, parameters: &ProcessParameters, streams: Streams) -> io::Result<u32> {
        let streams = match streams {
            Streams::Null => container::Streams::Null,
            Streams::Log => container::Streams::Log,
            Streams::Given(files) => container::Streams::Given(files.map(OwnedFd::from)),
        };
        self.container.spawn(&process(parameters), &streams)
    }

    fn signal(&self, pid: u32, signal: i32) -> io::Result<()> {
        self.container.signal(pid, signal)
    }

    fn stop(&self, grace: Duration) -> io::Result<()> {
        self.container.stop(grace)
    }

    fn kill(&self) -> io::Result<()> {
        self.container.kill()
    }

    fn init_pid(&self) -> Option<u32> {
        Some(self.container.init_pid())
    }
}

fn process(parameters: &ProcessParameters) -> Process {
    let directory = Some(PathBuf::from(&parameters.working_directory)).filter(|path| !path.as_os_str().is_empty());
    Process { arguments: parameters.arguments(), environment: parameters.variables(), directory }
}
