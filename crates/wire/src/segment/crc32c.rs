//! The checksum of SCTP (RFC 9260, appendix A), which is none of the Internet's usual kind.

/// The polynomial of Castagnoli, its bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            value = (value >> 1) ^ (POLYNOMIAL * (value & 1));
            bit += 1;
        }
        table[byte] = value;
        byte += 1;
    }
    table
}

/// The checksum, to be written little endian.
pub(super) fn sum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| (sum >> 8) ^ TABLE[((sum ^ u32::from(*byte)) & 0xff) as usize])
}

#[test]
fn the_check_value_of_the_catalogue() {
    assert_eq!(sum(b"123456789"), 0xe306_9283);
}
