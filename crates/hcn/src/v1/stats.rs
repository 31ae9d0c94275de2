//! Traffic counters of an endpoint (`/endpointstats/{id}`).

use crate::Guid;
use crate::v1::id;

document! {
    /// What an endpoint has sent and received. Counters are printed even when they are zero.
    pub struct EndpointStats {
        "BytesReceived" bytes_received: u64 => always,
        "BytesSent" bytes_sent: u64 => always,
        "DroppedPacketsIncoming" dropped_packets_incoming: u64 => always,
        "DroppedPacketsOutgoing" dropped_packets_outgoing: u64 => always,
        "EndpointId" endpoint_id: String,
        "InstanceId" instance_id: String,
        "PacketsReceived" packets_received: u64 => always,
        "PacketsSent" packets_sent: u64 => always,
    }
}

impl EndpointStats {
    /// Counters at zero for an endpoint. What Windows writes as the instance is not documented; it is the endpoint here.
    pub fn new(endpoint: Guid) -> Self {
        Self { endpoint_id: id::print(endpoint), instance_id: id::print(endpoint), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print;

    #[test]
    fn zeros_are_printed() {
        let text = print(&EndpointStats::new(Guid::from_u128(0xA)));
        assert!(text.starts_with(r#"{"BytesReceived":0,"BytesSent":0,"#), "{text}");
        assert!(text.contains(r#""EndpointId":"00000000-0000-0000-0000-00000000000A""#), "{text}");
    }
}
