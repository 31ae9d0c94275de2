//! `net-conf.json`: the network of all pods and how nodes reach each other.
//!
//! Keys match in any case, as the original reads them. What it would take wrongly is refused here, with the field and a remedy; keys
//! that nobody knows are ignored and listed.

use std::fmt;

use ipnet::IpNet;
use serde_json::{Map, Value};

/// Keys that mean something to the original elsewhere, and nothing with subnets from the cluster.
const ELSEWHERE: [&str; 7] = ["EnableNFTables", "SubnetLen", "SubnetMin", "SubnetMax", "IPv6SubnetLen", "IPv6SubnetMin", "IPv6SubnetMax"];

/// The largest number that a virtual network has.
const VNI_MAX: u64 = (1 << 24) - 1;

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetConf {
    /// The networks of all pods: IPv4, IPv6, or both in this order.
    pub networks: Vec<IpNet>,
    /// How nodes reach each other.
    pub backend: BackendConf,
    /// Keys that nobody knows.
    pub ignored: Vec<String>,
}

/// How nodes reach each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendConf {
    /// Through tunnels.
    Vxlan(VxlanConf),
    /// As each other's gateways, on one link.
    HostGw(HostGwConf),
}

/// Tunnels. What is not said depends on the kind of node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VxlanConf {
    /// The HNS network's name.
    pub name: Option<String>,
    /// The virtual network.
    pub vni: Option<u32>,
    /// The UDP port.
    pub port: Option<u16>,
    /// The MTU of the underlay, unless it is the interface's.
    pub mtu: Option<u32>,
}

/// Gateways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostGwConf {
    /// The HNS network's name.
    pub name: String,
    /// The DNS servers of the HNS network, joined by commas.
    pub dns_servers: String,
}

/// What is wrong with the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetConfError {
    /// Where.
    pub field: String,
    /// What.
    pub cause: String,
    /// What to do.
    pub remedy: String,
}

impl fmt::Display for NetConfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => write!(f, "{}; {}", self.cause, self.remedy),
            field => write!(f, "{field}: {}; {}", self.cause, self.remedy),
        }
    }
}

impl std::error::Error for NetConfError {}

fn wrong(field: &str, cause: impl Into<String>, remedy: &str) -> NetConfError {
    NetConfError { field: field.to_owned(), cause: cause.into(), remedy: remedy.to_owned() }
}

impl BackendConf {
    /// The name under which nodes tell each other of it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Vxlan(_) => "vxlan",
            Self::HostGw(_) => "host-gw",
        }
    }
}

