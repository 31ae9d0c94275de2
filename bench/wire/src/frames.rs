//! What is read: many frames of one kind that differ in address and port.

use etherparse::PacketBuilder;

const COUNT: u8 = 64;
const PAYLOAD: [u8; 64] = [0x5a; 64];

/// TCP segments over IPv4.
pub(crate) fn tcp4() -> Vec<Vec<u8>> {
    (0..COUNT)
        .map(|n| {
            let ip = PacketBuilder::ethernet2([0, 0x15, 0x5d, 0, 0, n], [0, 0x15, 0x5d, 0, 1, n]).ipv4([10, 0, 0, n], [10, 0, 1, n], 64);
            let mut bytes = Vec::new();
            let written = ip.tcp(40_000 + u16::from(n), 80, 7, 512).ack(3).write(&mut bytes, &PAYLOAD);
            written.map(|()| bytes).unwrap_or_default()
        })
        .collect()
}

/// UDP datagrams over IPv6.
pub(crate) fn udp6() -> Vec<Vec<u8>> {
    (0..COUNT)
        .map(|n| {
            let address = |net: u8| [0xfd, net, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n];
            let ip = PacketBuilder::ethernet2([0, 0x15, 0x5d, 0, 0, n], [0, 0x15, 0x5d, 0, 1, n]).ipv6(address(1), address(2), 64);
            let mut bytes = Vec::new();
            let written = ip.udp(40_000 + u16::from(n), 53).write(&mut bytes, &PAYLOAD);
            written.map(|()| bytes).unwrap_or_default()
        })
        .collect()
}
