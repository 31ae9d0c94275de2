//! When a connection is over.

use std::time::Duration;

use wire::number::{protocol, tcp_flag};

/// How long a connection may be idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP, before both sides have spoken.
    pub tcp_opening: Duration,
    /// TCP, while it is open.
    pub tcp_open: Duration,
    /// TCP, after one side has said that it is done.
    pub tcp_closing: Duration,
    /// TCP, after both sides have, or after a reset.
    pub tcp_closed: Duration,
    /// Anything else, before it was answered.
    pub unanswered: Duration,
    /// Anything else, after it was answered.
    pub answered: Duration,
    /// ICMP queries.
    pub icmp: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            tcp_opening: seconds(30),
            tcp_open: seconds(4 * 3600),
            tcp_closing: seconds(120),
            tcp_closed: seconds(10),
            unanswered: seconds(30),
            answered: seconds(180),
            icmp: seconds(30),
        }
    }
}

/// How far a TCP connection is, from the flags that each side has sent.
///
/// `Opening` → `Open` when the other side has answered without refusing → `Closing` at the first FIN → `Closed` at the second, or at
/// a RST from any state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpState {
    /// Only one side has spoken, or neither has acknowledged.
    Opening,
    /// Both sides have spoken.
    Open,
    /// One side is done.
    Closing,
    /// Both sides are done, or one has broken it off.
    Closed,
}

impl TcpState {
    /// The state, from all flags that the initiator and the other side have sent.
    pub const fn from_flags(initiator: u8, responder: u8) -> Self {
        let both = initiator | responder;
        if both & tcp_flag::RST != 0 || initiator & responder & tcp_flag::FIN != 0 {
            return Self::Closed;
        }
        if both & tcp_flag::FIN != 0 {
            return Self::Closing;
        }
        match initiator & responder & tcp_flag::ACK {
            0 => Self::Opening,
            _ => Self::Open,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Open => "open",
            Self::Closing => "closing",
            Self::Closed => "closed",
        }
    }
}

impl Timeouts {
    /// How long a connection may be idle now.
    pub(crate) fn idle(&self, protocol: u8, initiator: u8, responder: u8, answered: bool) -> Duration {
        match protocol {
            protocol::TCP => match TcpState::from_flags(initiator, responder) {
                TcpState::Opening => self.tcp_opening,
                TcpState::Open => self.tcp_open,
                TcpState::Closing => self.tcp_closing,
                TcpState::Closed => self.tcp_closed,
            },
            protocol::ICMP | protocol::ICMPV6 => self.icmp,
            _ if answered => self.answered,
            _ => self.unanswered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::number::tcp_flag::{ACK, FIN, RST, SYN};

    #[test]
    fn the_life_of_a_tcp_connection() {
        let steps = [
            (SYN, 0, TcpState::Opening),
            (SYN, SYN | ACK, TcpState::Opening),
            (SYN | ACK, SYN | ACK, TcpState::Open),
            (SYN | ACK | FIN, SYN | ACK, TcpState::Closing),
            (SYN | ACK | FIN, SYN | ACK | FIN, TcpState::Closed),
            (SYN, RST | ACK, TcpState::Closed),
        ];
        for (initiator, responder, expected) in steps {
            assert_eq!(TcpState::from_flags(initiator, responder), expected, "{initiator:#x} {responder:#x}");
        }
    }
}
