//! The exports, called as a C program would, against a stand-in for hnsd.
//!
//! In all of these the pointers are to local variables and NUL-terminated strings, which is what every export asks for.

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use abi::memory::take_text;
use abi::testing::{Answer, Request, serve};
use abi::{HResult, Handle, RawGuid};
use hcn::error::detail;
use hcn::{Error, Guid, Kind};
use serde_json::{Value, json};

use crate::callbacks::*;
use crate::endpoint::*;
use crate::objects::*;
use crate::ports::*;
use crate::service::*;

const E_POINTER: u32 = 0x8000_4003;
const E_HANDLE: u32 = 0x8007_0006;

/// The one network of the stand-in, and the one endpoint on it.
const NETWORK: Guid = Guid::from_u128(0x11);
const ENDPOINT: Guid = Guid::from_u128(0x22);
const GUEST: Guid = Guid::from_u128(0x33);

/// Those who follow events.
static FOLLOWERS: Mutex<Vec<Sender<String>>> = Mutex::new(Vec::new());
/// Tests that publish events must not hear each other's.
static EVENTS: Mutex<()> = Mutex::new(());

fn start() {
    serve(answer);
}

fn answer(request: &Request) -> Answer {
    let path = request.path.split('?').next().unwrap_or_default();
    let object = |kind: Kind, id: Guid| match request.method.as_str() {
        "GET" => json!({"ID": id.to_string(), "HostComputeNetwork": NETWORK.to_string(), "Kind": kind.name(), "Asked": request.path}),
        _ => json!({}),
    };
    let document = match path.split('/').skip(1).collect::<Vec<_>>()[..] {
        ["v2", "events"] => {
            let (sender, receiver) = channel();
            FOLLOWERS.lock().unwrap().push(sender);
            return Answer::Lines(receiver);
        }
        ["v2", "portreservations"] if request.method == "GET" => {
            json!([{"ID": 7, "Owner": GUEST.to_string(), "Protocol": 2, "Access": 2, "StartingPort": 80, "EndingPort": 95}])
        }
        ["v2", "portreservations", ..] => json!({"ID": 7, "StartingPort": 80, "EndingPort": 95}),
        ["v2", "endpoints", _, what @ ("stats" | "addresses")] => json!({"What": what}),
        ["v2", what @ ("features" | "metrics")] => json!({"What": what}),
        ["v2", kinds] => match (Kind::from_collection(kinds), request.method.as_str()) {
            (Some(Kind::Network), "POST") => json!({"ID": NETWORK.to_string()}),
            (Some(Kind::Endpoint), "POST") => json!({"ID": ENDPOINT.to_string()}),
            (Some(_), "GET") => json!([NETWORK.to_string()]),
            _ => return refuse(Error::InvalidNetwork(detail("not here"))),
        },
        ["v2", kinds, id] => match (Kind::from_collection(kinds), hcn::parse_guid(id)) {
            (Some(kind), Some(id)) if [NETWORK, ENDPOINT, GUEST].contains(&id) => object(kind, id),
            (Some(kind), Some(id)) => return refuse(kind.not_found(id)),
            _ => json!({}),
        },
        _ => json!({"Success": true, "Output": {"Major": 16, "Minor": 0}}),
    };
    Answer::Document(200, document)
}

fn refuse(error: Error) -> Answer {
    Answer::Document(404, error.record())
}

fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

/// The string at a place, which is freed and cleared.
fn taken(place: &mut *mut u16) -> Value {
    // SAFETY: the place is NULL or holds a string that an export handed out.
    let text = unsafe { take_text(std::mem::replace(place, null_mut())) };
    serde_json::from_str(&text).unwrap_or_default()
}

/// A record that an export has to overwrite.
fn stale() -> *mut u16 {
    std::ptr::dangling_mut()
}

