//! The HNS of a Windows machine, behind the trait that ours is behind too.
//!
//! Its DLLs are bound late: transom also starts on a Windows without containers, and then says what is missing. Under
//! Wine the DLLs are our own, so that this code meets hnsd through the very interface it meets Microsoft's service through.

// A C interface cannot be called without it; every use says why it is sound.
#![allow(unsafe_code)]

mod events;
pub mod forwarding;
mod library;
pub mod service;
mod text;

use std::ffi::c_void;
use std::sync::OnceLock;

use hcn::api::Events;
use hcn::error::{Error, Result, detail};
use hcn::{Guid, Hcn, Kind, not_a_guid, parse_guid, parse_value};
use serde_json::Value;
use windows_sys::core::{GUID, HRESULT, PCWSTR, PWSTR};

use self::library::Library;
use self::text::{Returned, wide};

/// Asks for a document in schema 2.
const V2: &str = r#"{"SchemaVersion":{"Major":2,"Minor":0}}"#;

type Handle = *mut c_void;
type Enumerate = unsafe extern "system" fn(PCWSTR, *mut PWSTR, *mut PWSTR) -> HRESULT;
type Create = unsafe extern "system" fn(*const GUID, PCWSTR, *mut Handle, *mut PWSTR) -> HRESULT;
type CreateEndpoint = unsafe extern "system" fn(Handle, *const GUID, PCWSTR, *mut Handle, *mut PWSTR) -> HRESULT;
type Open = unsafe extern "system" fn(*const GUID, *mut Handle, *mut PWSTR) -> HRESULT;
type Modify = unsafe extern "system" fn(Handle, PCWSTR, *mut PWSTR) -> HRESULT;
type Query = unsafe extern "system" fn(Handle, PCWSTR, *mut PWSTR, *mut PWSTR) -> HRESULT;
type Delete = unsafe extern "system" fn(*const GUID, *mut PWSTR) -> HRESULT;
type Close = unsafe extern "system" fn(Handle) -> HRESULT;
type HnsCall = unsafe extern "system" fn(PCWSTR, PCWSTR, PCWSTR, *mut PWSTR) -> HRESULT;

/// The HNS of this machine.
#[derive(Debug)]
pub struct WindowsHcn {
    /// computenetwork.dll.
    network: Library,
    /// vmcompute.dll, once the older interface is used.
    compute: OnceLock<Library>,
}

impl WindowsHcn {
    /// Binds the service's DLL. That the service runs is seen at the first call.
    pub fn new() -> Result<Self> {
        Ok(Self { network: Library::load("computenetwork.dll")?, compute: OnceLock::new() })
    }

    fn open(&self, kind: Kind, id: Guid) -> Result<Object> {
        let open: Open = self.function(&format!("HcnOpen{}", noun(kind)))?;
        self.obtain(kind, |handle, record| {
            // SAFETY: the GUID, the handle and the record are local variables of this call.
            unsafe { open(&guid(id), handle, record) }
        })
    }

    /// Runs a function that gives a handle.
    fn obtain(&self, kind: Kind, function: impl FnOnce(*mut Handle, *mut PWSTR) -> HRESULT) -> Result<Object> {
        // Without a way to close it, a handle is not asked for.
        let close: Close = self.function(&format!("HcnClose{}", noun(kind)))?;
        let (mut handle, mut record) = (std::ptr::null_mut(), Returned::default());
        check(function(&mut handle, record.place()), &record)?;
        Ok(Object { handle, close })
    }

    fn create_endpoint(&self, network: Option<Guid>, id: &GUID, settings: &str) -> Result<Object> {
        let network = network.map_or_else(|| network_in(settings), Ok)?;
        let network = self.open(Kind::Network, network)?;
        let create: CreateEndpoint = self.function("HcnCreateEndpoint")?;
        let settings = wide(settings);
        self.obtain(Kind::Endpoint, |handle, record| {
            // SAFETY: the network is open; everything else is a local variable of this call.
            unsafe { create(network.handle, id, settings.as_ptr(), handle, record) }
        })
    }

