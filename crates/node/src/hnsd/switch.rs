//! The switch in a process of its own: vswitchd, over its socket.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use hcn::Guid;
use hcn::api::Kind;
use hcn::client::{Address, Client};
use hns::Build;
use hns::machine::Machine;
use hns::switch::{EndpointCounters, Order, Switch, SwitchError};
use serde::de::DeserializeOwned;

use crate::vswitchd::{ApplyRequest, ApplyResponse, HeldObject, OrderMessage, PortRow};

/// How many orders go in one message.
const BATCH: usize = 512;

/// vswitchd, as hnsd sees it.
pub(super) struct RemoteSwitch {
    client: Client,
    machine: Arc<dyn Machine>,
    build: Build,
    path: PathBuf,
}

impl RemoteSwitch {
    pub(super) fn new(path: PathBuf, machine: Arc<dyn Machine>, build: Build) -> Self {
        Self { client: Client::new(Address::Unix(path.clone())), machine, build, path }
    }

    fn ask<T: DeserializeOwned>(&self, method: &str, path: &str, body: &str) -> Result<T, SwitchError> {
        let failed = |cause: String| SwitchError(format!("vswitchd on {}: {cause}", self.path.display()));
        let answer =
            self.client.request(method, path, body).map_err(|error| match std::os::unix::net::UnixStream::connect(&self.path) {
                Ok(_) => failed(error.to_string()),
                Err(error) => failed(format!("{error}; start it with `transom vswitchd`, or run hnsd with --switch none")),
            })?;
        serde_json::from_value(answer).map_err(|error| failed(format!("its answer cannot be read: {error}")))
    }

    fn message(&self, order: &Order) -> OrderMessage {
        let (kind, id) = order.object();
        let kind = kind.name().to_owned();
        match order {
            Order::Remove(..) => OrderMessage { kind, id, revision: None, interface: None, document: None },
            Order::Put(wanted) => OrderMessage {
                kind,
                id,
                revision: Some(wanted.revision()),
                interface: wanted.adapter().map(|adapter| self.interface(adapter)),
                document: Some(wanted.document()),
            },
        }
    }

    /// The machine's name for an adapter that documents know by another one.
    fn interface(&self, adapter: &str) -> String {
        let adapters = self.machine.adapters();
        adapters.iter().find(|known| known.is_called(adapter)).map_or_else(|| adapter.to_owned(), |known| known.interface.clone())
    }

    /// Tells the switch orders, and as which build this hnsd runs.
    fn tell(&self, orders: &[Order]) -> Result<ApplyResponse, SwitchError> {
        self.post(&self.request(orders))
    }

    fn request(&self, orders: &[Order]) -> ApplyRequest {
        let (_, limits, defects) = self.build.items();
        ApplyRequest {
            limits: limits.into_iter().map(str::to_owned).collect(),
            defects: defects.into_iter().map(str::to_owned).collect(),
            settled: false,
            orders: orders.iter().map(|order| self.message(order)).collect(),
        }
    }

    fn post(&self, request: &ApplyRequest) -> Result<ApplyResponse, SwitchError> {
        let body = serde_json::to_string(request).map_err(|error| SwitchError(error.to_string()))?;
        self.ask("POST", "/apply", &body)
    }

    fn send(&self, orders: &[Order]) -> Vec<Result<(), SwitchError>> {
        let answer = self.tell(orders);
        match answer {
            Ok(answer) if answer.failures.len() == orders.len() => {
                answer.failures.into_iter().map(|failure| failure.map_or(Ok(()), |cause| Err(SwitchError(cause)))).collect()
            }
            Ok(_) => vec![Err(SwitchError("vswitchd did not answer every order".into())); orders.len()],
            Err(error) => vec![Err(error); orders.len()],
        }
    }
}

impl Switch for RemoteSwitch {
    fn inventory(&self) -> Result<BTreeMap<(Kind, Guid), u64>, SwitchError> {
        // What the build leaves out is left out of what the switch already has, too.
        self.tell(&[])?;
        let held: Vec<HeldObject> = self.ask("GET", "/inventory", "")?;
        Ok(held.into_iter().filter_map(|object| Some(((Kind::from_name(&object.kind)?, object.id), object.revision))).collect())
    }

    fn apply(&self, order: &Order) -> Result<(), SwitchError> {
        self.send(std::slice::from_ref(order)).pop().unwrap_or(Ok(()))
    }

    fn apply_all(&self, orders: &[Order]) -> Vec<Result<(), SwitchError>> {
        orders.chunks(BATCH).flat_map(|batch| self.send(batch)).collect()
    }

    fn settled(&self) {
        // Should it not hear of it, it is another one by then, and told again.
        _ = self.post(&ApplyRequest { settled: true, ..self.request(&[]) });
    }

    fn moves_packets(&self) -> bool {
        true
    }

    fn instance(&self) -> Result<String, SwitchError> {
        self.ask("GET", "/instance", "")
    }

    fn counters(&self, endpoint: Guid) -> Option<EndpointCounters> {
        let row: PortRow = self.ask("GET", &format!("/endpoints/{endpoint}/stats"), "").ok()?;
        Some(EndpointCounters {
            bytes_received: row.bytes_received,
            bytes_sent: row.bytes_sent,
            packets_received: row.packets_received,
            packets_sent: row.packets_sent,
            dropped_incoming: row.packets_lost,
            dropped_outgoing: row.drops.values().sum(),
        })
    }
}
