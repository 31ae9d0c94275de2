//! A hive that tells a container of its network.
//!
//! Windows keeps IPv6 addresses and routes in a binary form of its own; here they stand below `Tcpip6` in the form that IPv4 has
//! below `Tcpip`, with the length of the prefix in place of the mask.

use std::net::IpAddr;

use ipnet::IpNet;

use super::hive::{Hive, Key, Value};
use crate::network::{Adapter, Network, SearchList};

/// Settings of IPv4, and of names.
pub const TCPIP: &str = r"HKLM\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters";

/// Settings of IPv6.
pub const TCPIP6: &str = r"HKLM\SYSTEM\CurrentControlSet\Services\Tcpip6\Parameters";

/// Settings of the DNS client.
pub const DNSCACHE: &str = r"HKLM\SYSTEM\CurrentControlSet\Services\Dnscache\Parameters";

/// The adapters by the names that people know. The number is the class of all network adapters.
pub const CONNECTIONS: &str = r"HKLM\SYSTEM\CurrentControlSet\Control\Network\{4D36E972-E325-11CE-BFC1-08002BE10318}";

const COMPUTER_NAME: &str = r"HKLM\SYSTEM\CurrentControlSet\Control\ComputerName";

/// The most characters that a NetBIOS name has.
const NETBIOS_LENGTH: usize = 15;

/// Makes the hive of a container.
pub fn hive(network: &Network, list: SearchList) -> Hive {
    let mut hive = Hive::default();
    write_names(&mut hive, network, list);
    for family in [Family::V4, Family::V6] {
        for adapter in &network.adapters {
            write_interface(hive.make(&interface_path(family, adapter)), adapter, family);
        }
        write_routes(&mut hive, network, family);
    }
    for adapter in &network.adapters {
        hive.make(&format!(r"{CONNECTIONS}\{}\Connection", braced(adapter))).set("Name", adapter.name.as_str());
    }
    hive
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Family {
    fn has(self, address: IpAddr) -> bool {
        address.is_ipv4() == (self == Self::V4)
    }

    fn parameters(self) -> &'static str {
        match self {
            Self::V4 => TCPIP,
            Self::V6 => TCPIP6,
        }
    }
}

/// The key of an adapter's settings.
fn interface_path(family: Family, adapter: &Adapter) -> String {
    format!(r"{}\Interfaces\{}", family.parameters(), braced(adapter))
}

fn braced(adapter: &Adapter) -> String {
    format!("{{{}}}", adapter.id)
}

fn write_names(hive: &mut Hive, network: &Network, list: SearchList) {
    let domain = network.adapters.first().map_or("", |adapter| &adapter.dns_suffix);
    let host_name = network.host_name.as_str();
    hive.make(TCPIP)
        .set("DataBasePath", Value::Expandable(r"%SystemRoot%\System32\drivers\etc".into()))
        .set("Hostname", host_name)
        .set("NV Hostname", host_name)
        .set("Domain", domain)
        .set("NV Domain", domain)
        .set("SearchList", network.suffixes(list).join(",").as_str())
        .set("NameServer", "")
        // A name is asked with the suffix, and not with its parents.
        .set("UseDomainNameDevolution", 0)
        .set("AllowUnqualifiedQuery", u32::from(network.allow_unqualified_queries))
        .set("IPEnableRouter", 0);
    hive.make(DNSCACHE).set("ServiceDll", Value::Expandable(r"%SystemRoot%\System32\dnsrslvr.dll".into())).set("ServiceDllUnloadOnStop", 1);
    let short: String = host_name.chars().take(NETBIOS_LENGTH).flat_map(char::to_uppercase).collect();
    for kind in ["ActiveComputerName", "ComputerName"] {
        hive.make(&format!(r"{COMPUTER_NAME}\{kind}")).set("ComputerName", short.as_str());
    }
}

fn write_interface(key: &mut Key, adapter: &Adapter, family: Family) {
    let addresses: Vec<IpNet> = adapter.addresses.iter().copied().filter(|address| family.has(address.addr())).collect();
    let gateways: Vec<_> = adapter.gateways.iter().filter(|gateway| family.has(gateway.address)).collect();
    let servers: Vec<String> = adapter.dns_servers.iter().filter(|server| family.has(**server)).map(ToString::to_string).collect();
    key.set("EnableDHCP", 0)
        .set("IPAddress", list(addresses.iter().map(IpNet::addr)))
        .set("SubnetMask", list(addresses.iter().map(mask)))
        .set("DefaultGateway", list(gateways.iter().map(|gateway| gateway.address)))
        .set("DefaultGatewayMetric", list(gateways.iter().map(|gateway| gateway.metric)))
        .set("NameServer", servers.join(",").as_str())
        .set("Domain", adapter.dns_suffix.as_str())
        // Zero lets the system decide.
        .set("InterfaceMetric", adapter.metric.unwrap_or(0));
    if let Some(mtu) = adapter.mtu {
        key.set("MTU", mtu);
    }
}

