//! The operations that every kind of object has: enumerate, create, open, modify, query, delete, close.
//!
//! Clients skip closing when something fails in between, so a handle is only a number that stands for an id. It does not
//! keep the object alive, and using it after the object went gives that kind's "not found".

use abi::{HResult, Handle, Out, RawGuid, ask, optional_text, required_text};
use hcn::error::Result;
use hcn::{Guid, Hcn, Kind};

use crate::{Entry, HANDLES, call, object, of_kind};

/// What open asks for: something every object answers.
const ANY: &str = r#"{"SchemaVersion":{"Major":2,"Minor":0}}"#;

macro_rules! operations {
    ($($kind:ident: $enumerate:ident $open:ident $modify:ident $query:ident $delete:ident $close:ident;)*) => {$(
        #[doc = concat!("The ids of all objects of the kind ", stringify!($kind), " that a query asks for, as a JSON array.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "system" fn $enumerate(Query: *const u16, List: *mut *mut u16, ErrorRecord: *mut *mut u16) -> HResult {
            // SAFETY: promised by the caller.
            unsafe { enumerate(Kind::$kind, Query, List, ErrorRecord) }
        }

        #[doc = concat!("A handle for an object of the kind ", stringify!($kind), ".")]
        #[unsafe(no_mangle)]
        pub unsafe extern "system" fn $open(Id: *const RawGuid, Object: *mut Handle, ErrorRecord: *mut *mut u16) -> HResult {
            // SAFETY: promised by the caller.
            unsafe { open(Kind::$kind, Id, Object, ErrorRecord) }
        }

        #[doc = concat!("Changes an object of the kind ", stringify!($kind), ".")]
        #[unsafe(no_mangle)]
        pub unsafe extern "system" fn $modify(Object: Handle, Settings: *const u16, ErrorRecord: *mut *mut u16) -> HResult {
            // SAFETY: promised by the caller.
            unsafe { modify(Kind::$kind, Object, Settings, ErrorRecord) }
        }

        #[doc = concat!("The document of an object of the kind ", stringify!($kind), ".")]
        #[unsafe(no_mangle)]
        pub unsafe extern "system" fn $query(
            Object: Handle,
            Query: *const u16,
            Properties: *mut *mut u16,
            ErrorRecord: *mut *mut u16,
        ) -> HResult {
            // SAFETY: promised by the caller.
            unsafe { query(Kind::$kind, Object, Query, Properties, ErrorRecord) }
        }

        #[doc = concat!("Deletes an object of the kind ", stringify!($kind), ".")]
        #[unsafe(no_mangle)]
        pub unsafe extern "system" fn $delete(Id: *const RawGuid, ErrorRecord: *mut *mut u16) -> HResult {
            // SAFETY: promised by the caller.
            unsafe { delete(Kind::$kind, Id, ErrorRecord) }
        }

        #[doc = concat!("Closes a handle for an object of the kind ", stringify!($kind), ".")]
        #[unsafe(no_mangle)]
        pub unsafe extern "system" fn $close(Object: Handle) -> HResult {
            close(Kind::$kind, Object)
        }
    )*};
}

macro_rules! creations {
    ($($kind:ident: $create:ident;)*) => {$(
        #[doc = concat!("Makes an object of the kind ", stringify!($kind), " and opens it.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "system" fn $create(
            Id: *const RawGuid,
            Settings: *const u16,
            Object: *mut Handle,
            ErrorRecord: *mut *mut u16,
        ) -> HResult {
            // SAFETY: promised by the caller.
            unsafe { create(Kind::$kind, || Ok(None), Id, Settings, Object, ErrorRecord) }
        }
    )*};
}

operations! {
    Network: HcnEnumerateNetworks HcnOpenNetwork HcnModifyNetwork HcnQueryNetworkProperties HcnDeleteNetwork HcnCloseNetwork;
    Endpoint: HcnEnumerateEndpoints HcnOpenEndpoint HcnModifyEndpoint HcnQueryEndpointProperties HcnDeleteEndpoint HcnCloseEndpoint;
    Namespace: HcnEnumerateNamespaces HcnOpenNamespace HcnModifyNamespace HcnQueryNamespaceProperties HcnDeleteNamespace HcnCloseNamespace;
    LoadBalancer: HcnEnumerateLoadBalancers HcnOpenLoadBalancer HcnModifyLoadBalancer HcnQueryLoadBalancerProperties
        HcnDeleteLoadBalancer HcnCloseLoadBalancer;
    Route: HcnEnumerateSdnRoutes HcnOpenSdnRoute HcnModifySdnRoute HcnQuerySdnRouteProperties HcnDeleteSdnRoute HcnCloseSdnRoute;
    GuestNetworkService: HcnEnumerateGuestNetworkServices HcnOpenGuestNetworkService HcnModifyGuestNetworkService
        HcnQueryGuestNetworkServiceProperties HcnDeleteGuestNetworkService HcnCloseGuestNetworkService;
}

