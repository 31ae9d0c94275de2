//! The NIC in a Linux namespace, which is the proof that the switch has done what HNS promised.
//!
//! HNS keeps what it is told also while its switch is away, and the switch catches up later. A container cannot wait for that.

use crate::error::Result;
#[cfg(not(target_os = "linux"))]
use crate::result::IpConfig;

#[cfg(target_os = "linux")]
pub(super) use linux::{await_up, differences};

/// Elsewhere namespaces have no paths.
#[cfg(not(target_os = "linux"))]
pub(super) fn await_up(_path: &str, _name: &str) -> Result<()> {
    Ok(())
}

/// Elsewhere namespaces have no paths.
#[cfg(not(target_os = "linux"))]
pub(super) fn differences(_path: &str, _name: &str, _mac: &str, _ips: &[&IpConfig]) -> Vec<String> {
    Vec::new()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::path::Path;
    use std::thread;
    use std::time::{Duration, Instant};

    use host::netlink::{Link, Netlink};

    use super::Result;
    use crate::error::Error;
    use crate::result::IpConfig;

    /// A NIC is there when HNS answers, unless the switch is away.
    const PATIENCE: Duration = Duration::from_secs(3);
    const PAUSE: Duration = Duration::from_millis(20);

    /// Returns when the NIC is there and up.
    pub(in crate::hns) fn await_up(path: &str, name: &str) -> Result<()> {
        let unreadable = |error: String| {
            Error::invalid_netns(format!("CNI_NETNS: {path} cannot be looked into: {error}"))
                .details("name the file of a network namespace, and run as root")
        };
        let netlink = open(path).map_err(unreadable)?;
        let start = Instant::now();
        loop {
            let link = netlink.link_by_name(name).map_err(|error| unreadable(error.to_string()))?;
            if link.is_some_and(|link| link.up) {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                return Err(Error::try_again_later(format!("the switch has made no NIC {name} in {path}"))
                    .details("see whether vswitchd runs, and the log of hnsd for what it could not do"));
            }
            thread::sleep(PAUSE);
        }
    }

    fn open(path: &str) -> Result<Netlink, String> {
        let namespace = host::namespace::open(Path::new(path)).map_err(|error| error.to_string())?;
        Netlink::open_in(&namespace).map_err(|error| error.to_string())
    }

    /// What is not as it should be in the namespace: the NIC with its hardware address, in either spelling, and its addresses.
    pub(in crate::hns) fn differences(path: &str, name: &str, mac: &str, ips: &[&IpConfig]) -> Vec<String> {
        let found = open(path).and_then(|netlink| {
            let link = netlink.link_by_name(name).map_err(|error| error.to_string())?;
            link.map_or(Ok(vec![format!("there is no NIC {name} in {path}")]), |link| compare(&netlink, &link, mac, ips))
        });
        found.unwrap_or_else(|error| vec![format!("{path} cannot be looked into: {error}")])
    }

    fn compare(netlink: &Netlink, link: &Link, mac: &str, ips: &[&IpConfig]) -> Result<Vec<String>, String> {
        let name = &link.name;
        let mut differences = Vec::new();
        if !link.up {
            differences.push(format!("the NIC {name} is down"));
        }
        if !crate::hns::check::is_same_mac(&link.mac.to_string(), mac) {
            differences.push(format!("the NIC {name} has the MAC address {}, not {mac}", link.mac));
        }
        let addresses = netlink.addresses(link.index).map_err(|error| error.to_string())?;
        let routes = netlink.routes(link.index).map_err(|error| error.to_string())?;
        for ip in ips {
            let address = ip.address.addr();
            if !addresses.iter().any(|found| found.network.addr() == address) {
                differences.push(format!("the NIC {name} has no address {address}"));
            }
            let Some(gateway) = ip.gateway else { continue };
            let leads_there = |route: &host::netlink::Route| {
                route.destination.prefix_len() == 0 && route.hops.iter().any(|hop| hop.gateway == Some(gateway))
            };
            if link.up && !routes.iter().any(leads_there) {
                differences.push(format!("the NIC {name} has no default route by {gateway}"));
            }
        }
        Ok(differences)
    }
}