impl NetConf {
    /// Reads the text.
    pub fn parse(text: &str) -> Result<Self, NetConfError> {
        let remedy = r#"write an object such as {"Network":"10.244.0.0/16","Backend":{"Type":"vxlan","VNI":4096,"Port":4789}}"#;
        let value: Value = serde_json::from_str(text).map_err(|error| wrong("", format!("it is no JSON: {error}"), remedy))?;
        let Value::Object(map) = value else { return Err(wrong("", "it is no JSON object", remedy)) };
        let mut fields = Fields { map, within: "" };
        let networks = networks(&mut fields)?;
        let backend = fields.take("Backend");
        ELSEWHERE.iter().for_each(|key| _ = fields.take(key));
        let mut ignored = fields.rest();
        let backend = match backend {
            Some(Value::Object(map)) => backend_conf(Fields { map, within: "Backend." }, &mut ignored)?,
            Some(_) => return Err(wrong("Backend", "it is no object", r#"write {"Type":"vxlan"} or {"Type":"host-gw"}"#)),
            None => return Err(wrong("Backend", "it is missing", r#"write {"Type":"vxlan"} or {"Type":"host-gw"}"#)),
        };
        Ok(Self { networks, backend, ignored })
    }
}

fn networks(fields: &mut Fields) -> Result<Vec<IpNet>, NetConfError> {
    let (v4, v6) = (fields.switch("EnableIPv4", true)?, fields.switch("EnableIPv6", false)?);
    let mut networks = Vec::new();
    for (enabled, key, is_v4) in [(v4, "Network", true), (v6, "IPv6Network", false)] {
        let network = fields.prefix(key, is_v4)?;
        match (enabled, network) {
            (true, None) => {
                let (example, switch) = if is_v4 { ("10.244.0.0/16", "EnableIPv4") } else { ("fd00:244::/48", "EnableIPv6") };
                return Err(wrong(key, "it is missing", &format!("write the pods' network, such as {example}, or set {switch} to false")));
            }
            (true, Some(network)) => networks.push(network),
            (false, _) => {}
        }
    }
    match networks.is_empty() {
        true => Err(wrong("EnableIPv4", "neither IPv4 nor IPv6 is enabled", "enable one of them, or both")),
        false => Ok(networks),
    }
}

fn backend_conf(mut fields: Fields, ignored: &mut Vec<String>) -> Result<BackendConf, NetConfError> {
    let remedy = "write vxlan or host-gw";
    let kind = fields.text("Type")?.ok_or_else(|| wrong("Backend.Type", "it is missing", remedy))?;
    let backend = match kind.to_ascii_lowercase().as_str() {
        "vxlan" => BackendConf::Vxlan(vxlan(&mut fields)?),
        "host-gw" => BackendConf::HostGw(HostGwConf {
            name: fields.text("Name")?.filter(|name| !name.is_empty()).unwrap_or_else(|| "cbr0".to_owned()),
            dns_servers: fields.text("DNSServerList")?.unwrap_or_default(),
        }),
        _ => return Err(wrong("Backend.Type", format!("{kind:?} is not there"), remedy)),
    };
    ignored.extend(fields.rest());
    Ok(backend)
}

fn vxlan(fields: &mut Fields) -> Result<VxlanConf, NetConfError> {
    for key in ["GBP", "DirectRouting"] {
        if fields.switch(key, false)? {
            return Err(wrong(&format!("Backend.{key}"), "nodes of Windows cannot do it", "leave it out, so that all nodes do the same"));
        }
    }
    // The plugins make endpoints' hardware addresses; flanneld has no use for their beginning, but a wrong one would be found out late.
    if let Some(prefix) = fields.text("MacPrefix")? {
        let is_right =
            prefix.len() == 5 && prefix.as_bytes()[2] == b'-' && prefix.replace('-', "").chars().all(|it| it.is_ascii_hexdigit());
        if !is_right {
            return Err(wrong("Backend.MacPrefix", format!("{prefix:?} is no beginning of a hardware address"), "write it as 0E-2A"));
        }
    }
    Ok(VxlanConf {
        name: fields.text("Name")?.filter(|name| !name.is_empty()),
        vni: fields.number("VNI", 1..=VNI_MAX)?.map(|number| number as u32),
        port: fields.number("Port", 1..=u64::from(u16::MAX))?.map(|number| number as u16),
        mtu: fields.number("MTU", 576..=65_535)?.map(|number| number as u32),
    })
}

/// The keys of an object, taken one by one.
struct Fields {
    map: Map<String, Value>,
    within: &'static str,
}

impl Fields {
    /// The exact spelling if it is there, else any. `null` is the same as nothing.
    fn take(&mut self, key: &str) -> Option<Value> {
        let exact = self.map.shift_remove(key);
        let spelled: Vec<String> = self.map.keys().filter(|other| other.eq_ignore_ascii_case(key)).cloned().collect();
        let other = spelled.iter().filter_map(|other| self.map.shift_remove(other)).next_back();
        exact.or(other).filter(|value| !value.is_null())
    }

    fn rest(self) -> Vec<String> {
        self.map.keys().map(|key| format!("{}{key}", self.within)).collect()
    }

    fn refuse(&self, key: &str, value: &Value, remedy: &str) -> NetConfError {
        wrong(&format!("{}{key}", self.within), format!("{value} cannot be used"), remedy)
    }

    fn text(&mut self, key: &str) -> Result<Option<String>, NetConfError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.refuse(key, &other, "write a string")),
        }
    }

    fn switch(&mut self, key: &str, default: bool) -> Result<bool, NetConfError> {
        match self.take(key) {
            None => Ok(default),
            Some(Value::Bool(value)) => Ok(value),
            Some(other) => Err(self.refuse(key, &other, "write true or false")),
        }
    }

    fn number(&mut self, key: &str, range: std::ops::RangeInclusive<u64>) -> Result<Option<u64>, NetConfError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let remedy = format!("write a number from {} to {}, or leave it out", range.start(), range.end());
        value.as_u64().filter(|number| range.contains(number)).map(Some).ok_or_else(|| self.refuse(key, &value, &remedy))
    }