fn open_network() -> Handle {
    let (mut handle, mut record) = (null_mut(), stale());
    // SAFETY: see the module head.
    let code = unsafe { HcnOpenNetwork(&RawGuid::from(NETWORK), &mut handle, &mut record) };
    assert_eq!((code, record.is_null(), handle.is_null()), (HResult::OK, true, false));
    handle
}

fn open_guest() -> Handle {
    let mut handle = null_mut();
    // SAFETY: see the module head.
    assert_eq!(unsafe { HcnOpenGuestNetworkService(&RawGuid::from(GUEST), &mut handle, null_mut()) }, HResult::OK);
    handle
}

#[test]
fn the_life_of_an_endpoint() {
    start();
    let (mut network, mut endpoint, mut record, mut text) = (null_mut(), null_mut(), stale(), null_mut());
    let (nobody, settings, query) = (RawGuid::default(), wide("{}"), wide(r#"{"SchemaVersion":{"Major":2,"Minor":0}}"#));
    // SAFETY: see the module head.
    unsafe {
        assert_eq!(HcnCreateNetwork(&nobody, settings.as_ptr(), &mut network, &mut record), HResult::OK);
        assert!(record.is_null());
        assert_eq!(HcnCreateEndpoint(network, &nobody, settings.as_ptr(), &mut endpoint, &mut record), HResult::OK);
        assert_eq!(HcnModifyEndpoint(endpoint, settings.as_ptr(), &mut record), HResult::OK);

        assert_eq!(HcnQueryEndpointProperties(endpoint, query.as_ptr(), &mut text, &mut record), HResult::OK);
        let document = taken(&mut text);
        assert_eq!(document["ID"], ENDPOINT.to_string());
        assert!(document["Asked"].as_str().unwrap().contains("query=%7B"));
        assert_eq!(HcnQueryEndpointProperties(endpoint, null(), &mut text, null_mut()), HResult::OK);
        assert!(!taken(&mut text)["Asked"].as_str().unwrap().contains("query"));

        assert_eq!(HcnQueryEndpointStats(endpoint, null(), &mut text, &mut record), HResult::OK);
        assert_eq!(taken(&mut text)["What"], "stats");
        assert_eq!(HcnQueryEndpointAddresses(endpoint, null(), &mut text, &mut record), HResult::OK);
        assert_eq!(taken(&mut text)["What"], "addresses");

        assert_eq!(HcnEnumerateEndpoints(null(), &mut text, &mut record), HResult::OK);
        assert_eq!(taken(&mut text), json!([NETWORK.to_string()]));
        assert_eq!(HcnDeleteEndpoint(&RawGuid::from(ENDPOINT), &mut record), HResult::OK);
        assert_eq!(HcnCloseEndpoint(endpoint), HResult::OK);
        assert_eq!(HcnCloseNetwork(network), HResult::OK);
    }
}

#[test]
fn failures_come_with_a_record() {
    start();
    let (mut handle, mut record) = (stale().cast(), stale());
    // SAFETY: see the module head.
    let code = unsafe { HcnOpenNamespace(&RawGuid::from(Guid::from_u128(9)), &mut handle, &mut record) };
    assert_eq!(code.code(), 0x8007_0490);
    assert!(handle.is_null());
    let record = taken(&mut record);
    assert_eq!((&record["ErrorCode"], &record["Error"]), (&json!(0x8007_0490u32), &json!("Element not found. ")));
}

#[test]
fn handles_that_are_none() {
    start();
    let network = open_network();
    let settings = wide("{}");
    let mut text = stale();
    // SAFETY: see the module head; handles may be any number.
    unsafe {
        for bad in [null_mut(), 1 as Handle, usize::MAX as Handle, stale().cast()] {
            let mut record = null_mut();
            assert_eq!(HcnModifyNetwork(bad, settings.as_ptr(), &mut record).code(), E_HANDLE);
            assert_eq!(taken(&mut record)["ErrorCode"], E_HANDLE);
            assert_eq!(HcnQueryNetworkProperties(bad, null(), &mut text, null_mut()).code(), E_HANDLE);
            assert!(text.is_null());
            assert_eq!(HcnCloseNetwork(bad).code(), E_HANDLE);
            assert_eq!(HcnUnregisterServiceCallback(bad).code(), E_HANDLE);
            assert_eq!(HcnReleaseGuestNetworkServicePortReservationHandle(bad).code(), E_HANDLE);
            assert_eq!(HcnCloseService(bad).code(), E_HANDLE);
        }
        assert_eq!(HcnCloseEndpoint(network).code(), E_HANDLE, "of another kind");
        assert_eq!(HcnCloseNetwork(network), HResult::OK);
        assert_eq!(HcnCloseNetwork(network).code(), E_HANDLE, "closed already");
    }
}

#[test]
fn null_everywhere() {
    start();
    let network = open_network();

    let mut handle = null_mut();
    // SAFETY: NULL is allowed for every pointer.
    unsafe {
        assert_eq!(HcnEnumerateNetworks(null(), null_mut(), null_mut()).code(), E_POINTER);
        assert_eq!(HcnCreateNetwork(null(), null(), null_mut(), null_mut()).code(), E_POINTER);
        assert_eq!(HcnCreateNetwork(null(), null(), &mut handle, null_mut()).code(), E_POINTER);
        assert_eq!(HcnCreateNetwork(&RawGuid::default(), null(), &mut handle, null_mut()).code(), E_POINTER);
        assert_eq!(HcnOpenNetwork(null(), &mut handle, null_mut()).code(), E_POINTER);
        assert_eq!(HcnModifyNetwork(network, null(), null_mut()).code(), E_POINTER);
        assert_eq!(HcnQueryNetworkProperties(network, null(), null_mut(), null_mut()).code(), E_POINTER);
        assert_eq!(HcnDeleteNetwork(null(), null_mut()).code(), E_POINTER);
        assert_eq!(HcnRegisterServiceCallback(None, null_mut(), &mut handle).code(), E_POINTER);
        assert_eq!(HcnRegisterServiceCallback(Some(forward), null_mut(), null_mut()).code(), E_POINTER);
        assert_eq!(HcnEnumerateGuestNetworkPortReservations(null_mut(), null_mut()).code(), E_POINTER);
        HcnFreeGuestNetworkPortReservations(null_mut());
    }
}

#[test]
fn the_service_itself() {
    start();
    let (mut service, mut text, mut record) = (null_mut(), null_mut(), stale());
    // SAFETY: see the module head.
    unsafe {
        assert_eq!(HcnOpenService(&mut service, &mut record), HResult::OK);
        assert_eq!(HcnCloseService(service), HResult::OK);
        assert_eq!(HcnQueryFeatures(null(), &mut text, &mut record), HResult::OK);
        assert_eq!(taken(&mut text)["What"], "features");
        assert_eq!(HcnQueryMetrics(null(), &mut text, &mut record), HResult::OK);
        assert_eq!(taken(&mut text)["What"], "metrics");
    }
}

#[test]
fn ports_are_reserved_and_released() {
    start();
    let guest = open_guest();
    let (mut reservation, mut range) = (null_mut(), PortRange::default());
    let (mut count, mut entries) = (0, null_mut());
    // SAFETY: see the module head.
    unsafe {
        assert_eq!(HcnReserveGuestNetworkServicePort(guest, 1, 1, 80, &mut reservation), HResult::OK);
        assert_eq!(HcnReleaseGuestNetworkServicePortReservationHandle(reservation), HResult::OK);
        assert_eq!(HcnReleaseGuestNetworkServicePortReservationHandle(reservation).code(), E_HANDLE);
        assert_eq!(HcnReserveGuestNetworkServicePortRange(guest, 16, &mut range, &mut reservation), HResult::OK);
        assert_eq!(range, PortRange { StartingPort: 80, EndingPort: 95 });
        assert_eq!(HcnEnumerateGuestNetworkPortReservations(&mut count, &mut entries), HResult::OK);
        assert_eq!(count, 1);
        let entry = *entries;
        assert_eq!((entry.OwningPartitionId, entry.Protocol, entry.SharingFlags), (RawGuid::from(GUEST), 2, 2));
        assert_eq!((entry.StartingPort, entry.EndingPort), (80, 95));
        HcnFreeGuestNetworkPortReservations(entries);
        assert_eq!(HcnCloseGuestNetworkService(guest), HResult::OK);
    }
}

/// What a callback was told, sent to the test.
type Told = (u32, Value);

/// Forwards to the channel that the context points at.
unsafe extern "system" fn forward(code: u32, context: *mut c_void, status: i32, data: *const u16) {
    assert_eq!(status, 0);
    // SAFETY: the tests pass a channel that outlives the registration, and data is a string or NULL.
    unsafe {
        let data = abi::optional_text("data", data).unwrap().unwrap_or_default();
        let sender = &*context.cast::<Sender<Told>>();
        let _ = sender.send((code, serde_json::from_str(&data).unwrap_or_default()));
    }
}

fn publish(kind: Kind, change: &str, id: Guid) {
    let line = json!({"Sequence": 1, "Kind": kind.name(), "Change": change, "ID": id.to_string(), "Name": "", "Flags": 8}).to_string();
    FOLLOWERS.lock().unwrap().retain(|follower| follower.send(line.clone()).is_ok());
}

/// Ends all streams, as when the service goes.
fn disconnect() {
    FOLLOWERS.lock().unwrap().clear();
}

#[test]
fn a_client_is_told_until_the_service_goes() {
    start();
    let _alone = EVENTS.lock().unwrap_or_else(PoisonError::into_inner);
    let (sender, receiver) = channel::<Told>();
    let mut handle = null_mut();
    // SAFETY: the sender outlives the registration.
    let code = unsafe { HcnRegisterServiceCallback(Some(forward), (&raw const sender).cast_mut().cast(), &mut handle) };
    assert_eq!(code, HResult::OK);
    publish(Kind::Network, "PreDelete", NETWORK);
    publish(Kind::LoadBalancer, "Created", NETWORK);
    publish(Kind::Endpoint, "Detached", ENDPOINT);
    let next = || receiver.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(next(), (0x3, json!({"ID": NETWORK.to_string(), "Flags": 8})));
    assert_eq!(next().0, 0x10);
    disconnect();
    assert_eq!(next(), (0x0100_0000, Value::Null));
    assert!(receiver.recv_timeout(Duration::from_millis(50)).is_err(), "once");
    // SAFETY: handles may be any number.
    unsafe {
        assert_eq!(HcnUnregisterNetworkCallback(handle).code(), E_HANDLE, "of another kind");
        assert_eq!(HcnUnregisterServiceCallback(handle), HResult::OK);
        assert_eq!(HcnUnregisterServiceCallback(handle).code(), E_HANDLE);
    }
}

#[test]
fn networks_and_guests_hear_of_themselves() {
    start();
    let _alone = EVENTS.lock().unwrap_or_else(PoisonError::into_inner);
    let (of_network, network) = channel::<Told>();
    let (of_guest, guest) = channel::<Told>();
    let mut handles = [null_mut(); 2];
    let context = |sender: &Sender<Told>| (&raw const *sender).cast_mut().cast();
    // SAFETY: the senders outlive the registrations.
    unsafe {
        assert_eq!(HcnRegisterNetworkCallback(open_network(), Some(forward), context(&of_network), &mut handles[0]), HResult::OK);
        assert_eq!(HcnRegisterGuestNetworkServiceCallback(open_guest(), Some(forward), context(&of_guest), &mut handles[1]), HResult::OK);
    }
    publish(Kind::Network, "Deleted", Guid::from_u128(99));
    publish(Kind::Endpoint, "Attached", Guid::from_u128(99));
    publish(Kind::Endpoint, "Attached", ENDPOINT);
    publish(Kind::GuestNetworkService, "StateChanged", GUEST);
    publish(Kind::Network, "Deleted", NETWORK);
    let codes = |receiver: &std::sync::mpsc::Receiver<Told>, count| -> Vec<u32> {
        (0..count).map(|_| receiver.recv_timeout(Duration::from_secs(10)).unwrap().0).collect()
    };
    assert_eq!(codes(&network, 2), [0x9, 0x4]);
    assert_eq!(codes(&guest, 1), [0x11]);
    // SAFETY: handles may be any number.
    unsafe {
        assert_eq!(HcnUnregisterNetworkCallback(handles[0]), HResult::OK);
        assert_eq!(HcnUnregisterGuestNetworkServiceCallback(handles[1]), HResult::OK);
    }
    publish(Kind::Network, "Deleted", NETWORK);
    assert!(network.recv_timeout(Duration::from_millis(50)).is_err());
}

/// A callback that takes its time.
struct Slow {
    entered: Sender<()>,
    left: Mutex<bool>,
}

unsafe extern "system" fn linger(_: u32, context: *mut c_void, _: i32, _: *const u16) {
    // SAFETY: the test passes such a value, which outlives the registration.
    let slow = unsafe { &*context.cast::<Slow>() };
    slow.entered.send(()).unwrap();
    thread::sleep(Duration::from_millis(100));
    *slow.left.lock().unwrap() = true;
}

#[test]
fn unregistering_waits_for_a_running_callback() {
    start();
    let _alone = EVENTS.lock().unwrap_or_else(PoisonError::into_inner);
    let (entered, is_in) = channel();
    let slow = Slow { entered, left: Mutex::new(false) };
    let mut handle = null_mut();
    // SAFETY: the context outlives the registration.
    unsafe {
        assert_eq!(HcnRegisterServiceCallback(Some(linger), (&raw const slow).cast_mut().cast(), &mut handle), HResult::OK);
        publish(Kind::Network, "Created", NETWORK);
        is_in.recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!(HcnUnregisterServiceCallback(handle), HResult::OK);
    }
    assert!(*slow.left.lock().unwrap());
}

/// What a callback needs to unregister itself.
struct Own {
    handle: Mutex<usize>,
    code: Sender<u32>,
}

unsafe extern "system" fn unregister_myself(_: u32, context: *mut c_void, _: i32, _: *const u16) {
    // SAFETY: the test passes such a value, which outlives the registration.
    let own = unsafe { &*context.cast::<Own>() };
    let handle = *own.handle.lock().unwrap();
    // SAFETY: handles may be any number.
    own.code.send(unsafe { HcnUnregisterServiceCallback(handle as Handle) }.code()).unwrap();
}

#[test]
fn a_callback_may_unregister_itself() {
    start();
    let _alone = EVENTS.lock().unwrap_or_else(PoisonError::into_inner);
    let (code, codes) = channel();
    let own = Box::leak(Box::new(Own { handle: Mutex::new(0), code }));
    let mut handle = null_mut();
    let mut known = own.handle.lock().unwrap();
    // SAFETY: the context lives for ever.
    assert_eq!(
        unsafe { HcnRegisterServiceCallback(Some(unregister_myself), (&raw const *own).cast_mut().cast(), &mut handle) },
        HResult::OK
    );
    *known = handle as usize;
    drop(known);
    publish(Kind::Network, "Created", NETWORK);
    assert_eq!(codes.recv_timeout(Duration::from_secs(10)), Ok(0));
    publish(Kind::Network, "Created", NETWORK);
    assert!(codes.recv_timeout(Duration::from_millis(50)).is_err());
}
