//! Endpoints: made, changed, deleted.

use std::net::{IpAddr, Ipv4Addr};

use hcn::api::Kind;
use hcn::base::{Health, Route, SchemaVersion};
use hcn::endpoint::{Endpoint, EndpointFlags, EndpointState, IpConfiguration};
use hcn::error::{Error, Result, detail};
use hcn::load_balancer::ProtocolType;
use hcn::modify::{EndpointResource, ModifyRequest, PolicySettings, PortSettings, RequestType};
use hcn::network::{IpamType, Network, NetworkType};
use hcn::policy::Policy;
use hcn::policy::endpoint::{EndpointPolicyType, PortMappingSettings};
use hcn::{Field, Guid, Path, event};

use crate::operation::policy::{change_endpoint_policies, modify_request};
use crate::operation::{Draft, attachment, id_taken, load_balancer, route, unsupported};
use crate::profile::Feature;
use crate::record::{Inside, Record};
use crate::state::{AddressError, Addresses, HostPort, host_port, host_ports_of, ports_belong_to};
use crate::validate::policy::Place;
use crate::validate::{self, text};

/// Ports HNS gives out when a mapping names none.
const DYNAMIC_PORTS: std::ops::RangeInclusive<u16> = 49152..=65535;

/// Makes an endpoint on a network.
pub(crate) fn create(draft: &mut Draft<'_>, mut endpoint: Endpoint, network: Guid, id: Option<Guid>) -> Result<Guid> {
    let network = draft.state.networks.get(network).ok_or_else(|| Kind::Network.not_found(network))?.clone();
    let network = &network.document;
    refuse_degraded(draft, network)?;
    endpoint.id = draft.new_id(endpoint.id, id);
    if draft.state.endpoints.contains(endpoint.id) {
        return Err(id_taken(Kind::Endpoint, endpoint.id));
    }
    endpoint.network = network.id;
    let namespace = std::mem::take(&mut endpoint.namespace);
    check_policies(draft, network, &mut endpoint)?;
    set_addresses(draft, network, &mut endpoint)?;
    set_routes(draft, network, &mut endpoint)?;
    set_mac(draft, &mut endpoint)?;
    complete(draft, network, &mut endpoint);
    let id = endpoint.id;
    draft.insert(endpoint, Inside::default());
    if !namespace.is_nil() {
        attachment::add_endpoint(draft, namespace, id)?;
    }
    Ok(id)
}

/// The network an endpoint's document asks for: by id or by name. They must agree with the one the caller opened.
pub(crate) fn network_of(draft: &Draft<'_>, endpoint: &Endpoint, name: &str, opened: Option<Guid>) -> Result<Guid> {
    if let Some(opened) = opened.filter(|_| !endpoint.network.is_nil() && Some(endpoint.network) != opened) {
        let cause = format!("the document names the network {}, but it was sent to {opened}", endpoint.network);
        return Err(Error::InvalidEndpoint(
            detail(cause).field("HostComputeNetwork").remedy("leave the field out, or send it to that network"),
        ));
    }
    if let Some(network) = opened.or(Some(endpoint.network).filter(|network| !network.is_nil())) {
        return Ok(network);
    }
    if name.is_empty() {
        let cause = "the document names no network";
        return Err(Error::InvalidEndpoint(detail(cause).field("HostComputeNetwork").remedy("give the network's id")));
    }
    draft.state.networks.named(name).next().ok_or_else(|| {
        let cause = format!("no network has the name {name:?}");
        Error::NetworkNotFound(detail(cause).field("VirtualNetworkName").remedy("list the networks to see which there are"))
    })
}

fn refuse_degraded(draft: &Draft<'_>, network: &Network) -> Result<()> {
    if !draft.state.degraded.contains(&network.id) {
        return Ok(());
    }
    let cause = format!("the network {:?} is degraded: the switch could not do what it asks for", network.name);
    Err(Error::DegradedOperation(
        detail(cause).remedy("see the log of hnsd for the reason; delete the network and make it anew if it stays so"),
    ))
}

