//! How clients in pods ask for a name: by the rules of Windows, or by those of Linux.
//!
//! Programs ask for names such as `web` or `web.shop`. Which names are then asked for at a server, and in which order, is up to the system they
//! run on, and the same program finds on one what it does not find on the other. [`Rules`] says which names, [`resolve`] asks for them and
//! keeps every step, so that people can see where the two part.

mod ask;
mod resolution;
mod rules;

pub use ask::ask;
pub use resolution::{Resolution, Step, Then, Verdict, resolve, resolve_at};
pub use rules::{Candidate, NotAName, Rules};
