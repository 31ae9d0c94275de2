//! `subnet.env`: what flanneld says about this node, as lines `NAME=value`.

use std::path::Path;

use ipnet::IpNet;

use crate::error::{Error, Result};
use crate::file;
use crate::object::quote;

/// flanneld writes six short lines.
const LIMIT: u64 = 64 << 10;

/// What flanneld says about this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubnetEnv {
    /// FLANNEL_NETWORK: the IPv4 networks of all pods.
    pub networks: Vec<IpNet>,
    /// FLANNEL_SUBNET: the IPv4 subnet of this node.
    pub subnet: Option<IpNet>,
    /// FLANNEL_IPV6_NETWORK: the IPv6 networks of all pods.
    pub ipv6_networks: Vec<IpNet>,
    /// FLANNEL_IPV6_SUBNET: the IPv6 subnet of this node.
    pub ipv6_subnet: Option<IpNet>,
    /// FLANNEL_IPMASQ.
    pub ip_masq: bool,
}

/// The lines as they are found, until it is known that none is missing.
#[derive(Default)]
struct Lines {
    env: SubnetEnv,
    mtu: bool,
    ip_masq: Option<bool>,
}

impl SubnetEnv {
    /// Reads the file. That it is not there, or not whole, may change any moment.
    pub fn load(path: &Path) -> Result<Self> {
        let shown = path.display();
        let content =
            file::read(path, LIMIT).map_err(|error| Error::io_failure(format!("reading {shown} failed: {error}")).details(REMEDY))?;
        let missing = || Error::try_again_later(format!("{shown} is not there")).details(REMEDY);
        Self::parse(&String::from_utf8_lossy(&content.ok_or_else(missing)?)).map_err(|error| error.context(shown))
    }

    /// Reads the text.
    pub fn parse(text: &str) -> Result<Self> {
        let mut lines = Lines::default();
        for line in text.lines() {
            let (name, value) = line.split_once('=').unwrap_or((line, ""));
            lines.take(name.trim(), value.trim())?;
        }
        lines.done()
    }

    /// The networks of all pods, IPv4 first.
    pub fn all_networks(&self) -> impl Iterator<Item = IpNet> {
        self.networks.iter().chain(&self.ipv6_networks).copied()
    }
}

impl Lines {
    fn take(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "FLANNEL_NETWORK" => self.env.networks = prefixes(name, value)?,
            "FLANNEL_IPV6_NETWORK" => self.env.ipv6_networks = prefixes(name, value)?,
            "FLANNEL_SUBNET" => self.env.subnet = Some(prefix(name, value)?),
            "FLANNEL_IPV6_SUBNET" => self.env.ipv6_subnet = Some(prefix(name, value)?),
            "FLANNEL_MTU" => {
                let _: u32 = value.parse().map_err(|_| refuse(name, value, "is no number"))?;
                self.mtu = true;
            }
            "FLANNEL_IPMASQ" => {
                self.ip_masq = Some(value.parse().map_err(|_| refuse(name, value, "is neither true nor false"))?);
            }
            _ => {}
        }
        Ok(())
    }

    fn done(self) -> Result<SubnetEnv> {
        let env = self.env;
        let lines = [
            (env.networks.is_empty() && env.ipv6_networks.is_empty(), "FLANNEL_NETWORK, FLANNEL_IPV6_NETWORK"),
            (env.subnet.is_none() && env.ipv6_subnet.is_none(), "FLANNEL_SUBNET, FLANNEL_IPV6_SUBNET"),
            (!self.mtu, "FLANNEL_MTU"),
            (self.ip_masq.is_none(), "FLANNEL_IPMASQ"),
        ];
        let missing: Vec<&str> = lines.iter().filter(|(missing, _)| *missing).map(|(_, names)| *names).collect();
        match missing.is_empty() {
            true => Ok(SubnetEnv { ip_masq: self.ip_masq.unwrap_or_default(), ..env }),
            false => Err(Error::try_again_later(format!("is missing {}", missing.join(", "))).details(REMEDY)),
        }
    }
}

const REMEDY: &str = "flanneld writes it when it has a subnet for this node: check that flanneld runs, and its log; \
                      if it writes elsewhere, set subnetFile";

fn refuse(name: &str, value: &str, why: &str) -> Error {
    Error::invalid_network_config(format!("{name}: {} {why}", quote(value))).details(REMEDY)
}

/// A prefix without its host bits: flanneld writes the node's own address in its subnet.
fn prefix(name: &str, value: &str) -> Result<IpNet> {
    let parsed: IpNet = value.parse().map_err(|_| refuse(name, value, "is no prefix"))?;
    let ipv6 = matches!(parsed, IpNet::V6(_));
    match ipv6 == name.contains("IPV6") {
        true => Ok(parsed.trunc()),
        false => Err(refuse(name, value, if ipv6 { "is not IPv4" } else { "is not IPv6" })),
    }
}

fn prefixes(name: &str, value: &str) -> Result<Vec<IpNet>> {
    let mut prefixes = Vec::new();
    for text in value.split(',') {
        let prefix = prefix(name, text.trim())?;
        if !prefixes.contains(&prefix) {
            prefixes.push(prefix);
        }
    }
    Ok(prefixes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WHOLE: &str = "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n";

    fn parse(text: &str) -> Result<SubnetEnv, String> {
        SubnetEnv::parse(text).map_err(|error| error.msg)
    }

    #[test]
    fn host_bits_are_dropped_and_doubles_too() {
        let env = parse(&WHOLE.replace("10.244.0.0/16", "10.244.0.0/16,10.9.1.1/8,10.244.3.0/16").replace('\n', "\r\n")).unwrap();
        assert_eq!(env.networks, ["10.244.0.0/16".parse().unwrap(), "10.0.0.0/8".parse().unwrap()]);
        assert_eq!(env.subnet, Some("10.244.1.0/24".parse().unwrap()));
        assert!(env.ip_masq);
    }

    #[test]
    fn every_line_that_is_missing_is_named() {
        assert_eq!(
            parse("").unwrap_err(),
            "is missing FLANNEL_NETWORK, FLANNEL_IPV6_NETWORK, FLANNEL_SUBNET, FLANNEL_IPV6_SUBNET, FLANNEL_MTU, FLANNEL_IPMASQ"
        );
        // The file is overwritten in place on Windows, so that any beginning of it may be all there is.
        for length in 0..WHOLE.len() - 1 {
            assert!(parse(&WHOLE[..length]).is_err(), "{}", &WHOLE[..length]);
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (from, to, message) in [
            ("10.244.1.1/24", "10.244.1.1", "FLANNEL_SUBNET: \"10.244.1.1\" is no prefix"),
            ("10.244.0.0/16", "fd00::/64", "FLANNEL_NETWORK: \"fd00::/64\" is not IPv4"),
            ("1450", "-1", "FLANNEL_MTU: \"-1\" is no number"),
            ("true", "yes", "FLANNEL_IPMASQ: \"yes\" is neither true nor false"),
            ("FLANNEL_MTU=", "FLANNEL_MTU", "is missing FLANNEL_MTU"),
        ] {
            assert_eq!(parse(&WHOLE.replace(from, to)).unwrap_err(), message);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(FLANNEL_(IPV6_)?(NETWORK|SUBNET)=.{0,8}|FLANNEL_MTU=.{0,3}|.{0,12}|\n){0,8}") {
            let _ = SubnetEnv::parse(&text);
        }
    }
}