fn check_policies(draft: &Draft<'_>, network: &Network, endpoint: &mut Endpoint) -> Result<()> {
    let place = Place::new(&draft.world.build, &network.network_type, &network.policies);
    endpoint.policies.retain(|policy| !policy.is_absent());
    endpoint.policies = validate::policy::endpoint_policies(&endpoint.policies, &place)?;
    reserve_host_ports(draft, network, endpoint, &[])
}

/// Gives port mappings without an external port one, and refuses ports that somebody has. `own` are those the endpoint has.
fn reserve_host_ports(draft: &Draft<'_>, network: &Network, endpoint: &mut Endpoint, own: &[HostPort]) -> Result<()> {
    let owner = ports_belong_to(network);
    let mut chosen: Vec<HostPort> = Vec::new();
    // Those that name their port come first, so that none is given away under them.
    for named in [true, false] {
        for (index, policy) in endpoint.policies.iter_mut().enumerate().filter(|(_, policy)| policy.is(&EndpointPolicyType::PortMapping)) {
            let mut settings: PortMappingSettings = policy.settings()?;
            if (settings.external_port != 0) != named {
                continue;
            }
            if !named {
                settings.external_port = dynamic_port(draft, network, &settings, &chosen)?;
                *policy = Policy { settings: settings.write(), ..policy.clone() };
            }
            let port = host_port(owner, &settings);
            let twice =
                || Error::PortAlreadyExists(detail("the port is mapped twice").field("Settings.ExternalPort").remedy("map each port once"));
            let conflict = match chosen.iter().any(|other| other.conflicts(&port)) {
                true => Some(twice()),
                false => conflict_of(draft, network, endpoint.id, &port, &settings.protocol, own.contains(&port)),
            };
            if let Some(error) = conflict {
                return Err(error.within(&format!("Policies[{index}]")));
            }
            chosen.push(port);
        }
    }
    Ok(())
}

fn dynamic_port(draft: &Draft<'_>, network: &Network, settings: &PortMappingSettings, chosen: &[HostPort]) -> Result<u16> {
    let protocol = settings.protocol.number().and_then(|number| u8::try_from(number).ok()).unwrap_or_default();
    let free = |port: &u16| {
        let wanted = host_port(ports_belong_to(network), &PortMappingSettings { external_port: *port, ..settings.clone() });
        draft.state.host_port_owners(&wanted).next().is_none()
            && !chosen.iter().any(|other| other.conflicts(&wanted))
            && !draft.world.machine.port_in_use(protocol, *port)
    };
    DYNAMIC_PORTS.into_iter().find(free).ok_or_else(|| {
        let cause = format!("all ports from {} to {} are taken", DYNAMIC_PORTS.start(), DYNAMIC_PORTS.end());
        Error::PortAlreadyExists(detail(cause).field("ExternalPort").remedy("name a port, or delete an endpoint that has one"))
    })
}

/// Who else has a port of the host. Windows says so in its own words on NAT networks.
fn conflict_of(
    draft: &Draft<'_>,
    network: &Network,
    endpoint: Guid,
    port: &HostPort,
    protocol: &ProtocolType,
    is_own: bool,
) -> Option<Error> {
    let code = match network.network_type {
        NetworkType::Nat => Error::SharingViolation,
        _ => Error::PortAlreadyExists,
    };
    let describe = |who: String| {
        let cause = format!("{protocol} port {} belongs to {who}", port.port);
        code(detail(cause).field("Settings.ExternalPort").remedy("choose another port, or free this one"))
    };
    if let Some(owner) = draft.state.host_port_owners(port).find(|owner| *owner != endpoint) {
        return Some(describe(format!("the endpoint {owner}")));
    }
    if let Some(owner) = port.frontends().iter().find_map(|frontend| draft.state.frontend_owner(frontend)) {
        return Some(describe(format!("the load balancer {owner}")));
    }
    let number = protocol.number().and_then(|number| u8::try_from(number).ok())?;
    let is_taken = !is_own && network.network_type == NetworkType::Nat && draft.world.machine.port_in_use(number, port.port);
    is_taken.then(|| describe("a socket of the host".into()))
}

