//! Networks: made, changed, deleted.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use hcn::Guid;
use hcn::api::Kind;
use hcn::base::{Dns, ExtraParams, Health, Route, SchemaVersion};
use hcn::error::{Error, Result, detail};
use hcn::event;
use hcn::modify::{IpSubnetSettings, ModifyRequest, NetworkResource, PolicySettings, RequestType, SubnetSettings};
use hcn::network::{Ipam, MacPool, MacRange, Network, NetworkFlags, NetworkType, Subnet};
use hcn::policy::network::*;
use hcn::policy::{self, Policy};
use hcn::{Field, Path};
use ipnet::{IpNet, Ipv4Net};
use wire::MacAddress;

use crate::machine::Adapter;
use crate::operation::policy::{change_network_policies, modify_request};
use crate::operation::{Draft, endpoint, load_balancer, route, unsupported};
use crate::profile::Feature;
use crate::record::{Inside, Record};
use crate::state::Addresses;
use crate::validate;
use crate::validate::policy::Place;

/// Makes a network.
pub(crate) fn create(draft: &mut Draft<'_>, mut network: Network, type_spelling: String, id: Option<Guid>) -> Result<Guid> {
    network.id = draft.new_id(network.id, id);
    draft.announce(event::Change::PreCreate, &network);
    check_identity(draft, &network)?;
    check_type(draft, &network)?;
    check_flags(draft, &network)?;
    validate::network::mac_pool(&mut network.mac_pool)?;
    if network.mac_pool.ranges.is_empty() {
        network.mac_pool = default_mac_pool(draft, network.id)?;
    }
    validate::network::subnets(&mut network, &draft.world.build)?;
    if network.subnets().next().is_none() && has_subnet_of_its_own(&network.network_type) {
        network.ipams = default_ipams(draft, network.id)?;
    }
    if has_subnet_of_its_own(&network.network_type) {
        network.ipams.iter_mut().flat_map(|ipam| &mut ipam.subnets).for_each(default_gateway);
    }
    check_overlap(draft, &network)?;
    let place = Place::new(&draft.world.build, &network.network_type, &network.policies);
    network.policies = validate::policy::network_policies(&network.policies, &place)?;
    validate::sets::no_circle(&network.policies)?;
    let adapter = bind(draft, &mut network)?;
    complete(draft, &mut network);
    let id = network.id;
    draft.insert(network, Inside { type_spelling, adapter, ..Inside::default() });
    Ok(id)
}

fn check_identity(draft: &Draft<'_>, network: &Network) -> Result<()> {
    if draft.state.networks.contains(network.id) {
        let cause = format!("a network with the id {} exists", network.id);
        return Err(Error::NetworkAlreadyExists(detail(cause).field("ID").remedy("leave the id out, or open the network that exists")));
    }
    let namesake = draft.state.networks.named(&network.name).next().filter(|_| !network.name.is_empty());
    if let Some(other) = namesake {
        let cause = format!("the network {other} has the name {:?}", network.name);
        return Err(Error::NetworkAlreadyExists(detail(cause).field("Name").remedy("choose another name, or use the network that exists")));
    }
    Ok(())
}

fn check_type(draft: &Draft<'_>, network: &Network) -> Result<()> {
    let since = match network.network_type {
        NetworkType::Mirrored | NetworkType::Infiniband => (2, 4),
        NetworkType::ConstrainedIcs => (2, 10),
        NetworkType::Other(_) | NetworkType::OtherNumber(_) => (u32::MAX, 0),
        _ => (2, 0),
    };
    if draft.world.build.profile.schema >= since {
        return Ok(());
    }
    let cause = format!("{} is no network type of {}", network.network_type, draft.world.build.profile.windows);
    let remedy = "use NAT, L2Bridge, L2Tunnel, Overlay, Transparent, ICS, Private or Internal";
    Err(Error::InvalidNetworkType(detail(cause).field("Type").remedy(remedy)))
}

