//! A client: does one thing after the other and remembers what it was told.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use hcn::query::Query;
use hcn::{Error, Guid, Hcn, Kind};
use serde_json::Value;

use crate::choose::{Chooser, client_of};
use crate::model::{Fact, Key, Model, Operation};
use crate::random::Random;
use crate::world::World;

/// One client with its objects.
#[derive(Debug)]
pub(crate) struct Client {
    number: u64,
    chooser: Chooser,
    /// Everything acknowledged.
    model: Model,
    /// The operation whose answer never came; it may have happened or not.
    in_flight: Option<Operation>,
    /// Objects as they were last read, where nothing was asked to change them since.
    documents: BTreeMap<Key, Value>,
    /// What happened so far.
    pub(crate) tally: Tally,
}

/// What a client has seen happen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Operations with an answer.
    pub(crate) acknowledged: u64,
    /// Operations without an answer that had happened.
    pub(crate) kept: u64,
    /// Operations without an answer that had not.
    pub(crate) dropped: u64,
    /// Documents that were the same after a restart as before.
    pub(crate) compared: u64,
}

impl Client {
    pub(crate) fn new(number: u64, random: Random) -> Self {
        let chooser = Chooser::new(number, random);
        let (model, in_flight, documents, tally) = Default::default();
        Self { number, chooser, model, in_flight, documents, tally }
    }

    /// Works until the service is gone. An error is anything that a living service must not answer.
    pub(crate) fn work(&mut self, hcn: &dyn Hcn, killed: &AtomicBool) -> Result<(), String> {
        loop {
            let operation = self.chooser.choose(&self.model);
            for (key, _) in &operation.effect {
                self.documents.remove(key);
            }
            match operation.perform(hcn) {
                Ok(()) => {}
                Err(error) if is_silence(&error, killed) => {
                    self.in_flight = Some(operation);
                    return Ok(());
                }
                Err(error) => return Err(format!("client {}: {operation:?} was refused: {error}", self.number)),
            }
            self.tally.acknowledged += 1;
            self.model.apply(&operation);
            self.chooser.retire(&operation);
            for (key, fact) in &operation.effect {
                match self.read(hcn, *key, fact.as_ref()) {
                    Ok(()) => {}
                    Err(Failure::Refused(error)) if is_silence(&error, killed) => return Ok(()),
                    Err(failure) => return Err(format!("client {}: after {operation:?}: {failure}", self.number)),
                }
            }
        }
    }

    /// Reads an object back at once: an acknowledged change is visible.
    fn read(&mut self, hcn: &dyn Hcn, key: Key, fact: Option<&Fact>) -> Result<(), Failure> {
        let (kind, id) = key;
        let found = match hcn.query(kind, id, &hcn::print(&Query::v2(&[]))) {
            Ok(document) => Some(document),
            Err(error) if error.hresult() == kind.not_found(id).hresult() => None,
            Err(error) => return Err(Failure::Refused(error)),
        };
        let seen = found.as_ref().map(|document| Fact::of(kind, document)).transpose().map_err(Failure::Wrong)?;
        if seen.as_ref() != fact {
            return Err(Failure::Wrong(format!("{} {id}: expected {fact:?}, found {seen:?}", kind.name())));
        }
        if let Some(document) = found {
            self.documents.insert(key, document);
        }
        Ok(())
    }

    /// Compares what a restarted service holds with what this client was told, and takes note of what became of the
    /// operation in flight.
    pub(crate) fn settle(&mut self, world: &World) -> Result<(), String> {
        let found = self.own(world)?;
        let in_flight = self.in_flight.take();
        let after = in_flight.as_ref().map(|operation| self.model.after(operation));
        if found == self.model {
            self.tally.dropped += u64::from(in_flight.is_some());
        } else if let Some(after) = after.filter(|after| found == *after) {
            self.model = after;
            self.tally.kept += 1;
        } else {
            let difference = self.model.difference(&found);
            return Err(format!("client {}: acknowledged and found differ:{difference}\n  in flight was {in_flight:?}", self.number));
        }
        self.compare_documents(world)
    }

    /// What the service holds of this client's.
    fn own(&self, world: &World) -> Result<Model, String> {
        let mut model = Model::default();
        for ((kind, id), document) in world.documents.iter().filter(|((_, id), _)| client_of(*id) == Some(self.number)) {
            model.facts.insert((*kind, *id), Fact::of(*kind, document)?);
        }
        Ok(model)
    }

    /// Objects that nothing was asked to change are the same to the letter.
    fn compare_documents(&mut self, world: &World) -> Result<(), String> {
        for (key, before) in &self.documents {
            let now = world.documents.get(key).unwrap_or(&Value::Null);
            if now != before {
                let (kind, id) = key;
                return Err(format!("client {}: {} {id} was\n    {before}\n  and is\n    {now}", self.number, kind.name()));
            }
            self.tally.compared += 1;
        }
        let own = world.documents.iter().filter(|((_, id), _)| client_of(*id) == Some(self.number));
        self.documents = own.map(|(key, document)| (*key, document.clone())).collect();
        Ok(())
    }
}

/// Why an object could not be read as expected.
#[derive(Debug)]
enum Failure {
    /// There is no document.
    Refused(Error),
    /// The document is wrong.
    Wrong(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => write!(f, "cannot be read: {error}"),
            Self::Wrong(what) => f.write_str(what),
        }
    }
}

/// Whether an error says that there was no answer, and there was a reason for that.
fn is_silence(error: &Error, killed: &AtomicBool) -> bool {
    // An answer cut off in the middle reads as nonsense, which the client reports as `Unexpected`.
    let silent = matches!(error, Error::ServiceUnavailable(_) | Error::Unexpected(_));
    silent && killed.load(Ordering::SeqCst)
}

/// Whether somebody of ours made the object.
pub(crate) fn is_expected(kind: Kind, id: Guid, document: &Value, clients: u64) -> bool {
    let of_a_client = client_of(id).is_some_and(|client| client < clients);
    let shared = (kind, id) == (Kind::Network, crate::choose::SHARED_NETWORK);
    // The host's own namespace is there without anybody's asking.
    let default = kind == Kind::Namespace && document["Type"] == "HostDefault";
    of_a_client || shared || default
}
