//! Where packets go: into a file or a pipe as they are, or onto a terminal as lines.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use wire::Printed;
use wire::pcapng::{Block, Direction, Packet, blocks};

use crate::exit::{Exit, Failure};

/// Where packets go.
pub(super) enum Sink {
    /// As pcapng.
    Bytes(Box<dyn Write>),
    /// As lines for people.
    Lines(Lines),
}

impl Sink {
    /// Where the command line says; without a word of it, lines on a terminal and pcapng elsewhere. Packets of one pod are labelled with its
    /// name, since ports of a switch are called by ids.
    pub(super) fn open(file: Option<&Path>, summary: bool, label: Option<&str>) -> Result<Self, Failure> {
        let is_terminal = io::stdout().is_terminal();
        match file {
            Some(path) if path.as_os_str() != "-" => {
                let failed = |error: io::Error| Failure::new(Exit::Failed, format!("cannot write {}: {error}", path.display()));
                Ok(Self::Bytes(Box::new(File::create(path).map_err(failed)?)))
            }
            Some(_) if is_terminal => {
                let remedy = "write to a file with -w FILE, or pipe it into `tshark -r -`";
                Err(Failure::new(Exit::Usage, "a capture is no text for a terminal").remedy(remedy))
            }
            None if is_terminal || summary => Ok(Self::Lines(Lines { label: label.map(str::to_owned), ..Lines::default() })),
            _ => Ok(Self::Bytes(Box::new(io::stdout()))),
        }
    }

    /// Takes a block. Everything is handed on at once, so that nothing is missing when somebody looks.
    pub(super) fn put(&mut self, block: &[u8]) -> Result<(), Failure> {
        let written = match self {
            Self::Bytes(target) => target.write_all(block).and_then(|()| target.flush()),
            Self::Lines(lines) => lines.put(block),
        };
        written.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::closed_pipe(),
            _ => Failure::new(Exit::Failed, format!("cannot write the capture: {error}")),
        })
    }
}

/// Lines for people: the time since the first packet, the interface, the direction, the packet, and what became of it.
#[derive(Default)]
pub(super) struct Lines {
    label: Option<String>,
    interfaces: Vec<String>,
    begin: Option<u64>,
}

impl Lines {
    fn put(&mut self, block: &[u8]) -> io::Result<()> {
        for block in blocks(block) {
            match block {
                Block::Section { .. } => {}
                Block::Interface { name } => self.interfaces.push(name.to_owned()),
                Block::Packet(packet) => writeln!(io::stdout(), "{}", self.line(&packet))?,
            }
        }
        Ok(())
    }

    fn line(&mut self, packet: &Packet<'_>) -> String {
        let begin = *self.begin.get_or_insert(packet.time_ns);
        let seconds = packet.time_ns.saturating_sub(begin) as f64 / 1e9;
        let number = usize::try_from(packet.interface).unwrap_or(usize::MAX);
        let interface = self.label.as_ref().or_else(|| self.interfaces.get(number)).map_or("?", String::as_str);
        let direction = match packet.direction {
            Some(Direction::Inbound) => "in ",
            Some(Direction::Outbound) => "out",
            None => "-  ",
        };
        let printed = Printed(packet.bytes).to_string();
        // Hardware addresses are for those who look into a file.
        let content = printed.split_once(" | ").map_or(printed.as_str(), |(_, content)| content);
        let comment = if packet.comment.is_empty() { String::new() } else { format!("  [{}]", packet.comment) };
        format!("{seconds:>9.6} {interface} {direction} {content}{comment}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_a_line_with_its_verdict() {
        let mut frame = wire::Frame::default();
        wire::arp::request(wire::Ip::v4(1), wire::MacAddress::default(), wire::Ip::v4(2), &mut frame);
        let mut packet = Packet {
            interface: 0,
            time_ns: 5_000_000_000,
            direction: Some(Direction::Outbound),
            comment: "answered by the switch",
            bytes: frame.bytes(),
            original_length: 42,
        };
        let mut lines = Lines { interfaces: vec!["web".to_owned()], ..Lines::default() };
        assert_eq!(lines.line(&packet), " 0.000000 web out ARP who has 0.0.0.2, tell 0.0.0.1  [answered by the switch]");
        (packet.time_ns, packet.direction, packet.comment, packet.interface) = (5_001_500_000, Some(Direction::Inbound), "", 1);
        assert_eq!(lines.line(&packet), " 0.001500 ? in  ARP who has 0.0.0.2, tell 0.0.0.1");
    }
}
