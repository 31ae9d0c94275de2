//! The ids of our objects follow from what they are.
//!
//! HNS has no field for an owner that survives everywhere, and a proxy that starts must know at once what of all there is was made
//! by a proxy before it. So a load balancer's id is computed from its frontend, and a remote endpoint's from its network, address and
//! provider address. Whatever has the id that it would have from us is ours; making it twice is impossible.

use std::net::IpAddr;

use hcn::Guid;

use crate::desired::Frontend;

/// The namespace of our ids.
const SPACE: Guid = Guid::from_u128(0x7472_616e_736f_6d00_8000_6b75_6265_7072);

/// The id of the load balancer at a frontend.
pub fn balancer_id(frontend: &Frontend) -> Guid {
    let vip = frontend.vip.map_or_else(|| format!("node {}", frontend.family), |vip| vip.to_string());
    Guid::new_v5(&SPACE, format!("load balancer {vip} {} {}", frontend.protocol, frontend.port).as_bytes())
}

/// The id of an endpoint of ours for an address on a network.
pub fn endpoint_id(network: Guid, address: IpAddr, provider: Option<IpAddr>) -> Guid {
    let provider = provider.map(|provider| provider.to_string()).unwrap_or_default();
    Guid::new_v5(&SPACE, format!("endpoint {network} {address} {provider}").as_bytes())
}
