//! `nat`, `sdnbridge` and `sdnoverlay`: endpoints on networks of type NAT, L2Bridge and Overlay, which are made if need be.

use std::net::{IpAddr, Ipv4Addr};

use hcn::Hcn;
use hcn::base::SchemaVersion;
use hcn::endpoint::Endpoint;
use hcn::network::{Ipam, Network, NetworkType};
use hcn::policy::Policy;
use hcn::policy::endpoint::{EndpointPolicyType, NatFlags};
use ipnet::IpNet;
use serde_json::json;

use crate::error::{Error, Result};
use crate::hns::policy::{self, Policies};
use crate::hns::{self, Hns, Mode, OWNER, Site, dns, endpoint, network, report};
use crate::object::{Object, quote};
use crate::plugin::{Call, Plugin};
use crate::result::{AddResult, Dns};

/// The priority of the rules that let mapped ports in.
const ACL_PRIORITY: u16 = 1000;

/// The networks, made by somebody else, whose endpoints may have two addresses. The reference knows the first.
const DUAL_STACK: [NetworkType; 2] = [NetworkType::L2Bridge, NetworkType::Transparent];

/// Which of the three plugins it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// `nat`.
    Nat,
    /// `sdnbridge`.
    SdnBridge,
    /// `sdnoverlay`.
    SdnOverlay,
}

/// One of the plugins.
pub struct Nat {
    name: Name,
    hns: Hns,
}

impl Nat {
    /// Under a name, on an HNS.
    pub fn new(name: Name, hns: Hns) -> Self {
        Self { name, hns }
    }
}

impl Plugin for Nat {
    fn name(&self) -> &'static str {
        match self.name {
            Name::Nat => "nat",
            Name::SdnBridge => "sdnbridge",
            Name::SdnOverlay => "sdnoverlay",
        }
    }

    fn about(&self) -> &'static str {
        match self.name {
            Name::Nat => "attaches containers to a NAT network of HNS, and makes the network",
            Name::SdnBridge => "attaches containers to an L2Bridge network of HNS, and makes the network",
            Name::SdnOverlay => "attaches containers to an Overlay network of HNS, and makes the network",
        }
    }

    hns::commands!();
}

/// `optionalFlags`.
struct Flags {
    local_routed_port_mapping: bool,
    allow_acl_port_mapping: bool,
    force_bridge_gateway: bool,
    dual_stack: bool,
    loopback_dsr: bool,
    gateway_from_additional_routes: bool,
}

impl Flags {
    fn read(call: &Call<'_>) -> Result<Self> {
        let object = call.config.root().object("optionalFlags")?;
        let flag = |key: &str| object.as_ref().map_or(Ok(false), |object| object.flag(key));
        Ok(Self {
            local_routed_port_mapping: flag("localRoutedPortMapping")?,
            allow_acl_port_mapping: flag("allowAclPortMapping")?,
            force_bridge_gateway: flag("forceBridgeGateway")?,
            dual_stack: flag("enableDualStack")?,
            loopback_dsr: flag("loopbackDSR")?,
            gateway_from_additional_routes: flag("gatewayFromAdditionalRoutes")?,
        })
    }
}

impl Mode for Nat {
    fn network(&self, hcn: &dyn Hcn, call: &Call<'_>) -> Result<Network> {
        match Flags::read(call)?.dual_stack {
            true => network::require(hcn, call.config.name(), &DUAL_STACK),
            false => network::find(hcn, call.config.name())?.ok_or_else(|| {
                Error::invalid_network_config(format!("name: HNS has no network {:?}", call.config.name()))
                    .details("the first ADD makes it; who deleted it since?")
            }),
        }
    }

    fn network_to_use(&self, hcn: &dyn Hcn, call: &Call<'_>) -> Result<Option<Network>> {
        match Flags::read(call)?.dual_stack {
            true => self.network(hcn, call).map(Some),
            false => network::find(hcn, call.config.name()),
        }
    }

