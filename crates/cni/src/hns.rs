//! What the plugins have in common that make endpoints of an HNS: whose objects are whose, how they are found, and in which
//! order they are made and unmade.
//!
//! ```text
//!   ADD   network? ─► endpoint there? ──────────── yes ─► into its namespace ─► result
//!                          └ no ─► address (IPAM) ─► endpoint ─► namespace ─┘
//!                                     ◄── taken back in reverse, if anything fails ──
//!   DEL   out of the namespace ─► endpoint ─► namespace object, if ours and empty ─► address
//! ```
//!
//! An address is held as long as there may be an endpoint that has it: it is taken before the endpoint and given back after.
//! So a call that dies in the middle leaves what the next ADD takes up, and what DEL or GC removes.

use std::sync::Arc;

use hcn::Hcn;
#[cfg(not(windows))]
use hcn::client::{Address, Client};

use crate::error::{Error, Result};

mod check;
pub(crate) mod dns;
pub(crate) mod endpoint;
mod flow;
mod gc;
mod ipam;
pub(crate) mod namespace;
pub(crate) mod network;
mod nic;
pub(crate) mod policy;
pub(crate) mod report;
pub(crate) mod version_one;

pub(crate) use flow::{Mode, Site, add, check, commands, del, gc, status};

/// Who made an object: the text in `Owner` of endpoints and namespaces.
pub const OWNER: &str = "transom-cni";

/// How a plugin comes to an HNS.
pub type Connect = dyn Fn() -> hcn::Result<Arc<dyn Hcn>> + Send + Sync;

/// How a plugin learns what keeps the switch of an HNS from working, if anything does.
pub type SwitchFailure = dyn Fn() -> hcn::Result<Option<String>> + Send + Sync;

/// An HNS to be connected to: Microsoft's, ours behind a socket, or one in this process.
#[derive(Clone)]
pub struct Hns {
    connect: Arc<Connect>,
    switch_failure: Arc<SwitchFailure>,
    looks_at_nics: bool,
}

impl Hns {
    /// The one that a function connects to, whose NICs are nobody's business.
    pub fn new(connect: impl Fn() -> hcn::Result<Arc<dyn Hcn>> + Send + Sync + 'static) -> Self {
        Self { connect: Arc::new(connect), switch_failure: Arc::new(|| Ok(None)), looks_at_nics: false }
    }

    /// The same with a switch of which this function knows whether it works.
    pub fn with_switch(self, failure: impl Fn() -> hcn::Result<Option<String>> + Send + Sync + 'static) -> Self {
        Self { switch_failure: Arc::new(failure), ..self }
    }

    /// The one of this machine: on Windows its HNS, elsewhere the hnsd that `TRANSOM_HNSD` names or that is in the usual place.
    /// In Linux namespaces its NICs are looked at.
    pub fn of_machine() -> Self {
        Self { looks_at_nics: true, ..Self::new(connect).with_switch(switch_failure) }
    }

    /// Connects. What a call that was killed had asked for is done by then: it would else happen behind our back.
    pub(crate) fn hcn(&self) -> Result<Arc<dyn Hcn>> {
        let connected = (self.connect)().and_then(|hcn| hcn.settle().map(|()| hcn));
        connected.map_err(|error| failed("connecting to HNS", &error))
    }

    /// Fails if nothing would become of what HNS is told.
    pub(crate) fn check_switch(&self) -> Result<()> {
        let failure = (self.switch_failure)().map_err(|error| failed("asking HNS for its switch", &error))?;
        failure.map_or(Ok(()), |cause| {
            Err(Error::plugin_not_available(format!("the switch of HNS does not work: {cause}")).details("start vswitchd, and see its log"))
        })
    }
}

#[cfg(windows)]
fn connect() -> hcn::Result<Arc<dyn Hcn>> {
    Ok(Arc::new(host::windows::WindowsHcn::new()?))
}

#[cfg(not(windows))]
fn connect() -> hcn::Result<Arc<dyn Hcn>> {
    Ok(Arc::new(Client::new(Address::from_environment()?)))
}

/// The switch of Windows is part of the system.
#[cfg(windows)]
fn switch_failure() -> hcn::Result<Option<String>> {
    Ok(None)
}

#[cfg(not(windows))]
fn switch_failure() -> hcn::Result<Option<String>> {
    Client::new(Address::from_environment()?).switch_failure()
}

/// A failure of HNS as CNI tells it. One that may pass by itself asks the runtime to try again.
pub(crate) fn failed(what: impl std::fmt::Display, error: &hcn::Error) -> Error {
    let remedy = error.detail().remedy.clone().unwrap_or_default();
    let text = error.to_string();
    let message = format!("{what}: {}", text.strip_suffix(&format!("; {remedy}")).unwrap_or(&text));
    let told = match is_transient(error) {
        true => Error::try_again_later(message),
        false => Error::internal(message),
    };
    told.details(remedy)
}

fn is_transient(error: &hcn::Error) -> bool {
    use hcn::Error::{DegradedOperation, ManagerStopped, ServiceUnavailable};
    matches!(error, ServiceUnavailable(_) | ManagerStopped(_) | DegradedOperation(_))
}

/// Whether HNS says that there is no such object, in any of the codes it has for that.
pub(crate) fn is_gone(error: &hcn::Error) -> bool {
    matches!(error, hcn::Error::NotFound(_) | hcn::Error::EndpointNotFound(_) | hcn::Error::NetworkNotFound(_))
}

/// A deletion of what may be gone already.
pub(crate) fn unless_gone(outcome: hcn::Result<()>) -> hcn::Result<()> {
    match outcome {
        Err(error) if is_gone(&error) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use hcn::error::detail;

    use super::*;

    #[test]
    fn what_may_pass_by_itself_is_to_be_tried_again() {
        let told = failed("asking", &hcn::Error::ServiceUnavailable(detail("hnsd does not answer").remedy("start it")));
        assert_eq!((told.code, told.details.as_str()), (11, "start it"));
        assert_eq!(told.msg, "asking: hnsd does not answer (RPC_S_UNKNOWN_IF, 0x800706B5)");
        assert_eq!(failed("asking", &hcn::Error::InvalidJson(detail("x"))).code, 999);
    }
}
