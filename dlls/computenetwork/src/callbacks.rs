//! Notifications: a thread per registration follows the service's events and calls the client.
//!
//! A registration ends with the service: its last notification is `ServiceDisconnect`, once, and the client is to unregister
//! and register anew. After unregistering no call is made any more, and none is still running, unless it is that very call
//! that unregisters.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use abi::{HResult, Handle, Out, ask, null_pointer};
use hcn::client::{EventStream, Stopper};
use hcn::error::{Error, Result, detail};
use hcn::event::{Change, Event};
use hcn::{Guid, Hcn, Kind, parse_guid};
use serde_json::Value;

use crate::{Entry, HANDLES, call_without_record, object, registration};

const SERVICE_DISCONNECT: u32 = 0x0100_0000;
const S_OK: i32 = 0;

/// A client's function: notification code, its context, a status that is always success, data as JSON or NULL.
pub type Callback = unsafe extern "system" fn(u32, *mut c_void, i32, *const u16);

/// What a registration is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything that has a notification code.
    Service,
    /// What happens to one network and to endpoints on it.
    Network(Guid),
    /// What happens to one guest network service.
    Guest(Guid),
}

/// Tells a client of everything that happens.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcnRegisterServiceCallback(
    NotificationCallback: Option<Callback>,
    Context: *mut c_void,
    CallbackHandle: *mut Handle,
) -> HResult {
    // SAFETY: promised by the caller.
    unsafe { register(|| Ok(Scope::Service), NotificationCallback, Context, CallbackHandle) }
}

/// Ends what [`HcnRegisterServiceCallback`] began.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcnUnregisterServiceCallback(CallbackHandle: Handle) -> HResult {
    unregister(CallbackHandle, |scope| matches!(scope, Scope::Service))
}

/// Tells a client what happens to a network. Microsoft does not document this function; the parameters are those of the
/// guest network service's.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcnRegisterNetworkCallback(
    Network: Handle,
    NotificationCallback: Option<Callback>,
    Context: *mut c_void,
    CallbackHandle: *mut Handle,
) -> HResult {
    let scope = || object(Network, Kind::Network).map(Scope::Network);
    // SAFETY: promised by the caller.
    unsafe { register(scope, NotificationCallback, Context, CallbackHandle) }
}

/// Ends what [`HcnRegisterNetworkCallback`] began.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcnUnregisterNetworkCallback(CallbackHandle: Handle) -> HResult {
    unregister(CallbackHandle, |scope| matches!(scope, Scope::Network(_)))
}

/// Tells a client what happens to a guest network service.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcnRegisterGuestNetworkServiceCallback(
    GuestNetworkService: Handle,
    NotificationCallback: Option<Callback>,
    Context: *mut c_void,
    CallbackHandle: *mut Handle,
) -> HResult {
    let scope = || object(GuestNetworkService, Kind::GuestNetworkService).map(Scope::Guest);
    // SAFETY: promised by the caller.
    unsafe { register(scope, NotificationCallback, Context, CallbackHandle) }
}

/// Ends what [`HcnRegisterGuestNetworkServiceCallback`] began.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcnUnregisterGuestNetworkServiceCallback(CallbackHandle: Handle) -> HResult {
    unregister(CallbackHandle, |scope| matches!(scope, Scope::Guest(_)))
}

unsafe fn register(
    scope: impl FnOnce() -> Result<Scope>,
    callback: Option<Callback>,
    context: *mut c_void,
    handle: *mut Handle,
) -> HResult {
    call_without_record(|| {
        // SAFETY: promised by the caller of the export.
        let handle = unsafe { Out::new("CallbackHandle", handle, std::ptr::null_mut())? };
        let callback = callback.ok_or_else(|| null_pointer("NotificationCallback"))?;
        let target = Target { callback, context };
        let scope = scope()?;
        let events = ask(|hns| hns.events_since(None))?;
        let registration = Arc::new(Registration::new(scope, target, events.stopper()));
        let number = HANDLES.insert(Entry::Callback(registration.clone()))?;
        // The client may want its handle in the first notification, which can come before this call returns.
        handle.set(number);
        start(registration, events).inspect_err(|_| {
            handle.set(std::ptr::null_mut());
            let _ = HANDLES.remove(number, |_| Some(()));
        })
    })
}

