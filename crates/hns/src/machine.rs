//! What the service asks of the machine it runs on.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use hcn::base::Dns;
use ipnet::IpNet;
use wire::MacAddress;

/// A network adapter of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adapter {
    /// The name documents use, such as `Ethernet`.
    pub name: String,
    /// The operating system's name, such as `eth0`.
    pub interface: String,
    /// The operating system's number for it.
    pub index: u32,
    /// Its Ethernet address.
    pub mac: MacAddress,
    /// Its addresses with their prefixes.
    pub addresses: Vec<IpNet>,
}

impl Adapter {
    /// The address by which other hosts reach this one: the first IPv4 address, else the first.
    pub fn management_address(&self) -> Option<IpAddr> {
        let first = |v4: bool| self.addresses.iter().map(IpNet::addr).find(|address| address.is_ipv4() == v4);
        first(true).or_else(|| first(false))
    }

    /// Whether a document means this adapter by this name.
    pub fn is_called(&self, name: &str) -> bool {
        let alias = format!("vEthernet ({})", self.name);
        [self.name.as_str(), self.interface.as_str(), alias.as_str()].iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// The machine: its adapters, its sockets, its clock.
pub trait Machine: Send + Sync {
    /// The adapters that networks can be bound to.
    fn adapters(&self) -> Vec<Adapter>;

    /// Whether a socket of the host has this port. `protocol` is the IP protocol number.
    fn port_in_use(&self, protocol: u8, port: u16) -> bool;

    /// How the host itself resolves names.
    fn dns(&self) -> Dns;

    /// The time in Windows' ticks: 100 ns since 1601.
    fn now_filetime(&self) -> u64;
}

/// A machine that exists only in memory, for tests and tools.
#[derive(Debug, Default)]
pub struct FakeMachine {
    /// Its adapters.
    pub adapters: Vec<Adapter>,
    /// How it resolves names.
    pub dns: Dns,
    /// Protocol and port of its sockets.
    pub ports: Vec<(u8, u16)>,
    /// Its clock: every look at it is one tick later.
    pub ticks: AtomicU64,
}

impl FakeMachine {
    /// A machine with one adapter, `Ethernet`, at 192.0.2.10/24.
    pub fn with_ethernet() -> Self {
        let adapter = Adapter {
            name: "Ethernet".into(),
            interface: "eth0".into(),
            index: 2,
            mac: MacAddress([0x00, 0x15, 0x5d, 0, 0, 1]),
            addresses: "192.0.2.10/24".parse().into_iter().collect(),
        };
        Self { adapters: vec![adapter], ..Self::default() }
    }
}

impl Machine for FakeMachine {
    fn adapters(&self) -> Vec<Adapter> {
        self.adapters.clone()
    }

    fn port_in_use(&self, protocol: u8, port: u16) -> bool {
        self.ports.contains(&(protocol, port))
    }

    fn dns(&self) -> Dns {
        self.dns.clone()
    }

    fn now_filetime(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::Relaxed)
    }
}
