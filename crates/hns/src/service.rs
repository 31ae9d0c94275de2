//! The service: many callers, one writer.
//!
//! Reads are answered from the published state and wait for nobody. Changes go to the writer, a thread of its own; while it waits for
//! the disk the next batch gathers, so that throughput grows with the number of callers.

use std::path::PathBuf;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use arc_swap::ArcSwap;
use hcn::api::{Events, Hcn, Kind};
use hcn::error::{Error, Result, detail};
use hcn::event::Event;
use hcn::guest_network_service::GuestNetworkService;
use hcn::load_balancer::LoadBalancer;
use hcn::modify::ModifyRequest;
use hcn::query::{Query, QueryFlags};
use hcn::{Guid, parse};
use serde_json::{Value, json};

use crate::build::Build;
use crate::call::{self, Call};
use crate::events::Hub;
use crate::journal::{Journal, JournalError};
use crate::machine::Machine;
use crate::operation::schema::Unversioned;
use crate::operation::{Draft, World, endpoint, guest_network_service, load_balancer, namespace, network, route, schema};
use crate::profile::Feature;
use crate::reservation::Reservations;
use crate::state::State;
use crate::switch::Switch;
use crate::writer::{self, Job, Writer};
use crate::{filter, view};

/// What a service is made of.
pub struct Options {
    /// Where the state is kept; none keeps it in memory only.
    pub state_dir: Option<PathBuf>,
    /// The build to run as.
    pub build: Build,
    /// The machine it runs on.
    pub machine: Arc<dyn Machine>,
    /// The switch that does what documents ask for.
    pub switch: Arc<dyn Switch>,
}

pub use crate::writer::Pending;

/// A running service.
pub struct Service {
    published: Arc<ArcSwap<State>>,
    world: Arc<World>,
    jobs: Mutex<Option<Sender<Box<dyn Job>>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    reservations: Reservations,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("profile", &self.world.build.profile.name).finish_non_exhaustive()
    }
}

impl Service {
    /// Reads the state, brings the switch up to date and starts.
    pub fn start(options: Options) -> Result<Self, JournalError> {
        let (journal, state) = match &options.state_dir {
            Some(directory) => Journal::open(directory)?,
            None => (Journal::in_memory(), State::new()),
        };
        let hub = Hub::beginning_after(first_event(options.machine.now_filetime()));
        let world = Arc::new(World { build: options.build, machine: options.machine, hub: Arc::new(hub), switch: options.switch.clone() });
        let published = Arc::new(ArcSwap::from_pointee(state));
        let (sender, receiver) = mpsc::channel();
        let mut writer = Writer::new(journal, options.switch, world.clone(), published.clone());
        let thread = std::thread::Builder::new().name("hns-writer".into()).spawn(move || writer.run(&receiver));
        let thread = thread.map_err(|error| JournalError::Io { doing: "start the writer".into(), error })?;
        Ok(Self {
            published,
            world,
            jobs: Mutex::new(Some(sender)),
            writer: Mutex::new(Some(thread)),
            reservations: Reservations::default(),
        })
    }

