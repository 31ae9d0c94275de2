//! The machine hnsd runs on, and adapters that exist only by its options.

use std::fmt;
use std::str::FromStr;

use hcn::base::Dns;
use hns::machine::{Adapter, Machine};
use host::adapter::HostAdapter;
use ipnet::IpNet;
use wire::MacAddress;

/// An adapter as `--adapter` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdapterSpec {
    /// `NAME=INTERFACE`: an interface of the machine under the name that documents use.
    Interface {
        /// The name in documents, such as `Ethernet`.
        name: String,
        /// The machine's name, such as `eth0`.
        interface: String,
    },
    /// `NAME,ip=PREFIX,mac=MAC`: an adapter that exists only here.
    Virtual {
        /// The name in documents.
        name: String,
        /// Its addresses.
        addresses: Vec<IpNet>,
        /// Its Ethernet address.
        mac: MacAddress,
    },
}

/// The text is no adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseAdapterError(String);

impl fmt::Display for ParseAdapterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; write NAME=INTERFACE, or NAME,ip=192.0.2.10/24,mac=00-15-5D-00-00-01", self.0)
    }
}

impl std::error::Error for ParseAdapterError {}

impl FromStr for AdapterSpec {
    type Err = ParseAdapterError;

    fn from_str(text: &str) -> Result<Self, ParseAdapterError> {
        let mut parts = text.split(',');
        let name = parts.next().unwrap_or_default();
        if let Some((name, interface)) = name.split_once('=') {
            if name.is_empty() || interface.is_empty() || parts.next().is_some() {
                return Err(ParseAdapterError(format!("{text:?} is no adapter")));
            }
            return Ok(Self::Interface { name: name.into(), interface: interface.into() });
        }
        if name.is_empty() {
            return Err(ParseAdapterError("the adapter has no name".into()));
        }
        let (mut addresses, mut mac) = (Vec::new(), None);
        for part in parts {
            match part.split_once('=') {
                Some(("ip", value)) => addresses.push(value.parse().map_err(|_| ParseAdapterError(format!("{value:?} is no prefix")))?),
                Some(("mac", value)) => mac = Some(value.parse().map_err(|_| ParseAdapterError(format!("{value:?} is no MAC address")))?),
                _ => return Err(ParseAdapterError(format!("{part:?} is neither ip= nor mac="))),
            }
        }
        if addresses.is_empty() {
            return Err(ParseAdapterError(format!("the adapter {name:?} has no address")));
        }
        Ok(Self::Virtual { name: name.into(), addresses, mac: mac.unwrap_or(MacAddress([0x02, 0, 0, 0, 0, 1])) })
    }
}

/// The machine: its adapters, sockets and clock.
#[derive(Debug)]
pub(super) struct HostMachine {
    specs: Vec<AdapterSpec>,
}

impl HostMachine {
    pub(super) fn new(specs: Vec<AdapterSpec>) -> Self {
        Self { specs }
    }
}

impl Machine for HostMachine {
    fn adapters(&self) -> Vec<Adapter> {
        let real = host::adapter::list();
        if self.specs.is_empty() {
            return real.iter().map(|adapter| named(adapter, &adapter.name)).collect();
        }
        let adapter = |(number, spec): (usize, &AdapterSpec)| match spec {
            AdapterSpec::Interface { name, interface } => {
                real.iter().find(|adapter| adapter.name == *interface).map(|adapter| named(adapter, name))
            }
            AdapterSpec::Virtual { name, addresses, mac } => Some(Adapter {
                name: name.clone(),
                interface: name.clone(),
                index: VIRTUAL_INDEX + u32::try_from(number).unwrap_or_default(),
                mac: *mac,
                addresses: addresses.clone(),
            }),
        };
        self.specs.iter().enumerate().filter_map(adapter).collect()
    }

    fn port_in_use(&self, protocol: u8, port: u16) -> bool {
        host::port::in_use(protocol, port)
    }

    fn dns(&self) -> Dns {
        let (server_list, search) = host::resolver::settings();
        Dns { server_list, search, ..Dns::default() }
    }

    fn now_filetime(&self) -> u64 {
        host::clock::filetime_now()
    }
}

/// Numbers of virtual adapters begin far above those of real ones.
const VIRTUAL_INDEX: u32 = 1 << 16;

fn named(adapter: &HostAdapter, name: &str) -> Adapter {
    Adapter {
        name: name.to_owned(),
        interface: adapter.name.clone(),
        index: adapter.index,
        mac: adapter.mac,
        addresses: adapter.addresses.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_as_options_write_them() {
        let interface = AdapterSpec::Interface { name: "Ethernet".into(), interface: "eth0".into() };
        assert_eq!("Ethernet=eth0".parse(), Ok(interface));
        let spec: AdapterSpec = "Ethernet,ip=192.0.2.10/24,mac=00-15-5D-00-00-01".parse().unwrap();
        assert!(matches!(spec, AdapterSpec::Virtual { addresses, .. } if addresses.len() == 1));
        for bad in ["", "=eth0", "Ethernet", "Ethernet,ip=x", "Ethernet,speed=1", "a=b,ip=1.2.3.4/8"] {
            assert!(bad.parse::<AdapterSpec>().is_err(), "{bad}");
        }
    }
}