    fn properties(&self, kind: Kind, object: &Object, query: &str) -> Result<Value> {
        let function: Query = self.function(&format!("HcnQuery{}Properties", noun(kind)))?;
        let (query, mut properties, mut record) = (wide(query), Returned::default(), Returned::default());
        // SAFETY: the object is open; everything else is a local variable of this call.
        let code = unsafe { function(object.handle, query.as_ptr(), properties.place(), record.place()) };
        check(code, &record)?;
        parse_value(&properties.read())
    }

    fn function<F: Copy>(&self, name: &str) -> Result<F> {
        // SAFETY: the types above are those of Microsoft's headers for functions of these names.
        unsafe { self.network.function(name) }
    }

    fn compute(&self) -> Result<&Library> {
        if let Some(library) = self.compute.get() {
            return Ok(library);
        }
        let library = Library::load("vmcompute.dll")?;
        Ok(self.compute.get_or_init(|| library))
    }
}

impl Hcn for WindowsHcn {
    fn enumerate(&self, kind: Kind, query: &str) -> Result<Vec<Guid>> {
        let function: Enumerate = self.function(&format!("HcnEnumerate{}s", noun(kind)))?;
        let (query, mut list, mut record) = (wide(query), Returned::default(), Returned::default());
        // SAFETY: everything passed is a local variable of this call.
        let code = unsafe { function(query.as_ptr(), list.place(), record.place()) };
        check(code, &record)?;
        ids(&list.read())
    }

    fn create(&self, kind: Kind, network: Option<Guid>, id: Option<Guid>, settings: &str) -> Result<Guid> {
        let id = guid(id.unwrap_or_default());
        let object = match kind {
            Kind::Endpoint => self.create_endpoint(network, &id, settings)?,
            _ => {
                let create: Create = self.function(&format!("HcnCreate{}", noun(kind)))?;
                let settings = wide(settings);
                // SAFETY: everything passed is a local variable of this call.
                self.obtain(kind, |handle, record| unsafe { create(&id, settings.as_ptr(), handle, record) })?
            }
        };
        let document = self.properties(kind, &object, V2)?;
        let id = document.get("ID").and_then(Value::as_str).unwrap_or_default();
        parse_guid(id).ok_or_else(|| not_a_guid(id).within("ID"))
    }

    fn query(&self, kind: Kind, id: Guid, query: &str) -> Result<Value> {
        self.properties(kind, &self.open(kind, id)?, query)
    }

    fn modify(&self, kind: Kind, id: Guid, settings: &str) -> Result<()> {
        let object = self.open(kind, id)?;
        let function: Modify = self.function(&format!("HcnModify{}", noun(kind)))?;
        let (settings, mut record) = (wide(settings), Returned::default());
        // SAFETY: the object is open; everything else is a local variable of this call.
        let code = unsafe { function(object.handle, settings.as_ptr(), record.place()) };
        check(code, &record)
    }

    fn delete(&self, kind: Kind, id: Guid) -> Result<()> {
        let function: Delete = self.function(&format!("HcnDelete{}", noun(kind)))?;
        let mut record = Returned::default();
        // SAFETY: everything passed is a local variable of this call.
        let code = unsafe { function(&guid(id), record.place()) };
        check(code, &record)
    }

    fn call(&self, method: &str, path: &str, request: &str) -> Result<Value> {
        // SAFETY: the type is that of clients of this function; Microsoft has no header for it.
        let function: HnsCall = unsafe { self.compute()?.function("HNSCall")? };
        let [method, path, request] = [method, path, request].map(wide);
        let mut response = Returned::default();
        // SAFETY: everything passed is a local variable of this call.
        let code = unsafe { function(method.as_ptr(), path.as_ptr(), request.as_ptr(), response.place()) };
        output(code, &response.read())
    }

    fn events(&self) -> Result<Events> {
        events::follow(&self.network)
    }
}

/// An open object, closed when dropped.
struct Object {
    handle: Handle,
    close: Close,
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: the handle is open and not used again. That closing failed would help nobody.
        unsafe { (self.close)(self.handle) };
    }
}

/// How the functions of the interface call a kind.
fn noun(kind: Kind) -> &'static str {
    match kind {
        Kind::Route => "SdnRoute",
        kind => kind.name(),
    }
}

fn guid(id: Guid) -> GUID {
    GUID::from_u128(id.as_u128())
}

