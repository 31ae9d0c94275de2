//! The steps of a rule: load something into a register, compare it, act on it.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;

use super::attribute::Attributes;

const VERDICT_REGISTER: u32 = 0;
/// What is loaded to be compared.
const LOADED: u32 = 1;
/// The address and the transport port that a translation is given.
const ADDRESS: u32 = 2;
const TRANSPORT_PORT: u32 = 3;

const ACCEPT: u32 = 1;

const EQUAL: u32 = 0;
const UNEQUAL: u32 = 1;
const AT_MOST: u32 = 3;
const AT_LEAST: u32 = 5;

const META_PROTOCOL: u32 = 1;
const META_IN_NAME: u32 = 6;
const META_OUT_NAME: u32 = 7;
const META_USER: u32 = 10;
const META_FAMILY: u32 = 15;
const META_TRANSPORT: u32 = 16;

const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;

const CONNECTION_STATUS: u32 = 2;
const STATUS_DESTINATION_CHANGED: u32 = 1 << 5;

const FIB_ADDRESS_TYPE: u32 = 3;
const FIB_DESTINATION: u32 = 2;
const ADDRESS_TYPE_LOCAL: u32 = 2;

const CHANGE_DESTINATION: u32 = 1;

const FAMILY_V4: u8 = 2;
const FAMILY_V6: u8 = 10;

/// The longest name of an interface with its final zero.
const NAME_LENGTH: usize = 16;

/// Which of a packet's two addresses.
#[derive(Clone, Copy, Debug)]
pub(super) enum Side {
    Source,
    Destination,
}

/// The steps of a rule, in order. Each method adds one; a packet that fails a comparison leaves the rule.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps {
    list: Attributes,
}

impl Steps {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn attributes(&self) -> &Attributes {
        &self.list
    }

    /// The frame's EtherType.
    pub(super) fn ether_type(self, number: u16) -> Self {
        self.meta(META_PROTOCOL).compare(EQUAL, &number.to_be_bytes())
    }

    /// The packet is of the family of this address.
    pub(super) fn family_of(self, address: IpAddr) -> Self {
        self.meta(META_FAMILY).compare(EQUAL, &[family(address)])
    }

    /// The transport protocol, behind whatever extension headers there are.
    pub(super) fn transport(self, protocol: u8) -> Self {
        self.meta(META_TRANSPORT).compare(EQUAL, &[protocol])
    }

    /// Bytes of the network header.
    pub(super) fn network(self, offset: u32, value: &[u8]) -> Self {
        self.payload(NETWORK_HEADER, offset, value.len()).compare(EQUAL, value)
    }

    /// Some bits of the network header that are all zero.
    pub(super) fn network_without(self, offset: u32, mask: &[u8]) -> Self {
        self.payload(NETWORK_HEADER, offset, mask.len()).mask(mask).compare(EQUAL, &vec![0; mask.len()])
    }

    /// Bytes of the transport header.
    pub(super) fn transport_header(self, offset: u32, value: &[u8]) -> Self {
        self.payload(TRANSPORT_HEADER, offset, value.len()).compare(EQUAL, value)
    }

    /// The destination's transport port.
    pub(super) fn destination_port(self, port: u16) -> Self {
        self.transport_header(2, &port.to_be_bytes())
    }

    /// One of the transport ports is in a range.
    pub(super) fn port_within(self, side: Side, range: &RangeInclusive<u16>) -> Self {
        let offset = match side {
            Side::Source => 0,
            Side::Destination => 2,
        };
        let loaded = self.payload(TRANSPORT_HEADER, offset, 2);
        loaded.compare(AT_LEAST, &range.start().to_be_bytes()).compare(AT_MOST, &range.end().to_be_bytes())
    }

    /// One of the addresses is this one.
    pub(super) fn address(self, side: Side, address: IpAddr) -> Self {
        self.network(offset(side, address), &octets(address))
    }

    /// One of the addresses is in a prefix.
    pub(super) fn within(self, side: Side, prefix: IpNet) -> Self {
        self.prefix(side, prefix, EQUAL)
    }

    /// One of the addresses is not in a prefix.
    pub(super) fn outside(self, side: Side, prefix: IpNet) -> Self {
        self.prefix(side, prefix, UNEQUAL)
    }

    fn prefix(self, side: Side, prefix: IpNet, relation: u32) -> Self {
        let value = octets(prefix.network());
        self.payload(NETWORK_HEADER, offset(side, prefix.addr()), value.len()).mask(&octets(prefix.netmask())).compare(relation, &value)
    }

    /// It arrived by this interface.
    pub(super) fn arrived_by(self, name: &str) -> Self {
        self.meta(META_IN_NAME).compare(EQUAL, &padded(name))
    }

    /// It leaves by this interface.
    pub(super) fn leaves_by(self, name: &str) -> Self {
        self.meta(META_OUT_NAME).compare(EQUAL, &padded(name))
    }

