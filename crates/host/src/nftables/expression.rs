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

const DROP: u32 = 0;
const ACCEPT: u32 = 1;
const JUMP: u32 = (-3_i32).cast_unsigned();
const GOTO: u32 = (-4_i32).cast_unsigned();
const RETURN: u32 = (-5_i32).cast_unsigned();

const EQUAL: u32 = 0;
const UNEQUAL: u32 = 1;
const AT_MOST: u32 = 3;
const AT_LEAST: u32 = 5;

const META_PROTOCOL: u32 = 1;
const META_MARK: u32 = 3;
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
const FIB_SOURCE: u32 = 1;
const FIB_DESTINATION: u32 = 2;
const ADDRESS_TYPE_LOCAL: u32 = 2;

const CHANGE_DESTINATION: u32 = 1;

const REJECT_UNREACHABLE: u32 = 0;
const REJECT_RESET: u32 = 1;

const NUMBERS_AT_RANDOM: u32 = 1;

const ELEMENT_UPDATE: u32 = 1;
const ELEMENT_DELETE: u32 = 2;

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

/// The family of the addresses in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressFamily {
    V4,
    V6,
}

impl AddressFamily {
    pub(super) fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    fn number(self) -> u8 {
        match self {
            Self::V4 => FAMILY_V4,
            Self::V6 => FAMILY_V6,
        }
    }

    /// How many bytes an address has.
    pub(super) fn length(self) -> usize {
        match self {
            Self::V4 => 4,
            Self::V6 => 16,
        }
    }

    /// Where an address is in the network header.
    fn offset(self, side: Side) -> u32 {
        match (side, self) {
            (Side::Source, Self::V4) => 12,
            (Side::Destination, Self::V4) => 16,
            (Side::Source, Self::V6) => 8,
            (Side::Destination, Self::V6) => 24,
        }
    }

    /// The code by which ICMP says that nobody listens at a port.
    fn unreachable_port(self) -> u8 {
        match self {
            Self::V4 => 3,
            Self::V6 => 4,
        }
    }
}

/// One of the sixteen registers of four bytes. Longer values take several, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Register(pub(super) u32);

impl Register {
    /// The registers' numbers begin behind those of the four that have sixteen bytes each.
    fn number(self) -> u32 {
        8 + self.0
    }

    /// The register behind so many bytes.
    pub(super) fn after(self, bytes: usize) -> Self {
        let words = u32::try_from(bytes.div_ceil(4)).expect("an address is the longest that is loaded");
        Self(self.0 + words)
    }
}

/// What becomes of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Accept,
    Drop,
    /// Goes back to the chain that jumped here.
    Return,
    /// Goes through another chain and comes back.
    Jump(String),
    /// Goes on in another chain, and does not come back.
    Goto(String),
}