fn set_addresses(draft: &Draft<'_>, network: &Network, endpoint: &mut Endpoint) -> Result<()> {
    // Clients without an IPAM send one empty configuration as a placeholder.
    endpoint.ip_configurations.retain(|configuration| !configuration.ip_address.is_empty() || !configuration.ip_subnet_id.is_nil());
    if endpoint.ip_configurations.is_empty() && !endpoint.is_remote() {
        endpoint.ip_configurations = allocate(draft, network, endpoint)?;
        return Ok(());
    }
    if endpoint.ip_configurations.is_empty() {
        let cause = "an endpoint of another host has no address";
        let remedy = "give the address it has there; kube-proxy and others read it unasked";
        return Err(Error::InvalidEndpoint(detail(cause).field("IpConfigurations").remedy(remedy)));
    }
    let addresses = addresses_of_network(draft, network)?;
    let remote = endpoint.is_remote();
    for (index, configuration) in endpoint.ip_configurations.iter_mut().enumerate() {
        check_length(draft, configuration, remote).map_err(|error| error.within(&format!("IpConfigurations[{index}]")))?;
        check_address(addresses, configuration, remote).map_err(|error| error.within(&format!("IpConfigurations[{index}]")))?;
    }
    check_families(draft, endpoint)
}

fn addresses_of_network<'a>(draft: &'a Draft<'_>, network: &Network) -> Result<&'a Addresses> {
    draft.state.addresses(network.id).ok_or_else(|| Kind::Network.not_found(network.id))
}