/// The network that an endpoint's settings name, in either schema.
fn network_in(settings: &str) -> Result<Guid> {
    let settings = parse_value(settings)?;
    let named = ["HostComputeNetwork", "VirtualNetwork"].into_iter().find_map(|key| settings.get(key)?.as_str());
    let named = named.ok_or_else(|| {
        Error::InvalidEndpoint(detail("the endpoint names no network").field("HostComputeNetwork").remedy("write the network's id there"))
    })?;
    parse_guid(named).ok_or_else(|| not_a_guid(named).within("HostComputeNetwork"))
}

fn ids(list: &str) -> Result<Vec<Guid>> {
    let list = parse_value(list)?;
    let id = |value: &Value| value.as_str().and_then(parse_guid).ok_or_else(|| not_a_guid(&value.to_string()));
    list.as_array().into_iter().flatten().map(id).collect()
}

/// The outcome of a call: its code, explained by its record if there is one. Some builds report a failure by the record alone.
fn check(code: HRESULT, record: &Returned) -> Result<()> {
    let text = record.read();
    if code >= 0 && text.is_empty() {
        return Ok(());
    }
    Err(failure(code, &text))
}

/// The outcome of a v1 call: what stands in `Output`.
fn output(code: HRESULT, response: &str) -> Result<Value> {
    if code < 0 {
        return Err(failure(code, response));
    }
    let mut response = parse_value(response)?;
    match Error::from_record(&response) {
        Some(error) => Err(error),
        None => Ok(response.get_mut("Output").map_or(Value::Null, Value::take)),
    }
}

fn failure(code: HRESULT, record: &str) -> Error {
    let recorded = parse_value(record).ok().and_then(|record| Error::from_record(&record));
    match recorded {
        Some(error) if code >= 0 || error.hresult() == code.cast_unsigned() => error,
        _ if code >= 0 => Error::Unexpected(detail(record)),
        _ => Error::from_hresult(code.cast_unsigned(), detail(record)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const E_FAIL: HRESULT = 0x8000_4005u32.cast_signed();

    #[test]
    fn a_code_is_explained_by_its_record() {
        let record = Error::NotFound(detail("no such namespace")).record().to_string();
        assert_eq!(failure(0x8007_0490u32.cast_signed(), &record), Error::NotFound(detail("no such namespace")));
        assert_eq!(failure(0, &record).hresult(), 0x8007_0490, "by the record alone");
        assert_eq!(failure(E_FAIL, &record).hresult(), 0x8000_4005, "the code wins");
        assert_eq!(failure(E_FAIL, "no JSON").detail().cause, "no JSON");
    }

    #[test]
    fn both_styles_of_v1_failures() {
        let record = Error::EndpointAlreadyAttached(detail("")).record().to_string();
        assert_eq!(output(0, &record).unwrap_err().hresult(), 0x803B_0014);
        assert_eq!(output(E_FAIL, "").unwrap_err().hresult(), 0x8000_4005);
        assert_eq!(output(0, r#"{"Success":true,"Output":[1]}"#), Ok(serde_json::json!([1])));
        assert_eq!(output(0, r#"{"Success":true}"#), Ok(Value::Null));
    }

    #[test]
    fn endpoints_name_their_network_in_either_schema() {
        let id = "5f0b1190-63be-4e0c-b974-bd0f55675a42";
        for key in ["HostComputeNetwork", "VirtualNetwork"] {
            assert_eq!(network_in(&serde_json::json!({key: id}).to_string()).map(|id| id.to_string()).as_deref(), Ok(id));
        }
        assert_eq!(network_in("{}").unwrap_err().hresult(), 0x803B_000C);
    }

    #[test]
    fn missing_libraries_and_functions_are_named() {
        let error = Library::load("no-such-library.dll").unwrap_err();
        assert_eq!(error.hresult(), 0x8007_06B5);
        assert!(error.detail().cause.contains("no-such-library.dll"));
        let kernel = Library::load("kernel32.dll").unwrap();
        // SAFETY: there is no such function, so none is called.
        let missing = unsafe { kernel.function::<Close>("NoSuchFunction") };
        assert_eq!(missing.unwrap_err().hresult(), 0x8000_4001);
    }
}
