//! Network address translation by the kernel: one way out for many, and ports of the node that lead inside.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::{IpNet, Ipv4Net};

use super::batch::Family;
use super::error::NftError;
use super::expression::{Side, Steps};
use super::table::{Chain, Table};

const PREROUTING: u32 = 0;
const OUTPUT: u32 = 3;
const POSTROUTING: u32 = 4;

/// Where other programs expect destinations and sources to be changed (`dstnat` and `srcnat`).
const DESTINATION_PRIORITY: i32 = -100;
const SOURCE_PRIORITY: i32 = 100;

/// A prefix whose packets leave with the node's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Masquerade {
    /// The inner prefix.
    pub prefix: IpNet,
    /// The interface behind which it is. What leaves by it keeps its source.
    pub interface: String,
}

/// A transport port of the node that leads to another address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortMapping {
    /// The IP protocol: 6 for TCP, 17 for UDP, 132 for SCTP.
    pub protocol: u8,
    /// The address it is at; none for every address of the node but the loopback's.
    pub external: Option<IpAddr>,
    /// The transport port it is at.
    pub external_port: u16,
    /// Where it leads. Of the same family as the external address.
    pub internal: SocketAddr,
}

/// Everything one translation does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TranslationRules {
    /// The way out.
    pub masquerades: Vec<Masquerade>,
    /// The ways in. The first that matches counts.
    pub mappings: Vec<PortMapping>,
}

/// The translation, for as long as this value lives. Connections that it began stay translated until they end.
#[derive(Debug)]
pub struct Translation {
    table: Table,
}

impl Translation {
    /// Begins to translate in the calling thread's namespace. The name is that of the table, after `transom-`.
    ///
    /// The kernel must forward packets for it to have an effect on others than the node itself (`ipv4.ip_forward`).
    pub fn install(name: &str, rules: &TranslationRules) -> Result<Self, NftError> {
        let chains = vec![
            chain("prerouting", PREROUTING, DESTINATION_PRIORITY),
            chain("output", OUTPUT, DESTINATION_PRIORITY),
            chain("postrouting", POSTROUTING, SOURCE_PRIORITY),
        ];
        let table = Table::create(Family::Inet, format!("transom-{name}"), chains, &compiled(rules))?;
        Ok(Self { table })
    }

    /// Translates by other rules from now on, at one instant.
    pub fn update(&mut self, rules: &TranslationRules) -> Result<(), NftError> {
        self.table.replace(&compiled(rules))
    }
}

fn chain(name: &'static str, hook: u32, priority: i32) -> Chain {
    Chain { name, kind: "nat", hook, priority, device: None, drops: false }
}

/// The rules of each chain, in the chains' order.
fn compiled(rules: &TranslationRules) -> [Vec<Steps>; 3] {
    let inward: Vec<Steps> = rules.mappings.iter().map(inward).collect();
    let mut outward: Vec<Steps> = rules.masquerades.iter().map(hairpin).collect();
    outward.extend(rules.masquerades.iter().map(outward_of));
    [inward.clone(), inward, outward]
}

fn inward(mapping: &PortMapping) -> Steps {
    let steps = Steps::new().family_of(mapping.internal.ip()).transport(mapping.protocol).destination_port(mapping.external_port);
    let steps = match mapping.external {
        Some(address) => steps.address(Side::Destination, address),
        // What programs of the node say to each other by the loopback is nobody else's, and could not leave it with that source.
        None => steps.destined_here().outside(Side::Destination, loopback(mapping.internal.ip())),
    };
    steps.redirect(mapping.internal.ip(), mapping.internal.port())
}

fn loopback(family: IpAddr) -> IpNet {
    match family {
        IpAddr::V4(_) => Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8).into(),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST).into(),
    }
}

fn outward_of(masquerade: &Masquerade) -> Steps {
    Steps::new()
        .family_of(masquerade.prefix.addr())
        .within(Side::Source, masquerade.prefix)
        .outside(Side::Destination, masquerade.prefix)
        .leaves_not_by(&masquerade.interface)
        .masquerade()
}

/// One inside reaches another by a port of the node: the answer must come back through the node to be translated back, and would
/// go directly if it saw the true source.
fn hairpin(masquerade: &Masquerade) -> Steps {
    Steps::new()
        .family_of(masquerade.prefix.addr())
        .within(Side::Source, masquerade.prefix)
        .within(Side::Destination, masquerade.prefix)
        .leaves_by(&masquerade.interface)
        .redirected()
        .masquerade()
}
