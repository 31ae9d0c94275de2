//! The operations of HCS, on compute systems that a runtime makes.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use hcn::Guid;

use crate::compute_system::ComputeSystem;
use crate::error::{Error, Result, detail};
use crate::network::{Adapter, Network, SearchList};
use crate::process::{ProcessParameters, ProcessStatus, Streams};
use crate::properties::{ExitType, ProcessDetails, Properties, PropertyQuery, PropertyType, SystemQuery};
use crate::registry::{Hive, changes, tcpip};
use crate::runtime::{Container, Happening, Listener, Plan, Runtime};
use crate::state::{Operation, State};

/// The number of the signal that cannot be refused.
const KILL: i32 = 9;

/// How long one who has been told that a container ended waits until the service has heard of it too.
const HEARSAY: Duration = Duration::from_secs(10);

/// Finds what is in an HCN namespace; [`network::adapters`](crate::network::adapters) asks HNS.
pub type Adapters = Box<dyn Fn(Guid) -> hcn::Result<Vec<Adapter>> + Send + Sync>;

/// What happened to which compute system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The system.
    pub id: String,
    /// What happened.
    pub happening: Happening,
}

/// Who hears of it. It is called at any time, and must not call the service.
pub type Observer = Arc<dyn Fn(Notification) + Send + Sync>;

/// All compute systems of a machine.
pub struct Service {
    runtime: Box<dyn Runtime>,
    adapters: Adapters,
    search_list: SearchList,
    observer: Observer,
    systems: RwLock<HashMap<String, Arc<System>>>,
}

/// One of them.
struct System {
    id: String,
    document: ComputeSystem,
    status: Mutex<Status>,
    changed: Condvar,
}

struct Status {
    state: State,
    exit_type: ExitType,
    /// There is none while it is made.
    container: Option<Arc<dyn Container>>,
    processes: BTreeMap<u32, Record>,
    /// Ends that were told before whoever started the process has heard its number.
    early_exits: BTreeMap<u32, i32>,
    hive: Hive,
}

struct Record {
    image_name: String,
    exit_code: Option<i32>,
}

impl Service {
    /// A service without systems.
    pub fn new(runtime: Box<dyn Runtime>, adapters: Adapters, search_list: SearchList, observer: Observer) -> Self {
        Self { runtime, adapters, search_list, observer, systems: RwLock::default() }
    }

    /// Makes a compute system from its document.
    pub fn create(&self, id: &str, document: &str) -> Result<()> {
        let document = read_document(document)?;
        let (network, hive) = self.look_around(&document)?;
        let system = Arc::new(System::new(id, document, hive));
        self.enter(&system)?;
        let plan = self.plan(&system, &network);
        match self.runtime.create(&plan, self.listener(&system)) {
            Ok(container) => {
                system.status().container = Some(container);
                Ok(())
            }
            Err(error) => {
                self.forget(id);
                let _ = self.runtime.clean(id);
                Err(Error::of_system("make the container", &error))
            }
        }
    }

    /// Starts it: from now on processes can be made.
    ///
    /// Its network is looked at again: a plugin may have filled the namespace since it was made.
    pub fn start(&self, id: &str) -> Result<()> {
        let system = self.find(id)?;
        system.status().state.after(Operation::Start)?;
        self.tell(&system)?;
        let mut status = system.status();
        status.state = status.state.after(Operation::Start)?;
        Ok(())
    }

    /// Looks at its network again, and tells its registry and its files.
    pub fn refresh(&self, id: &str) -> Result<()> {
        self.tell(&*self.find(id)?)
    }

    fn tell(&self, system: &System) -> Result<()> {
        let (network, hive) = self.look_around(&system.document)?;
        let plan = self.plan(system, &network);
        self.runtime.update(&plan).map_err(|error| Error::of_system("tell the container of its network", &error))?;
        system.status().hive = hive;
        Ok(())
    }

    /// Asks its processes to end, ends those that have not after `grace`, and waits until it has stopped.
    pub fn shutdown(&self, id: &str, grace: Duration) -> Result<()> {
        self.end(id, Operation::Shutdown, ExitType::GracefulExit, |container| container.stop(grace))
    }

    /// Ends its processes, and waits until it has stopped.
    pub fn terminate(&self, id: &str) -> Result<()> {
        self.end(id, Operation::Terminate, ExitType::ForcedExit, |container| container.kill())
    }

    fn end(
        &self,
        id: &str,
        operation: Operation,
        exit_type: ExitType,
        end: impl FnOnce(&dyn Container) -> std::io::Result<()>,
    ) -> Result<()> {
        let system = self.find(id)?;
        let container = {
            let mut status = system.status();
            status.state.after(operation)?;
            status.exit_type = exit_type;
            status.container.clone()
        };
        // Without the lock: whoever ends tells us of it.
        if let Some(container) = container {
            end(&*container).map_err(|error| Error::of_system("end the container", &error))?;
        }
        match system.wait(HEARSAY, |status| status.state == State::Stopped) {
            true => Ok(()),
            false => Err(Error::OperationTimeout(detail("the container has ended, and nobody has told"))),
        }
    }

