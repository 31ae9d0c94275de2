//! The VXLAN header (RFC 7348, section 5).

use std::fmt;

use crate::Malformed;

/// Its length.
pub const LENGTH: usize = 8;

/// The UDP port that is assigned to it.
pub const PORT: u16 = 4789;

/// The UDP port that Linux used before, and that flannel still uses on it.
pub const LINUX_PORT: u16 = 8472;

/// The flag that says that there is an identifier. All other bits are reserved.
const VALID: u8 = 0x08;

/// What the header says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Vxlan {
    /// The virtual network, of 24 bits.
    pub vni: u32,
}

impl Vxlan {
    /// Reads the header at the start of these bytes. Reserved bits may have any value.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let [flags, _, _, _, a, b, c, _] = bytes.first_chunk::<LENGTH>().ok_or(Malformed::Truncated)?;
        match flags & VALID {
            0 => Err(Malformed::Tunnel),
            _ => Ok(Self { vni: u32::from_be_bytes([0, *a, *b, *c]) }),
        }
    }

    /// The bytes, with zeros for what is reserved. Only the lower 24 bits of the identifier fit.
    pub fn emit(&self) -> [u8; LENGTH] {
        let [_, a, b, c] = self.vni.to_be_bytes();
        [VALID, 0, 0, 0, a, b, c, 0]
    }
}

impl fmt::Display for Vxlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VXLAN {}", self.vni)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_the_circle() {
        let bytes = [8, 0, 0, 0, 0x00, 0x10, 0x01, 0];
        assert_eq!(Vxlan::parse(&bytes), Ok(Vxlan { vni: 4097 }));
        assert_eq!(Vxlan { vni: 4097 }.emit(), bytes);
        assert_eq!(Vxlan { vni: 4097 }.to_string(), "VXLAN 4097");
    }

    #[test]
    fn reserved_bits_are_ignored_and_the_flag_is_not() {
        assert_eq!(Vxlan::parse(&[0xff, 1, 2, 3, 0, 0, 1, 0xff]), Ok(Vxlan { vni: 1 }));
        assert_eq!(Vxlan::parse(&[0xf7, 0, 0, 0, 0, 0, 1, 0]), Err(Malformed::Tunnel));
        assert_eq!(Vxlan::parse(&[8; 7]), Err(Malformed::Truncated));
    }
}
