//! The Ethernet address, in the two spellings that Windows clients use.

use std::fmt;
use std::str::FromStr;

use crate::Ip;

/// An Ethernet (MAC) address.
///
/// Prints as HNS prints it, `00-15-5D-52-C0-01`; reads hyphens or colons, upper or lower case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddress(pub [u8; 6]);

/// The text is no Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseMacError;

impl MacAddress {
    /// The address as a number, so that pools can be ranges.
    pub fn to_u64(self) -> u64 {
        self.0.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// The address with this number; the upper sixteen bits are ignored.
    pub fn from_u64(number: u64) -> Self {
        let [_, _, bytes @ ..] = number.to_be_bytes();
        Self(bytes)
    }

    /// The IPv6 address of its link that a NIC with this address gives itself (RFC 4291, appendix A).
    pub const fn link_local(self) -> Ip {
        let [a, b, c, d, e, f] = self.0;
        Ip(0xfe80 << 112 | u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f]) as u128)
    }

    /// Whether the address names a group of receivers, and so cannot be a NIC's own.
    pub fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02X}-{b:02X}-{c:02X}-{d:02X}-{e:02X}-{g:02X}")
    }
}

impl fmt::Display for ParseMacError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("six pairs of hexadecimal digits joined by hyphens or colons are expected")
    }
}

impl std::error::Error for ParseMacError {}

impl FromStr for MacAddress {
    type Err = ParseMacError;

    fn from_str(text: &str) -> Result<Self, ParseMacError> {
        let mut bytes = [0; 6];
        let mut parts = text.split(['-', ':']);
        for byte in &mut bytes {
            *byte = parts.next().and_then(pair).ok_or(ParseMacError)?;
        }
        match parts.next() {
            None => Ok(Self(bytes)),
            Some(_) => Err(ParseMacError),
        }
    }
}

fn pair(text: &str) -> Option<u8> {
    let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits.then(|| u8::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_spelling_that_clients_send() {
        let mac = MacAddress([0x0e, 0x2a, 0x0a, 0xf4, 0x01, 0x05]);
        for text in ["0E-2A-0a-f4-01-05", "0e:2a:0a:f4:01:05", "0E:2A-0A-F4-01-05"] {
            assert_eq!(text.parse(), Ok(mac), "{text}");
        }
        assert_eq!(mac.to_string(), "0E-2A-0A-F4-01-05");
    }

    #[test]
    fn refuses_what_is_no_address() {
        for text in ["", "0E-2A-0A-F4-01", "0E-2A-0A-F4-01-05-06", "0E2A0AF40105", "+1-2A-0A-F4-01-05", "0E-2A-0A-F4-01-G5"] {
            assert_eq!(text.parse::<MacAddress>(), Err(ParseMacError), "{text}");
        }
    }

    #[test]
    fn number_and_back() {
        let mac: MacAddress = "00-15-5D-52-CF-FF".parse().unwrap();
        assert_eq!(MacAddress::from_u64(mac.to_u64()), mac);
        assert_eq!(MacAddress::from_u64(mac.to_u64() + 1).to_string(), "00-15-5D-52-D0-00");
    }
}