    /// Forgets a system that has stopped or was never started, and takes away what it has left behind.
    ///
    /// One that runs is ended first if its document says so.
    pub fn delete(&self, id: &str) -> Result<()> {
        let system = self.find(id)?;
        if system.document.should_terminate_on_last_handle_closed && system.status().state == State::Running {
            self.terminate(id)?;
        }
        let container = {
            let mut status = system.status();
            status.state = status.state.after(Operation::Delete)?;
            status.container.take()
        };
        drop(container);
        self.forget(id);
        self.runtime.clean(id).map_err(|error| Error::of_system("take away the container's files", &error))
    }

    /// What is to be known about a system.
    pub fn properties(&self, id: &str, query: &PropertyQuery) -> Result<Properties> {
        let system = self.find(id)?;
        let mut properties = system.properties();
        if query.property_types.contains(&PropertyType::ProcessList) {
            properties.process_list = system.status().running();
        }
        Ok(properties)
    }

    /// Every system that is meant, in the order of their ids.
    pub fn enumerate(&self, query: &SystemQuery) -> Vec<Properties> {
        let systems = self.systems.read().unwrap_or_else(PoisonError::into_inner);
        let mut found: Vec<Properties> = systems.values().map(|system| system.properties()).filter(|found| query.includes(found)).collect();
        found.sort_by(|one, other| one.id.cmp(&other.id));
        found
    }

    /// Its registry.
    pub fn registry(&self, id: &str) -> Result<Hive> {
        Ok(self.find(id)?.status().hive.clone())
    }

    /// The process that stands for it on the machine, to be entered by; nothing where the runtime has none.
    pub fn init_pid(&self, id: &str) -> Result<Option<u32>> {
        Ok(self.find(id)?.status().container.as_ref().and_then(|container| container.init_pid()))
    }

    /// Runs a process in it, and gives its number.
    pub fn create_process(&self, id: &str, parameters: &ProcessParameters, streams: Streams) -> Result<u32> {
        let system = self.find(id)?;
        let arguments = parameters.arguments();
        let Some(image_name) = arguments.first().cloned() else {
            return Err(Error::InvalidJson(detail("a process has a command").field("CommandLine")));
        };
        let container = {
            let status = system.status();
            status.state.after(Operation::CreateProcess)?;
            status.container.clone().ok_or_else(|| Error::InvalidState(detail("it is still being made")))?
        };
        let pid = container.spawn(parameters, streams).map_err(|error| Error::of_system("start the process", &error))?;
        let mut status = system.status();
        let exit_code = status.early_exits.remove(&pid);
        status.processes.insert(pid, Record { image_name, exit_code });
        drop(status);
        system.changed.notify_all();
        Ok(pid)
    }

    /// How a process is.
    pub fn process(&self, id: &str, pid: u32) -> Result<ProcessStatus> {
        self.find(id)?.status().process(pid)
    }

    /// Waits until a process has ended, and gives its exit code; nothing if it takes longer.
    pub fn wait_process(&self, id: &str, pid: u32, timeout: Duration) -> Result<Option<i32>> {
        let system = self.find(id)?;
        system.status().process(pid)?;
        system.wait(timeout, |status| status.processes.get(&pid).is_none_or(|record| record.exit_code.is_some()));
        let status = system.status();
        Ok(status.processes.get(&pid).and_then(|record| record.exit_code))
    }

    /// Ends a process.
    pub fn kill_process(&self, id: &str, pid: u32) -> Result<()> {
        self.signal_process(id, pid, KILL)
    }

    /// Sends a signal to a process.
    pub fn signal_process(&self, id: &str, pid: u32, signal: i32) -> Result<()> {
        let system = self.find(id)?;
        let container = {
            let status = system.status();
            if status.process(pid)?.exited {
                return Err(Error::ProcessAlreadyStopped(detail(format!("process {pid} has ended"))));
            }
            status.container.clone()
        };
        match container {
            Some(container) => container.signal(pid, signal).map_err(|error| Error::of_system("signal the process", &error)),
            None => Err(Error::AlreadyStopped(detail("the container is gone"))),
        }
    }

    /// Forgets a process that has ended.
    pub fn close_process(&self, id: &str, pid: u32) -> Result<()> {
        let system = self.find(id)?;
        let mut status = system.status();
        if !status.process(pid)?.exited {
            return Err(Error::InvalidState(detail(format!("process {pid} still runs"))));
        }
        status.processes.remove(&pid);
        Ok(())
    }

    fn find(&self, id: &str) -> Result<Arc<System>> {
        let systems = self.systems.read().unwrap_or_else(PoisonError::into_inner);
        systems.get(id).cloned().ok_or_else(|| Error::NotFound(detail(format!("no compute system is called {id}"))))
    }

