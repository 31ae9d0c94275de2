//! The addresses of one network: which endpoint has which, and which are free.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hcn::Guid;
use hcn::endpoint::{Endpoint, IpConfiguration};
use hcn::network::{IpSubnetFlags, Network, Subnet, SubnetFlags};
use imbl::OrdMap;
use ipnet::IpNet;
use wire::MacAddress;

use crate::pool::Pool;

/// A part of a subnet that endpoints take addresses from.
#[derive(Clone, Debug, PartialEq)]
struct Block {
    /// The IP subnet's id; nil when the subnet has none and the block is the subnet itself.
    id: Guid,
    prefix: IpNet,
    pool: Pool,
}

/// A subnet with its blocks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SubnetAddresses {
    pub prefix: IpNet,
    pub gateway: Option<IpAddr>,
    reserved: Vec<IpAddr>,
    blocks: Vec<Block>,
}

/// The addresses of one network.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Addresses {
    subnets: Vec<SubnetAddresses>,
    macs: Vec<Pool>,
    in_use: OrdMap<IpAddr, Guid>,
    macs_in_use: OrdMap<MacAddress, Guid>,
}

/// Why an address cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AddressError {
    /// No subnet of the network contains it.
    InNoSubnet,
    /// It is the gateway, the network or the broadcast address.
    Reserved,
    /// An endpoint has it.
    InUse(Guid),
    /// The IP subnet that was named does not exist or does not contain it.
    InNoIpSubnet,
}

impl Addresses {
    /// The addresses of a network, all free. The document has been validated.
    pub(crate) fn of(network: &Network) -> Self {
        let range = |range: &hcn::network::MacRange| {
            let (first, last): (MacAddress, MacAddress) = (range.start.parse().ok()?, range.end.parse().ok()?);
            Some(Pool::new(first.to_u64().into(), last.to_u64().into()))
        };
        Self {
            subnets: network.subnets().filter_map(SubnetAddresses::of).collect(),
            macs: network.mac_pool.ranges.iter().filter_map(range).collect(),
            ..Self::default()
        }
    }

    /// The subnets.
    pub(crate) fn subnets(&self) -> &[SubnetAddresses] {
        &self.subnets
    }

    /// The subnet that contains an address.
    pub(crate) fn subnet_of(&self, address: IpAddr) -> Option<&SubnetAddresses> {
        self.subnets.iter().find(|subnet| subnet.prefix.contains(&address))
    }

    /// Whether an endpoint of this network may have this address.
    pub(crate) fn check(&self, address: IpAddr, ip_subnet: Guid) -> Result<(), AddressError> {
        let subnet = self.subnet_of(address).ok_or(AddressError::InNoSubnet)?;
        if !ip_subnet.is_nil() && !subnet.blocks.iter().any(|block| block.id == ip_subnet && block.prefix.contains(&address)) {
            return Err(AddressError::InNoIpSubnet);
        }
        if subnet.reserved.contains(&address) {
            return Err(AddressError::Reserved);
        }
        match self.in_use.get(&address) {
            Some(owner) => Err(AddressError::InUse(*owner)),
            None => Ok(()),
        }
    }

    /// Which local endpoint has this address.
    pub(crate) fn owner(&self, address: IpAddr) -> Option<Guid> {
        self.in_use.get(&address).copied()
    }

    /// Which local endpoint has this Ethernet address.
    pub(crate) fn mac_owner(&self, mac: MacAddress) -> Option<Guid> {
        self.macs_in_use.get(&mac).copied()
    }

    /// A free address of a family, from the first subnet that has one; none if the network has no such subnet.
    /// `Err` if it has, and all are full.
    pub(crate) fn find_free(&self, ipv6: bool, ip_subnet: Guid) -> Result<Option<IpConfiguration>, ()> {
        let mut full = false;
        for subnet in self.subnets.iter().filter(|subnet| subnet.prefix.addr().is_ipv6() == ipv6) {
            for block in subnet.blocks.iter().filter(|block| ip_subnet.is_nil() || block.id == ip_subnet) {
                let Some(number) = block.pool.find(|_| true) else {
                    full = true;
                    continue;
                };
                return Ok(Some(IpConfiguration {
                    ip_address: address(number, ipv6).to_string(),
                    prefix_length: subnet.prefix.prefix_len(),
                    ip_subnet_id: block.id,
                    ..IpConfiguration::default()
                }));
            }
        }
        if full { Err(()) } else { Ok(None) }
    }

    /// A free Ethernet address that `wanted` agrees to.
    pub(crate) fn find_free_mac(&self, mut wanted: impl FnMut(MacAddress) -> bool) -> Option<MacAddress> {
        let mut to_mac = |number: u128| MacAddress::from_u64(number as u64);
        self.macs.iter().find_map(|pool| pool.find(|number| wanted(to_mac(number)))).map(&mut to_mac)
    }