    fn make_network(&self, hcn: &dyn Hcn, call: &Call<'_>, _lease: Option<&AddResult>) -> Result<Network> {
        network::make(hcn, &new_network(call)?)
    }

    fn check_config(&self, call: &Call<'_>) -> Result<()> {
        network_type(call)?;
        configured_subnet(call)?;
        policy::of_network(&call.config.root())?;
        policies(call, &Flags::read(call)?).map(|_| ())
    }

    fn endpoint(&self, site: &Site<'_>, lease: Option<&AddResult>) -> Result<Endpoint> {
        let flags = Flags::read(site.call)?;
        let mut wanted = endpoint::draft(&site.call.environment, &site.network, &site.name, names(site.call)?);
        let addresses = addresses(site, lease, &flags);
        for address in &addresses {
            endpoint::give(&mut wanted, address.addr(), gateway(site.call, *address, lease, &flags)?);
        }
        let mut policies = policies(site.call, &flags)?;
        if flags.loopback_dsr {
            require_dsr(&*site.hcn)?;
            addresses.iter().filter(|address| address.addr().is_ipv4()).for_each(|address| policies.loopback_dsr(address.addr()));
        }
        wanted.policies = policies.merged();
        Ok(wanted)
    }

    fn report(&self, site: &Site<'_>, endpoint: &Endpoint) -> AddResult {
        report::named(&site.call.environment, &site.network, endpoint)
    }
}

/// `type`: the type of the network to make, by the name of the plugin or as HNS calls it.
fn network_type(call: &Call<'_>) -> Result<NetworkType> {
    match call.config.plugin_type()?.as_str() {
        "nat" | "NAT" => Ok(NetworkType::Nat),
        "sdnbridge" | "L2Bridge" => Ok(NetworkType::L2Bridge),
        "sdnoverlay" | "Overlay" => Ok(NetworkType::Overlay),
        other => Err(Error::invalid_network_config(format!("type: {} is no type of network that this plugin makes", quote(other)))
            .details("write nat, sdnbridge or sdnoverlay")),
    }
}

/// `ipam.subnet` with its gateway: the address that is written there, and one more, unless the first route says otherwise.
fn configured_subnet(call: &Call<'_>) -> Result<Option<(IpNet, IpAddr)>> {
    let Some(ipam) = call.config.ipam()? else { return Ok(None) };
    if ipam.text("subnet")?.is_empty() {
        return Ok(None);
    }
    let Some(subnet) = ipam.prefix("subnet")? else { return Ok(None) };
    let routes = ipam.objects("routes")?;
    let gateway = routes.first().map_or(Ok(None), |route| route.address("gw"))?;
    let next = match subnet.addr() {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            Ipv4Addr::new(a, b, c, d.wrapping_add(1)).into()
        }
        IpAddr::V6(address) => IpAddr::from((u128::from(address).wrapping_add(1)).to_be_bytes()),
    };
    Ok(Some((subnet.trunc(), gateway.unwrap_or(next))))
}

fn new_network(call: &Call<'_>) -> Result<Network> {
    let subnet = configured_subnet(call)?.map(|(prefix, gateway)| network::subnet(prefix, gateway));
    Ok(Network {
        owner: OWNER.to_owned(),
        name: call.config.name().to_owned(),
        network_type: network_type(call)?,
        policies: policy::of_network(&call.config.root())?,
        dns: dns::to_hcn(names(call)?),
        ipams: subnet.map(|subnet| Ipam { subnets: vec![subnet], ..Ipam::default() }).into_iter().collect(),
        schema_version: SchemaVersion::v2(),
        ..Network::default()
    })
}

/// How names are resolved. The Kubernetes namespace of the pod, if it is known, goes before the first domain of the configuration.
fn names(call: &Call<'_>) -> Result<Dns> {
    let mut dns = call.config.dns()?;
    let args = call.environment.args().unwrap_or_default();
    if let (Some(first), Some(namespace)) =
        (dns.search.first_mut(), args.get("K8S_POD_NAMESPACE").filter(|namespace| !namespace.is_empty()))
    {
        *first = format!("{namespace}.{first}");
    }
    let runtime = call.config.runtime_dns()?;
    for (list, by) in [(&mut dns.nameservers, runtime.nameservers), (&mut dns.search, runtime.search), (&mut dns.options, runtime.options)]
    {
        if !by.is_empty() {
            *list = by;
        }
    }
    Ok(dns)
}