creations! {
    Network: HcnCreateNetwork;
    Namespace: HcnCreateNamespace;
    LoadBalancer: HcnCreateLoadBalancer;
    Route: HcnCreateSdnRoute;
    GuestNetworkService: HcnCreateGuestNetworkService;
}

/// Makes an endpoint on a network and opens it.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcnCreateEndpoint(
    Network: Handle,
    Id: *const RawGuid,
    Settings: *const u16,
    Endpoint: *mut Handle,
    ErrorRecord: *mut *mut u16,
) -> HResult {
    // SAFETY: promised by the caller.
    unsafe { create(Kind::Endpoint, || object(Network, Kind::Network).map(Some), Id, Settings, Endpoint, ErrorRecord) }
}

unsafe fn enumerate(kind: Kind, query: *const u16, list: *mut *mut u16, record: *mut *mut u16) -> HResult {
    let body = || {
        // SAFETY: promised by the caller of the export.
        let (list, query) = unsafe { (Out::text("List", list)?, optional_text("Query", query)?) };
        let ids = ask(|hns| hns.enumerate(kind, query.as_deref().unwrap_or_default()))?;
        let ids: Vec<String> = ids.iter().map(Guid::to_string).collect();
        list.set_text(&serde_json::Value::from(ids).to_string())
    };
    // SAFETY: promised by the caller of the export.
    unsafe { call(record, body) }
}

unsafe fn create(
    kind: Kind,
    network: impl FnOnce() -> Result<Option<Guid>>,
    id: *const RawGuid,
    settings: *const u16,
    handle: *mut Handle,
    record: *mut *mut u16,
) -> HResult {
    let body = || {
        // SAFETY: promised by the caller of the export.
        let handle = unsafe { Out::new("Object", handle, std::ptr::null_mut())? };
        let network = network()?;
        // SAFETY: promised by the caller of the export.
        let (id, settings) = unsafe { (RawGuid::read("Id", id)?, required_text("Settings", settings)?) };
        // hcsshim passes zero, and an id of its choice in the settings.
        let wanted = Some(id).filter(|id| !id.is_nil());
        let id = ask(|hns| hns.create(kind, network, wanted, &settings))?;
        handle.set(HANDLES.insert(Entry::Object(kind, id))?);
        Ok(())
    };
    // SAFETY: promised by the caller of the export.
    unsafe { call(record, body) }
}

unsafe fn open(kind: Kind, id: *const RawGuid, handle: *mut Handle, record: *mut *mut u16) -> HResult {
    let body = || {
        // SAFETY: promised by the caller of the export.
        let (handle, id) = unsafe { (Out::new("Object", handle, std::ptr::null_mut())?, RawGuid::read("Id", id)?) };
        ask(|hns| hns.query(kind, id, ANY))?;
        handle.set(HANDLES.insert(Entry::Object(kind, id))?);
        Ok(())
    };
    // SAFETY: promised by the caller of the export.
    unsafe { call(record, body) }
}

unsafe fn modify(kind: Kind, handle: Handle, settings: *const u16, record: *mut *mut u16) -> HResult {
    let body = || {
        let id = object(handle, kind)?;
        // SAFETY: promised by the caller of the export.
        let settings = unsafe { required_text("Settings", settings)? };
        ask(|hns| hns.modify(kind, id, &settings))
    };
    // SAFETY: promised by the caller of the export.
    unsafe { call(record, body) }
}

unsafe fn query(kind: Kind, handle: Handle, query: *const u16, properties: *mut *mut u16, record: *mut *mut u16) -> HResult {
    let body = || {
        // SAFETY: promised by the caller of the export.
        let (properties, query) = unsafe { (Out::text("Properties", properties)?, optional_text("Query", query)?) };
        let id = object(handle, kind)?;
        let document = ask(|hns| hns.query(kind, id, query.as_deref().unwrap_or_default()))?;
        properties.set_text(&document.to_string())
    };
    // SAFETY: promised by the caller of the export.
    unsafe { call(record, body) }
}

unsafe fn delete(kind: Kind, id: *const RawGuid, record: *mut *mut u16) -> HResult {
    let body = || {
        // SAFETY: promised by the caller of the export.
        let id = unsafe { RawGuid::read("Id", id)? };
        ask(|hns| hns.delete(kind, id))
    };
    // SAFETY: promised by the caller of the export.
    unsafe { call(record, body) }
}

fn close(kind: Kind, handle: Handle) -> HResult {
    crate::call_without_record(|| HANDLES.remove(handle, |entry| of_kind(entry, kind)).map(drop))
}