fn check_flags(draft: &Draft<'_>, network: &Network) -> Result<()> {
    let both = NetworkFlags::ENABLE_PERSISTENT.with(NetworkFlags::ENABLE_NON_PERSISTENT);
    if network.flags.has(both) {
        let cause = "the network cannot be persistent and not persistent";
        return Err(Error::InvalidNetwork(detail(cause).field("Flags").remedy("set one of the bits 8 and 16")));
    }
    if network.flags.has(NetworkFlags::DISABLE_HOST_PORT) && !draft.world.build.has(Feature::DisableHostPort) {
        let cause = format!("networks without a host port are not supported by {}", draft.world.build.profile.windows);
        return Err(Error::RequestUnsupported(detail(cause).field("Flags").remedy("clear bit 1024, or use --with disable-host-port")));
    }
    Ok(())
}

fn has_subnet_of_its_own(network_type: &NetworkType) -> bool {
    matches!(network_type, NetworkType::Nat | NetworkType::Ics | NetworkType::ConstrainedIcs)
}

/// Where the host itself is the gateway, it takes the first address of a subnet that names none.
fn default_gateway(subnet: &mut Subnet) {
    let first = subnet.ip_address_prefix.parse().ok().and_then(|prefix: IpNet| prefix.hosts().next());
    if let Some(first) = first.filter(|_| subnet.gateway().is_none()) {
        let destination_prefix = if first.is_ipv4() { "0.0.0.0/0" } else { "::/0" }.to_owned();
        subnet.routes.push(Route { next_hop: first.to_string(), destination_prefix, ..Route::default() });
    }
}

/// Two networks may share addresses only if something keeps their packets apart.
fn check_overlap(draft: &Draft<'_>, network: &Network) -> Result<()> {
    for subnet in network.subnets() {
        let Ok(prefix) = subnet.ip_address_prefix.parse::<IpNet>() else { continue };
        for other in draft.state.networks.iter().map(|record| &record.document) {
            if other.network_type != network.network_type || !is_one_address_space(&network.network_type) {
                continue;
            }
            let clash = other.subnets().find(|other| is_clash(subnet, &prefix, other));
            if let Some(clash) = clash {
                return Err(overlap_error(network, &prefix, other, clash));
            }
        }
    }
    Ok(())
}

/// Whether all networks of a type share one routing table, the host's.
fn is_one_address_space(network_type: &NetworkType) -> bool {
    matches!(
        network_type,
        NetworkType::Nat
            | NetworkType::Ics
            | NetworkType::ConstrainedIcs
            | NetworkType::L2Bridge
            | NetworkType::L2Tunnel
            | NetworkType::Overlay
    )
}

fn is_clash(subnet: &Subnet, prefix: &IpNet, other: &Subnet) -> bool {
    let overlaps = other.ip_address_prefix.parse().is_ok_and(|other| validate::network::overlaps(prefix, &other));
    overlaps && validate::network::isolation(subnet) == validate::network::isolation(other)
}

fn overlap_error(network: &Network, prefix: &IpNet, other: &Network, clash: &Subnet) -> Error {
    let cause = format!("{prefix} overlaps {} of the network {:?} ({})", clash.ip_address_prefix, other.name, other.id);
    let detail =
        detail(cause).field("Ipams").remedy("choose another prefix, isolate the networks by VLAN or VSID, or delete the other one");
    match network.network_type {
        NetworkType::Ics | NetworkType::ConstrainedIcs => Error::DuplicateName(detail),
        _ => Error::ObjectAlreadyExists(detail),
    }
}

