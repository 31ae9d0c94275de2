//! The request configuration that a plugin gets on standard input.
//!
//! What every call needs, the name of the network and the version, is read at once. The rest is read when a plugin asks
//! for it, so that a plugin trips over no key that is not its own. [`Config::root`] is for a plugin's own keys, by the
//! same rules.

use serde_json::{Map, Value};

use crate::environment::is_identifier;
use crate::error::{Error, Result};
use crate::object::{Object, quote};
use crate::result::{AddResult, Dns, texts_of};
use crate::version::{Number, Version};

/// The key that GC lists the valid attachments under, and the one that early texts of 1.1.0 had.
const VALID_ATTACHMENTS: [&str; 2] = ["cni.dev/valid-attachments", "cni.dev/attachments"];

/// A request configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    bytes: Vec<u8>,
    document: Map<String, Value>,
    name: String,
    version_text: String,
}

/// A container's interface on this network.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attachment {
    /// The container.
    pub container_id: String,
    /// Its interface.
    pub ifname: String,
}

/// A port of the host that leads to a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortMapping {
    /// The port of the host.
    pub host_port: u16,
    /// The port of the container.
    pub container_port: u16,
    /// The protocol as it was written, usually `tcp` or `udp`.
    pub protocol: String,
    /// The address of the host; empty for all of them.
    pub host_ip: String,
}

/// How much a container may send and receive, in bits and bits a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bandwidth {
    /// To the container, a second.
    pub ingress_rate: u64,
    /// To the container, at once.
    pub ingress_burst: u64,
    /// From the container, a second.
    pub egress_rate: u64,
    /// From the container, at once.
    pub egress_burst: u64,
}

