//! Around which outer headers a frame travels.

use std::fmt;

use crate::Ip;

/// How a frame is wrapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TunnelKind {
    /// VXLAN (RFC 7348).
    #[default]
    Vxlan,
    /// Geneve (RFC 8926).
    Geneve,
    /// STT (draft-davie-stt).
    Stt,
}

/// The outer headers of a frame: what a tunnel pushes, or has popped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Encapsulation {
    /// How it is wrapped.
    pub kind: TunnelKind,
    /// The virtual network.
    pub vni: u32,
    /// Our provider address.
    pub local: Ip,
    /// The provider address of the other side.
    pub remote: Ip,
    /// The transport port of the tunnel.
    pub port: u16,
}

impl fmt::Display for TunnelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vxlan => "VXLAN",
            Self::Geneve => "Geneve",
            Self::Stt => "STT",
        })
    }
}