/// A block of 4096 addresses below Microsoft's prefix that no other network has.
fn default_mac_pool(draft: &Draft<'_>, id: Guid) -> Result<MacPool> {
    const BLOCKS: usize = 1 << 12;
    let base = MacAddress([0x00, 0x15, 0x5d, 0, 0, 0]).to_u64();
    let mut taken = [false; BLOCKS];
    for range in draft.state.networks.iter().flat_map(|record| &record.document.mac_pool.ranges) {
        let (Ok(start), Ok(end)) = (range.start.parse::<MacAddress>(), range.end.parse::<MacAddress>()) else { continue };
        let (start, end) = (start.to_u64().max(base), end.to_u64().min(base + (1 << 24) - 1));
        for block in (start..=end).step_by(1 << 12).chain([end]).filter(|_| start <= end) {
            taken[((block - base) >> 12) as usize] = true;
        }
    }
    let first = id.as_fields().0 as usize % BLOCKS;
    let free = (0..BLOCKS).map(|step| (first + step) % BLOCKS).find(|block| !taken[*block]).ok_or_else(|| {
        let cause = "every block of 4096 addresses below 00-15-5D belongs to a network already";
        Error::InvalidNetwork(detail(cause).field("MacPool").remedy("give the network a MAC pool of your choice"))
    })?;
    let start = base + ((free as u64) << 12);
    let text = |number| MacAddress::from_u64(number).to_string();
    let range = MacRange { start: text(start), end: text(start + (1 << 12) - 1), ..MacRange::default() };
    Ok(MacPool { ranges: vec![range], ..MacPool::default() })
}

/// A /20 of 172.16.0.0/12 that no other network has, with its first address as the gateway.
fn default_ipams(draft: &Draft<'_>, id: Guid) -> Result<Vec<Ipam>> {
    const SUBNETS: u32 = 1 << 8;
    let taken: Vec<IpNet> = draft
        .state
        .networks
        .iter()
        .flat_map(|record| record.document.subnets().filter_map(|subnet| subnet.ip_address_prefix.parse().ok()).collect::<Vec<_>>())
        .collect();
    let start = id.as_fields().0 % SUBNETS;
    let candidate = |step: u32| Ipv4Net::new(Ipv4Addr::from(0xac10_0000 | ((start + step) % SUBNETS) << 12), 20).ok();
    let free =
        (0..SUBNETS).filter_map(candidate).find(|net| !taken.iter().any(|other| validate::network::overlaps(other, &IpNet::V4(*net))));
    let Some(prefix) = free else {
        let cause = "every /20 of 172.16.0.0/12 belongs to a network already";
        return Err(Error::ObjectAlreadyExists(detail(cause).field("Ipams").remedy("give the network a subnet of your choice")));
    };
    let gateway = Ipv4Addr::from(u32::from(prefix.network()) + 1);
    let route = Route { next_hop: gateway.to_string(), destination_prefix: "0.0.0.0/0".into(), ..Route::default() };
    let subnet = Subnet { id: Guid::new_v4(), ip_address_prefix: prefix.to_string(), routes: vec![route], ..Subnet::default() };
    Ok(vec![Ipam { subnets: vec![subnet], ..Ipam::default() }])
}

/// Binds a network to an adapter of the host where its type needs one. Returns the adapter's name.
fn bind(draft: &Draft<'_>, network: &mut Network) -> Result<String> {
    check_layer(draft, network)?;
    if !network.network_type.is_external() {
        return Ok(String::new());
    }
    let adapters = draft.world.machine.adapters();
    let adapter = choose_adapter(network, &adapters)?;
    set_management_address(network, adapter);
    if network.network_type == NetworkType::Overlay && !network.policies.iter().any(|policy| policy.is(&NetworkPolicyType::DrMacAddress)) {
        let address = router_mac(network).to_string();
        let settings = DrMacAddressSettings { address, ..DrMacAddressSettings::default() };
        network.policies.push(Policy::new(&NetworkPolicyType::DrMacAddress, &settings));
    }
    Ok(adapter.name.clone())
}

