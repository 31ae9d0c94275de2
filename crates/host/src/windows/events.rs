//! The service's notifications as events.

use std::ffi::c_void;
use std::sync::mpsc::{Receiver, Sender, channel};

use hcn::api::Events;
use hcn::error::{Error, Result, detail};
use hcn::event::{Change, Event};
use hcn::{Guid, Kind, parse_guid};
use serde_json::Value;
use windows_sys::core::{HRESULT, PCWSTR};

use super::library::Library;
use super::text;

type Callback = unsafe extern "system" fn(u32, *const c_void, HRESULT, PCWSTR);
type Register = unsafe extern "system" fn(Callback, *const c_void, *mut *mut c_void) -> HRESULT;
type Unregister = unsafe extern "system" fn(*mut c_void) -> HRESULT;

/// Follows the service from now on. Windows tells of networks, namespaces, guests and attached endpoints, and of nothing else.
pub(super) fn follow(library: &Library) -> Result<Events> {
    // SAFETY: the types are those of Microsoft's header.
    let (register, unregister): (Register, Unregister) =
        unsafe { (library.function("HcnRegisterServiceCallback")?, library.function("HcnUnregisterServiceCallback")?) };
    let (sender, receiver) = channel();
    let sender = Box::new(sender);
    let mut handle = std::ptr::null_mut();
    // SAFETY: the sender stays where it is until after it was unregistered, or until here if that fails.
    let code = unsafe { register(notify, (&raw const *sender).cast(), &mut handle) };
    if code < 0 {
        return Err(Error::from_hresult(code.cast_unsigned(), detail("the service does not take a callback")));
    }
    let registration = Registration { handle: handle as usize, unregister, _sender: sender };
    Ok(Box::new(Notifications { receiver, sequence: 0, ended: false, _registration: registration }))
}

/// Called by the service, on a thread of its own.
unsafe extern "system" fn notify(code: u32, context: *const c_void, _status: HRESULT, data: PCWSTR) {
    // SAFETY: the context is the sender that was registered, which outlives the registration; senders may be shared.
    let sender = unsafe { &*context.cast::<Sender<(u32, String)>>() };
    // SAFETY: the service passes NULL or a string.
    let data = unsafe { text::read(data) };
    // Nobody listens any more while the registration is being ended.
    let _ = sender.send((code, data));
}

/// A registered callback, and what it needs.
struct Registration {
    /// The handle, which is an opaque number.
    handle: usize,
    unregister: Unregister,
    _sender: Box<Sender<(u32, String)>>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: the handle is registered; the sender goes after this call, when no callback runs any more.
        unsafe { (self.unregister)(self.handle as *mut c_void) };
    }
}

struct Notifications {
    receiver: Receiver<(u32, String)>,
    sequence: u64,
    ended: bool,
    _registration: Registration,
}

impl Iterator for Notifications {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Result<Event>> {
        while !self.ended {
            let (code, data) = self.receiver.recv().ok()?;
            self.sequence += 1;
            if let Some(event) = event(self.sequence, code, &data) {
                self.ended = event.change == Change::Disconnected;
                return Some(Ok(event));
            }
        }
        None
    }
}

/// The event that a notification tells of; none for codes that this version does not know.
fn event(sequence: u64, code: u32, data: &str) -> Option<Event> {
    let (kind, change) = meaning(code)?;
    let data: Value = serde_json::from_str(data).unwrap_or_default();
    let id = data.get("ID").and_then(Value::as_str).and_then(parse_guid).unwrap_or(Guid::nil());
    let flags = data.get("Flags").and_then(Value::as_u64).and_then(|flags| u32::try_from(flags).ok()).unwrap_or_default();
    let data = data.get("Data").cloned().unwrap_or_default();
    Some(Event { sequence, kind, change, id, name: String::new(), flags, data })
}

fn meaning(code: u32) -> Option<(Option<Kind>, Change)> {
    Some(match code {
        0x1 => (Some(Kind::Network), Change::PreCreate),
        0x2 => (Some(Kind::Network), Change::Created),
        0x3 => (Some(Kind::Network), Change::PreDelete),
        0x4 => (Some(Kind::Network), Change::Deleted),
        0x5 => (Some(Kind::Namespace), Change::Created),
        0x6 => (Some(Kind::Namespace), Change::Deleted),
        0x7 => (Some(Kind::GuestNetworkService), Change::Created),
        0x8 => (Some(Kind::GuestNetworkService), Change::Deleted),
        0x9 => (Some(Kind::Endpoint), Change::Attached),
        0x10 => (Some(Kind::Endpoint), Change::Detached),
        0x11 | 0x12 => (Some(Kind::GuestNetworkService), Change::StateChanged),
        0x0100_0000 => (None, Change::Disconnected),
        _ => return None,
    })
}
