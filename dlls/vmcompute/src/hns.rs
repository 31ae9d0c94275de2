//! `HNSCall`: method, path and body of a v1 call.

use abi::{HResult, Out, ask, optional_text, required_text};
use hcn::error::{Error, Result};
use serde_json::json;

/// Severity and facility of HNS' own codes, the `HCN_E_*`.
const HCN_CODES: u32 = 0x803B;

/// One call of the older interface.
///
/// HNS has failed in two ways over time, and clients handle both: with a failing HRESULT, whose text the client looks up
/// itself, or with success and a record that carries the text. Some clients match the text. Wine has none for HNS' own
/// codes, so those go out in the second way, all others in the first. The response is filled in either way, because
/// PowerShell looks at nothing else.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn HNSCall(Method: *const u16, Path: *const u16, Request: *const u16, Response: *mut *mut u16) -> HResult {
    let body = || {
        // SAFETY: promised by the caller.
        let response = unsafe { Out::text("Response", Response)? };
        // SAFETY: promised by the caller.
        let outcome = unsafe { read(Method, Path, Request) }.and_then(|[method, path, request]| {
            // An older service may refuse with a record in an answer that is otherwise a success.
            let answer = ask(|hns| hns.request(&method, &path, &request))?;
            if answer.is_object() && answer.get("Success").is_some() { Ok(answer) } else { Ok(json!({"Success": true, "Output": answer})) }
        });
        match outcome {
            Ok(answer) => response.set_text(&answer.to_string()),
            Err(error) => {
                response.set_text(&error.record().to_string())?;
                if fails(&error) { Err(error) } else { Ok(()) }
            }
        }
    };
    // SAFETY: NULL is allowed; the response is this call's record.
    unsafe { abi::call(std::ptr::null_mut(), |_| String::new(), body) }
}

unsafe fn read(method: *const u16, path: *const u16, request: *const u16) -> Result<[String; 3]> {
    // SAFETY: promised by the caller of the export.
    unsafe { Ok([required_text("Method", method)?, required_text("Path", path)?, optional_text("Request", request)?.unwrap_or_default()]) }
}

/// Whether an error goes out as a failing HRESULT.
fn fails(error: &Error) -> bool {
    error.hresult() >> 16 != HCN_CODES
}
