//! What a fabric is told in its file.

use std::fmt;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer};
use wire::MacAddress;

/// A fabric: its links, routes and rules.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The hardware address that it answers every question with.
    #[serde(default = "default_mac", deserialize_with = "mac")]
    pub mac: MacAddress,
    /// A link for each node.
    pub links: Vec<Link>,
    /// Further prefixes, such as what is outside.
    #[serde(default)]
    pub routes: Vec<Route>,
    /// Which packets pass; those that no rule is about do.
    #[serde(default)]
    pub rules: Vec<Rule>,
}

/// A link to a node.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The interface of this machine that it is.
    pub interface: String,
    /// The node's hardware address; learned if it is left out.
    #[serde(default, deserialize_with = "optional_mac")]
    pub mac: Option<MacAddress>,
    /// The addresses of the node and of its pods.
    #[serde(default)]
    pub addresses: Vec<IpNet>,
}

/// A prefix behind a link.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The prefix.
    pub prefix: IpNet,
    /// The interface of the link.
    pub link: String,
}

/// What happens to packets that a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum RuleAction {
    /// They pass.
    Allow,
    /// They are dropped.
    Block,
}

/// A rule about which packets pass.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What it is known by.
    pub name: String,
    /// What happens.
    pub action: RuleAction,
    /// Its precedence; lower is earlier.
    pub priority: u16,
    /// Protocol numbers; all if empty.
    #[serde(default)]
    pub protocols: Vec<u8>,
    /// Source prefixes; all if empty.
    #[serde(default)]
    pub sources: Vec<IpNet>,
    /// Destination prefixes; all if empty.
    #[serde(default)]
    pub destinations: Vec<IpNet>,
    /// Destination ports or ranges, such as `80` or `8000-8100`; all if empty.
    #[serde(default)]
    pub ports: Vec<String>,
}

/// A file that makes no fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// The address that Azure's fabric answers with.
fn default_mac() -> MacAddress {
    MacAddress([0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc])
}

fn mac<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MacAddress, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| serde::de::Error::custom(format!("{text:?} is no MAC address")))
}

fn optional_mac<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<MacAddress>, D::Error> {
    mac(deserializer).map(Some)
}

impl Config {
    /// Checks what the shape of the file does not say.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.links.is_empty() {
            return Err(ConfigError(
                "links: a fabric needs at least one; write `links: [{interface: eth0, addresses: [10.0.0.4/32]}]`".into(),
            ));
        }
        let known = |name: &str| self.links.iter().filter(|link| link.interface == name).count();
        if let Some(link) = self.links.iter().find(|link| known(&link.interface) > 1) {
            return Err(ConfigError(format!("links: {} is there twice; each node has a link of its own", link.interface)));
        }
        if let Some(route) = self.routes.iter().find(|route| known(&route.link) == 0) {
            return Err(ConfigError(format!("routes: {} goes by {}, which is none of the links", route.prefix, route.link)));
        }
        self.rules.iter().try_for_each(|rule| rule.port_ranges().map(drop))
    }
}

impl Rule {
    /// The ports as ranges.
    pub fn port_ranges(&self) -> Result<Vec<RangeInclusive<u16>>, ConfigError> {
        let wrong = |text: &str| ConfigError(format!("rules: {}: {text:?} is no port and no range; write 80 or 8000-8100", self.name));
        let port = |text: &str, whole: &str| text.trim().parse::<u16>().map_err(|_| wrong(whole));
        let range = |text: &String| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let (first, last) = (port(first, text)?, port(last, text)?);
            if first <= last { Ok(first..=last) } else { Err(wrong(text)) }
        };
        self.ports.iter().map(range).collect()
    }
}