    /// Notes that an endpoint has its addresses. Remote endpoints take none: their addresses belong to other hosts.
    pub(crate) fn take(&mut self, endpoint: &Endpoint) {
        if endpoint.is_remote() {
            return;
        }
        for address in addresses_of(endpoint) {
            self.in_use.insert(address, endpoint.id);
            self.for_block(address, |pool, number| {
                pool.take(number);
                pool.advance(number);
            });
        }
        if let Ok(mac) = endpoint.mac_address.parse::<MacAddress>() {
            self.macs_in_use.insert(mac, endpoint.id);
            let number = mac.to_u64().into();
            for pool in &mut self.macs {
                if pool.take(number) {
                    pool.advance(number);
                }
            }
        }
    }

    /// Notes that an endpoint no longer has its addresses.
    pub(crate) fn give_back(&mut self, endpoint: &Endpoint) {
        if endpoint.is_remote() {
            return;
        }
        for address in addresses_of(endpoint) {
            if self.in_use.get(&address) == Some(&endpoint.id) {
                self.in_use.remove(&address);
                if !self.is_reserved(address) {
                    self.for_block(address, Pool::give_back);
                }
            }
        }
        if let Ok(mac) = endpoint.mac_address.parse::<MacAddress>()
            && self.macs_in_use.get(&mac) == Some(&endpoint.id)
        {
            self.macs_in_use.remove(&mac);
            self.give_back_mac(mac);
        }
    }

    /// Continues giving out addresses where `before` left off.
    pub(crate) fn continue_after(&mut self, before: &Addresses) {
        for subnet in &mut self.subnets {
            for block in &mut subnet.blocks {
                let blocks = before.subnets.iter().flat_map(|subnet| &subnet.blocks);
                if let Some(old) = blocks.into_iter().find(|old| old.prefix == block.prefix) {
                    block.pool.continue_after(&old.pool);
                }
            }
        }
    }

    fn give_back_mac(&mut self, mac: MacAddress) {
        let number = mac.to_u64().into();
        for pool in &mut self.macs {
            if pool.covers(number) {
                pool.give_back(number);
            }
        }
    }

    /// Whether an address is the gateway or an end of its subnet.
    pub(crate) fn is_reserved(&self, address: IpAddr) -> bool {
        self.subnet_of(address).is_some_and(|subnet| subnet.reserved.contains(&address))
    }

    fn for_block(&mut self, address: IpAddr, change: impl Fn(&mut Pool, u128)) {
        let blocks = self.subnets.iter_mut().flat_map(|subnet| &mut subnet.blocks);
        if let Some(block) = blocks.into_iter().find(|block| block.prefix.contains(&address)) {
            change(&mut block.pool, number(address));
        }
    }
}

impl SubnetAddresses {
    fn of(subnet: &Subnet) -> Option<Self> {
        let prefix: IpNet = subnet.ip_address_prefix.parse().ok()?;
        let prefix = prefix.trunc();
        let gateway: Option<IpAddr> = subnet.gateway().and_then(|gateway| gateway.parse().ok());
        let mut reserved = ends(prefix);
        if !subnet.flags.has(SubnetFlags::DO_NOT_RESERVE_GATEWAY) {
            reserved.extend(gateway);
        }
        let mut blocks: Vec<Block> = subnet
            .ip_subnets
            .iter()
            .filter_map(|part| {
                let prefix: IpNet = part.ip_address_prefix.parse().ok()?;
                if part.flags.has(IpSubnetFlags::RESERVE_NETWORK_ADDRESS) {
                    reserved.push(prefix.network());
                }
                Some(Block { id: part.id, prefix: prefix.trunc(), pool: Pool::default() })
            })
            .collect();
        if blocks.is_empty() {
            blocks.push(Block { id: Guid::nil(), prefix, pool: Pool::default() });
        }
        for block in &mut blocks {
            block.pool = Pool::new(number(block.prefix.network()), number(block.prefix.broadcast()));
            for address in reserved.iter().filter(|address| block.prefix.contains(*address)) {
                block.pool.take(number(*address));
            }
        }
        Some(Self { prefix, gateway, reserved, blocks })
    }
}

/// The addresses at the ends of a prefix that no endpoint may have.
fn ends(prefix: IpNet) -> Vec<IpAddr> {
    match prefix {
        IpNet::V4(prefix) if prefix.prefix_len() < 31 => vec![prefix.network().into(), prefix.broadcast().into()],
        // Of an IPv6 subnet only the first is special: it stands for all its routers.
        IpNet::V6(prefix) if prefix.prefix_len() < 127 => vec![prefix.network().into()],
        _ => Vec::new(),
    }
}

/// The addresses of an endpoint, parsed.
pub(crate) fn addresses_of(endpoint: &Endpoint) -> impl Iterator<Item = IpAddr> + '_ {
    endpoint.ip_configurations.iter().filter_map(|configuration| configuration.ip_address.parse().ok())
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

fn address(number: u128, ipv6: bool) -> IpAddr {
    match ipv6 {
        true => Ipv6Addr::from(number).into(),
        false => Ipv4Addr::from(number as u32).into(),
    }
}
