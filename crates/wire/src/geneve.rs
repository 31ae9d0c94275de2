//! The Geneve header (RFC 8926, section 3.4) and its options.

use std::fmt;

use crate::Malformed;

/// Its length without options.
pub const LENGTH: usize = 8;

/// The UDP port that is assigned to it.
pub const PORT: u16 = 6081;

/// The protocol of a payload that is an Ethernet frame.
pub const ETHERNET: u16 = 0x6558;

const CONTROL: u8 = 0x80;
const CRITICAL: u8 = 0x40;

/// What the header says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Geneve<'a> {
    /// The virtual network, of 24 bits.
    pub vni: u32,
    /// Whether it is a message between tunnel ends, which no tenant may see.
    pub control: bool,
    /// What the payload is; [`ETHERNET`] for a frame.
    pub protocol: u16,
    /// The options as they stand in the header; a multiple of four bytes.
    options: &'a [u8],
}

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GeneveOption<'a> {
    /// Who defined it.
    pub class: u16,
    /// Which of theirs it is, with the critical bit.
    pub kind: u8,
    /// Its value.
    pub data: &'a [u8],
}

impl GeneveOption<'_> {
    /// Whether a receiver that does not know the option must drop the packet.
    pub const fn is_critical(&self) -> bool {
        self.kind & 0x80 != 0
    }
}

impl<'a> Geneve<'a> {
    /// The header of an Ethernet frame, without options.
    pub const fn ethernet(vni: u32) -> Self {
        Self { vni, control: false, protocol: ETHERNET, options: &[] }
    }

    /// Reads the header at the start of these bytes.
    ///
    /// No option is known here, so one that may not be ignored makes the header invalid, and so does a list of options
    /// that does not end where the header does.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let [first, flags, p0, p1, a, b, c, _] = *bytes.first_chunk::<LENGTH>().ok_or(Malformed::Truncated)?;
        if first >> 6 != 0 {
            return Err(Malformed::Tunnel);
        }
        let options = bytes.get(LENGTH..LENGTH + usize::from(first & 0x3f) * 4).ok_or(Malformed::Truncated)?;
        let header =
            Self { vni: u32::from_be_bytes([0, a, b, c]), control: flags & CONTROL != 0, protocol: u16::from_be_bytes([p0, p1]), options };
        let mut read = 0;
        for option in header.options() {
            read += 4 + option.data.len();
            if option.is_critical() {
                return Err(Malformed::Tunnel);
            }
        }
        if read == options.len() { Ok(header) } else { Err(Malformed::Tunnel) }
    }

    /// How long the header is with its options.
    pub const fn len(&self) -> usize {
        LENGTH + self.options.len()
    }

    /// Whether there is no option.
    pub const fn is_empty(&self) -> bool {
        self.options.is_empty()
    }

    /// The options, up to the first that does not fit.
    pub fn options(&self) -> impl Iterator<Item = GeneveOption<'a>> + use<'a> {
        let mut rest = self.options;
        std::iter::from_fn(move || {
            let ([c0, c1, kind, length], after) = rest.split_first_chunk::<4>()?;
            let (data, after) = after.split_at_checked(usize::from(length & 0x1f) * 4)?;
            rest = after;
            Some(GeneveOption { class: u16::from_be_bytes([*c0, *c1]), kind: *kind, data })
        })
    }

    /// The fixed part of the header; the options follow it as they are. Only the lower 24 bits of the identifier fit.
    pub fn emit(&self) -> [u8; LENGTH] {
        let [_, a, b, c] = self.vni.to_be_bytes();
        let [p0, p1] = self.protocol.to_be_bytes();
        let critical = if self.options().any(|option| option.is_critical()) { CRITICAL } else { 0 };
        let control = if self.control { CONTROL } else { 0 };
        [(self.options.len() / 4) as u8, control | critical, p0, p1, a, b, c, 0]
    }
}

impl fmt::Display for Geneve<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Geneve {}", self.vni)?;
        if self.control {
            f.write_str(" control")?;
        }
        if self.protocol != ETHERNET {
            write!(f, " protocol {:04x}", self.protocol)?;
        }
        for option in self.options() {
            write!(f, " option {:04x}:{:02x} of {}", option.class, option.kind, option.data.len())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with one option of eight bytes that may be ignored.
    const BYTES: [u8; 20] = [3, 0, 0x65, 0x58, 0, 0x10, 0x01, 0, 0x01, 0x02, 0x05, 2, 1, 2, 3, 4, 5, 6, 7, 8];

    #[test]
    fn a_header_survives_the_circle() {
        let header = Geneve::parse(&BYTES).unwrap();
        assert_eq!((header.vni, header.protocol, header.len()), (4097, ETHERNET, 20));
        let options: Vec<_> = header.options().collect();
        assert_eq!(options, [GeneveOption { class: 0x0102, kind: 5, data: &[1, 2, 3, 4, 5, 6, 7, 8] }]);
        assert_eq!(header.emit(), BYTES[..LENGTH]);
        assert_eq!(header.to_string(), "Geneve 4097 option 0102:05 of 8");
        assert_eq!(Geneve::parse(&Geneve::ethernet(7).emit()), Ok(Geneve::ethernet(7)));
    }

    #[test]
    fn what_must_be_understood_and_is_not_is_refused() {
        let changed = |at: usize, value: u8| {
            let mut bytes = BYTES;
            bytes[at] = value;
            Geneve::parse(&bytes).map(|_| ())
        };
        assert_eq!(changed(0, 0x43), Err(Malformed::Tunnel), "another version");
        assert_eq!(changed(0, 4), Err(Malformed::Truncated), "more options than bytes");
        assert_eq!(changed(0, 2), Err(Malformed::Tunnel), "an option longer than the options");
        assert_eq!(changed(10, 0x85), Err(Malformed::Tunnel), "a critical option");
        assert_eq!(changed(11, 1), Err(Malformed::Tunnel), "bytes behind the last option that are none");
        assert_eq!(changed(7, 0xff), Ok(()), "a reserved byte");
    }
}
