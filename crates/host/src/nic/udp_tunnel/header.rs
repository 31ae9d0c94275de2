//! The header between the outer UDP header and the inner frame.

use wire::geneve::{self, Geneve};
use wire::vxlan::{self, Vxlan};
use wire::{Malformed, TunnelKind};

/// The length of the header that we write, of either kind.
pub(super) const LENGTH: usize = vxlan::LENGTH;

const _: () = assert!(vxlan::LENGTH == geneve::LENGTH);

/// Reads the header at the start of a datagram: the virtual network, and how long the header is.
pub(super) fn read(kind: TunnelKind, datagram: &[u8]) -> Result<(u32, usize), Malformed> {
    match kind {
        TunnelKind::Vxlan => Ok((Vxlan::parse(datagram)?.vni, LENGTH)),
        TunnelKind::Geneve => {
            let geneve = Geneve::parse(datagram)?;
            match geneve.control || geneve.protocol != geneve::ETHERNET {
                true => Err(Malformed::Tunnel),
                false => Ok((geneve.vni, geneve.len())),
            }
        }
        TunnelKind::Stt => Err(Malformed::Tunnel),
    }
}

/// The header for a virtual network.
pub(super) fn write(kind: TunnelKind, vni: u32) -> [u8; LENGTH] {
    match kind {
        TunnelKind::Geneve => Geneve::ethernet(vni).emit(),
        _ => Vxlan { vni }.emit(),
    }
}
