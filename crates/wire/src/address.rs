//! An IP address of either family as one number.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IPv4 or IPv6 address. IPv4 is held as IPv6 holds it (`::ffff:a.b.c.d`), so that tables need one kind of key only.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Ip(pub u128);

const MAPPED: u128 = 0xffff_0000_0000;

impl Ip {
    /// The address that is none.
    pub const NONE: Self = Self(0);

    /// An IPv4 address from its 32 bits.
    pub const fn v4(bits: u32) -> Self {
        Self(MAPPED | bits as u128)
    }

    /// Whether this is an IPv4 address.
    pub const fn is_v4(self) -> bool {
        self.0 >> 32 == MAPPED >> 32
    }

    /// The 32 bits of an IPv4 address.
    pub const fn v4_bits(self) -> u32 {
        self.0 as u32
    }

    /// Whether this is an IPv6 address of one link only.
    pub const fn is_link_local(self) -> bool {
        self.0 >> 118 == 0xfe80 >> 6
    }

    /// Whether this is a group of receivers: multicast of either family, or IPv4 broadcast to all.
    pub const fn is_multicast(self) -> bool {
        match self.is_v4() {
            true => self.v4_bits() >> 28 == 0xe || self.v4_bits() == u32::MAX,
            false => self.0 >> 120 == 0xff,
        }
    }
}

impl From<IpAddr> for Ip {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::from(address),
            IpAddr::V6(address) => Self::from(address),
        }
    }
}

impl From<Ipv4Addr> for Ip {
    fn from(address: Ipv4Addr) -> Self {
        Self::v4(address.to_bits())
    }
}

impl From<Ipv6Addr> for Ip {
    fn from(address: Ipv6Addr) -> Self {
        Self(address.to_bits())
    }
}

impl From<Ip> for IpAddr {
    fn from(address: Ip) -> Self {
        match address.is_v4() {
            true => Self::V4(Ipv4Addr::from_bits(address.v4_bits())),
            false => Self::V6(Ipv6Addr::from_bits(address.0)),
        }
    }
}

impl fmt::Display for Ip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        IpAddr::from(*self).fmt(f)
    }
}

impl fmt::Debug for Ip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