fn check_layer(draft: &Draft<'_>, network: &Network) -> Result<()> {
    let wanted: Option<LayerConstraintSettings> = policy::find(&network.policies, &NetworkPolicyType::LayerConstraint);
    let Some(wanted) = wanted else { return Ok(()) };
    let exists = draft.state.networks.iter().any(|record| record.document.health.extra_params.layered_on == wanted.layer_id);
    if exists {
        return Ok(());
    }
    let cause = format!("no network is layered on {}", wanted.layer_id);
    Err(Error::LayerNotFound(detail(cause).field("Policies").remedy("give Health.Extra.LayeredOn of the network below")))
}

fn choose_adapter<'a>(network: &Network, adapters: &'a [Adapter]) -> Result<&'a Adapter> {
    let named: Option<NetAdapterNameSettings> = policy::find(&network.policies, &NetworkPolicyType::NetAdapterName);
    if let Some(named) = named {
        let found = adapters.iter().find(|adapter| adapter.is_called(&named.name));
        return found.ok_or_else(|| no_adapter(&format!("no adapter is called {:?}", named.name), adapters));
    }
    let constraint: Option<InterfaceConstraintSettings> = policy::find(&network.policies, &NetworkPolicyType::InterfaceConstraint);
    if let Some(constraint) = constraint.filter(|constraint| !constraint.interface_alias.is_empty() || constraint.interface_index != 0) {
        let meets = |adapter: &&Adapter| match constraint.interface_alias.as_str() {
            "" => adapter.index == constraint.interface_index,
            alias => adapter.is_called(alias),
        };
        return adapters.iter().find(meets).ok_or_else(|| no_adapter("no adapter meets the InterfaceConstraint policy", adapters));
    }
    let provider: Option<ProviderAddressSettings> = policy::find(&network.policies, &NetworkPolicyType::ProviderAddress);
    let address: Option<IpAddr> = provider.and_then(|provider| provider.provider_address.parse().ok());
    if let Some(address) = address {
        let has = |adapter: &&Adapter| adapter.addresses.iter().any(|net| net.addr() == address);
        return adapters.iter().find(has).ok_or_else(|| no_adapter(&format!("no adapter has the address {address}"), adapters));
    }
    adapters.first().ok_or_else(|| no_adapter("the machine has no adapter", adapters))
}

fn no_adapter(cause: &str, adapters: &[Adapter]) -> Error {
    let names: Vec<&str> = adapters.iter().map(|adapter| adapter.name.as_str()).collect();
    let remedy = match names.is_empty() {
        true => {
            "start hnsd with --adapter NAME=INTERFACE, or with --adapter NAME,ip=PREFIX,mac=MAC for one that exists only here".to_owned()
        }
        false => format!("use one of {}, or start hnsd with --adapter NAME=INTERFACE", names.join(", ")),
    };
    Error::AdapterNotFound(detail(cause).field("Policies").remedy(remedy))
}

/// Shows the adapter's address the way HNS does: as a ProviderAddress policy.
fn set_management_address(network: &mut Network, adapter: &Adapter) {
    let has = network.policies.iter().any(|policy| policy.is(&NetworkPolicyType::ProviderAddress));
    if let Some(address) = adapter.management_address().filter(|_| !has) {
        let settings = ProviderAddressSettings { provider_address: address.to_string(), ..ProviderAddressSettings::default() };
        network.policies.push(Policy::new(&NetworkPolicyType::ProviderAddress, &settings));
    }
}

/// The MAC address of an overlay network's router on this host. It has the bit that says "assigned locally", with which the
/// pools of Windows do not begin, so that no endpoint gets it.
fn router_mac(network: &Network) -> MacAddress {
    let [a, b, c, ..] = *network.id.as_bytes();
    let in_pool = |mac: &MacAddress| {
        network.mac_pool.ranges.iter().any(|range| match (range.start.parse(), range.end.parse()) {
            (Ok(start), Ok(end)) => (start..=end).contains(mac),
            _ => false,
        })
    };
    let candidates = [0x02, 0x06, 0x0a, 0x0e].map(|first| MacAddress([first, 0x15, 0x5d, a, b, c]));
    candidates.into_iter().find(|mac| !in_pool(mac)).unwrap_or(candidates[0])
}

