//! Ports of the host that are reserved for a guest network service.

use abi::{HResult, Handle, Out, RawGuid, ask, memory};
use hcn::Kind;
use hcn::error::{Error, Result, detail};
use serde_json::{Value, json};

use crate::{Entry, HANDLES, call_without_record, object};

/// A range of ports, `HCN_PORT_RANGE_RESERVATION`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortRange {
    /// The first port.
    pub StartingPort: u16,
    /// The last port.
    pub EndingPort: u16,
}

/// One reservation of the host, `HCN_PORT_RANGE_ENTRY`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortRangeEntry {
    /// For whom it is.
    pub OwningPartitionId: RawGuid,
    /// Where its traffic goes.
    pub TargetPartitionId: RawGuid,
    /// TCP 1, UDP 2, both 3.
    pub Protocol: i32,
    /// Which of two wins.
    pub Priority: u64,
    /// Kind of reservation; 0, as we have but one.
    pub ReservationType: u32,
    /// Exclusive 1, shared 2.
    pub SharingFlags: u32,
    /// How traffic is handed over; 0, as we have but one way.
    pub DeliveryMode: u32,
    /// The first port.
    pub StartingPort: u16,
    /// The last port.
    pub EndingPort: u16,
}

const _: () = assert!(size_of::<PortRangeEntry>() == 64, "the layout is Microsoft's");

/// Reserves one port. `Protocol`: TCP 1, UDP 2, both 3. `Access`: exclusive 1, shared 2.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcnReserveGuestNetworkServicePort(
    GuestNetworkService: Handle,
    Protocol: i32,
    Access: i32,
    Port: u16,
    PortReservationHandle: *mut Handle,
) -> HResult {
    call_without_record(|| {
        // SAFETY: promised by the caller.
        let handle = unsafe { Out::new("PortReservationHandle", PortReservationHandle, std::ptr::null_mut())? };
        let owner = object(GuestNetworkService, Kind::GuestNetworkService)?;
        let request = json!({"Owner": owner.to_string(), "Protocol": Protocol, "Access": Access, "Port": Port});
        let (reservation, _) = reserve(&request)?;
        handle.set(HANDLES.insert(Entry::Reservation(reservation))?);
        Ok(())
    })
}

/// Reserves some ports in a row, wherever the service finds them.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcnReserveGuestNetworkServicePortRange(
    GuestNetworkService: Handle,
    PortCount: u16,
    PortRangeReservation: *mut PortRange,
    PortReservationHandle: *mut Handle,
) -> HResult {
    call_without_record(|| {
        // SAFETY: promised by the caller.
        let handle = unsafe { Out::new("PortReservationHandle", PortReservationHandle, std::ptr::null_mut())? };
        // SAFETY: promised by the caller.
        let range = unsafe { Out::new("PortRangeReservation", PortRangeReservation, PortRange::default())? };
        let owner = object(GuestNetworkService, Kind::GuestNetworkService)?;
        let (reservation, ports) = reserve(&json!({"Owner": owner.to_string(), "Count": PortCount}))?;
        handle.set(HANDLES.insert(Entry::Reservation(reservation))?);
        range.set(ports);
        Ok(())
    })
}

/// Gives reserved ports back.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcnReleaseGuestNetworkServicePortReservationHandle(PortReservationHandle: Handle) -> HResult {
    call_without_record(|| {
        let number = HANDLES.get(PortReservationHandle, reservation)?;
        match ask(|hns| hns.request("DELETE", &format!("/v2/portreservations/{number}"), "")) {
            // What is gone already, with its guest for example, is released.
            Ok(_) | Err(Error::NotFound(_)) => HANDLES.remove(PortReservationHandle, reservation).map(drop),
            Err(error) => Err(error),
        }
    })
}

/// All reservations of the host, for the caller to free with [`HcnFreeGuestNetworkPortReservations`].
#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcnEnumerateGuestNetworkPortReservations(
    ReturnCount: *mut u32,
    PortEntries: *mut *mut PortRangeEntry,
) -> HResult {
    call_without_record(|| {
        // SAFETY: promised by the caller.
        let count = unsafe { Out::new("ReturnCount", ReturnCount, 0)? };
        // SAFETY: promised by the caller.
        let entries = unsafe { Out::new("PortEntries", PortEntries, std::ptr::null_mut())? };
        let all = ask(|hns| hns.request("GET", "/v2/portreservations", ""))?;
        let all: Vec<PortRangeEntry> = all.as_array().into_iter().flatten().map(entry).collect();
        entries.set(memory::array(&all)?);
        count.set(u32::try_from(all.len()).unwrap_or(u32::MAX));
        Ok(())
    })
}

/// Frees what [`HcnEnumerateGuestNetworkPortReservations`] handed out. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn HcnFreeGuestNetworkPortReservations(PortEntries: *mut PortRangeEntry) {
    // SAFETY: promised by the caller.
    unsafe { memory::free(PortEntries.cast()) };
}

fn reservation(entry: &Entry) -> Option<u64> {
    match entry {
        Entry::Reservation(number) => Some(*number),
        _ => None,
    }
}

fn reserve(request: &Value) -> Result<(u64, PortRange)> {
    let answer = ask(|hns| hns.request("POST", "/v2/portreservations", &request.to_string()))?;
    let number = answer.get("ID").and_then(Value::as_u64);
    let number = number.ok_or_else(|| Error::Unexpected(detail("the service reserved ports without a number")))?;
    Ok((number, range(&answer)))
}

fn range(reservation: &Value) -> PortRange {
    PortRange { StartingPort: port(reservation, "StartingPort"), EndingPort: port(reservation, "EndingPort") }
}

fn port(reservation: &Value, key: &str) -> u16 {
    reservation.get(key).and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok()).unwrap_or_default()
}

fn entry(reservation: &Value) -> PortRangeEntry {
    let owner = reservation.get("Owner").and_then(Value::as_str).and_then(hcn::parse_guid).unwrap_or_default();
    let number = |key: &str| reservation.get(key).and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok());
    let ports = range(reservation);
    PortRangeEntry {
        OwningPartitionId: owner.into(),
        TargetPartitionId: owner.into(),
        // A range is for whatever its guest makes of it.
        Protocol: number("Protocol").and_then(|protocol| i32::try_from(protocol).ok()).unwrap_or(3),
        SharingFlags: number("Access").unwrap_or(1),
        StartingPort: ports.StartingPort,
        EndingPort: ports.EndingPort,
        ..PortRangeEntry::default()
    }
}
