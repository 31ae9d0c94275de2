//! What endpoints have beyond the operations of every object. Microsoft documents neither answer.

use abi::{HResult, Handle, Out, ask, optional_text};
use hcn::client::Client;
use hcn::error::Result;
use hcn::{Guid, Kind};
use serde_json::Value;

use crate::{call, object};

/// Counters of an endpoint, as in the older interface. The query is taken and not used.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcnQueryEndpointStats(
    Endpoint: Handle,
    Query: *const u16,
    Stats: *mut *mut u16,
    ErrorRecord: *mut *mut u16,
) -> HResult {
    // SAFETY: promised by the caller.
    unsafe { ask_endpoint(Endpoint, Query, Stats, ErrorRecord, Client::stats) }
}

/// Addresses of an endpoint. The query is taken and not used.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcnQueryEndpointAddresses(
    Endpoint: Handle,
    Query: *const u16,
    Addresses: *mut *mut u16,
    ErrorRecord: *mut *mut u16,
) -> HResult {
    // SAFETY: promised by the caller.
    unsafe { ask_endpoint(Endpoint, Query, Addresses, ErrorRecord, Client::addresses) }
}

unsafe fn ask_endpoint(
    endpoint: Handle,
    query: *const u16,
    answer: *mut *mut u16,
    record: *mut *mut u16,
    question: fn(&Client, Guid) -> Result<Value>,
) -> HResult {
    let body = || {
        // SAFETY: promised by the caller of the export.
        let (answer, _) = unsafe { (Out::text("Answer", answer)?, optional_text("Query", query)?) };
        let id = object(endpoint, Kind::Endpoint)?;
        answer.set_text(&ask(|hns| question(hns, id))?.to_string())
    };
    // SAFETY: promised by the caller of the export.
    unsafe { call(record, body) }
}
