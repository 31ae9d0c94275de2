//! The result of ADD: made in the newest version, printed and read in all of them.
//!
//! | version | shape |
//! |---|---|
//! | 0.1.0, 0.2.0 | one address of each family, `ip4` and `ip6`, each with its routes; no interfaces |
//! | 0.3.0, 0.3.1, 0.4.0 | lists; an address says its family in `version` |
//! | 1.0.0, 1.1.0 | lists; more about interfaces and routes; `dns` only if there is something in it |
//!
//! Order and layout are those of the Go library: fields in the order it declares them, sorted by name from 1.0.0 on.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::object::Object;
use crate::print;
use crate::version::Version;

/// What ADD made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddResult {
    /// The interfaces; IPAM plugins name none.
    pub interfaces: Vec<Interface>,
    /// The addresses.
    pub ips: Vec<IpConfig>,
    /// The routes.
    pub routes: Vec<Route>,
    /// How names are resolved.
    pub dns: Dns,
}

/// An interface that ADD made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its hardware address.
    pub mac: String,
    /// Its MTU; 0 if not told.
    pub mtu: i64,
    /// The namespace it is in; empty for the host's.
    pub sandbox: String,
    /// The socket of an interface in user space.
    pub socket_path: String,
    /// The PCI device behind it.
    pub pci_id: String,
}

/// An address that ADD gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpConfig {
    /// Which of the interfaces has it.
    pub interface: Option<i64>,
    /// The address with the length of its subnet's prefix.
    pub address: IpNet,
    /// The gateway of the subnet.
    pub gateway: Option<IpAddr>,
}

/// A route in the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where to.
    pub dst: IpNet,
    /// By which way; without it the address's gateway.
    pub gw: Option<IpAddr>,
    /// The MTU along it; 0 if not told.
    pub mtu: i64,
    /// The segment size to announce; 0 if not told.
    pub advmss: i64,
    /// Its priority; 0 if not told.
    pub priority: i64,
    /// The table it is in.
    pub table: Option<i64>,
    /// Its scope.
    pub scope: Option<i64>,
}

impl Route {
    /// A route that says where to and which way.
    pub fn new(dst: IpNet, gw: Option<IpAddr>) -> Self {
        Self { dst, gw, mtu: 0, advmss: 0, priority: 0, table: None, scope: None }
    }

    /// Reads a route of a configuration or a result.
    pub fn read(object: &Object<'_>) -> Result<Self> {
        Ok(Self {
            dst: required_prefix(object, "dst")?,
            gw: object.address("gw")?,
            mtu: object.number("mtu")?.unwrap_or(0),
            advmss: object.number("advmss")?.unwrap_or(0),
            priority: object.number("priority")?.unwrap_or(0),
            table: object.number("table")?,
            scope: object.number("scope")?,
        })
    }

    fn write(&self) -> Value {
        let mut route = Fields::default();
        route.some("dst", Some(self.dst)).some("gw", self.gw);
        route.number("mtu", self.mtu).number("advmss", self.advmss).number("priority", self.priority);
        route.count("table", self.table).count("scope", self.scope);
        route.done()
    }
}

/// How names are resolved in the container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dns {
    /// Addresses of servers, in order.
    pub nameservers: Vec<String>,
    /// The local domain.
    pub domain: String,
    /// Domains to search, in order.
    pub search: Vec<String>,
    /// Options of the resolver.
    pub options: Vec<String>,
}

impl Dns {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Reads the key `dns` of a configuration or a result.
    pub fn read(object: &Object<'_>) -> Result<Self> {
        Ok(Self {
            nameservers: object.texts("nameservers")?,
            domain: object.text("domain")?,
            search: object.texts("search")?,
            options: object.texts("options")?,
        })
    }

    fn write(&self) -> Value {
        let mut dns = Fields::default();
        dns.texts("nameservers", &self.nameservers).text("domain", &self.domain);
        dns.texts("search", &self.search).texts("options", &self.options);
        dns.done()
    }
}

impl Interface {
    fn read(object: &Object<'_>) -> Result<Self> {
        Ok(Self {
            name: object.text("name")?,
            mac: object.text("mac")?,
            mtu: object.number("mtu")?.unwrap_or(0),
            sandbox: object.text("sandbox")?,
            socket_path: object.text("socketPath")?,
            pci_id: object.text("pciID")?,
        })
    }

    fn write(&self, version: Version) -> Value {
        let mut interface = Fields::default();
        interface.value("name", self.name.as_str().into()).text("mac", &self.mac);
        match version >= Version::V1_0_0 {
            true => {
                interface.number("mtu", self.mtu).text("sandbox", &self.sandbox);
                interface.text("socketPath", &self.socket_path).text("pciID", &self.pci_id)
            }
            false => interface.text("sandbox", &self.sandbox),
        };
        interface.done()
    }
}

impl IpConfig {
    fn read(object: &Object<'_>) -> Result<Self> {
        let address = required_prefix(object, "address")?;
        Ok(Self { interface: object.number("interface")?, address, gateway: object.address("gateway")? })
    }

    fn write(&self, version: Version) -> Value {
        let mut ip = Fields::default();
        if version < Version::V1_0_0 {
            ip.text("version", if is_ipv4(&self.address) { "4" } else { "6" });
        }
        ip.count("interface", self.interface).some("address", Some(self.address)).some("gateway", self.gateway);
        ip.done()
    }
}