/// Addresses from the network: one of each IP version it has subnets of.
fn allocate(draft: &Draft<'_>, network: &Network, endpoint: &Endpoint) -> Result<Vec<IpConfiguration>> {
    let by_dhcp = endpoint.flags.has(EndpointFlags::ENABLE_DHCP) || network.ipams.iter().any(|ipam| ipam.ipam_type == IpamType::Dhcp);
    let addresses = addresses_of_network(draft, network)?;
    if by_dhcp || (addresses.subnets().is_empty() && network.network_type == NetworkType::Transparent) {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for ipv6 in [false, true] {
        if !found.is_empty() && !draft.world.build.has(Feature::Ipv6DualStack) {
            break;
        }
        match addresses.find_free(ipv6, Guid::nil()) {
            Ok(configuration) => found.extend(configuration),
            Err(()) => return Err(exhausted(network, ipv6)),
        }
    }
    match found.is_empty() && network.network_type.is_external() {
        true => {
            let cause = format!("the network {:?} has no subnet to take an address from", network.name);
            Err(Error::SubnetNotFound(
                detail(cause).field("IpConfigurations").remedy("give the endpoint an address, or the network a subnet"),
            ))
        }
        false => Ok(found),
    }
}

fn exhausted(network: &Network, ipv6: bool) -> Error {
    let version = if ipv6 { "IPv6" } else { "IPv4" };
    let cause = format!("every {version} address of the network {:?} is in use", network.name);
    Error::AddressInvalidOrReserved(detail(cause).field("IpConfigurations").remedy("delete endpoints, or add a subnet to the network"))
}

fn check_address(addresses: &Addresses, configuration: &mut IpConfiguration, remote: bool) -> Result<()> {
    if configuration.ip_address.is_empty() {
        // Only the IP subnet is named: any address of it will do.
        let ipv6 = addresses.find_free(false, configuration.ip_subnet_id) == Ok(None);
        let found = addresses.find_free(ipv6, configuration.ip_subnet_id).ok().flatten();
        *configuration = found.ok_or_else(|| ip_error(Error::InvalidIpSubnet, "the IP subnet is full or does not exist", "IpSubnetId"))?;
        return Ok(());
    }
    let address = text::ip(&configuration.ip_address, "IpAddress", Error::InvalidIp)?;
    configuration.ip_address = address.to_string();
    let most = if address.is_ipv4() { 32 } else { 128 };
    if configuration.prefix_length > most {
        let cause = format!("a prefix length of {} is more than {most}", configuration.prefix_length);
        return Err(Error::InvalidPrefix(detail(cause).field("PrefixLength").remedy("leave it out to use the subnet's")));
    }
    if remote {
        return Ok(());
    }
    if addresses.subnets().is_empty() {
        if let Some(owner) = addresses.owner(address) {
            return Err(address_error(address, &AddressError::InUse(owner)));
        }
        configuration.prefix_length = if configuration.prefix_length == 0 { most } else { configuration.prefix_length };
        return Ok(());
    }
    addresses.check(address, configuration.ip_subnet_id).map_err(|error| address_error(address, &error))?;
    let subnet = addresses.subnet_of(address);
    if let Some(subnet) = subnet.filter(|_| configuration.prefix_length == 0) {
        configuration.prefix_length = subnet.prefix.prefix_len();
    }
    Ok(())
}

/// Older builds do not know endpoints that are alone in their prefix.
fn check_length(draft: &Draft<'_>, configuration: &IpConfiguration, remote: bool) -> Result<()> {
    let alone = configuration.prefix_length == 32 && configuration.ip_address.parse::<Ipv4Addr>().is_ok();
    if remote || !alone || draft.world.build.has(Feature::Slash32EndpointPrefixes) {
        return Ok(());
    }
    let cause = format!("a prefix length of 32 is not supported by {}", draft.world.build.profile.windows);
    Err(Error::InvalidPrefix(detail(cause).field("PrefixLength").remedy("use the subnet's, or --with slash32-endpoint-prefixes")))
}

fn ip_error(code: text::Code, cause: &str, field: &str) -> Error {
    code(detail(cause).field(field).remedy("query the network for its subnets"))
}

fn address_error(address: IpAddr, error: &AddressError) -> Error {
    let with = |code: text::Code, cause: String, remedy: &str| code(detail(cause).field("IpAddress").remedy(remedy));
    match error {
        AddressError::InNoSubnet => {
            with(Error::InvalidIp, format!("{address} is in no subnet of the network"), "choose an address of one of the network's subnets")
        }
        AddressError::Reserved => with(
            Error::AddressInvalidOrReserved,
            format!("{address} is the gateway, network or broadcast address"),
            "choose another address, or leave it out to have one chosen",
        ),
        AddressError::InUse(owner) => with(
            Error::ObjectAlreadyExists,
            format!("the endpoint {owner} has the address {address}"),
            "choose another address, or delete that endpoint",
        ),
        AddressError::InNoIpSubnet => {
            with(Error::InvalidIpSubnet, format!("{address} is not in the IP subnet that is named"), "choose an address of that IP subnet")
        }
    }
}

fn check_families(draft: &Draft<'_>, endpoint: &Endpoint) -> Result<()> {
    let count = |v4: bool| {
        let parsed = endpoint.ip_configurations.iter().filter_map(|configuration| configuration.ip_address.parse::<IpAddr>().ok());
        parsed.filter(|address| address.is_ipv4() == v4).count()
    };
    let (v4, v6) = (count(true), count(false));
    if v4 > 1 || v6 > 1 {
        let cause = format!("{v4} IPv4 and {v6} IPv6 addresses are more than one of each");
        return Err(Error::InvalidEndpoint(detail(cause).field("IpConfigurations").remedy("give at most one of each version")));
    }
    if v4 + v6 == 2 && !draft.world.build.has(Feature::Ipv6DualStack) {
        let cause = format!("two IP versions on one endpoint are not supported by {}", draft.world.build.profile.windows);
        return Err(Error::RequestUnsupported(detail(cause).field("IpConfigurations").remedy("use one, or --with ipv6-dual-stack")));
    }
    Ok(())
}

/// Keeps the routes that lead somewhere; without any, adds the default routes of the endpoint's subnets.
fn set_routes(draft: &Draft<'_>, network: &Network, endpoint: &mut Endpoint) -> Result<()> {
    endpoint.routes.retain(|route| !route.next_hop.is_empty());
    for (index, route) in endpoint.routes.iter_mut().enumerate() {
        let place = format!("Routes[{index}]");
        text::optional_ip(&mut route.next_hop, "NextHop", Error::InvalidEndpoint).map_err(|error| error.within(&place))?;
        text::prefix(&route.destination_prefix, "DestinationPrefix", Error::InvalidEndpoint).map_err(|error| error.within(&place))?;
    }
    if !endpoint.routes.is_empty() || endpoint.is_remote() {
        return Ok(());
    }
    let addresses = addresses_of_network(draft, network)?;
    for configuration in &endpoint.ip_configurations {
        let subnet = configuration.ip_address.parse().ok().and_then(|address| addresses.subnet_of(address));
        if let Some(gateway) = subnet.and_then(|subnet| subnet.gateway) {
            let destination_prefix = if gateway.is_ipv4() { "0.0.0.0/0" } else { "::/0" }.into();
            endpoint.routes.push(Route { next_hop: gateway.to_string(), destination_prefix, ..Route::default() });
        }
    }
    Ok(())
}

fn set_mac(draft: &Draft<'_>, endpoint: &mut Endpoint) -> Result<()> {
    let Some(addresses) = draft.state.addresses(endpoint.network) else {
        return Ok(());
    };
    if endpoint.mac_address.is_empty() {
        if endpoint.is_remote() {
            return Ok(());
        }
        let mac = addresses.find_free_mac(|mac| addresses.mac_owner(mac).is_none()).ok_or_else(|| {
            let cause = "every MAC address of the network's pool is in use";
            Error::AddressInvalidOrReserved(
                detail(cause).field("MacAddress").remedy("delete endpoints, or give the network a larger MacPool"),
            )
        })?;
        endpoint.mac_address = mac.to_string();
        return Ok(());
    }
    let mac = text::mac(&endpoint.mac_address, "MacAddress", Error::InvalidEndpoint)?;
    if mac.is_multicast() {
        let cause = format!("{mac} is a multicast address, which no NIC can have");
        return Err(Error::InvalidEndpoint(detail(cause).field("MacAddress").remedy("choose one with an even first byte")));
    }
    let owner = addresses.mac_owner(mac).filter(|_| !endpoint.is_remote());
    if let Some(owner) = owner {
        let cause = format!("the endpoint {owner} has the MAC address {mac}");
        return Err(Error::ObjectAlreadyExists(detail(cause).field("MacAddress").remedy("choose another, or leave it out")));
    }
    endpoint.mac_address = mac.to_string();
    Ok(())
}

fn complete(draft: &Draft<'_>, network: &Network, endpoint: &mut Endpoint) {
    if endpoint.name.is_empty() {
        endpoint.name = "Ethernet".into();
    }
    if endpoint.dns.is_absent() {
        endpoint.dns = network.dns.clone();
    }
    // Behind NAT a container is in the host's place, and asks whom the host would ask.
    if endpoint.dns.is_absent() && network.network_type == NetworkType::Nat && !endpoint.is_remote() {
        endpoint.dns = draft.world.machine.dns();
    }
    if endpoint.schema_version.major < 2 {
        endpoint.schema_version = SchemaVersion::v2();
    }
    endpoint.health = Health::default();
    endpoint.version = draft.world.build.version_number();
    endpoint.state = EndpointState::Created;
}

/// The endpoint with this id, for a change.
pub(crate) fn get(draft: &Draft<'_>, id: Guid) -> Result<Record<Endpoint>> {
    draft.state.endpoints.get(id).map(|record| Record::clone(record)).ok_or_else(|| Kind::Endpoint.not_found(id))
}

/// Whether an endpoint has a port on the switch.
pub(crate) fn is_attached(record: &Record<Endpoint>) -> bool {
    matches!(record.document.state, EndpointState::Attached | EndpointState::AttachedSharing)
}

/// The error for something that cannot be done to an endpoint of another host.
pub(crate) fn refuse_remote(endpoint: &Endpoint) -> Result<()> {
    if !endpoint.is_remote() {
        return Ok(());
    }
    let cause = format!("the endpoint {} is on another host", endpoint.id);
    Err(Error::InvalidRemoteEndpointOperation(detail(cause).remedy("do it on the host that has the endpoint")))
}

/// Changes an endpoint.
pub(crate) fn modify(draft: &mut Draft<'_>, id: Guid, request: ModifyRequest) -> Result<()> {
    let mut record = get(draft, id)?;
    refuse_remote(&record.document)?;
    let (resource, request_type): (EndpointResource, RequestType) = modify_request(&request)?;
    let settings = Path::Root.key("Settings");
    match (&resource, &request_type) {
        (EndpointResource::Policy, _) => {
            let wanted = PolicySettings::read(request.settings, &settings)?.policies;
            change_policies(draft, &mut record.document, &request_type, &wanted)?;
            draft.update(record);
            Ok(())
        }
        (EndpointResource::Port, RequestType::Add) => {
            let port = PortSettings::read(request.settings, &settings)?;
            attachment::attach_vm_port(draft, record, &port)
        }
        (EndpointResource::Port, RequestType::Remove) => attachment::detach_vm_port(draft, record),
        (EndpointResource::Port, RequestType::Refresh) => match is_attached(&record) {
            true => Ok(()),
            false => {
                let cause = format!("the endpoint {id} has no port to refresh");
                Err(Error::EndpointNotAttached(detail(cause).remedy("add a port first")))
            }
        },
        _ => {
            let cause = format!("{request_type} of {resource} is not a request that an endpoint knows");
            Err(unsupported(cause, "use Add, Remove or Update of Policy, or Add, Remove or Refresh of Port"))
        }
    }
}

fn change_policies(draft: &Draft<'_>, endpoint: &mut Endpoint, how: &RequestType, wanted: &[Policy]) -> Result<()> {
    change_endpoint_policies(draft, endpoint, how, wanted)?;
    let network = draft.state.networks.get(endpoint.network).ok_or_else(|| Kind::Network.not_found(endpoint.network))?.clone();
    let before = draft.state.endpoints.get(endpoint.id).map(|record| host_ports_of(&record.document, ports_belong_to(&network.document)));
    reserve_host_ports(draft, &network.document, endpoint, &before.unwrap_or_default())
}

/// Replaces an endpoint's policies and settings by those of a schema 1 document.
pub(crate) fn replace(draft: &mut Draft<'_>, id: Guid, wanted: Endpoint) -> Result<()> {
    let mut record = get(draft, id)?;
    refuse_remote(&record.document)?;
    change_policies(draft, &mut record.document, &RequestType::Update, &wanted.policies)?;
    if !wanted.dns.is_absent() {
        record.document.dns = wanted.dns;
    }
    draft.update(record);
    Ok(())
}

/// Deletes an endpoint, and takes it out of whatever names it: a pod must be deletable while Services still point at it.
pub(crate) fn delete(draft: &mut Draft<'_>, id: Guid) -> Result<()> {
    let record = get(draft, id)?;
    attachment::leave_namespace(draft, &record.document)?;
    for balancer in draft.state.balancers_of(id) {
        load_balancer::forget_backend(draft, balancer, id);
    }
    for member in draft.state.routes_of(id) {
        route::forget_member(draft, member, id);
    }
    if is_attached(&record) {
        draft.note(Kind::Endpoint, event::Change::Detached, &record.document);
    }
    draft.remove(&record.document);
    Ok(())
}
