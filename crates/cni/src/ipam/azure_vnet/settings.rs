//! What azure-vnet-ipam reads of a call.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::http::Url;
use super::pool::Wish;
use super::source::Source;
use super::store::Place;
use crate::error::{Error, Result};
use crate::object::{Object, quote};
use crate::plugin::Call;

/// The host agent, at an address that is the same on every machine of that cloud.
const URL: &str = "http://168.63.129.16/machine/plugins?comp=nmagent&type=getinterfaceinfov1";
const FILE: &str = if cfg!(windows) { r"c:\k\interfaces.json" } else { "/etc/kubernetes/interfaces.json" };
/// Where state and lock are; on Windows in the directory that the runtime runs in.
const STATE_DIRECTORY: &str = if cfg!(windows) { "" } else { "/var/run" };
const LOCK_DIRECTORY: &str = if cfg!(windows) { "" } else { "/var/run/azure-vnet" };
const LOCK_TIME_LIMIT: Duration = Duration::from_secs(if cfg!(windows) { 60 } else { 30 });

/// Everything that a call needs to know.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) source: Source,
    pub(super) place: Place,
    pub(super) wish: Wish,
}

impl Settings {
    /// For pools of IPv6, or of IPv4.
    pub(super) fn read(call: &Call<'_>, ipv6: bool) -> Result<Self> {
        let missing = || Error::invalid_network_config("ipam is missing").details("set ipam.type to azure-vnet-ipam");
        let ipam = call.config.ipam()?.ok_or_else(missing)?;
        let space = ipam.text("addressSpace")?;
        if !matches!(space.as_str(), "" | "local") {
            return Err(Error::unsupported_field(format!("ipam.addressSpace: there is no address space {}", quote(&space)))
                .details("leave the key out; there is one, local"));
        }
        Ok(Self { source: source(&ipam)?, place: place(&ipam)?, wish: Wish { ipv6, ..wish(call, &ipam)? } })
    }
}

fn source(ipam: &Object<'_>) -> Result<Source> {
    match ipam.text("environment")?.as_str() {
        "" | "azure" => {
            let text = text_or(ipam, "url", URL)?;
            let url = Url::parse(&text).map_err(|why| {
                Error::invalid_network_config(format!("ipam.url: {} cannot be asked: {why}", quote(&text)))
                    .details("write one such as http://168.63.129.16/machine/plugins")
            })?;
            Ok(Source::HostAgent(text, url))
        }
        "mas" | "fileIpam" => Ok(Source::File(text_or(ipam, "file", FILE)?.into())),
        "null" => Ok(Source::Null),
        "ipv6NodeIpam" => Err(Error::unsupported_field("ipam.environment: \"ipv6NodeIpam\" is not supported")
            .details("give IPv6 addresses out with host-local: set ipam.type to host-local and ipam.ranges to the node's podCIDR")),
        other => Err(Error::invalid_network_config(format!("ipam.environment: there is no {}", quote(other)))
            .details("use one of azure, mas, fileIpam, null")),
    }
}

fn place(ipam: &Object<'_>) -> Result<Place> {
    let own = ipam.text("stateDir")?;
    let (state, lock) = if own.is_empty() { (STATE_DIRECTORY, LOCK_DIRECTORY) } else { (own.as_str(), own.as_str()) };
    let path = |directory: &str, name: &str| PathBuf::from(directory).join(name);
    Ok(Place { state: path(state, "azure-vnet-ipam.json"), lock: path(lock, "azure-vnet-ipam.lock"), time_limit: LOCK_TIME_LIMIT })
}

fn wish(call: &Call<'_>, ipam: &Object<'_>) -> Result<Wish> {
    // Pools and addresses are found by their texts, so that there must be one text for each.
    let pool = match ipam.text("subnet")?.is_empty() {
        true => None,
        false => ipam.prefix("subnet")?.map(|subnet| subnet.trunc().to_string()),
    };
    Ok(Wish {
        container_id: call.environment.container_id.clone(),
        network: call.config.name().to_owned(),
        pool,
        ipv6: false,
        master: call.config.root().text("master")?,
        address: ipam.address("ipAddress")?.as_ref().map_or(String::new(), IpAddr::to_string),
    })
}

fn text_or(ipam: &Object<'_>, key: &str, default: &str) -> Result<String> {
    let text = ipam.text(key)?;
    Ok(if text.is_empty() { default.to_owned() } else { text })
}
