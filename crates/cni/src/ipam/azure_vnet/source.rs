//! Where pools come from: the host agent's XML over HTTP, a file in the same shape as JSON, or nowhere.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use host::interface::Interface;
use ipnet::IpNet;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use serde_json::Value;

use super::http::{self, Url};
use super::pool::Pool;
use crate::error::{Error, Result};
use crate::file;
use crate::object::{Object, quote};

/// A file with the addresses of a machine has some hundred of them.
const FILE_LIMIT: u64 = 8 << 20;

/// A source of pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The host agent.
    HostAgent(String, Url),
    /// A file.
    File(PathBuf),
    /// One pool that has everything in it and no address to give.
    Null,
}

/// What a source says about one interface of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Listed {
    mac: String,
    primary: bool,
    subnets: Vec<(IpNet, Vec<IpAddr>)>,
}

impl Source {
    /// The pools of the interfaces that are here.
    pub(super) fn pools(&self, here: &[Interface]) -> Result<BTreeMap<String, Pool>> {
        let listed = match self {
            Self::HostAgent(text, url) => {
                let body = http::get(url).map_err(|error| {
                    Error::try_again_later(format!("asking the host agent at {text} failed: {error}"))
                        .details("check that this machine reaches it, or set ipam.url")
                })?;
                read_xml(&String::from_utf8_lossy(&body)).map_err(|error| error.context(format!("the host agent at {text}")))?
            }
            Self::File(path) => read_file(path)?,
            Self::Null => return Ok(BTreeMap::from([Pool::new(IpNet::default(), "", 0, Vec::new())])),
        };
        pools(&listed, here)
    }
}

/// The pools of a host agent's list.
pub(super) fn read(xml: &str, here: &[Interface]) -> Result<BTreeMap<String, Pool>> {
    pools(&read_xml(xml)?, here)
}

/// The pools of what is listed and here. The first that has a subnet keeps it.
fn pools(listed: &[Listed], here: &[Interface]) -> Result<BTreeMap<String, Pool>> {
    let mut pools = BTreeMap::new();
    for interface in listed {
        let Some(name) = here.iter().find(|here| interface.mac == "*" || interface.mac == hex(here.mac)).map(|here| &here.name) else {
            continue;
        };
        let priority = if interface.primary { 0 } else { 1 };
        for (subnet, addresses) in &interface.subnets {
            let (id, pool) = Pool::new(*subnet, name, priority, addresses.clone());
            pools.entry(id).or_insert(pool);
        }
    }
    if pools.is_empty() {
        let macs: Vec<&str> = listed.iter().map(|interface| interface.mac.as_str()).collect();
        let ours: Vec<String> = here.iter().map(|interface| format!("{} {}", interface.name, hex(interface.mac))).collect();
        return Err(Error::try_again_later(format!(
            "the source of addresses lists no subnet of an interface of this machine: it lists [{}], here are [{}]",
            quote(&macs.join(" ")),
            ours.join(", ")
        ))
        .details("check that the source is this machine's"));
    }
    Ok(pools)
}