    /// It leaves by another interface than this.
    pub(super) fn leaves_not_by(self, name: &str) -> Self {
        self.meta(META_OUT_NAME).compare(UNEQUAL, &padded(name))
    }

    /// It was sent by a program of this user.
    pub(super) fn sent_by(self, user: u32) -> Self {
        self.meta(META_USER).compare(EQUAL, &user.to_ne_bytes())
    }

    /// Its destination is an address of this machine.
    pub(super) fn destined_here(self) -> Self {
        let fib = Attributes::new().number(1, LOADED).number(2, FIB_ADDRESS_TYPE).number(3, FIB_DESTINATION);
        self.step("fib", &fib).compare(EQUAL, &ADDRESS_TYPE_LOCAL.to_ne_bytes())
    }

    /// Its connection had its destination changed.
    pub(super) fn redirected(self) -> Self {
        let status = Attributes::new().number(1, LOADED).number(2, CONNECTION_STATUS);
        let bit = STATUS_DESTINATION_CHANGED.to_ne_bytes();
        self.step("ct", &status).mask(&bit).compare(EQUAL, &bit)
    }

    /// Lets the packet on.
    pub(super) fn accept(self) -> Self {
        let verdict = Attributes::new().nested(2, &Attributes::new().number(1, ACCEPT));
        self.step("immediate", &Attributes::new().number(1, VERDICT_REGISTER).nested(2, &verdict))
    }

    /// Gives the packet, and all of its connection, the address of the interface it leaves by as source.
    pub(super) fn masquerade(self) -> Self {
        self.step("masq", &Attributes::new())
    }

    /// Gives the packet, and all of its connection, another destination.
    pub(super) fn redirect(self, address: IpAddr, port: u16) -> Self {
        let nat = Attributes::new()
            .number(1, CHANGE_DESTINATION)
            .number(2, family(address).into())
            .number(3, ADDRESS)
            .number(4, ADDRESS)
            .number(5, TRANSPORT_PORT)
            .number(6, TRANSPORT_PORT);
        self.load(ADDRESS, &octets(address)).load(TRANSPORT_PORT, &port.to_be_bytes()).step("nat", &nat)
    }

    /// Gives the packet, and all of its connection, another transport port as destination. The packet is of the family of this address.
    pub(super) fn redirect_port(self, like: IpAddr, port: u16) -> Self {
        let nat = Attributes::new()
            .number(1, CHANGE_DESTINATION)
            .number(2, family(like).into())
            .number(5, TRANSPORT_PORT)
            .number(6, TRANSPORT_PORT);
        self.load(TRANSPORT_PORT, &port.to_be_bytes()).step("nat", &nat)
    }

    fn load(self, register: u32, value: &[u8]) -> Self {
        self.step("immediate", &Attributes::new().number(1, register).nested(2, &Attributes::new().bytes(1, value)))
    }

    fn meta(self, key: u32) -> Self {
        self.step("meta", &Attributes::new().number(1, LOADED).number(2, key))
    }

    fn payload(self, base: u32, offset: u32, length: usize) -> Self {
        let length = u32::try_from(length).expect("an address is the longest that is compared");
        self.step("payload", &Attributes::new().number(1, LOADED).number(2, base).number(3, offset).number(4, length))
    }

    fn mask(self, mask: &[u8]) -> Self {
        let length = u32::try_from(mask.len()).expect("an address is the longest that is masked");
        let bitwise = Attributes::new()
            .number(1, LOADED)
            .number(2, LOADED)
            .number(3, length)
            .nested(4, &Attributes::new().bytes(1, mask))
            .nested(5, &Attributes::new().bytes(1, &vec![0; mask.len()]));
        self.step("bitwise", &bitwise)
    }

    fn compare(self, relation: u32, value: &[u8]) -> Self {
        let compare = Attributes::new().number(1, LOADED).number(2, relation).nested(3, &Attributes::new().bytes(1, value));
        self.step("cmp", &compare)
    }

    fn step(mut self, name: &str, data: &Attributes) -> Self {
        let step = Attributes::new().text(1, name).nested(2, data);
        self.list = self.list.nested(1, &step);
        self
    }
}

fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { FAMILY_V4 } else { FAMILY_V6 }
}

/// Where an address is in the network header of its family.
fn offset(side: Side, address: IpAddr) -> u32 {
    match (side, address.is_ipv4()) {
        (Side::Source, true) => 12,
        (Side::Destination, true) => 16,
        (Side::Source, false) => 8,
        (Side::Destination, false) => 24,
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn padded(name: &str) -> [u8; NAME_LENGTH] {
    let mut bytes = [0; NAME_LENGTH];
    // A longer name is no interface's, and cut off it is still none that ends in a zero.
    let length = name.len().min(NAME_LENGTH);
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    bytes
}
