//! What host-local reads of a call: ranges, addresses asked for, and what it passes on.

use std::net::IpAddr;
use std::path::PathBuf;

use ipnet::IpNet;
use serde_json::Value;

use super::range::{Range, RangeSet};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::object::{self, Object, quote};
use crate::plugin::Call;
use crate::result::Route;
use crate::version::Version;

/// Where the files are unless `dataDir` says otherwise; on Windows on the current drive.
const DATA_DIRECTORY: &str = "/var/lib/cni/networks";

/// Everything that ADD needs to know.
#[derive(Debug)]
pub(super) struct Settings {
    /// Where the files of the network are.
    pub(super) directory: PathBuf,
    /// A container gets an address from each of them.
    pub(super) sets: Vec<RangeSet>,
    /// Addresses that were asked for.
    pub(super) requested: Vec<IpAddr>,
    /// For the result.
    pub(super) routes: Vec<Route>,
    /// The file to take name resolution from; empty for none.
    pub(super) resolv_conf: String,
}

impl Settings {
    /// Reads and checks them all.
    pub(super) fn read(call: &Call<'_>) -> Result<Self> {
        let config = &call.config;
        let ipam = ipam(config)?;
        Ok(Self {
            directory: directory(config)?,
            sets: range_sets(config, &ipam)?,
            requested: requested(call)?,
            routes: ipam.objects("routes")?.iter().map(Route::read).collect::<Result<_>>()?,
            resolv_conf: ipam.text("resolvConf")?,
        })
    }
}

/// The directory with the network's files. The name of a network is never a path.
pub(super) fn directory(config: &Config) -> Result<PathBuf> {
    let data = match ipam(config)?.text("dataDir")?.as_str() {
        "" => PathBuf::from(DATA_DIRECTORY),
        data => PathBuf::from(data),
    };
    Ok(data.join(config.name()))
}

fn ipam(config: &Config) -> Result<Object<'_>> {
    let missing = || {
        Error::invalid_network_config("IPAM config missing 'ipam' key").details("add \"ipam\": {\"type\": \"host-local\", \"ranges\": …}")
    };
    config.ipam()?.ok_or_else(missing)
}

/// The runtime's ranges, then the one that stands in `ipam` itself, then the lists.
fn range_sets(config: &Config, ipam: &Object<'_>) -> Result<Vec<RangeSet>> {
    let mut sets: Vec<RangeSet> = config.ip_ranges()?.into_iter().map(range_set).collect::<Result<_>>()?;
    if ipam.value("subnet").is_some() {
        sets.push(RangeSet::new(vec![Range::read(ipam)?], "ipam")?);
    }
    for set in ipam.list("ranges")? {
        sets.push(range_set(set)?);
    }
    if sets.is_empty() {
        return Err(Error::invalid_network_config("no IP ranges specified").details("set ipam.subnet or ipam.ranges"));
    }
    check_families(config, &sets)?;
    check_overlaps(&sets)?;
    Ok(sets)
}

fn range_set((path, value): (String, &Value)) -> Result<RangeSet> {
    let elements = match value {
        Value::Null => Vec::new(),
        value => object::list(value, &path)?,
    };
    let ranges = elements.into_iter().map(|(path, value)| Range::read(&Object::read(value, path)?));
    RangeSet::new(ranges.collect::<Result<_>>()?, &path)
}

/// Results of before 0.3.0 have room for one address of each family.
fn check_families(config: &Config, sets: &[RangeSet]) -> Result<()> {
    let ipv4 = sets.iter().filter(|set| set.is_ipv4()).count();
    if ipv4.max(sets.len() - ipv4) <= 1 || config.number()? >= Version::V0_3_0.number() {
        return Ok(());
    }
    Err(Error::invalid_network_config(format!("CNI version {} does not support more than 1 address per family", config.answer_version()))
        .details("set cniVersion to 0.3.0 or later, or leave one range set for each family"))
}

fn check_overlaps(sets: &[RangeSet]) -> Result<()> {
    for (index, one) in sets.iter().enumerate() {
        if let Some(other) = sets[index + 1..].iter().position(|other| one.overlaps(other)) {
            let other = index + 1 + other;
            return Err(Error::invalid_network_config(format!("range set {index} overlaps with {other}: {one} and {}", sets[other]))
                .details("sets are counted from 0, those of runtimeConfig.ipRanges first; make them apart"));
        }
    }
    Ok(())
}

/// The addresses that were asked for in any of the three ways, each once.
fn requested(call: &Call<'_>) -> Result<Vec<IpAddr>> {
    let args = call.environment.args()?;
    args.require_known(&["IP"])?;
    let mut requested = Vec::new();
    if let Some(text) = args.get("IP").filter(|text| !text.is_empty()) {
        let address = parse(text).ok_or_else(|| Error::invalid_environment(format!("CNI_ARGS: IP is {}", quote(text))).details(EXAMPLE))?;
        requested.push(address);
    }
    let of_args = call.config.args()?.map_or(Ok(Vec::new()), |args| args.list("ips"))?;
    for (path, value) in of_args.into_iter().chain(call.config.runtime_ips()?) {
        let text = object::text(value, &path)?;
        let refused = || Error::invalid_network_config(format!("{path}: cannot understand ip: {}", quote(&text))).details(EXAMPLE);
        let address = parse(&text).ok_or_else(refused)?;
        if !requested.contains(&address) {
            requested.push(address);
        }
    }
    Ok(requested)
}

const EXAMPLE: &str = "write an address such as 10.244.1.7 or 10.244.1.7/24";

/// An address, of which the length of a prefix may be told.
fn parse(text: &str) -> Option<IpAddr> {
    let address = match text.contains('/') {
        true => text.parse::<IpNet>().ok()?.addr(),
        false => text.parse::<IpAddr>().ok()?,
    };
    Some(address.to_canonical())
}