    fn enter(&self, system: &Arc<System>) -> Result<()> {
        let mut systems = self.systems.write().unwrap_or_else(PoisonError::into_inner);
        if systems.contains_key(&system.id) {
            return Err(Error::AlreadyExists(detail(format!("there is a compute system called {}", system.id))));
        }
        systems.insert(system.id.clone(), Arc::clone(system));
        Ok(())
    }

    fn forget(&self, id: &str) {
        self.systems.write().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    /// What a container knows of its network, and its registry.
    fn look_around(&self, document: &ComputeSystem) -> Result<(Network, Hive)> {
        let adapters = document.namespace().map(|namespace| (self.adapters)(namespace)).transpose()?.unwrap_or_default();
        let mut network = Network { host_name: document.host_name().to_owned(), adapters, ..Network::default() };
        let Some(container) = &document.container else {
            return Ok((network, Hive::default()));
        };
        network.search = container.networking.search_list();
        network.allow_unqualified_queries = container.networking.allow_unqualified_dns_query;
        let mut hive = tcpip::hive(&network, self.search_list);
        changes::apply(&container.registry_changes, &mut hive)?;
        Ok((network, hive))
    }

    fn plan<'a>(&self, system: &'a System, network: &'a Network) -> Plan<'a> {
        Plan { id: &system.id, document: &system.document, network, search_list: self.search_list }
    }

    /// What a container says goes to its system first, so that whoever is told finds it there.
    fn listener(&self, system: &Arc<System>) -> Listener {
        let (observer, system) = (Arc::clone(&self.observer), Arc::downgrade(system));
        Arc::new(move |happening| {
            if let Some(system) = system.upgrade() {
                system.take(happening);
                observer(Notification { id: system.id.clone(), happening });
            }
        })
    }
}

fn read_document(text: &str) -> Result<ComputeSystem> {
    let document: ComputeSystem = hcn::parse(text)?;
    if document.container.is_none() {
        let cause = "only containers can be made here";
        return Err(match document.virtual_machine.is_some() {
            true => Error::NotSupported(detail(cause).field("VirtualMachine")),
            false => Error::InvalidJson(detail(cause).field("Container").remedy("give the document a Container")),
        });
    }
    Ok(document)
}

impl System {
    fn new(id: &str, document: ComputeSystem, hive: Hive) -> Self {
        let status = Status {
            state: State::Created,
            exit_type: ExitType::None,
            container: None,
            processes: BTreeMap::new(),
            early_exits: BTreeMap::new(),
            hive,
        };
        Self { id: id.to_owned(), document, status: status.into(), changed: Condvar::new() }
    }

    /// A lock whose holder panicked has a status that is whole all the same: every change is one step.
    fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something holds; false if it takes longer.
    fn wait(&self, timeout: Duration, mut holds: impl FnMut(&Status) -> bool) -> bool {
        let start = Instant::now();
        let mut status = self.status();
        loop {
            if holds(&status) {
                return true;
            }
            let Some(left) = timeout.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) else {
                return false;
            };
            status = self.changed.wait_timeout(status, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn take(&self, happening: Happening) {
        self.status().take(happening);
        self.changed.notify_all();
    }

    fn properties(&self) -> Properties {
        let status = self.status();
        Properties {
            id: self.id.clone(),
            system_type: "Container".into(),
            runtime_os_type: "Windows".into(),
            name: self.id.clone(),
            owner: self.document.owner.clone(),
            state: status.state.to_string(),
            stopped: status.state == State::Stopped,
            exit_type: if status.state == State::Stopped { status.exit_type.to_string() } else { String::new() },
            terminate_on_last_handle_closed: self.document.should_terminate_on_last_handle_closed,
            ..Properties::default()
        }
    }
}

impl Status {
    fn take(&mut self, happening: Happening) {
        match happening {
            Happening::ProcessExited { pid, code } => match self.processes.get_mut(&pid).filter(|record| record.exit_code.is_none()) {
                Some(record) => record.exit_code = Some(code),
                None => _ = self.early_exits.insert(pid, code),
            },
            Happening::Ended => {
                self.state = State::Stopped;
                if self.exit_type == ExitType::None {
                    self.exit_type = ExitType::UnexpectedExit;
                }
                // Nobody was there to tell how the others ended, but it was not by themselves.
                self.processes.values_mut().for_each(|record| _ = record.exit_code.get_or_insert(128 + KILL));
            }
        }
    }

    fn process(&self, pid: u32) -> Result<ProcessStatus> {
        let record = self.processes.get(&pid).ok_or_else(|| Error::ProcessNotFound(detail(format!("there is no process {pid}"))))?;
        let exit_code = record.exit_code.unwrap_or_default().cast_unsigned();
        Ok(ProcessStatus { process_id: pid, exited: record.exit_code.is_some(), exit_code, ..ProcessStatus::default() })
    }

    fn running(&self) -> Vec<ProcessDetails> {
        let running = self.processes.iter().filter(|(_, record)| record.exit_code.is_none());
        let details = |(pid, record): (&u32, &Record)| ProcessDetails {
            process_id: *pid,
            image_name: record.image_name.clone(),
            ..ProcessDetails::default()
        };
        running.map(details).collect()
    }
}
