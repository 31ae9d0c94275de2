//! What the sender left for the hardware to do.

/// The work on a frame that is still to be done, by the receiving stack or by whoever puts it on a real wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// The transport checksum.
    pub checksum: Checksum,
    /// How the frame is to be cut, if it is larger than a wire carries.
    pub segmentation: Option<Segmentation>,
}

/// How far the transport checksum is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// The field holds what the sender computed, to be checked by the receiver.
    #[default]
    Complete,
    /// As complete, and already found right.
    Verified,
    /// The field holds the sum of the pseudo-header; the bytes from `start` on are still to be added, into the field at
    /// `start + field`. Both count from the start of the frame.
    Partial {
        /// Where the transport header starts.
        start: u16,
        /// Where in the transport header the field is.
        field: u16,
    },
}

/// How a large frame is cut into pieces for the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segmentation {
    /// By which rules.
    pub kind: SegmentationKind,
    /// Payload of one piece.
    pub size: u16,
    /// All headers together, as the sender saw them; a hint only.
    pub header_length: u16,
}

/// The rules by which a frame is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentationKind {
    /// TCP over IPv4; with `ecn`, the congestion flag stays on the first piece only.
    Tcp4 {
        /// Whether the frame carries the flag.
        ecn: bool,
    },
    /// TCP over IPv6.
    Tcp6 {
        /// Whether the frame carries the flag.
        ecn: bool,
    },
    /// UDP datagrams of one size.
    Udp,
}

impl Offload {
    /// Nothing is left to do.
    pub const NONE: Self = Self { checksum: Checksum::Complete, segmentation: None };

    /// Moves the offsets when the frame grew in front by `bytes`, or shrank (negative). `None` if they would leave the frame.
    #[must_use]
    pub fn moved(self, bytes: i32) -> Option<Self> {
        let Checksum::Partial { start, field } = self.checksum else {
            return Some(self);
        };
        let start = u16::try_from(i32::from(start) + bytes).ok()?;
        Some(Self { checksum: Checksum::Partial { start, field }, ..self })
    }
}