fn start(registration: Arc<Registration>, events: EventStream) -> Result<()> {
    abi::pin();
    let thread = thread::Builder::new().name("hcn-events".into()).spawn(move || registration.follow(events));
    thread.map(drop).map_err(|error| Error::OutOfMemory(detail(format!("no thread for the notifications: {error}"))))
}

fn unregister(handle: Handle, scope: fn(&Scope) -> bool) -> HResult {
    call_without_record(|| {
        HANDLES.remove(handle, |entry| registration(entry, scope))?.end();
        Ok(())
    })
}

/// The client's function with its context.
#[derive(Debug)]
struct Target {
    callback: Callback,
    context: *mut c_void,
}

// SAFETY: who registers a callback expects it, with its context, on a thread of ours; we only hand the pointer back.
unsafe impl Send for Target {}
// SAFETY: as above; calls are made one after the other.
unsafe impl Sync for Target {}

impl Target {
    fn notify(&self, code: u32, data: Option<&Value>) {
        let data: Option<Vec<u16>> = data.map(|data| data.to_string().encode_utf16().chain([0]).collect());
        let data = data.as_ref().map_or(std::ptr::null(), |data| data.as_ptr());
        // SAFETY: the function is the client's for this very purpose; the data lives until it returns.
        unsafe { (self.callback)(code, self.context, S_OK, data) };
    }
}

/// One client that is told.
#[derive(Debug)]
pub struct Registration {
    scope: Scope,
    target: Target,
    stopper: Stopper,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct State {
    ended: bool,
    /// The thread in the client's function, if any is.
    running: Option<ThreadId>,
}

impl Registration {
    fn new(scope: Scope, target: Target, stopper: Stopper) -> Self {
        Self { scope, target, stopper, state: Mutex::default(), returned: Condvar::new() }
    }

    /// What this client is told of.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    fn follow(&self, events: EventStream) {
        let mut networks = HashMap::new();
        for event in events {
            match event {
                Ok(event) if event.change == Change::Disconnected => break,
                Ok(event) => self.tell(&event, &mut networks),
                Err(_) => break,
            }
        }
        self.notify(SERVICE_DISCONNECT, None);
    }

    fn tell(&self, event: &Event, networks: &mut HashMap<Guid, Guid>) {
        let Some(code) = event.notification() else {
            return;
        };
        let concerned = match self.scope {
            Scope::Service => true,
            Scope::Network(network) if event.kind == Some(Kind::Endpoint) => network_of(event, networks) == Some(network),
            Scope::Network(network) => event.kind == Some(Kind::Network) && event.id == network,
            Scope::Guest(guest) => event.kind == Some(Kind::GuestNetworkService) && event.id == guest,
        };
        if concerned {
            self.notify(code, Some(&event.notification_data()));
        }
    }

    /// Calls the client, unless the registration ended.
    fn notify(&self, code: u32, data: Option<&Value>) {
        {
            let mut state = self.lock();
            if state.ended {
                return;
            }
            state.running = Some(thread::current().id());
        }
        self.target.notify(code, data);
        self.lock().running = None;
        self.returned.notify_all();
    }

    fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        self.stopper.stop();
        while state.running.is_some_and(|thread| thread != thread::current().id()) {
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The network of the endpoint an event is about. Remembered, since a detached endpoint may be gone when we ask.
fn network_of(event: &Event, networks: &mut HashMap<Guid, Guid>) -> Option<Guid> {
    let network = |document: &Value| document.get("HostComputeNetwork").and_then(Value::as_str).and_then(parse_guid);
    if event.change == Change::Detached
        && let Some(network) = networks.remove(&event.id)
    {
        return Some(network);
    }
    let asked = || ask(|hns| hns.query(Kind::Endpoint, event.id, r#"{"SchemaVersion":{"Major":2,"Minor":0}}"#)).ok();
    let found = network(&event.data).or_else(|| network(&asked()?))?;
    if event.change == Change::Attached {
        networks.insert(event.id, found);
    }
    Some(found)
}