/// One address, IPv4 rather than IPv6, or with `enableDualStack` one of each.
fn addresses(site: &Site<'_>, lease: Option<&AddResult>, flags: &Flags) -> Vec<IpNet> {
    if flags.dual_stack {
        return endpoint::addresses(&site.network, lease);
    }
    let all = || lease.into_iter().flat_map(|lease| &lease.ips).map(|ip| ip.address);
    all().find(|address| address.addr().is_ipv4()).or_else(|| all().next()).into_iter().collect()
}

/// The gateway of an address: what IPAM says, else what the configuration says.
fn gateway(call: &Call<'_>, address: IpNet, lease: Option<&AddResult>, flags: &Flags) -> Result<Option<IpAddr>> {
    let network = address.network();
    if let (true, IpAddr::V4(network)) = (flags.force_bridge_gateway, network) {
        let [a, b, c, _] = network.octets();
        return Ok(Some(Ipv4Addr::new(a, b, c, 2).into()));
    }
    let leased = lease.into_iter().flat_map(|lease| &lease.ips).find(|ip| ip.address == address).and_then(|ip| ip.gateway);
    let is_like = |gateway: &IpAddr| gateway.is_ipv4() == network.is_ipv4();
    let configured = configured_subnet(call)?.map(|(_, gateway)| gateway).filter(is_like);
    match leased.or(configured) {
        None if flags.gateway_from_additional_routes => additional_gateway(call, network.is_ipv4()),
        found => Ok(found),
    }
}

/// The gateway of the first default route of a family in `additionalRoutes`.
fn additional_gateway(call: &Call<'_>, ipv4: bool) -> Result<Option<IpAddr>> {
    for route in call.config.root().objects("additionalRoutes")? {
        let is_default = route.prefix("dst")?.is_some_and(|prefix| prefix.prefix_len() == 0 && prefix.addr().is_ipv4() == ipv4);
        if let (true, Some(gateway)) = (is_default, route.address("gw")?) {
            return Ok(Some(gateway));
        }
    }
    Ok(None)
}

fn require_dsr(hcn: &dyn Hcn) -> Result<()> {
    match network::has_dsr(hcn)? {
        true => Ok(()),
        false => Err(Error::unsupported_field("optionalFlags.loopbackDSR: true, but this HNS has no direct server return")
            .details("leave it out, or update Windows")),
    }
}

/// Port mappings, then those that `AdditionalArgs` has for endpoints.
fn policies(call: &Call<'_>, flags: &Flags) -> Result<Policies> {
    let mut policies = Policies::default();
    let local = NatFlags::default().set(NatFlags::LOCAL_ROUTED_VIP, flags.local_routed_port_mapping);
    for (index, mapping) in call.config.port_mappings()?.iter().enumerate() {
        let protocol = policies.port_mapping(index, mapping, local, &mapping.host_ip)?;
        if flags.dual_stack {
            policies.port_mapping(index, mapping, local.with(NatFlags::IPV6), "")?;
        }
        if flags.allow_acl_port_mapping {
            policies.push(allow(protocol, mapping.container_port));
        }
    }
    let arguments: Vec<Object<'_>> = call.config.root().objects("AdditionalArgs")?;
    policies.append(Policies::configured(&arguments, "EndpointPolicy")?);
    Ok(policies)
}

/// Lets a mapped port in, whatever other access lists say later.
fn allow(protocol: u64, port: u16) -> Policy {
    let settings = json!({
        "Protocols": protocol.to_string(), "Action": "Allow", "Direction": "In", "LocalPorts": port.to_string(), "Priority": ACL_PRIORITY,
    });
    Policy { settings, ..Policy::new(&EndpointPolicyType::Acl, &serde_json::Value::Null) }
}
