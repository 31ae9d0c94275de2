//! A switch that says it moves packets, fails when asked to, and can be started anew; and what the service complains of.
#![allow(dead_code, reason = "not every test needs all of it")]

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use hcn::{Guid, Kind};
use hns::machine::FakeMachine;
use hns::switch::{Order, Recorder, Switch, SwitchError};
use hns::{Build, Options, Service};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// A switch in memory.
#[derive(Default)]
pub(crate) struct Moving {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    recorder: Recorder,
    instance: u32,
    batches: Vec<Vec<(Kind, Guid)>>,
    failures: HashMap<Kind, String>,
    broken: Option<(Kind, Guid)>,
    silence: Option<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Moving {
    /// A service in memory with this switch.
    pub(crate) fn serve(self: &Arc<Self>) -> Service {
        self.start(None)
    }

    /// A service with its state in a directory.
    pub(crate) fn serve_from(self: &Arc<Self>, directory: &Path) -> Service {
        self.start(Some(directory))
    }

    fn start(self: &Arc<Self>, directory: Option<&Path>) -> Service {
        let machine = Arc::new(FakeMachine::with_ethernet());
        let options = Options { state_dir: directory.map(Into::into), build: Build::default(), machine, switch: self.clone() };
        Service::start(options).unwrap()
    }

    /// Makes it another switch, which has nothing.
    pub(crate) fn restart(&self) {
        let mut inner = lock(&self.inner);
        inner.recorder = Recorder::default();
        inner.instance += 1;
    }

    /// Makes it fail to make objects of a kind, or not any more.
    pub(crate) fn fail(&self, kind: Kind, reason: Option<&str>) {
        let mut inner = lock(&self.inner);
        match reason {
            Some(reason) => _ = inner.failures.insert(kind, reason.to_owned()),
            None => _ = inner.failures.remove(&kind),
        }
    }

    /// Makes it fail to make one object.
    pub(crate) fn fail_one(&self, kind: Kind, id: Guid) {
        lock(&self.inner).broken = Some((kind, id));
    }

    /// Makes it answer no question, or all again.
    pub(crate) fn silence(&self, reason: Option<&str>) {
        lock(&self.inner).silence = reason.map(str::to_owned);
    }

    /// The batches of orders it was given.
    pub(crate) fn batches(&self) -> Vec<Vec<(Kind, Guid)>> {
        lock(&self.inner).batches.clone()
    }

    /// How many orders it was given.
    pub(crate) fn told(&self) -> usize {
        self.batches().iter().map(Vec::len).sum()
    }

    /// Whether it has an object.
    pub(crate) fn holds(&self, kind: Kind, id: Guid) -> bool {
        lock(&self.inner).recorder.document(kind, id).is_some()
    }
}

impl Inner {
    fn answer(&self) -> Result<(), SwitchError> {
        self.silence.clone().map_or(Ok(()), |reason| Err(SwitchError(reason)))
    }

    fn apply(&self, order: &Order) -> Result<(), SwitchError> {
        self.answer()?;
        let (kind, id) = order.object();
        match self.failures.get(&kind) {
            Some(reason) => Err(SwitchError(reason.clone())),
            None if self.broken == Some((kind, id)) => Err(SwitchError("it is broken".into())),
            None => self.recorder.apply(order),
        }
    }
}

impl Switch for Moving {
    fn inventory(&self) -> Result<BTreeMap<(Kind, Guid), u64>, SwitchError> {
        let inner = lock(&self.inner);
        inner.answer()?;
        inner.recorder.inventory()
    }

    fn apply(&self, order: &Order) -> Result<(), SwitchError> {
        self.apply_all(std::slice::from_ref(order)).remove(0)
    }

    fn apply_all(&self, orders: &[Order]) -> Vec<Result<(), SwitchError>> {
        let mut inner = lock(&self.inner);
        inner.batches.push(orders.iter().map(Order::object).collect());
        orders.iter().map(|order| inner.apply(order)).collect()
    }

    fn moves_packets(&self) -> bool {
        true
    }

    fn instance(&self) -> Result<String, SwitchError> {
        let inner = lock(&self.inner);
        inner.answer()?;
        Ok(format!("switch {}", inner.instance))
    }
}

/// Waits for something that the service does by itself, which it looks after every second.
#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(10), "in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What the service has warned of, in all tests of this process.
pub(crate) struct Complaints(&'static Mutex<Vec<String>>);

static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

impl Complaints {
    /// Begins to listen.
    pub(crate) fn follow() -> Self {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| tracing::subscriber::set_global_default(Listener).expect("nobody else listens"));
        Self(&WARNINGS)
    }

    /// How many warnings have this text in them.
    pub(crate) fn about(&self, text: &str) -> usize {
        lock(self.0).iter().filter(|warning| warning.contains(text)).count()
    }
}

struct Listener;

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!("{}={value:?} ", field.name()));
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        lock(&WARNINGS).push(text.0);
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}