fn list<T: ToString>(values: impl Iterator<Item = T>) -> Value {
    Value::List(values.map(|value| value.to_string()).collect())
}

fn mask(network: &IpNet) -> String {
    match network {
        IpNet::V4(network) => network.netmask().to_string(),
        IpNet::V6(network) => network.prefix_len().to_string(),
    }
}

/// A route is the name of a value that says nothing: `10.96.0.0,255.240.0.0,10.244.1.1,256`.
fn write_routes(hive: &mut Hive, network: &Network, family: Family) {
    let key = hive.make(&format!(r"{}\PersistentRoutes", family.parameters()));
    for route in network.adapters.iter().flat_map(|adapter| &adapter.routes) {
        if family.has(route.next_hop) {
            let name = format!("{},{},{},{}", route.destination.network(), mask(&route.destination), route.next_hop, route.metric);
            key.set(&name, "");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::tests::network;
    use crate::registry::query;

    #[test]
    fn a_container_is_told_of_its_network() {
        let mut network = network();
        network.adapters[0].mtu = Some(1450);
        let expected = r"
HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Control\ComputerName\ActiveComputerName
    ComputerName    REG_SZ    WEB-0

HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Control\ComputerName\ComputerName
    ComputerName    REG_SZ    WEB-0

HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Control\Network\{4D36E972-E325-11CE-BFC1-08002BE10318}\{5f0b1190-63be-4e0c-b974-bd0f55675a42}\Connection
    Name    REG_SZ    vEthernet (cbr0_web)

HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Services\Dnscache\Parameters
    ServiceDll    REG_EXPAND_SZ    %SystemRoot%\System32\dnsrslvr.dll
    ServiceDllUnloadOnStop    REG_DWORD    0x1

HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters
    DataBasePath    REG_EXPAND_SZ    %SystemRoot%\System32\drivers\etc
    Hostname    REG_SZ    web-0
    NV Hostname    REG_SZ    web-0
    Domain    REG_SZ    cluster.local
    NV Domain    REG_SZ    cluster.local
    SearchList    REG_SZ    shop.svc.cluster.local
    NameServer    REG_SZ
    UseDomainNameDevolution    REG_DWORD    0x0
    AllowUnqualifiedQuery    REG_DWORD    0x0
    IPEnableRouter    REG_DWORD    0x0

HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters\Interfaces\{5f0b1190-63be-4e0c-b974-bd0f55675a42}
    EnableDHCP    REG_DWORD    0x0
    IPAddress    REG_MULTI_SZ    10.244.1.5
    SubnetMask    REG_MULTI_SZ    255.255.255.0
    DefaultGateway    REG_MULTI_SZ    10.244.1.1
    DefaultGatewayMetric    REG_MULTI_SZ    0
    NameServer    REG_SZ    10.96.0.10
    Domain    REG_SZ    cluster.local
    InterfaceMetric    REG_DWORD    0x5
    MTU    REG_DWORD    0x5aa

HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters\PersistentRoutes
    10.96.0.0,255.240.0.0,10.244.1.1,256    REG_SZ

HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Services\Tcpip6\Parameters\Interfaces\{5f0b1190-63be-4e0c-b974-bd0f55675a42}
    EnableDHCP    REG_DWORD    0x0
    IPAddress    REG_MULTI_SZ    fd00:1::5
    SubnetMask    REG_MULTI_SZ    64
    DefaultGateway    REG_MULTI_SZ    fd00:1::1
    DefaultGatewayMetric    REG_MULTI_SZ    10
    NameServer    REG_SZ
    Domain    REG_SZ    cluster.local
    InterfaceMetric    REG_DWORD    0x5
    MTU    REG_DWORD    0x5aa

HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Services\Tcpip6\Parameters\PersistentRoutes
    fd00:96::,112,fd00:1::1,256    REG_SZ

";
        let printed = query::print(&hive(&network, SearchList::First), "HKLM");
        // An empty text is a blank at the end of a line, which the table leaves out.
        for (line, (printed, expected)) in printed.lines().zip(expected.lines()).enumerate() {
            assert_eq!(printed.trim_end(), expected, "line {line}");
        }
        assert_eq!(printed.lines().count(), expected.lines().count());
    }
}