fn complete(draft: &Draft<'_>, network: &mut Network) {
    if network.schema_version.major < 2 {
        network.schema_version = SchemaVersion::v2();
    }
    network.version = draft.world.build.version_number();
    network.state = 1;
    let (switch_guid, layered_on) = switch_of(draft, network);
    network.health = Health { extra_params: ExtraParams { switch_guid, layered_on, ..ExtraParams::default() }, ..Health::default() };
}

/// Networks on one adapter share a switch; every other network has its own.
fn switch_of(draft: &Draft<'_>, network: &Network) -> (Guid, Guid) {
    let address: fn(&Network) -> Option<ProviderAddressSettings> =
        |network| policy::find(&network.policies, &NetworkPolicyType::ProviderAddress);
    let same =
        |other: &Network| network.network_type.is_external() && other.network_type.is_external() && address(other) == address(network);
    let shared = draft.state.networks.iter().find(|record| same(&record.document));
    match shared {
        Some(record) => (record.document.health.extra_params.switch_guid, record.document.health.extra_params.layered_on),
        None => (Guid::new_v4(), Guid::new_v4()),
    }
}

/// The network with this id, for a change.
pub(crate) fn get(draft: &Draft<'_>, id: Guid) -> Result<Record<Network>> {
    draft.state.networks.get(id).map(|record| Record::clone(record)).ok_or_else(|| Kind::Network.not_found(id))
}

/// Changes a network.
pub(crate) fn modify(draft: &mut Draft<'_>, id: Guid, request: ModifyRequest) -> Result<()> {
    let mut record = get(draft, id)?;
    let (resource, request_type): (NetworkResource, RequestType) = modify_request(&request)?;
    let settings = Path::Root.key("Settings");
    let body = request.settings;
    match (&resource, &request_type) {
        (NetworkResource::Policy, _) => {
            let wanted = PolicySettings::read(body, &settings)?.policies;
            change_network_policies(draft, &mut record.document, &request_type, &wanted)?;
        }
        (NetworkResource::Dns, RequestType::Update | RequestType::Add) => record.document.dns = Dns::read(body, &settings)?,
        (NetworkResource::Extension, RequestType::Update) => {
            let extension = ExtensionSettings::read(body, &settings)?;
            set_extension(&mut record.document, &extension)?;
        }
        (NetworkResource::Subnet, RequestType::Add) => add_subnets(draft, &mut record.document, SubnetSettings::read(body, &settings)?)?,
        (NetworkResource::Subnet, RequestType::Remove) => {
            remove_subnets(draft, &mut record.document, &SubnetSettings::read(body, &settings)?)?
        }
        (NetworkResource::IpSubnet, RequestType::Add | RequestType::Remove) => {
            change_ip_subnets(draft, &mut record.document, IpSubnetSettings::read(body, &settings)?, request_type == RequestType::Add)?;
        }
        _ => {
            let cause = format!("{request_type} of {resource} is not a request that a network knows");
            return Err(unsupported(
                cause,
                "use Add, Remove or Update of Policy; Update of DNS or Extension; Add or Remove of Subnet or IPSubnet",
            ));
        }
    }
    draft.update(record);
    Ok(())
}

/// The switch extensions that exist, by id; newer builds have another id for VFP.
const EXTENSIONS: [&str; 5] = [
    "e7c3b2f0-f3c5-48df-af2b-10fed6d72e7a",
    "e9b59cfa-2be1-4b21-828f-b6fbdbddc017",
    "f74f241b-440f-4433-bb28-00f89ead20d8",
    "ea24cd6c-d17a-4348-9190-09f0d5be83dd",
    "430bdadd-bab0-41ab-a369-94b67fa5be0a",
];

