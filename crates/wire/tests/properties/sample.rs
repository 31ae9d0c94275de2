//! Frames to try things with.

use std::fmt;

use etherparse::{
    IpFragOffset, IpHeaders, IpNumber, Ipv4Extensions, Ipv4Header, Ipv4Options, Ipv6Extensions, Ipv6FragmentHeader, Ipv6Header,
    Ipv6RawExtHeader, PacketBuilder, TcpHeader, VlanHeader, VlanId,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

pub(crate) const HERE_MAC: [u8; 6] = [0, 0x15, 0x5d, 0, 0, 1];
pub(crate) const THERE_MAC: [u8; 6] = [0, 0x15, 0x5d, 0, 0, 2];

/// What an IP packet carries.
#[derive(Clone, Debug)]
pub(crate) enum Transport {
    Tcp { flags: u8, options: usize },
    Udp,
    Echo,
}

/// A good packet, part by part.
#[derive(Clone)]
pub(crate) struct Sample {
    pub(crate) v4: bool,
    pub(crate) vlan: Option<u16>,
    pub(crate) transport: Transport,
    pub(crate) ports: (u16, u16),
    pub(crate) hosts: (u16, u16),
    pub(crate) hop_limit: u8,
    /// Options of IPv4 in units of four bytes, or whether IPv6 has hop-by-hop options.
    pub(crate) options: usize,
    /// Whether it is the first of several pieces.
    pub(crate) first_piece: bool,
    pub(crate) dont_fragment: bool,
    pub(crate) payload: Vec<u8>,
    pub(crate) padding: usize,
}

/// Good packets of every kind.
pub(crate) fn good() -> impl Strategy<Value = Sample> {
    let transport = prop_oneof![
        (any::<u8>(), 0..=10usize).prop_map(|(flags, options)| Transport::Tcp { flags, options }),
        Just(Transport::Udp),
        Just(Transport::Echo),
    ];
    let network = (any::<bool>(), option::of(0..4095u16), any::<(u16, u16)>(), 0..=10usize, prop::bool::weighted(0.1), any::<bool>());
    (network, transport, any::<(u16, u16)>(), 1..=255u8, vec(any::<u8>(), 0..1600), 0..20usize).prop_map(
        |((v4, vlan, hosts, options, first_piece, dont_fragment), transport, ports, hop_limit, payload, padding)| Sample {
            v4,
            vlan,
            transport,
            ports,
            hosts,
            hop_limit,
            options,
            first_piece,
            dont_fragment,
            payload,
            padding,
        },
    )
}

/// Good packets that are whole, with all their bytes in the IP packet.
pub(crate) fn whole() -> impl Strategy<Value = Sample> {
    good().prop_map(|sample| Sample { first_piece: false, padding: 0, ..sample })
}

/// As the frame, since a failing test is about that.
impl fmt::Debug for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes();
        write!(f, "{}", wire::Printed(&bytes))?;
        bytes.iter().try_for_each(|byte| write!(f, " {byte:02x}"))
    }
}

impl Sample {
    /// The frame.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let link = PacketBuilder::ethernet2(HERE_MAC, THERE_MAC);
        let ip = match self.vlan {
            Some(id) => {
                let tag = etherparse::SingleVlanHeader { vlan_id: VlanId::try_new(id).unwrap(), ..Default::default() };
                link.vlan(VlanHeader::Single(tag)).ip(self.ip())
            }
            None => link.ip(self.ip()),
        };
        let mut bytes = Vec::new();
        match &self.transport {
            Transport::Tcp { flags, options } => ip.tcp_header(self.tcp(*flags, *options)).write(&mut bytes, &self.payload),
            Transport::Udp => ip.udp(self.ports.0, self.ports.1).write(&mut bytes, &self.payload),
            Transport::Echo if self.v4 => ip.icmpv4_echo_request(self.ports.0, self.ports.1).write(&mut bytes, &self.payload),
            Transport::Echo => ip.icmpv6_echo_request(self.ports.0, self.ports.1).write(&mut bytes, &self.payload),
        }
        .unwrap();
        bytes.extend(vec![0xaa; self.padding]);
        bytes
    }

    fn tcp(&self, flags: u8, options: usize) -> TcpHeader {
        let mut header = TcpHeader::new(self.ports.0, self.ports.1, 0x0102_0304, 0xfffe);
        header.acknowledgment_number = 0x0506_0708;
        let bit = |bit: u8| flags & 1 << bit != 0;
        (header.fin, header.syn, header.rst, header.psh) = (bit(0), bit(1), bit(2), bit(3));
        (header.ack, header.urg, header.ece, header.cwr) = (bit(4), bit(5), bit(6), bit(7));
        header.set_options_raw(&vec![1; options * 4]).unwrap();
        header
    }

    fn ip(&self) -> IpHeaders {
        let ([a, b], [c, d]) = (self.hosts.0.to_be_bytes(), self.hosts.1.to_be_bytes());
        if self.v4 {
            let header = Ipv4Header {
                time_to_live: self.hop_limit,
                identification: 0x1234,
                source: [10, 1, a, b],
                destination: [10, 2, c, d],
                more_fragments: self.first_piece,
                dont_fragment: self.dont_fragment && !self.first_piece,
                // One option that is copied to all pieces, then ones that do nothing.
                options: Ipv4Options::try_from(&[&[0x94, 4, 0, 0][..], &[1; 36]].concat()[..self.options * 4]).unwrap(),
                ..Default::default()
            };
            return IpHeaders::Ipv4(header, Ipv4Extensions::default());
        }
        let address = |net: u8, host: [u8; 2]| [0xfd, net, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host[0], host[1]];
        let header =
            Ipv6Header { hop_limit: self.hop_limit, source: address(1, [a, b]), destination: address(2, [c, d]), ..Default::default() };
        let fragment =
            self.first_piece.then(|| Ipv6FragmentHeader::new(IpNumber::UDP, IpFragOffset::try_new(0).unwrap(), true, 0x1234_5678));
        let options = (self.options > 5).then(|| Ipv6RawExtHeader::new_raw(IpNumber::UDP, &[1, 4, 0, 0, 0, 0]).unwrap());
        IpHeaders::Ipv6(header, Ipv6Extensions { hop_by_hop_options: options, fragment, ..Default::default() })
    }
}
