//! The exports, called as a C program would, against a stand-in for hnsd.
//!
//! In all of these the pointers are to local variables and NUL-terminated strings, which is what every export asks for.

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::Mutex;

use abi::memory::take_text;
use abi::testing::{Answer, Request, serve};
use abi::{HResult, Handle};
use hcn::Error;
use hcn::error::detail;
use serde_json::{Value, json};

use crate::hcs::*;
use crate::hns::HNSCall;

const E_POINTER: u32 = 0x8000_4003;
const E_HANDLE: u32 = 0x8007_0006;
const ENDPOINT: &str = "00000000-0000-0000-0000-000000000022";

/// Calls about attaching that the stand-in saw.
static ATTACHED: Mutex<Vec<(String, Value)>> = Mutex::new(Vec::new());

fn start() {
    serve(answer);
}

fn answer(request: &Request) -> Answer {
    let refuse = |error: Error| Answer::Document(404, error.record());
    match request.path.as_str() {
        "/v2/containers/pod" => Answer::Document(200, json!({})),
        path if path.starts_with("/v2/containers/") => refuse(Error::ComputeSystemNotFound(detail(""))),
        "/attached" => refuse(Error::EndpointAlreadyAttached(detail(""))),
        "/missing" => refuse(Error::NotFound(detail(""))),
        "/echo" => Answer::Document(200, json!({"Success": true, "Output": {"Method": request.method, "Body": request.body}})),
        path => {
            ATTACHED.lock().unwrap().push((path.to_owned(), request.body.clone()));
            Answer::Document(200, json!({"Success": true}))
        }
    }
}

fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

fn taken(place: &mut *mut u16) -> Value {
    // SAFETY: the place is NULL or holds a string that an export handed out.
    let text = unsafe { take_text(std::mem::replace(place, null_mut())) };
    serde_json::from_str(&text).unwrap_or_default()
}

fn hns_call(method: &str, path: &str, request: &str) -> (u32, Value) {
    let [method, path, request] = [method, path, request].map(wide);
    let mut response = std::ptr::dangling_mut();
    // SAFETY: see the module head.
    let code = unsafe { HNSCall(method.as_ptr(), path.as_ptr(), request.as_ptr(), &mut response) };
    (code.code(), taken(&mut response))
}

#[test]
fn a_call_is_method_path_and_body() {
    start();
    let (code, response) = hns_call("POST", "/echo", r#"{"a":1}"#);
    assert_eq!(code, 0);
    assert_eq!(response, json!({"Success": true, "Output": {"Method": "POST", "Body": {"a": 1}}}));
}

#[test]
fn codes_of_hns_come_as_text_and_others_as_codes() {
    start();
    let (code, response) = hns_call("POST", "/attached", "");
    assert_eq!((code, &response["Success"]), (0, &json!(false)));
    assert!(response["Error"].as_str().unwrap().starts_with("This endpoint is already attached to the switch."));
    let (code, response) = hns_call("GET", "/missing", "");
    assert_eq!((code, &response["Error"]), (0x8007_0490, &json!("Element not found. ")));
}

#[test]
fn null_everywhere() {
    start();
    let (mut response, mut handle) = (null_mut(), null_mut());

    // SAFETY: NULL is allowed for every pointer.
    unsafe {
        assert_eq!(HNSCall(null(), null(), null(), null_mut()).code(), E_POINTER);
        assert_eq!(HNSCall(null(), null(), null(), &mut response).code(), E_POINTER);
        assert_eq!(taken(&mut response)["ErrorCode"], E_POINTER);
        assert_eq!(HcsOpenComputeSystem(null(), &mut handle, null_mut()).code(), E_POINTER);
        assert_eq!(HcsOpenComputeSystem(wide("pod").as_ptr(), null_mut(), null_mut()).code(), E_POINTER);
        assert_eq!(HcsModifyComputeSystem(null_mut(), null(), null_mut()).code(), E_HANDLE);
        assert_eq!(HcsGetComputeSystemProperties(null_mut(), null(), &mut response, null_mut()).code(), E_HANDLE);
        assert_eq!(HcsCloseComputeSystem(usize::MAX as Handle).code(), E_HANDLE);
        assert_eq!(HcsUnregisterComputeSystemCallback(null_mut()).code(), E_HANDLE);
    }
}

unsafe extern "system" fn never(_: u32, _: *mut c_void, _: i32, _: *const u16) {
    unreachable!("nothing happens to containers");
}

#[test]
fn an_endpoint_is_put_into_a_container_and_taken_out() {
    start();
    let (mut system, mut callback, mut text, mut result) = (null_mut(), null_mut(), null_mut(), std::ptr::dangling_mut());
    let change = |request: &str| wide(&json!({"ResourceType": "Network", "Settings": ENDPOINT, "RequestType": request}).to_string());
    // SAFETY: see the module head.
    unsafe {
        assert_eq!(HcsOpenComputeSystem(wide("pod").as_ptr(), &mut system, &mut result), HResult::OK);
        assert!(result.is_null());
        assert_eq!(HcsRegisterComputeSystemCallback(system, Some(never), null_mut(), &mut callback), HResult::OK);
        assert_eq!(HcsGetComputeSystemProperties(system, null(), &mut text, &mut result), HResult::OK);
        assert_eq!(taken(&mut text)["SystemType"], "Container");
        assert_eq!(HcsModifyComputeSystem(system, change("Add").as_ptr(), &mut result), HResult::OK);
        assert_eq!(HcsModifyComputeSystem(system, change("Remove").as_ptr(), &mut result), HResult::OK);
        assert_eq!(HcsModifyComputeSystem(system, change("Update").as_ptr(), &mut result).code(), 0x8000_4001);
        assert_eq!(taken(&mut result)["Error"], json!(0x8000_4001u32.cast_signed()));
        assert_eq!(HcsCloseComputeSystem(callback).code(), E_HANDLE, "of another kind");
        assert_eq!(HcsUnregisterComputeSystemCallback(callback), HResult::OK);
        assert_eq!(HcsCloseComputeSystem(system), HResult::OK);
    }
    let request = json!({"SystemType": "Container", "ContainerId": "pod"});
    let path = |verb: &str| format!("/endpoints/{ENDPOINT}/{verb}");
    assert_eq!(*ATTACHED.lock().unwrap(), [(path("attach"), request.clone()), (path("detach"), request)]);
}

#[test]
fn a_container_that_is_not_there() {
    start();
    let (mut system, mut result) = (std::ptr::dangling_mut(), null_mut());
    // SAFETY: see the module head.
    let code = unsafe { HcsOpenComputeSystem(wide("nobody").as_ptr(), &mut system, &mut result) };
    assert_eq!((code.code(), system.is_null()), (0xC037_010E, true));
    assert_eq!(taken(&mut result)["Error"], json!(0xC037_010Eu32.cast_signed()));
}