/// Switches an extension on or off; the choice is kept as a VSwitchExtension policy.
pub(crate) fn set_extension(network: &mut Network, extension: &ExtensionSettings) -> Result<()> {
    if !EXTENSIONS.contains(&extension.id.to_string().as_str()) {
        let cause = format!("no switch extension has the id {}", extension.id);
        return Err(Error::SwitchExtensionNotFound(
            detail(cause).field("Settings.Id").remedy("see Extensions in the schema 1 view of a network"),
        ));
    }
    let is_same = |policy: &Policy| {
        let settings: Option<VSwitchExtensionSettings> =
            policy.is(&NetworkPolicyType::VSwitchExtension).then(|| policy.settings().ok()).flatten();
        settings.is_some_and(|settings| settings.extension_id == extension.id)
    };
    network.policies.retain(|policy| !is_same(policy));
    let settings = VSwitchExtensionSettings { extension_id: extension.id, enable: extension.is_enabled, ..Default::default() };
    network.policies.push(Policy::new(&NetworkPolicyType::VSwitchExtension, &settings));
    Ok(())
}

fn add_subnets(draft: &Draft<'_>, network: &mut Network, settings: SubnetSettings) -> Result<()> {
    for new in &settings.subnets {
        if !new.id.is_nil() && network.subnets().any(|subnet| subnet.id == new.id) {
            let cause = format!("the network has a subnet with the id {}", new.id);
            return Err(Error::ObjectAlreadyExists(detail(cause).field("Settings.Subnets").remedy("leave the id out")));
        }
    }
    if network.ipams.is_empty() {
        network.ipams.push(Ipam::default());
    }
    let before = network.clone();
    network.ipams[0].subnets.extend(settings.subnets);
    validate::network::subnets(network, &draft.world.build)?;
    refuse_taken_ends(draft, network)?;
    let others = Network { ipams: network.ipams.clone(), ..before };
    check_overlap_with_others(draft, &others)
}

/// A new subnet cannot reserve an address that an endpoint has.
fn refuse_taken_ends(draft: &Draft<'_>, network: &Network) -> Result<()> {
    let addresses = Addresses::of(network);
    let endpoints = draft.state.endpoints.of_network(network.id).filter_map(|id| draft.state.endpoints.get(id));
    for endpoint in endpoints.map(|record| &record.document).filter(|endpoint| !endpoint.is_remote()) {
        for configuration in &endpoint.ip_configurations {
            let address = configuration.ip_address.parse().ok().filter(|address| addresses.is_reserved(*address));
            if let Some(address) = address {
                let cause = format!("the endpoint {} has {address}, which the subnet needs for itself", endpoint.id);
                return Err(Error::EntityHasReferences(detail(cause).field("Settings.Subnets").remedy("choose another prefix or gateway")));
            }
        }
    }
    Ok(())
}

/// As [`check_overlap`], for a network that exists already.
fn check_overlap_with_others(draft: &Draft<'_>, network: &Network) -> Result<()> {
    let mut rest = Draft::new(draft.state.clone(), draft.world);
    rest.state.remove(Kind::Network, network.id);
    check_overlap(&rest, network)
}

fn remove_subnets(draft: &Draft<'_>, network: &mut Network, settings: &SubnetSettings) -> Result<()> {
    for unwanted in &settings.subnets {
        let found = network.subnets().find(|subnet| subnet.id == unwanted.id).cloned();
        let subnet = found.ok_or_else(|| {
            let cause = format!("the network has no subnet with the id {}", unwanted.id);
            Error::SubnetNotFound(detail(cause).field("Settings.Subnets").remedy("query the network for the ids of its subnets"))
        })?;
        refuse_if_in_use(draft, network, &subnet.ip_address_prefix)?;
        for ipam in &mut network.ipams {
            ipam.subnets.retain(|subnet| subnet.id != unwanted.id);
        }
    }
    Ok(())
}