impl Config {
    /// Reads the configuration as far as every call needs it.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let value: Value = serde_json::from_slice(bytes).map_err(|error| {
            Error::decoding_failure(format!("the configuration on standard input is no JSON: {error}"))
                .details(format!("it begins with {}", quote(&String::from_utf8_lossy(&bytes[..bytes.len().min(400)]))))
        })?;
        let Value::Object(document) = value else {
            return Err(Error::decoding_failure("the configuration on standard input is no JSON object")
                .details("send one object with the keys cniVersion, name and type"));
        };
        let root = Object::root(&document);
        let (name, version_text) = (root.text("name")?, root.text("cniVersion")?);
        check_name(&name)?;
        Ok(Self { bytes: bytes.to_vec(), document, name, version_text })
    }

    /// The same with another document, for a plugin that changes the configuration before it hands it on.
    pub fn with_document(&self, document: Map<String, Value>) -> Result<Self> {
        Self::read(Value::Object(document).to_string().as_bytes())
    }

    /// As it came, byte by byte, for a delegate.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All keys, for those that a plugin has of its own.
    pub fn root(&self) -> Object<'_> {
        Object::root(&self.document)
    }

    /// The name of the network, which is never a path.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of the version, which may be one that nobody here speaks.
    pub fn number(&self) -> Result<Number> {
        Number::parse(&self.version_text)
    }

    /// The version, if it is one of those that a plugin speaks.
    pub fn version(&self, spoken: &[Version]) -> Result<Version> {
        Version::find(&self.version_text).filter(|version| spoken.contains(version)).ok_or_else(|| {
            let details = format!("config is {:?}, plugin supports {}", self.version_text, texts_of(spoken));
            Error::incompatible_version("incompatible CNI versions").details(details)
        })
    }

    /// The version that answers are printed in: the configuration's, or the newest where it names none of ours.
    pub fn answer_version(&self) -> Version {
        Version::find(&self.version_text).unwrap_or(Version::LATEST)
    }

    /// `type`: the plugin this is for.
    pub fn plugin_type(&self) -> Result<String> {
        self.root().text("type")
    }

    /// `ipam`, if it is there.
    pub fn ipam(&self) -> Result<Option<Object<'_>>> {
        self.root().object("ipam")
    }

    /// `ipam.type`: the plugin to ask for addresses; empty if there is none.
    pub fn ipam_type(&self) -> Result<String> {
        self.ipam()?.map_or(Ok(String::new()), |ipam| ipam.text("type"))
    }

    /// `dns`.
    pub fn dns(&self) -> Result<Dns> {
        self.root().object("dns")?.map_or(Ok(Dns::default()), |dns| Dns::read(&dns))
    }

    /// `args.cni`: what a user of the runtime passes to plugins.
    pub fn args(&self) -> Result<Option<Object<'_>>> {
        self.root().object("args")?.map_or(Ok(None), |args| args.object("cni"))
    }

    /// `runtimeConfig`, if the runtime has something to say.
    pub fn runtime_config(&self) -> Result<Option<Object<'_>>> {
        self.root().object("runtimeConfig")
    }

    /// `runtimeConfig.portMappings`.
    pub fn port_mappings(&self) -> Result<Vec<PortMapping>> {
        let Some(runtime) = self.runtime_config()? else { return Ok(Vec::new()) };
        runtime.objects("portMappings")?.iter().map(PortMapping::read).collect()
    }

    /// `runtimeConfig.dns`, whose keys are others than those of `dns`.
    pub fn runtime_dns(&self) -> Result<Dns> {
        let Some(runtime) = self.runtime_config()? else { return Ok(Dns::default()) };
        runtime.object("dns")?.map_or(Ok(Dns::default()), |dns| {
            let (nameservers, search, options) = (dns.texts("servers")?, dns.texts("searches")?, dns.texts("options")?);
            Ok(Dns { nameservers, search, options, ..Dns::default() })
        })
    }

    /// `runtimeConfig.bandwidth`.
    pub fn bandwidth(&self) -> Result<Option<Bandwidth>> {
        let Some(runtime) = self.runtime_config()? else { return Ok(None) };
        runtime.object("bandwidth")?.map(|bandwidth| Bandwidth::read(&bandwidth)).transpose()
    }

    /// `runtimeConfig.ips`: addresses asked for, as text.
    pub fn runtime_ips(&self) -> Result<Vec<(String, &Value)>> {
        self.runtime_config()?.map_or(Ok(Vec::new()), |runtime| runtime.list("ips"))
    }

    /// `runtimeConfig.ipRanges`: sets of ranges, each a list.
    pub fn ip_ranges(&self) -> Result<Vec<(String, &Value)>> {
        self.runtime_config()?.map_or(Ok(Vec::new()), |runtime| runtime.list("ipRanges"))
    }

    /// `prevResult`: what the plugin before gave, or on CHECK and DEL what ADD gave in the end, in whatever version.
    pub fn prev_result(&self) -> Result<Option<AddResult>> {
        let prev_result = self.root().object("prevResult")?;
        prev_result.map(|object| AddResult::read(&object, self.answer_version())).transpose()
    }

    /// The attachments that GC must leave alone. `null` is none at all, as the library writes an empty list; a
    /// configuration without the key is refused, since taking that for none would remove everything.
    pub fn valid_attachments(&self) -> Result<Vec<Attachment>> {
        let root = self.root();
        let Some(key) = VALID_ATTACHMENTS.into_iter().find(|key| root.has(key)) else {
            return Err(Error::invalid_network_config(format!("{} is missing, so that nobody knows what is valid", VALID_ATTACHMENTS[0]))
                .details("list the valid attachments, if need be as []"));
        };
        root.objects(key)?.iter().map(Attachment::read).collect()
    }
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::invalid_network_config("missing network name").details("give the configuration a name"));
    }
    if is_identifier(name) {
        return Ok(());
    }
    Err(Error::invalid_network_config(format!("invalid characters found in network name {}", quote(name)))
        .details("use letters, digits, _ . and -, the first a letter or a digit"))
}

impl Attachment {
    fn read(object: &Object<'_>) -> Result<Self> {
        Ok(Self { container_id: object.text("containerID")?, ifname: object.text("ifname")? })
    }
}

impl PortMapping {
    fn read(object: &Object<'_>) -> Result<Self> {
        Ok(Self {
            host_port: object.number("hostPort")?.unwrap_or(0),
            container_port: object.number("containerPort")?.unwrap_or(0),
            protocol: object.text("protocol")?,
            host_ip: object.text("hostIP")?,
        })
    }
}