fn hex(mac: [u8; 6]) -> String {
    mac.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// As the source writes it, with or without separators.
fn mac_text(text: &str) -> String {
    text.chars().filter(|character| !matches!(character, ':' | '-')).collect::<String>().to_ascii_lowercase()
}

impl Listed {
    /// Adds a subnet; one that cannot be read is left out, and so are addresses that are no addresses or elsewhere.
    fn add_subnet(&mut self, prefix: &str) {
        // Without it, addresses that follow would be counted among the subnet before.
        let unreadable = IpNet::default();
        self.subnets.push((prefix.trim().parse().map_or(unreadable, |prefix: IpNet| prefix.trunc()), Vec::new()));
    }

    /// Adds an address to the last subnet, unless it is the host's own.
    fn add_address(&mut self, address: &str, primary: bool) {
        let Some((subnet, addresses)) = self.subnets.last_mut() else { return };
        let Ok(address) = address.trim().parse::<IpAddr>() else { return };
        let address = address.to_canonical();
        if !primary && subnet.contains(&address) && !addresses.contains(&address) {
            addresses.push(address);
        }
    }

    fn done(mut self) -> Self {
        self.subnets.retain(|(subnet, _)| subnet.prefix_len() > 0);
        self
    }
}

/// Reads `Interfaces` with `Interface`, `IPSubnet` and `IPAddress` in it, whose attributes are all there is.
fn read_xml(text: &str) -> Result<Vec<Listed>> {
    let mut reader = Reader::from_str(text.trim_start_matches('\u{feff}'));
    let mut listed: Vec<Listed> = Vec::new();
    let mut root = false;
    loop {
        match reader.read_event().map_err(|error| refuse(&error.to_string(), text))? {
            Event::Start(element) | Event::Empty(element) => {
                let name = element.local_name();
                let name: &str = name.as_ref();
                match name {
                    "Interfaces" => root = true,
                    "Interface" => {
                        let (mac, primary) = (attribute(&element, "MacAddress", text)?, flag(&element, text)?);
                        listed.push(Listed { mac: mac_text(&mac), primary, subnets: Vec::new() });
                    }
                    "IPSubnet" => {
                        let prefix = attribute(&element, "Prefix", text)?;
                        listed.iter_mut().next_back().into_iter().for_each(|interface| interface.add_subnet(&prefix));
                    }
                    "IPAddress" => {
                        let (address, primary) = (attribute(&element, "Address", text)?, flag(&element, text)?);
                        listed.iter_mut().next_back().into_iter().for_each(|interface| interface.add_address(&address, primary));
                    }
                    _ => {}
                }
            }
            Event::Eof if root => return Ok(listed.into_iter().map(Listed::done).collect()),
            Event::Eof => return Err(refuse("it has no element Interfaces", text)),
            _ => {}
        }
    }
}

fn refuse(why: &str, text: &str) -> Error {
    Error::decoding_failure(format!("the list of interfaces cannot be read: {why}")).details(format!("it begins with {}", quote(text)))
}

/// The text of an attribute; empty if it is not there.
fn attribute(element: &BytesStart<'_>, name: &str, text: &str) -> Result<String> {
    for attribute in element.attributes() {
        let attribute = attribute.map_err(|error| refuse(&error.to_string(), text))?;
        let key = attribute.key.local_name();
        let key: &str = key.as_ref();
        if key == name {
            let value = attribute.normalized_value(XmlVersion::Implicit1_0).map_err(|error| refuse(&error.to_string(), text))?;
            return Ok(value.into_owned());
        }
    }
    Ok(String::new())
}

fn flag(element: &BytesStart<'_>, text: &str) -> Result<bool> {
    let value = attribute(element, "IsPrimary", text)?;
    Ok(value.eq_ignore_ascii_case("true") || value == "1")
}

fn read_file(path: &Path) -> Result<Vec<Listed>> {
    let shown = path.display();
    let remedy = "write the interfaces there, or set ipam.file";
    let content =
        file::read(path, FILE_LIMIT).map_err(|error| Error::io_failure(format!("reading {shown} failed: {error}")).details(remedy))?;
    let content = content.ok_or_else(|| Error::io_failure(format!("{shown} is not there")).details(remedy))?;
    let document: Value = serde_json::from_slice(&content)
        .map_err(|error| Error::decoding_failure(format!("{shown} is no JSON: {error}")).details(remedy))?;
    Object::read(&document, String::new()).and_then(|root| read_json(&root)).map_err(|error| error.context(shown))
}

fn read_json(root: &Object<'_>) -> Result<Vec<Listed>> {
    let read = |interface: Object<'_>| {
        let mut listed =
            Listed { mac: mac_text(&interface.text("MacAddress")?), primary: interface.flag("IsPrimary")?, subnets: Vec::new() };
        for subnet in interface.objects("IPSubnets")? {
            listed.add_subnet(&subnet.text("Prefix")?);
            for address in subnet.objects("IPAddresses")? {
                listed.add_address(&address.text("Address")?, address.flag("IsPrimary")?);
            }
        }
        Ok(listed.done())
    };
    root.objects("Interfaces")?.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const XML: &str = r#"<Interfaces>
        <Interface MacAddress="000D3A6E1825" IsPrimary="true">
          <IPSubnet Prefix="10.240.0.0/16">
            <IPAddress Address="10.240.0.4" IsPrimary="true"/>
            <IPAddress Address="10.240.0.5" IsPrimary="false"/>
            <IPAddress Address="10.9.0.5" IsPrimary="false"/>
            <IPAddress Address="rubbish" IsPrimary="false"></IPAddress>
          </IPSubnet>
          <IPSubnet Prefix="rubbish"><IPAddress Address="10.240.0.6"/></IPSubnet>
        </Interface>
        <Interface MacAddress="000d3a6e1826"><IPSubnet Prefix="10.241.0.0/16"><IPAddress Address="10.241.0.7"/></IPSubnet></Interface>
        <Interface MacAddress="AAAAAAAAAAAA"><IPSubnet Prefix="10.242.0.0/16"/></Interface>
      </Interfaces>"#;

    const JSON: &str = r#"{"Interfaces":[
        {"MacAddress":"00:0D:3A:6E:18:25","IsPrimary":true,"IPSubnets":[{"Prefix":"10.240.0.0/16","IPAddresses":[
            {"Address":"10.240.0.4","IsPrimary":true},{"Address":"10.240.0.5","IsPrimary":false}]}]},
        {"MacAddress":"000d3a6e1826","IPSubnets":[{"Prefix":"10.241.0.0/16","IPAddresses":[{"Address":"10.241.0.7"}]}]}]}"#;

    fn here() -> Vec<Interface> {
        let interface =
            |name: &str, last| Interface { name: name.to_owned(), mac: [0x00, 0x0d, 0x3a, 0x6e, 0x18, last], addresses: Vec::new() };
        vec![interface("eth0", 0x25), interface("eth1", 0x26)]
    }

    fn summary(listed: &[Listed]) -> String {
        let pools = pools(listed, &here()).unwrap();
        let line = |(id, pool): (&String, &Pool)| {
            let addresses: Vec<&str> = pool.addresses.keys().map(String::as_str).collect();
            format!("{id} {} {} {} [{}]", pool.if_name, pool.priority, pool.gateway, addresses.join(" "))
        };
        pools.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_host_agent_and_the_file_say_the_same() {
        let expected = "10.240.0.0/16 eth0 0 10.240.0.1 [10.240.0.5]\n10.241.0.0/16 eth1 1 10.241.0.1 [10.241.0.7]";
        assert_eq!(summary(&read_xml(XML).unwrap()), expected);
        assert_eq!(summary(&read_xml(&format!("\u{feff}<?xml version=\"1.0\"?>{XML}")).unwrap()), expected);
        let document: Value = serde_json::from_str(JSON).unwrap();
        assert_eq!(summary(&read_json(&Object::read(&document, String::new()).unwrap()).unwrap()), expected);
    }

    #[test]
    fn a_star_is_the_first_interface() {
        let listed = read_xml(r#"<Interfaces><Interface MacAddress="*"><IPSubnet Prefix="10.0.0.0/8"/></Interface></Interfaces>"#).unwrap();
        assert_eq!(summary(&listed), "10.0.0.0/8 eth0 1 10.0.0.1 []");
    }

    #[test]
    fn nothing_of_this_machine_is_an_error() {
        for text in ["<Interfaces/>", r#"<Interfaces><Interface MacAddress="ff"><IPSubnet Prefix="10.0.0.0/8"/></Interface></Interfaces>"#]
        {
            let error = pools(&read_xml(text).unwrap(), &here()).unwrap_err();
            assert!(error.msg.contains("eth0 000d3a6e1825"), "{error}");
        }
    }

    #[test]
    fn what_is_no_list_is_told() {
        for text in ["", "rubbish", "<a/>", "<Interfaces", "<Interfaces></x>", r#"<Interfaces><Interface MacAddress="&x;"/></Interfaces>"#]
        {
            let error = read_xml(text).unwrap_err();
            assert_eq!(error.code, 6, "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(parts in prop::collection::vec("(<(/)?(Interfaces|Interface|IPSubnet|IPAddress) ?|MacAddress=\"\\*\"|Prefix=\".{0,12}\"|/?>|&|.{0,4})", 0..12)) {
            if let Ok(listed) = read_xml(&parts.concat()) {
                let _ = pools(&listed, &here());
            }
        }
    }
}
