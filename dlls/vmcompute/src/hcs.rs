//! Compute systems. Network plugins of the older kind open a container here to put an endpoint into it or take it out.
//!
//! Nothing is made or run: a compute system exists if hnsd knows a container by its name. Every call is done when it
//! returns, so nothing is ever pending and callbacks have nothing to say.

use std::ffi::c_void;

use abi::{HResult, Handle, Out, Table, ask, null_pointer, optional_text, required_text};
use hcn::error::{Error, Result, detail};
use hcn::{Guid, Hcn, not_a_guid, parse_guid, parse_value};
use serde_json::{Value, json};

/// What a handle of this DLL stands for.
#[derive(Clone, Debug)]
enum Entry {
    System(String),
    Callback,
}

static HANDLES: Table<Entry> = Table::new();

/// A client's function for a compute system: notification code, its context, status, data.
pub type Callback = unsafe extern "system" fn(u32, *mut c_void, i32, *const u16);

/// Opens a compute system by its name.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcsOpenComputeSystem(Id: *const u16, System: *mut Handle, Result: *mut *mut u16) -> HResult {
    let body = || {
        // SAFETY: promised by the caller.
        let (system, id) = unsafe { (Out::new("System", System, std::ptr::null_mut())?, required_text("Id", Id)?) };
        if !ask(|hns| hns.container_exists(&id))? {
            return Err(Error::ComputeSystemNotFound(detail(format!("no namespace and no endpoint names the container {id:?}"))));
        }
        system.set(HANDLES.insert(Entry::System(id))?);
        Ok(())
    };
    // SAFETY: promised by the caller.
    unsafe { call(Result, body) }
}

/// Closes a compute system.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcsCloseComputeSystem(System: Handle) -> HResult {
    // SAFETY: NULL is allowed.
    unsafe { call(std::ptr::null_mut(), || HANDLES.remove(System, name).map(drop)) }
}

/// Registers for what happens to a compute system. Nothing does that we could tell.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcsRegisterComputeSystemCallback(
    System: Handle,
    Callback: Option<Callback>,
    _Context: *mut c_void,
    CallbackHandle: *mut Handle,
) -> HResult {
    let body = || {
        // SAFETY: promised by the caller.
        let handle = unsafe { Out::new("CallbackHandle", CallbackHandle, std::ptr::null_mut())? };
        HANDLES.get(System, name)?;
        Callback.ok_or_else(|| null_pointer("Callback"))?;
        handle.set(HANDLES.insert(Entry::Callback)?);
        Ok(())
    };
    // SAFETY: NULL is allowed.
    unsafe { call(std::ptr::null_mut(), body) }
}

/// Ends what [`HcsRegisterComputeSystemCallback`] began.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcsUnregisterComputeSystemCallback(CallbackHandle: Handle) -> HResult {
    let body = || HANDLES.remove(CallbackHandle, |entry| matches!(entry, Entry::Callback).then_some(()));
    // SAFETY: NULL is allowed.
    unsafe { call(std::ptr::null_mut(), body) }
}

/// What is known of a compute system: that it is a Windows container. The query is taken and not used.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcsGetComputeSystemProperties(
    System: Handle,
    Query: *const u16,
    Properties: *mut *mut u16,
    Result: *mut *mut u16,
) -> HResult {
    let body = || {
        // SAFETY: promised by the caller.
        let (properties, _) = unsafe { (Out::text("Properties", Properties)?, optional_text("Query", Query)?) };
        let id = HANDLES.get(System, name)?;
        let document = json!({"Id": id, "SystemType": "Container", "RuntimeOSType": "Windows", "Owner": "transom"});
        properties.set_text(&document.to_string())
    };
    // SAFETY: promised by the caller.
    unsafe { call(Result, body) }
}

/// Puts an endpoint into a container or takes it out.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcsModifyComputeSystem(System: Handle, Configuration: *const u16, Result: *mut *mut u16) -> HResult {
    let body = || {
        let id = HANDLES.get(System, name)?;
        // SAFETY: promised by the caller.
        let configuration = unsafe { required_text("Configuration", Configuration)? };
        let (endpoint, verb) = endpoint_change(&configuration)?;
        let request = json!({"SystemType": "Container", "ContainerId": id}).to_string();
        ask(|hns| hns.call("POST", &format!("/endpoints/{endpoint}/{verb}"), &request)).map(drop)
    };
    // SAFETY: promised by the caller.
    unsafe { call(Result, body) }
}

/// The endpoint that a configuration is about and the v1 call for it.
fn endpoint_change(configuration: &str) -> Result<(Guid, &'static str)> {
    let configuration = parse_value(configuration)?;
    let text = |key: &str| configuration.get(key).and_then(Value::as_str).unwrap_or_default();
    if !text("ResourceType").eq_ignore_ascii_case("Network") {
        let cause = format!("only networks of a container can be changed, not {:?}", text("ResourceType"));
        return Err(Error::NotImplemented(detail(cause).field("ResourceType")));
    }
    let verb = match text("RequestType") {
        "Add" => "attach",
        "Remove" => "detach",
        other => {
            let cause = format!("an endpoint can be added or removed, not {other:?}");
            return Err(Error::NotImplemented(detail(cause).field("RequestType").remedy("use Add or Remove")));
        }
    };
    let endpoint = parse_guid(text("Settings")).ok_or_else(|| not_a_guid(text("Settings")).within("Settings"))?;
    Ok((endpoint, verb))
}

fn name(entry: &Entry) -> Option<String> {
    match entry {
        Entry::System(id) => Some(id.clone()),
        Entry::Callback => None,
    }
}

/// Runs an export with HCS' form of an error record: its `Error` is the code as a signed number.
unsafe fn call(result: *mut *mut u16, body: impl FnOnce() -> Result<()>) -> HResult {
    let print = |error: &Error| json!({"Error": error.hresult().cast_signed(), "ErrorMessage": error.to_string()}).to_string();
    // SAFETY: promised by the caller of the export.
    unsafe { abi::call(result, print, body) }
}
