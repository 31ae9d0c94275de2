//! A virtual switch whose ports filter: the match-action engine.
//!
//! A *port* connects a NIC and has a *program*: *layers*, each a list of *groups* of prioritised *rules*; a rule is
//! conditions and an action. Rules that many ports have in common, such as services, are in *tables*, which layers name. A
//! frame that a NIC sends walks the layers of its port outwards, is forwarded by the rules of its *domain*, and walks the
//! layers of the port it goes to in the reverse order.
//!
//! There are three tiers, in order of speed:
//!
//! 1. **Unified flow.** One lookup finds the composed *transposition* of a known flow; it is applied, counted and sent. No
//!    lock, no allocation ([`Switch::process`], `switch/known.rs`).
//! 2. **Connection.** The flow is not in the cache, or policy has changed since: the walk is done again, with what its
//!    connection remembers (translation, backend), and the cache is filled (`switch/walk.rs`).
//! 3. **New.** Nothing is known: the walk decides, and remembers.
//!
//! Nothing here does I/O or reads a clock: time comes in as [`Instant`], chance as a seed, frames go out through a [`Sink`].

mod action;
mod classify;
mod condition;
mod counters;
mod domain;
mod flow;
mod fragment;
mod group;
mod layer;
mod nat;
mod offload;
mod port;
mod rule;
mod service;
mod switch;
mod table;
mod time;
mod transposition;
mod underlay;
mod verdict;

pub use action::Action;
pub use condition::{AddressMatch, Conditions, PortRange};
pub use counters::{DropCount, PortCounters, SwitchCounters};
pub use domain::{DomainId, DomainSpec, Flood};
pub use flow::expiry::{TcpState, Timeouts};
pub use group::{GroupSpec, Stage};
pub use layer::{LayerSpec, ProgramSpec};
pub use nat::{NatPool, NatPoolSpec, PoolId};
pub use offload::{
    Counted, Offload, OffloadChoice, OffloadFlow, OffloadKey, OffloadOpened, OffloadOpening, PART_ADDRESSES, PART_MACS, PART_PORTS,
};
pub use port::{Direction, PortId, PortKind, PortSpec};
pub use rule::{Place, RuleId, RuleSpec};
pub use service::{Backend, Backends, Distribution, Masquerade, Service};
pub use switch::view::{FlowView, PortView, RuleView};
pub use switch::{Limits, Sink, Switch, SwitchError};
pub use table::TableId;
pub use time::Instant;
pub use transposition::Transposition;
pub use underlay::{NextHop, UnderlayId, UnderlaySpec};
pub use verdict::{DropReason, Egress, Outcome, Tier, Verdict};