impl Verdict {
    /// As rules and maps have it.
    pub(super) fn data(&self) -> Attributes {
        let code = |code: u32| Attributes::new().number(1, code);
        let verdict = match self {
            Self::Accept => code(ACCEPT),
            Self::Drop => code(DROP),
            Self::Return => code(RETURN),
            Self::Jump(chain) => code(JUMP).text(2, chain),
            Self::Goto(chain) => code(GOTO).text(2, chain),
        };
        Attributes::new().nested(2, &verdict)
    }
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
        self.own(FIB_DESTINATION)
    }

    /// Its source is an address of this machine.
    pub(super) fn comes_from_here(self) -> Self {
        self.own(FIB_SOURCE)
    }

    fn own(self, side: u32) -> Self {
        let fib = Attributes::new().number(1, LOADED).number(2, FIB_ADDRESS_TYPE).number(3, side);
        self.step("fib", &fib).compare(EQUAL, &ADDRESS_TYPE_LOCAL.to_ne_bytes())
    }

    /// Its connection had its destination changed.
    pub(super) fn redirected(self) -> Self {
        let status = Attributes::new().number(1, LOADED).number(2, CONNECTION_STATUS);
        let bit = STATUS_DESTINATION_CHANGED.to_ne_bytes();
        self.step("ct", &status).mask(&bit).compare(EQUAL, &bit)
    }

    /// All of these bits of its mark are set.
    pub(super) fn marked(self, bits: u32) -> Self {
        self.meta(META_MARK).mask(&bits.to_ne_bytes()).compare(EQUAL, &bits.to_ne_bytes())
    }

    /// Sets bits of its mark, and leaves the others as they are.
    pub(super) fn set_mark(self, bits: u32) -> Self {
        self.change_mark(bits, bits)
    }

    /// Clears bits of its mark, and leaves the others as they are.
    pub(super) fn clear_mark(self, bits: u32) -> Self {
        self.change_mark(bits, 0)
    }

    fn change_mark(self, bits: u32, to: u32) -> Self {
        let loaded = self.meta(META_MARK).change_bits(&(!bits).to_ne_bytes(), &to.to_ne_bytes());
        loaded.step("meta", &Attributes::new().number(2, META_MARK).number(3, LOADED))
    }

    /// Lets the packet on.
    pub(super) fn accept(self) -> Self {
        self.verdict(&Verdict::Accept)
    }

    /// Ends the rule with a verdict.
    pub(super) fn verdict(self, verdict: &Verdict) -> Self {
        self.step("immediate", &Attributes::new().number(1, VERDICT_REGISTER).nested(2, &verdict.data()))
    }

    /// Ends the rule with the verdict that a map has for what was loaded from a register on; goes on if it has none.
    pub(super) fn verdict_of(self, map: &str, from: Register) -> Self {
        self.look_up(map, from, Some(VERDICT_REGISTER))
    }

    /// A set has what was loaded from a register on.
    pub(super) fn found_in(self, set: &str, from: Register) -> Self {
        self.look_up(set, from, None)
    }

    /// Loads what a map has for what was loaded from a register on.
    pub(super) fn load_of(self, map: &str, from: Register, to: Register) -> Self {
        self.look_up(map, from, Some(to.number()))
    }

    fn look_up(self, set: &str, from: Register, to: Option<u32>) -> Self {
        let lookup = Attributes::new().text(1, set).number(2, from.number());
        let lookup = match to {
            Some(to) => lookup.number(3, to),
            None => lookup,
        };
        self.step("lookup", &lookup)
    }

    /// Makes a map remember something for a key, or remember it for longer. What it remembers already does not change.
    pub(super) fn remember(self, map: &str, key: Register, data: Register, time_ms: u64) -> Self {
        let element =
            Attributes::new().text(1, map).number(3, ELEMENT_UPDATE).number(4, key.number()).number(5, data.number()).long(6, time_ms);
        self.step("dynset", &element)
    }

    /// Makes a map forget what it has for a key, if it has anything. The kernel wants to be told of a value, and does not look at it.
    pub(super) fn forget(self, map: &str, key: Register, data: Register) -> Self {
        let element = Attributes::new().text(1, map).number(3, ELEMENT_DELETE).number(4, key.number()).number(5, data.number());
        self.step("dynset", &element)
    }

    /// Loads a number from zero on below a bound, by chance.
    pub(super) fn load_chance(self, to: Register, bound: u32) -> Self {
        self.step("numgen", &Attributes::new().number(1, to.number()).number(2, bound).number(3, NUMBERS_AT_RANDOM))
    }

    /// Loads bytes that are always the same.
    pub(super) fn load_bytes(self, to: Register, value: &[u8]) -> Self {
        self.load(to.number(), value)
    }

    /// Loads one of its addresses.
    pub(super) fn load_address(self, side: Side, family: AddressFamily, to: Register) -> Self {
        self.payload_to(to.number(), NETWORK_HEADER, family.offset(side), family.length())
    }

    /// Loads its transport protocol, and its destination's transport port behind it.
    pub(super) fn load_destination_port(self, to: Register) -> Self {
        let loaded = self.step("meta", &Attributes::new().number(1, to.number()).number(2, META_TRANSPORT));
        loaded.payload_to(to.after(4).number(), TRANSPORT_HEADER, 2, 2)
    }

    /// Gives the packet, and all of its connection, the destination that was loaded: an address, and a transport port behind it.
    pub(super) fn redirect_to(self, family: AddressFamily, from: Register) -> Self {
        let (address, port) = (from.number(), from.after(family.length()).number());
        let nat = Attributes::new().number(1, CHANGE_DESTINATION).number(2, family.number().into());
        self.step("nat", &nat.number(3, address).number(4, address).number(5, port).number(6, port))
    }

    /// Answers that nobody is there, by a reset.
    pub(super) fn reset(self) -> Self {
        self.step("reject", &Attributes::new().number(1, REJECT_RESET))
    }

    /// Answers that nobody listens at the port.
    pub(super) fn unreachable(self, family: AddressFamily) -> Self {
        self.step("reject", &Attributes::new().number(1, REJECT_UNREACHABLE).bytes(2, &[family.unreachable_port()]))
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
        self.payload_to(LOADED, base, offset, length)
    }

    fn payload_to(self, register: u32, base: u32, offset: u32, length: usize) -> Self {
        let length = u32::try_from(length).expect("an address is the longest that is compared");
        self.step("payload", &Attributes::new().number(1, register).number(2, base).number(3, offset).number(4, length))
    }

    fn mask(self, mask: &[u8]) -> Self {
        self.change_bits(mask, &vec![0; mask.len()])
    }

    /// Keeps some bits of what is loaded, and turns over some.
    fn change_bits(self, mask: &[u8], turned: &[u8]) -> Self {
        let length = u32::try_from(mask.len()).expect("an address is the longest that is masked");
        let bitwise = Attributes::new()
            .number(1, LOADED)
            .number(2, LOADED)
            .number(3, length)
            .nested(4, &Attributes::new().bytes(1, mask))
            .nested(5, &Attributes::new().bytes(1, turned));
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
    AddressFamily::of(address).number()
}

/// Where an address is in the network header of its family.
fn offset(side: Side, address: IpAddr) -> u32 {
    AddressFamily::of(address).offset(side)
}

pub(super) fn octets(address: IpAddr) -> Vec<u8> {
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
