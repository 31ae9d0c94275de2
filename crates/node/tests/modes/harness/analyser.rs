//! `tshark`: what somebody else reads in the frames.

use std::path::PathBuf;

use super::Place;
use super::sniff::Frame;

/// A file of frames that the analyser reads.
pub(crate) struct Capture<'a> {
    place: &'a Place,
    file: PathBuf,
}

impl<'a> Capture<'a> {
    /// Writes frames to a file with a name of its own.
    pub(crate) fn of(place: &'a Place, name: &str, frames: &[Frame]) -> Self {
        let file = PathBuf::from(format!("/run/{name}.pcap"));
        std::fs::write(&file, pcap(frames.iter().map(|frame| &frame.bytes))).expect("a capture");
        Self { place, file }
    }

    /// Some fields of the frames that pass a filter, a line each.
    pub(crate) fn fields(&self, filter: &str, fields: &[&str]) -> Vec<String> {
        let fields: String = fields.iter().map(|field| format!(" -e {field}")).collect();
        self.lines(&format!("-T fields{fields} -Y {filter}"))
    }

    /// What the analyser finds wrong with it.
    pub(crate) fn complaints(&self) -> String {
        let checks = ["ip", "tcp", "udp"].map(|protocol| format!("-o {protocol}.check_checksum:TRUE")).join(" ");
        let wrong = [
            "_ws.malformed",
            "ip.checksum.status==Bad",
            "tcp.checksum.status==Bad",
            "udp.checksum.status==Bad",
            "icmp.checksum.status==Bad",
            "icmpv6.checksum.status==Bad",
        ];
        self.lines(&format!("{checks} -2 -R {}", wrong.join("||"))).join("\n")
    }

    fn lines(&self, arguments: &str) -> Vec<String> {
        // What is in the packets is random, and must not be taken for a protocol by its port. Tunnels come from ports that clients have, too.
        let plain = ["tcp.port==0-65535", "udp.port==0-4788", "udp.port==4790-32767"].map(|ports| format!("-d {ports},data")).join(" ");
        let (succeeded, text) = self.place.command("tshark", &format!("-r {} {plain} {arguments}", self.file.display()));
        assert!(succeeded, "{text}");
        text.lines().filter(|line| !line.starts_with("Running as user")).map(str::to_owned).collect()
    }
}

/// Frames in the format that every analyser reads.
fn pcap<'a>(frames: impl Iterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    let header: [u32; 6] = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1];
    let mut bytes: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    for (number, frame) in frames.enumerate() {
        let length = frame.len() as u32;
        bytes.extend([number as u32, 0, length, length].iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(frame);
    }
    bytes
}

/// Makes the cable to a place like a real one: frames are cut and their checksums complete before they are on it.
pub(crate) fn make_real(place: &Place) {
    let (succeeded, text) = place.command("ethtool", "-K eth0 tx off");
    assert!(succeeded, "{text}");
}