    /// Stops taking changes, finishes those under way, and tells followers good-bye.
    pub fn stop(&self) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            _ = writer.join();
        }
        self.world.hub.close();
    }

    /// The build it runs as.
    pub fn build(&self) -> &Build {
        &self.world.build
    }

    /// The events of the service.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.world.hub
    }

    /// A build without the newer interface answers only calls of the older one.
    fn need_v2(&self) -> Result<()> {
        if self.world.build.has(Feature::ApiV2) {
            return Ok(());
        }
        let cause = format!("{} has no HCN interface", self.world.build.profile.windows);
        Err(Error::NotImplemented(detail(cause).remedy("use the schema 1 calls, or --with api-v2")))
    }

    fn submit<T: Send + 'static>(&self, operation: impl FnOnce(&mut Draft<'_>) -> Result<T> + Send + 'static) -> Pending<T> {
        let (job, pending) = writer::job(operation);
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = jobs.as_ref() {
            // A writer that is gone drops the job, and with it the reply: the caller hears that the service stops.
            _ = sender.send(job);
        }
        pending
    }

    /// Begins to make an object. The document is read here, so that only sound ones reach the writer.
    pub fn begin_create(&self, kind: Kind, network: Option<Guid>, id: Option<Guid>, settings: &str) -> Result<Pending<Guid>> {
        self.need_v2()?;
        let id = id.filter(|id| !id.is_nil());
        Ok(match kind {
            Kind::Network => {
                let (document, spelling) = schema::network(settings, Unversioned::Guess)?;
                self.submit(move |draft| network::create(draft, document, spelling, id))
            }
            Kind::Endpoint => {
                let (document, name) = schema::endpoint(settings, Unversioned::Guess)?;
                self.submit(move |draft| {
                    let network = endpoint::network_of(draft, &document, &name, network)?;
                    endpoint::create(draft, document, network, id)
                })
            }
            Kind::Namespace => {
                let document = schema::namespace(settings)?;
                self.submit(move |draft| namespace::create(draft, document, id))
            }
            Kind::LoadBalancer => {
                let document: LoadBalancer = parse(settings)?;
                self.submit(move |draft| load_balancer::create(draft, document, id))
            }
            Kind::Route => {
                let document = route::read(settings)?;
                self.submit(move |draft| route::create(draft, document, id))
            }
            Kind::GuestNetworkService => {
                let document: GuestNetworkService = parse(settings)?;
                self.submit(move |draft| guest_network_service::create(draft, document, id))
            }
        })
    }

    /// Begins to change an object.
    pub fn begin_modify(&self, kind: Kind, id: Guid, settings: &str) -> Result<Pending<()>> {
        self.need_v2()?;
        Ok(match kind {
            Kind::LoadBalancer => {
                let change = load_balancer::read_change(settings)?;
                self.submit(move |draft| load_balancer::modify(draft, id, change))
            }
            Kind::Route => {
                let document = route::read(settings)?;
                self.submit(move |draft| route::modify(draft, id, document))
            }
            Kind::Network | Kind::Endpoint | Kind::Namespace | Kind::GuestNetworkService => {
                let request: ModifyRequest = parse(settings)?;
                self.submit(move |draft| match kind {
                    Kind::Network => network::modify(draft, id, request),
                    Kind::Endpoint => endpoint::modify(draft, id, request),
                    Kind::Namespace => namespace::modify(draft, id, request),
                    _ => guest_network_service::modify(draft, id, &request),
                })
            }
        })
    }

    /// Begins to delete an object.
    pub fn begin_delete(&self, kind: Kind, id: Guid) -> Pending<()> {
        if let Err(error) = self.need_v2() {
            return Pending::ready(Err(error));
        }
        let delete = match kind {
            Kind::Network => network::delete,
            Kind::Endpoint => endpoint::delete,
            Kind::Namespace => namespace::delete,
            Kind::LoadBalancer => load_balancer::delete,
            Kind::Route => route::delete,
            Kind::GuestNetworkService => guest_network_service::delete,
        };
        self.submit(move |draft| delete(draft, id))
    }

    /// Begins to wait for all changes that were begun before, whose callers may have hung up.
    pub fn begin_settle(&self) -> Pending<()> {
        self.submit(|_| Ok(()))
    }

    /// Begins a call of the older interface.
    pub fn begin_call(&self, method: &str, path: &str, request: &str) -> Result<Pending<Value>> {
        let call = Call::parse(method, path, request)?;
        if call.is_read() {
            return Ok(Pending::ready(call.read(&self.published.load(), &self.world)));
        }
        Ok(self.submit(move |draft| call.write(draft)))
    }

    /// As [`Hcn::list`], as the text of one JSON array. Documents are printed one by one, so that a long list takes no more
    /// memory than its text.
    pub fn list_text(&self, kind: Kind, query: &str) -> Result<String> {
        self.need_v2()?;
        let query = Query::parse(query)?;
        let state = self.published.load_full();
        let mut text = String::from("[");
        for id in filter::enumerate(&state, kind, query.filter()?) {
            let Some(record) = state.get(kind, id) else { continue };
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&show(&state, &record, &query).to_string());
        }
        text.push(']');
        Ok(text)
    }

    /// The counters of an endpoint.
    pub fn endpoint_stats(&self, id: Guid) -> Result<Value> {
        call::stats(&self.published.load(), id, &|id| self.world.switch.counters(id))
    }

    /// The addresses of an endpoint.
    pub fn endpoint_addresses(&self, id: Guid) -> Result<Value> {
        call::addresses(&self.published.load(), id)
    }

    /// Whether a namespace or an endpoint names a container.
    pub fn has_container(&self, container: &str) -> bool {
        self.published.load().has_container(container)
    }

    /// Ports of the host that guests have reserved.
    pub fn reservations(&self) -> &Reservations {
        &self.reservations
    }

    /// Reserves a port, or some in a row.
    pub fn reserve_port(&self, request: &str) -> Result<Value> {
        self.reservations.reserve(request, self.world.machine.as_ref())
    }

    /// What the build has, by name.
    pub fn features(&self) -> Value {
        let (major, minor) = self.world.build.version();
        let (features, limits, defects) = self.world.build.items();
        json!({
            "Profile": self.world.build.profile.name,
            "Version": {"Major": major, "Minor": minor},
            "Features": features,
            "Limits": limits,
            "Defects": defects,
        })
    }

    /// Whether documents become true, and whether the switch that makes them so is there. It is asked, which may take a moment.
    pub fn switch(&self) -> Value {
        let moves_packets = self.world.switch.moves_packets();
        match self.world.switch.instance() {
            Ok(_) => json!({"MovesPackets": moves_packets, "Available": true}),
            Err(error) => json!({"MovesPackets": moves_packets, "Available": false, "Cause": error.to_string()}),
        }
    }

    /// How many objects there are, by kind.
    pub fn metrics(&self) -> Value {
        let state = self.published.load();
        json!({
            "Networks": state.networks.len(),
            "Endpoints": state.endpoints.len(),
            "Namespaces": state.namespaces.len(),
            "LoadBalancers": state.load_balancers.len(),
            "Routes": state.routes.len(),
            "GuestNetworkServices": state.guest_network_services.len(),
            "Revision": state.next_revision - 1,
            "Events": self.world.hub.newest(),
        })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Hcn for Service {
    fn enumerate(&self, kind: Kind, query: &str) -> Result<Vec<Guid>> {
        self.need_v2()?;
        let filter = Query::parse(query)?.filter()?;
        Ok(filter::enumerate(&self.published.load(), kind, filter))
    }

    fn create(&self, kind: Kind, network: Option<Guid>, id: Option<Guid>, settings: &str) -> Result<Guid> {
        self.begin_create(kind, network, id, settings)?.wait()
    }

    fn query(&self, kind: Kind, id: Guid, query: &str) -> Result<Value> {
        self.need_v2()?;
        let query = Query::parse(query)?;
        let state = self.published.load();
        let record = state.get(kind, id).ok_or_else(|| kind.not_found(id))?;
        Ok(show(&state, &record, &query))
    }

    fn modify(&self, kind: Kind, id: Guid, settings: &str) -> Result<()> {
        self.begin_modify(kind, id, settings)?.wait()
    }

    fn delete(&self, kind: Kind, id: Guid) -> Result<()> {
        self.begin_delete(kind, id).wait()
    }

    fn call(&self, method: &str, path: &str, request: &str) -> Result<Value> {
        self.begin_call(method, path, request)?.wait()
    }

    fn settle(&self) -> Result<()> {
        self.begin_settle().wait()
    }

    fn events(&self) -> Result<Events> {
        let hub = self.world.hub.clone();
        let after = hub.newest();
        Ok(Box::new(Followed { hub, after, waiting: Vec::new().into_iter(), ended: false }))
    }

    fn list(&self, kind: Kind, query: &str) -> Result<Vec<Value>> {
        self.need_v2()?;
        let query = Query::parse(query)?;
        let state = self.published.load_full();
        let ids = filter::enumerate(&state, kind, query.filter()?);
        Ok(ids.into_iter().filter_map(|id| state.get(kind, id)).map(|record| show(&state, &record, &query)).collect())
    }
}

/// Numbers of events rise across restarts, so that a follower of an earlier run is told that it missed something: they begin
/// with the microseconds since 1970, of which more go by than events, also between two starts in one second.
fn first_event(filetime: u64) -> u64 {
    const UNTIL_1970: u64 = 11_644_473_600_000_000;
    (filetime / 10).saturating_sub(UNTIL_1970)
}

fn show(state: &State, record: &crate::record::AnyRecord, query: &Query) -> Value {
    match query.wants_v2() {
        true => view::v2(state, record, query.flags.has(QueryFlags::DETAILED)),
        false => view::v1(state, record),
    }
}

/// Events one by one, as a blocking iterator.
struct Followed {
    hub: Arc<Hub>,
    after: u64,
    waiting: std::vec::IntoIter<Event>,
    ended: bool,
}

impl Iterator for Followed {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Result<Event>> {
        while !self.ended {
            if let Some(event) = self.waiting.next() {
                self.after = event.sequence;
                return Some(Ok(event));
            }
            self.hub.wait(self.after);
            match self.hub.after(self.after) {
                Ok(events) => {
                    self.ended = events.is_empty() && self.hub.is_closed();
                    self.waiting = events.into_iter();
                }
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}