impl Bandwidth {
    fn read(object: &Object<'_>) -> Result<Self> {
        Ok(Self {
            ingress_rate: object.number("ingressRate")?.unwrap_or(0),
            ingress_burst: object.number("ingressBurst")?.unwrap_or(0),
            egress_rate: object.number("egressRate")?.unwrap_or(0),
            egress_burst: object.number("egressBurst")?.unwrap_or(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(document: Value) -> Config {
        Config::read(document.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let table: [(&[u8], u64, &str); 9] = [
            (b"", 6, "is no JSON"),
            (b"{", 6, "is no JSON"),
            (b"[]", 6, "is no JSON object"),
            (b"null", 6, "is no JSON object"),
            (b"\xff\xfe", 6, "is no JSON"),
            (b"{}", 7, "missing network name"),
            (br#"{"name":5}"#, 6, "name: a string is expected"),
            (br#"{"name":"../x"}"#, 7, "invalid characters found in network name"),
            (br#"{"name":"x","cniVersion":1}"#, 6, "cniVersion: a string is expected"),
        ];
        for (bytes, code, message) in table {
            let error = Config::read(bytes).unwrap_err();
            assert_eq!(error.code, code, "{error}");
            assert!(error.msg.contains(message), "{error}");
        }
        let deep = [&b"{\"name\":"[..], &b"[".repeat(100_000)].concat();
        assert_eq!(Config::read(&deep).unwrap_err().code, 6);
    }

    #[test]
    fn versions_are_reconciled_by_text() {
        let spoken = &[Version::V0_2_0, Version::V1_0_0];
        assert_eq!(config(json!({"name": "n", "cniVersion": "1.0.0"})).version(spoken), Ok(Version::V1_0_0));
        let error = config(json!({"name": "n", "cniVersion": "1.1.0"})).version(spoken).unwrap_err();
        assert_eq!((error.code, error.msg.as_str()), (1, "incompatible CNI versions"));
        assert_eq!(error.details, "config is \"1.1.0\", plugin supports 0.2.0, 1.0.0");
        assert_eq!(config(json!({"name": "n"})).version(Version::ALL), Ok(Version::V0_1_0));
    }

    #[test]
    fn what_the_runtime_says_is_read_in_any_case() {
        let config = config(json!({"Name": "n", "runtimeConfig": {
            "PortMappings": [{"hostPort": 80, "containerPort": 8080, "protocol": "tcp"}],
            "dns": {"servers": ["10.0.0.1"], "searches": ["a.b"]},
            "bandwidth": {"ingressRate": 1000, "egressBurst": 5},
        }}));
        let mapping = PortMapping { host_port: 80, container_port: 8080, protocol: "tcp".to_owned(), host_ip: String::new() };
        assert_eq!(config.port_mappings(), Ok(vec![mapping]));
        let dns = Dns { nameservers: vec!["10.0.0.1".to_owned()], search: vec!["a.b".to_owned()], ..Dns::default() };
        assert_eq!(config.runtime_dns(), Ok(dns));
        assert_eq!(config.bandwidth(), Ok(Some(Bandwidth { ingress_rate: 1000, egress_burst: 5, ..Bandwidth::default() })));
    }

    #[test]
    fn a_key_nobody_asks_for_may_be_anything() {
        let config = config(json!({"name": "n", "dns": 5, "ipam": {"type": "x"}, "master": {}}));
        assert_eq!(config.ipam_type(), Ok("x".to_owned()));
        assert_eq!(config.dns().unwrap_err().msg, "dns: an object is expected, but there is the number 5");
        assert_eq!(config.plugin_type(), Ok(String::new()));
    }

    #[test]
    fn a_previous_result_is_read_in_its_own_version() {
        let old = json!({"cniVersion": "0.2.0", "ip4": {"ip": "10.0.0.2/24"}});
        let config = config(json!({"name": "n", "cniVersion": "1.0.0", "prevResult": old}));
        assert_eq!(config.prev_result().unwrap().unwrap().ips.len(), 1);
    }

    #[test]
    fn valid_attachments_may_be_none_but_not_missing() {
        let one = json!([{"containerID": "c", "ifname": "eth0"}]);
        let attachment = Attachment { container_id: "c".to_owned(), ifname: "eth0".to_owned() };
        for key in VALID_ATTACHMENTS {
            assert_eq!(config(json!({"name": "n", key: one})).valid_attachments(), Ok(vec![attachment.clone()]));
            assert_eq!(config(json!({"name": "n", key: null})).valid_attachments(), Ok(vec![]));
        }
        assert_eq!(config(json!({"name": "n"})).valid_attachments().unwrap_err().code, 7);
    }

    #[test]
    fn a_delegate_gets_the_bytes_as_they_came() {
        let bytes = b" {\"name\" : \"n\", \"x\":1.50}\n";
        assert_eq!(Config::read(bytes).unwrap().bytes(), bytes);
    }
}