impl AddResult {
    /// Reads a result. Its own `cniVersion` says which shape it has; without one it is of the version given, which is
    /// the configuration's.
    pub fn read(object: &Object<'_>, version: Version) -> Result<Self> {
        let text = object.text("cniVersion")?;
        let version = match text.as_str() {
            "" => version,
            text => Version::find(text).ok_or_else(|| {
                Error::incompatible_version(format!("{}: there are no results of version {text:?}", object.path("cniVersion")))
                    .details(format!("known are {}", texts_of(Version::ALL)))
            })?,
        };
        match version {
            Version::V0_1_0 | Version::V0_2_0 => Self::read_families(object),
            _ => Self::read_lists(object),
        }
    }

    fn read_families(object: &Object<'_>) -> Result<Self> {
        let mut result = Self { dns: read_dns(object)?, ..Self::default() };
        for family in ["ip4", "ip6"] {
            let Some(family) = object.object(family)? else { continue };
            result.ips.push(IpConfig { interface: None, address: required_prefix(&family, "ip")?, gateway: family.address("gateway")? });
            for route in family.objects("routes")? {
                result.routes.push(Route::read(&route)?);
            }
        }
        Ok(result)
    }

    fn read_lists(object: &Object<'_>) -> Result<Self> {
        Ok(Self {
            interfaces: object.objects("interfaces")?.iter().map(Interface::read).collect::<Result<_>>()?,
            ips: object.objects("ips")?.iter().map(IpConfig::read).collect::<Result<_>>()?,
            routes: object.objects("routes")?.iter().map(Route::read).collect::<Result<_>>()?,
            dns: read_dns(object)?,
        })
    }

    /// The document in a version. Before 0.3.0 it must have an address, and whatever that version cannot hold is dropped.
    pub fn write(&self, version: Version) -> Result<Value> {
        match version {
            Version::V0_1_0 | Version::V0_2_0 => self.write_families(version),
            _ => Ok(self.write_lists(version)),
        }
    }

    fn write_families(&self, version: Version) -> Result<Value> {
        let mut result = Fields::default();
        result.text("cniVersion", version.text());
        let mut families = 0;
        for (key, ipv4) in [("ip4", true), ("ip6", false)] {
            if let Some(ip) = self.ips.iter().find(|ip| is_ipv4(&ip.address) == ipv4) {
                let routes = self.routes.iter().filter(|route| is_ipv4(&route.dst) == ipv4);
                let routes = routes.map(|route| Route::new(route.dst, route.gw).write()).collect();
                let mut family = Fields::default();
                family.some("ip", Some(ip.address)).some("gateway", ip.gateway).list("routes", routes);
                result.value(key, family.done());
                families += 1;
            }
        }
        if families == 0 {
            return Err(Error::invalid_network_config(format!(
                "cannot convert the result to version {version}: no valid IP addresses, and that version needs one"
            ))
            .details("set cniVersion to 0.3.1 or later"));
        }
        result.value("dns", self.dns.write());
        Ok(result.done())
    }

    fn write_lists(&self, version: Version) -> Value {
        let mut result = Fields::default();
        result.text("cniVersion", version.text());
        result.list("interfaces", self.interfaces.iter().map(|interface| interface.write(version)).collect());
        result.list("ips", self.ips.iter().map(|ip| ip.write(version)).collect());
        result.list("routes", self.routes.iter().map(Route::write).collect());
        if version < Version::V1_0_0 {
            result.value("dns", self.dns.write());
            return result.done();
        }
        if !self.dns.is_empty() {
            result.value("dns", self.dns.write());
        }
        let mut result = result.done();
        // From this version on the library goes through a map, which it prints in the order of names.
        result.sort_all_objects();
        result
    }

    /// The text in a version, as the Go library prints it.
    pub fn print(&self, version: Version) -> Result<String> {
        Ok(print::pretty(&self.write(version)?))
    }
}

pub(crate) fn texts_of(versions: &[Version]) -> String {
    versions.iter().map(|version| version.text()).collect::<Vec<_>>().join(", ")
}

fn is_ipv4(prefix: &IpNet) -> bool {
    matches!(prefix, IpNet::V4(_))
}

fn read_dns(object: &Object<'_>) -> Result<Dns> {
    object.object("dns")?.map_or(Ok(Dns::default()), |dns| Dns::read(&dns))
}

fn required_prefix(object: &Object<'_>, key: &str) -> Result<IpNet> {
    let missing =
        || Error::decoding_failure(format!("{} is missing", object.path(key))).details("write an address with a prefix length there");
    object.prefix(key)?.ok_or_else(missing)
}

/// An object in the making, in which empty fields are left out as Go's `omitempty` does.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn value(&mut self, key: &str, value: Value) -> &mut Self {
        self.0.insert(key.to_owned(), value);
        self
    }

    fn text(&mut self, key: &str, text: &str) -> &mut Self {
        if text.is_empty() { self } else { self.value(key, text.into()) }
    }

    fn texts(&mut self, key: &str, texts: &[String]) -> &mut Self {
        self.list(key, texts.iter().map(|text| text.as_str().into()).collect())
    }

    fn list(&mut self, key: &str, list: Vec<Value>) -> &mut Self {
        if list.is_empty() { self } else { self.value(key, list.into()) }
    }

    fn number(&mut self, key: &str, number: i64) -> &mut Self {
        if number == 0 { self } else { self.value(key, number.into()) }
    }

    /// A number that is printed even when it is 0.
    fn count(&mut self, key: &str, number: Option<i64>) -> &mut Self {
        if let Some(number) = number { self.value(key, number.into()) } else { self }
    }

    fn some<T: ToString>(&mut self, key: &str, value: Option<T>) -> &mut Self {
        if let Some(value) = value { self.value(key, value.to_string().into()) } else { self }
    }

    fn done(self) -> Value {
        Value::Object(self.0)
    }
}

#[cfg(test)]
mod tests;