fn change_ip_subnets(draft: &Draft<'_>, network: &mut Network, settings: IpSubnetSettings, add: bool) -> Result<()> {
    let id = network.id;
    let subnets = network.ipams.iter_mut().flat_map(|ipam| &mut ipam.subnets);
    let subnet = subnets.into_iter().find(|subnet| subnet.id == settings.subnet_id).ok_or_else(|| {
        let cause = format!("the network {id} has no subnet with the id {}", settings.subnet_id);
        Error::SubnetNotFound(detail(cause).field("Settings.SubnetId").remedy("query the network for the ids of its subnets"))
    })?;
    if add {
        subnet.ip_subnets.extend(settings.ip_subnets);
    } else {
        for unwanted in &settings.ip_subnets {
            let Some(at) = subnet.ip_subnets.iter().position(|part| part.id == unwanted.id) else {
                let cause = format!("the subnet has no IP subnet with the id {}", unwanted.id);
                return Err(Error::InvalidIpSubnet(detail(cause).field("Settings.IpSubnets").remedy("query the network for the ids")));
            };
            let part = subnet.ip_subnets.remove(at);
            refuse_if_in_use(draft, &Network { id, ..Network::default() }, &part.ip_address_prefix)?;
        }
    }
    let prefix: IpNet = validate::text::prefix(&subnet.ip_address_prefix, "IpAddressPrefix", Error::InvalidPrefix)?;
    validate::network::ip_subnets(subnet, &prefix)
}

fn refuse_if_in_use(draft: &Draft<'_>, network: &Network, prefix: &str) -> Result<()> {
    let Ok(prefix) = prefix.parse::<IpNet>() else { return Ok(()) };
    let endpoints = draft.state.endpoints.of_network(network.id).filter_map(|id| draft.state.endpoints.get(id));
    let user = endpoints.map(|record| &record.document).find(|endpoint| {
        !endpoint.is_remote()
            && endpoint.ip_configurations.iter().any(|ip| ip.ip_address.parse().is_ok_and(|ip: IpAddr| prefix.contains(&ip)))
    });
    match user {
        None => Ok(()),
        Some(endpoint) => {
            let cause = format!("the endpoint {} has an address of {prefix}", endpoint.id);
            Err(Error::EntityHasReferences(detail(cause).remedy("delete the endpoints of the subnet first")))
        }
    }
}

/// Deletes a network with the endpoints on it that nothing is attached to.
pub(crate) fn delete(draft: &mut Draft<'_>, id: Guid) -> Result<()> {
    let network = get(draft, id)?.document;
    draft.announce(event::Change::PreDelete, &network);
    let endpoints: Vec<Guid> = draft.state.endpoints.of_network(id).collect();
    for endpoint in &endpoints {
        refuse_if_attached(draft, &network, *endpoint)?;
    }
    // Once for each load balancer and route, not once for each endpoint in it.
    let going: BTreeSet<Guid> = endpoints.iter().copied().collect();
    load_balancer::forget_network(draft, id, &going);
    route::forget_network(draft, id, &going);
    for endpoint in endpoints {
        endpoint::delete(draft, endpoint)?;
    }
    draft.remove(&network);
    Ok(())
}

fn refuse_if_attached(draft: &Draft<'_>, network: &Network, endpoint: Guid) -> Result<()> {
    let attached = draft.state.endpoints.get(endpoint).filter(|record| endpoint::is_attached(record));
    match attached {
        None => Ok(()),
        Some(record) => {
            let cause = format!("the endpoint {endpoint} ({:?}) on the network {:?} is attached", record.document.name, network.name);
            Err(Error::EntityHasReferences(detail(cause).remedy("detach or delete the network's endpoints first")))
        }
    }
}
