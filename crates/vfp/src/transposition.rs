//! The change of headers that all rules together ask of a flow.

use wire::number::protocol;
use wire::{Checksum, FlowId, Fragment, Frame, Headers, Ip, MacAddress, checksum};

/// New headers for the packets of one flow, ready to be written. A plain value of fixed size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transposition {
    /// Which parts change, a bit each.
    pub(crate) parts: u8,
    pub(crate) source_mac: MacAddress,
    pub(crate) destination_mac: MacAddress,
    pub(crate) source: Ip,
    pub(crate) destination: Ip,
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    /// What the new addresses change in a sum.
    pub(crate) address_difference: u16,
    /// What the new ports change in a sum.
    pub(crate) port_difference: u16,
}

pub(crate) const MACS: u8 = 1;
pub(crate) const ADDRESSES: u8 = 2;
pub(crate) const PORTS: u8 = 4;

/// What a transposition starts from and ends at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) id: FlowId,
    pub(crate) source_mac: MacAddress,
    pub(crate) destination_mac: MacAddress,
}

impl Transposition {
    /// That which leads from one shape to another.
    pub(crate) fn between(before: &Shape, after: &Shape) -> Self {
        let mut parts = 0;
        if (before.source_mac, before.destination_mac) != (after.source_mac, after.destination_mac) {
            parts |= MACS;
        }
        if (before.id.source, before.id.destination) != (after.id.source, after.id.destination) {
            parts |= ADDRESSES;
        }
        if (before.id.source_port, before.id.destination_port) != (after.id.source_port, after.id.destination_port) {
            parts |= PORTS;
        }
        let addresses = |id: &FlowId| checksum::add(checksum::sum_address(id.source), checksum::sum_address(id.destination));
        // One identifier stands for both ports of an ICMP query, and is in the packet once.
        let ports = |id: &FlowId| match id.is_icmp() {
            true => id.source_port,
            false => checksum::add(id.source_port, id.destination_port),
        };
        Self {
            parts,
            source_mac: after.source_mac,
            destination_mac: after.destination_mac,
            source: after.id.source,
            destination: after.id.destination,
            source_port: after.id.source_port,
            destination_port: after.id.destination_port,
            address_difference: checksum::difference(addresses(&before.id), addresses(&after.id)),
            port_difference: checksum::difference(ports(&before.id), ports(&after.id)),
        }
    }

    /// Whether it changes nothing.
    pub const fn is_identity(&self) -> bool {
        self.parts == 0
    }

    /// Writes the new headers. The frame must be of the flow that the transposition is for.
    #[inline(always)]
    pub(crate) fn apply(&self, frame: &mut Frame, headers: &Headers) {
        if self.parts & MACS != 0
            && let Some(ethernet) = frame.bytes_mut().first_chunk_mut::<12>()
        {
            ethernet[..6].copy_from_slice(&self.destination_mac.0);
            ethernet[6..].copy_from_slice(&self.source_mac.0);
        }
        if self.parts & (ADDRESSES | PORTS) != 0 {
            self.translate(frame, headers);
        }
    }

    fn translate(&self, frame: &mut Frame, headers: &Headers) {
        let partial = matches!(frame.offload.checksum, Checksum::Partial { .. });
        let bytes = frame.bytes_mut();
        if self.parts & ADDRESSES != 0 {
            self.write_addresses(bytes, headers);
        }
        // A later fragment has no transport header, and the first one's checksum covers it all.
        if matches!(headers.fragment, Fragment::Later { .. }) {
            return;
        }
        let Some(transport) = bytes.get_mut(usize::from(headers.l4)..headers.end as usize) else {
            return;
        };
        if self.parts & PORTS != 0 {
            self.write_ports(transport, headers.id.protocol);
        }
        self.fix_checksum(transport, headers.id.protocol, partial);
    }

    fn write_addresses(&self, bytes: &mut [u8], headers: &Headers) {
        let Some(ip) = bytes.get_mut(usize::from(headers.l3)..) else { return };
        if self.source.is_v4() {
            let Some(header) = ip.first_chunk_mut::<20>() else { return };
            header[12..16].copy_from_slice(&self.source.v4_bits().to_be_bytes());
            header[16..20].copy_from_slice(&self.destination.v4_bits().to_be_bytes());
            let field = u16::from_be_bytes([header[10], header[11]]);
            header[10..12].copy_from_slice(&checksum::adjust(field, self.address_difference).to_be_bytes());
        } else if let Some(header) = ip.first_chunk_mut::<40>() {
            header[8..24].copy_from_slice(&self.source.0.to_be_bytes());
            header[24..40].copy_from_slice(&self.destination.0.to_be_bytes());
        }
    }

    fn write_ports(&self, transport: &mut [u8], protocol: u8) {
        match protocol {
            protocol::TCP | protocol::UDP => {
                let Some(ports) = transport.first_chunk_mut::<4>() else { return };
                ports[..2].copy_from_slice(&self.source_port.to_be_bytes());
                ports[2..].copy_from_slice(&self.destination_port.to_be_bytes());
            }
            protocol::ICMP | protocol::ICMPV6 => {
                let Some(header) = transport.first_chunk_mut::<6>() else { return };
                header[4..6].copy_from_slice(&self.source_port.to_be_bytes());
            }
            _ => {}
        }
    }

    fn fix_checksum(&self, transport: &mut [u8], protocol: u8, partial: bool) {
        let at = match protocol {
            protocol::TCP => 16,
            protocol::UDP => 6,
            protocol::ICMP | protocol::ICMPV6 => 2,
            // SCTP's checksum covers neither addresses nor anything that we change.
            _ => return,
        };
        let Some(field) = transport.get_mut(at..at + 2).and_then(|field| field.first_chunk_mut::<2>()) else {
            return;
        };
        let value = u16::from_be_bytes(*field);
        // ICMP for IPv4 has no pseudo-header.
        let covers_addresses = protocol != protocol::ICMP && self.parts & ADDRESSES != 0;
        let addresses = if covers_addresses { self.address_difference } else { 0 };
        if partial {
            *field = checksum::add(value, addresses).to_be_bytes();
            return;
        }
        // UDP over IPv4 without a checksum stays without.
        if protocol == protocol::UDP && value == 0 {
            return;
        }
        let ports = if self.parts & PORTS != 0 { self.port_difference } else { 0 };
        let mut fixed = checksum::adjust(value, checksum::add(addresses, ports));
        if protocol == protocol::UDP && fixed == 0 {
            fixed = 0xffff;
        }
        *field = fixed.to_be_bytes();
    }
}
