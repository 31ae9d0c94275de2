//! The Internet checksum: in full, and by difference (RFC 1071, RFC 1624).

use crate::Ip;

/// The sum of the bytes as big-endian words, folded to 16 bits; an odd byte at the end counts as if a zero followed.
pub fn sum(bytes: &[u8]) -> u16 {
    // The sum is the same in either byte order up to a swap of its bytes, so wide native words are added and swapped once.
    let (mut low, mut high) = (0u64, 0u64);
    let mut blocks = bytes.chunks_exact(32);
    for block in &mut blocks {
        for word in block.as_chunks::<8>().0 {
            let word = u64::from_ne_bytes(*word);
            low += word & 0xffff_ffff;
            high += word >> 32;
        }
    }
    let mut total = u128::from(low) + u128::from(high);
    let rest = blocks.remainder();
    let (words, odd) = rest.as_chunks::<2>();
    for word in words {
        total += u128::from(u16::from_ne_bytes(*word));
    }
    if let [byte] = odd {
        total += u128::from(u16::from_ne_bytes([*byte, 0]));
    }
    while total >> 16 != 0 {
        total = (total & 0xffff) + (total >> 16);
    }
    u16::from_be(total as u16)
}

/// Adds two sums.
pub const fn add(left: u16, right: u16) -> u16 {
    let (total, carry) = left.overflowing_add(right);
    total + carry as u16
}

/// The sum of an address's words.
pub const fn sum_address(address: Ip) -> u16 {
    let bits = if address.is_v4() { address.v4_bits() as u128 } else { address.0 };
    fold(bits)
}

const fn fold(mut total: u128) -> u16 {
    let mut sum: u64 = 0;
    while total != 0 {
        sum += (total & 0xffff) as u64;
        total >>= 16;
    }
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The sum of the pseudo-header that TCP, UDP and ICMPv6 cover.
pub fn pseudo_header(source: Ip, destination: Ip, protocol: u8, length: u32) -> u16 {
    add(add(sum_address(source), sum_address(destination)), fold(u128::from(length) + u128::from(protocol)))
}

/// What changes in a sum when `old` words become `new` ones.
pub const fn difference(old: u16, new: u16) -> u16 {
    add(!old, new)
}

/// A checksum field after the words it covers changed by this difference.
pub const fn adjust(field: u16, difference: u16) -> u16 {
    !add(!field, difference)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071() {
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    }

    #[test]
    fn every_length_agrees_with_the_definition() {
        let bytes: Vec<u8> = (0..300u32).map(|n| (n * 7919 % 251) as u8).collect();
        for length in 0..bytes.len() {
            let mut expected = 0u32;
            for pair in bytes[..length].chunks(2) {
                expected += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            }
            while expected >> 16 != 0 {
                expected = (expected & 0xffff) + (expected >> 16);
            }
            assert_eq!(u32::from(sum(&bytes[..length])), expected, "{length} bytes");
        }
    }

    #[test]
    fn a_difference_does_what_summing_anew_does() {
        let mut bytes = [0x45, 0, 0x12, 0x34, 0xff, 0xff, 0, 0, 0xab, 0xcd];
        let before = !sum(&bytes);
        let old = sum(&bytes[2..4]);
        bytes[2..4].copy_from_slice(&[0xfe, 0x01]);
        assert_eq!(adjust(before, difference(old, 0xfe01)), !sum(&bytes));
    }
}