    fn prefix(&mut self, key: &str, v4: bool) -> Result<Option<IpNet>, NetConfError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let example = if v4 { "10.244.0.0/16" } else { "fd00:244::/48" };
        let parsed = value.as_str().and_then(|text| text.parse::<IpNet>().ok()).filter(|prefix| prefix.addr().is_ipv4() == v4);
        match parsed {
            Some(prefix) if prefix == prefix.trunc() => Ok(Some(prefix)),
            Some(prefix) => Err(self.refuse(key, &value, &format!("write the network itself: {}", prefix.trunc()))),
            None => Err(self.refuse(key, &value, &format!("write address and length, such as {example}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_read() {
        let usual =
            NetConf::parse(r#"{"Network":"10.244.0.0/16","Backend":{"Name":"vxlan0","Type":"VXLAN","VNI":4096,"Port":4789}}"#).unwrap();
        let vxlan = VxlanConf { name: Some("vxlan0".into()), vni: Some(4096), port: Some(4789), mtu: None };
        assert_eq!(
            usual,
            NetConf { networks: vec!["10.244.0.0/16".parse().unwrap()], backend: BackendConf::Vxlan(vxlan), ignored: vec![] }
        );
        let other = NetConf::parse(
            r#"{"network":"10.0.0.0/8","EnableIPv6":true,"IPv6Network":"fd00::/48","SubnetLen":24,"Colour":1,"Backend":{"type":"host-gw","Vni":7}}"#,
        )
        .unwrap();
        assert_eq!(other.networks.len(), 2);
        assert_eq!(other.backend, BackendConf::HostGw(HostGwConf { name: "cbr0".into(), dns_servers: String::new() }));
        assert_eq!(other.ignored, ["Colour", "Backend.Vni"]);
        let six = NetConf::parse(r#"{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00::/48","Backend":{"Type":"vxlan"}}"#).unwrap();
        assert!(six.networks[0].addr().is_ipv6());
    }

    #[test]
    fn what_is_wrong_is_named_with_its_field_and_a_remedy() {
        let table = [
            ("", "it is no JSON"),
            ("[]", "it is no JSON object"),
            (r#"{"Backend":{"Type":"vxlan"}}"#, "Network: it is missing; write the pods' network, such as 10.244.0.0/16"),
            (r#"{"Network":"10.244.0.0/16"}"#, "Backend: it is missing; "),
            (r#"{"Network":"10.244.0.0/16","Backend":{}}"#, "Backend.Type: it is missing; write vxlan or host-gw"),
            (r#"{"Network":"10.244.0.0/16","Backend":{"Type":"udp"}}"#, "Backend.Type: \"udp\" is not there; write vxlan or host-gw"),
            (
                r#"{"Network":"10.244.0.1/16","Backend":{"Type":"vxlan"}}"#,
                "Network: \"10.244.0.1/16\" cannot be used; write the network itself: 10.244.0.0/16",
            ),
            (r#"{"Network":"fd00::/48","Backend":{"Type":"vxlan"}}"#, "Network: \"fd00::/48\" cannot be used; write address and length"),
            (r#"{"EnableIPv4":false,"Backend":{"Type":"vxlan"}}"#, "EnableIPv4: neither IPv4 nor IPv6 is enabled"),
            (r#"{"EnableIPv4":"yes","Backend":{"Type":"vxlan"}}"#, "EnableIPv4: \"yes\" cannot be used; write true or false"),
            (r#"{"Network":"10.0.0.0/8","EnableIPv6":true,"Backend":{"Type":"vxlan"}}"#, "IPv6Network: it is missing"),
            (
                r#"{"Network":"10.0.0.0/8","Backend":{"Type":"vxlan","VNI":16777216}}"#,
                "Backend.VNI: 16777216 cannot be used; write a number from 1 to 16777215",
            ),
            (r#"{"Network":"10.0.0.0/8","Backend":{"Type":"vxlan","VNI":"1"}}"#, "Backend.VNI: \"1\" cannot be used"),
            (r#"{"Network":"10.0.0.0/8","Backend":{"Type":"vxlan","Port":0}}"#, "Backend.Port: 0 cannot be used"),
            (r#"{"Network":"10.0.0.0/8","Backend":{"Type":"vxlan","MacPrefix":"0E2A"}}"#, "Backend.MacPrefix: "),
            (
                r#"{"Network":"10.0.0.0/8","Backend":{"Type":"vxlan","DirectRouting":true}}"#,
                "Backend.DirectRouting: nodes of Windows cannot do it",
            ),
            (r#"{"Network":"10.0.0.0/8","Backend":{"Type":"host-gw","Name":7}}"#, "Backend.Name: 7 cannot be used; write a string"),
        ];
        for (text, expected) in table {
            let error = NetConf::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in r#"\{?("(Network|Backend|EnableIPv6|VNI|Type)":(\{|"[0-9a-z./-]{0,12}"|[0-9]{1,9}|true|null),?){0,6}\}{0,2}"#) {
            let _ = NetConf::parse(&text);
        }
    }
}
