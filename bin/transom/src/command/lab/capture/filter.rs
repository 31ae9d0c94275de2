//! Which packets somebody wants to see: a few words of the language that tcpdump made known.

use std::net::IpAddr;

use wire::number::{ether_type, protocol};
use wire::vxlan::{self, Vxlan};
use wire::{Headers, Ip, Kind};

/// The words that there are, for people.
pub(super) const WORDS: &str = "host ADDRESS, port NUMBER, tcp, udp, icmp and arp, joined with `and`";

/// All that has to be true of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filter(Vec<Term>);

/// Something that is true of a packet or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Term {
    /// It is from or to this address, or about it.
    Host(Ip),
    /// It is from or to this transport port.
    Port(u16),
    /// It is of this protocol.
    Tcp,
    Udp,
    Icmp,
    Arp,
}

impl Filter {
    /// Reads a filter from words, or from texts of several words. Without any, every packet is wanted.
    pub(super) fn parse(texts: &[String]) -> Result<Self, String> {
        let mut words = texts.iter().flat_map(|text| text.split_whitespace());
        let mut terms = Vec::new();
        let Some(mut word) = words.next() else { return Ok(Self::default()) };
        loop {
            terms.push(term(word, &mut words)?);
            match words.next() {
                None => return Ok(Self(terms)),
                Some("and") => word = words.next().ok_or("the filter ends with `and`; say what else has to be true")?,
                Some(other) => return Err(format!("{other:?} stands where `and` is expected; a filter has {WORDS}")),
            }
        }
    }

    /// Whether a frame is wanted, for itself or for what travels in it.
    pub(super) fn wants(&self, frame: &[u8]) -> bool {
        if self.0.is_empty() {
            return true;
        }
        // Nothing can be said of what cannot be read.
        let Ok(headers) = Headers::parse(frame) else { return false };
        self.0.iter().all(|term| term.holds(&headers)) || inner(frame, &headers).is_some_and(|inner| self.wants(inner))
    }
}

fn term<'a>(word: &str, rest: &mut impl Iterator<Item = &'a str>) -> Result<Term, String> {
    match word {
        "tcp" => Ok(Term::Tcp),
        "udp" => Ok(Term::Udp),
        "icmp" => Ok(Term::Icmp),
        "arp" => Ok(Term::Arp),
        "host" => {
            let text = rest.next().ok_or("`host` needs an address")?;
            let address: IpAddr = text.parse().map_err(|_| format!("{text:?} is no address; write one such as 10.244.1.5"))?;
            Ok(Term::Host(address.into()))
        }
        "port" => {
            let text = rest.next().ok_or("`port` needs a number")?;
            text.parse().map(Term::Port).map_err(|_| format!("{text:?} is no port from 0 to 65535"))
        }
        other => Err(format!("{other:?} is no word of a filter; there are {WORDS}")),
    }
}

impl Term {
    fn holds(self, headers: &Headers) -> bool {
        let id = &headers.id;
        let is_ip = matches!(headers.ether_type, ether_type::IPV4 | ether_type::IPV6);
        let is_of = |number: u8| is_ip && headers.kind == Kind::Ip && id.protocol == number;
        match self {
            Self::Host(address) => id.source == address || id.destination == address,
            Self::Port(port) => {
                let has_ports = is_of(protocol::TCP) || is_of(protocol::UDP) || is_of(protocol::SCTP);
                has_ports && (id.source_port == port || id.destination_port == port)
            }
            Self::Tcp => is_of(protocol::TCP),
            Self::Udp => is_of(protocol::UDP),
            Self::Icmp => is_ip && (headers.kind != Kind::Ip || id.is_icmp()),
            Self::Arp => headers.ether_type == ether_type::ARP,
        }
    }
}

/// The frame that a VXLAN packet carries.
fn inner<'a>(frame: &'a [u8], headers: &Headers) -> Option<&'a [u8]> {
    let id = &headers.id;
    let is_tunnel = id.protocol == protocol::UDP && matches!(id.destination_port, vxlan::PORT | vxlan::LINUX_PORT);
    let payload = frame.get(usize::from(headers.payload)..).filter(|_| is_tunnel)?;
    Vxlan::parse(payload).ok()?;
    payload.get(vxlan::LENGTH..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Filter, String> {
        Filter::parse(&[text.to_owned()])
    }

    /// A UDP datagram from 10.0.0.1:53 to 10.0.0.2:4096, or to another port.
    fn datagram(port: u16, payload: &[u8]) -> Vec<u8> {
        let length = u16::try_from(28 + payload.len()).unwrap().to_be_bytes();
        let mut packet = vec![0x45, 0, length[0], length[1], 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let sum = (!wire::checksum::sum(&packet)).to_be_bytes();
        packet[10..12].copy_from_slice(&sum);
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        frame.extend(packet);
        frame.extend([0, 53]);
        frame.extend(port.to_be_bytes());
        frame.extend(u16::try_from(8 + payload.len()).unwrap().to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(payload);
        frame
    }

    #[test]
    fn words_are_read_one_by_one_or_together() {
        let expected = Filter(vec![Term::Tcp, Term::Host(IpAddr::from([10, 0, 0, 1]).into()), Term::Port(80)]);
        assert_eq!(parse("tcp and host 10.0.0.1 and port 80"), Ok(expected.clone()));
        let words: Vec<String> = ["tcp", "and", "host", "10.0.0.1", "and", "port", "80"].map(str::to_owned).to_vec();
        assert_eq!(Filter::parse(&words), Ok(expected));
        assert_eq!(parse(" "), Ok(Filter::default()));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let table = [
            ("tpc", "\"tpc\" is no word of a filter; there are host ADDRESS"),
            ("tcp or udp", "\"or\" stands where `and` is expected"),
            ("tcp and", "the filter ends with `and`"),
            ("host", "`host` needs an address"),
            ("host web", "\"web\" is no address"),
            ("port 70000", "\"70000\" is no port"),
        ];
        for (text, expected) in table {
            let told = parse(text).expect_err(text);
            assert!(told.starts_with(expected), "{told}");
        }
    }

    #[test]
    fn packets_are_wanted_for_themselves_or_for_what_is_in_them() {
        let plain = datagram(4096, b"");
        let table = [
            ("", true),
            ("udp", true),
            ("udp and port 53", true),
            ("host 10.0.0.2 and port 4096", true),
            ("tcp", false),
            ("arp", false),
            ("icmp", false),
            ("udp and host 10.0.0.3", false),
        ];
        for (text, expected) in table {
            assert_eq!(parse(text).unwrap().wants(&plain), expected, "{text}");
        }
        let mut arp = wire::Frame::default();
        wire::arp::request(Ip::v4(1), wire::MacAddress::default(), Ip::v4(2), &mut arp);
        assert!(parse("arp and host 0.0.0.2").unwrap().wants(arp.bytes()));
        let wrapped = datagram(vxlan::PORT, &[[8, 0, 0, 0, 0, 16, 0, 0].as_slice(), arp.bytes()].concat());
        assert!(parse("arp").unwrap().wants(&wrapped));
        assert!(!parse("arp").unwrap().wants(&plain));
        assert!(!parse("tcp").unwrap().wants(b"no frame"));
    }
}
