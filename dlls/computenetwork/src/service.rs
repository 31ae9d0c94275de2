//! The service itself. No program that we know of calls these; their signatures are the obvious ones.

use abi::{HResult, Handle, Out, ask, optional_text};

use crate::{Entry, HANDLES, call, call_without_record};

/// What the service can do, as one JSON object. The query, NULL or a `HostComputeQuery`, is taken and not used.
///
/// Microsoft does not document this function. The parameters are those of the other queries without an object.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcnQueryFeatures(Query: *const u16, Features: *mut *mut u16, ErrorRecord: *mut *mut u16) -> HResult {
    // SAFETY: promised by the caller.
    unsafe { ask_service("/v2/features", Query, Features, ErrorRecord) }
}

/// Counters of the service, as one JSON object. Parameters as for [`HcnQueryFeatures`], and for the same reason.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcnQueryMetrics(Query: *const u16, Metrics: *mut *mut u16, ErrorRecord: *mut *mut u16) -> HResult {
    // SAFETY: promised by the caller.
    unsafe { ask_service("/v2/metrics", Query, Metrics, ErrorRecord) }
}

/// A handle for the service, if it is there. Microsoft's PowerShell module declares this function so.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcnOpenService(Service: *mut Handle, ErrorRecord: *mut *mut u16) -> HResult {
    let body = || {
        // SAFETY: promised by the caller.
        let service = unsafe { Out::new("Service", Service, std::ptr::null_mut())? };
        ask(|hns| hns.version())?;
        service.set(HANDLES.insert(Entry::Service)?);
        Ok(())
    };
    // SAFETY: promised by the caller.
    unsafe { call(ErrorRecord, body) }
}

/// Closes a handle for the service.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcnCloseService(Service: Handle) -> HResult {
    call_without_record(|| HANDLES.remove(Service, |entry| matches!(entry, Entry::Service).then_some(())))
}

unsafe fn ask_service(path: &str, query: *const u16, answer: *mut *mut u16, record: *mut *mut u16) -> HResult {
    let body = || {
        // SAFETY: promised by the caller of the export.
        let (answer, _) = unsafe { (Out::text("Answer", answer)?, optional_text("Query", query)?) };
        answer.set_text(&ask(|hns| hns.request("GET", path, ""))?.to_string())
    };
    // SAFETY: promised by the caller of the export.
    unsafe { call(record, body) }
}
