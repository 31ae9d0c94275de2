//! The older interface: `HNSCall` with its method, path and body.

use hcn::api::Kind;
use hcn::error::{Error, Result, detail};
use hcn::namespace::Resource;
use hcn::network::Network;
use hcn::policy::Policy;
use hcn::policy::network::{ExtensionSettings, NetworkPolicyType};
use hcn::v1::accelnet::{MacEntry, MacList};
use hcn::v1::attach::AttachRequest;
use hcn::v1::policy_list::{PolicyList, PolicyListObject};
use hcn::v1::stats::EndpointStats;
use hcn::{Field, Guid, Path, not_a_guid, parse, parse_guid, parse_value};
use serde_json::{Value, json};

use crate::compile::load_balancer::Extras;
use crate::journal::Change;
use crate::operation::schema::Unversioned;
use crate::operation::{Draft, World, attachment, endpoint, load_balancer, namespace, network, route, schema};
use crate::profile::Feature;
use crate::state::State;
use crate::switch::EndpointCounters;
use crate::{validate, view};

/// A call, taken apart.
pub(crate) struct Call {
    method: Method,
    path: Vec<String>,
    request: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Get,
    Post,
    Delete,
}

impl Call {
    /// Takes a call apart.
    pub(crate) fn parse(method: &str, path: &str, request: &str) -> Result<Self> {
        let known = match method.to_ascii_uppercase().as_str() {
            "GET" => Method::Get,
            "POST" => Method::Post,
            "DELETE" => Method::Delete,
            other => {
                let cause = format!("{other:?} is no method of HNS");
                return Err(Error::RequestUnsupported(detail(cause).remedy("use GET, POST or DELETE")));
            }
        };
        let path = path.split('/').filter(|segment| !segment.is_empty()).map(str::to_owned).collect();
        Ok(Self { method: known, path, request: request.to_owned() })
    }

    /// Whether the call changes nothing.
    pub(crate) fn is_read(&self) -> bool {
        self.method == Method::Get
    }

    fn segments(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }

    /// The error for a path that HNS does not have.
    fn unknown(&self) -> Error {
        let cause = format!("HNS has no {:?} on /{}", self.method, self.path.join("/"));
        Error::NotFound(
            detail(cause).remedy("use /networks, /endpoints, /namespaces, /policylists, /endpointstats, /accelnet or /globals/version"),
        )
    }

    /// Answers a call that changes nothing.
    pub(crate) fn read(&self, state: &State, world: &World) -> Result<Value> {
        match self.segments()[..] {
            ["globals", "version"] => {
                let (major, minor) = world.build.version();
                Ok(json!({"Major": major, "Minor": minor}))
            }
            // Of our own: an agent may use these fields where they are listed, and Windows knows no such path.
            ["globals", "extensions"] if world.build.has(Feature::Extensions) => Ok(json!({"LoadBalancer": Extras::FIELDS})),
            ["networks"] => Ok(list(state, Kind::Network)),
            ["networks", id] => document(state, Kind::Network, id),
            ["endpoints"] => Ok(list(state, Kind::Endpoint)),
            ["endpoints", id] => document(state, Kind::Endpoint, id),
            ["endpoints", id, "detailed"] => detailed_endpoint(state, id),
            ["namespaces"] => Ok(list(state, Kind::Namespace)),
            ["namespaces", id] => document(state, Kind::Namespace, id),
            ["policylists"] => Ok(policy_lists(state)),
            ["policylists", id] => policy_list(state, guid(id)?),
            ["endpointstats", id] => stats(state, guid(id)?, &|id| world.switch.counters(id)),
            ["endpointstats"] => {
                Ok(Value::Array(state.endpoints.ids().map(|id| counted(id, &|id| world.switch.counters(id)).write()).collect()))
            }
            ["endpointaddresses"] => Ok(Value::Array(state.endpoints.ids().filter_map(|id| addresses(state, id).ok()).collect())),
            ["accelnet"] => {
                need_accelnet(world)?;
                Ok(mac_list(&state.management_macs))
            }
            ["activities"] | ["plugins"] => Ok(json!([])),
            ["portpools"] => Ok(json!({"PortPoolAllocations": []})),
            _ => Err(self.unknown()),
        }
    }

    /// Does a call that changes something.
    pub(crate) fn write(&self, draft: &mut Draft<'_>) -> Result<Value> {
        use Method::{Delete, Post};
        match (self.method, &self.segments()[..]) {
            (Post, ["networks"]) => {
                let (document, spelling) = schema::network(&self.request, Unversioned::V1)?;
                let id = network::create(draft, document, spelling, None)?;
                view_of(draft, Kind::Network, id)
            }
            (Post, ["networks", id]) => self.change_network(draft, guid(id)?),
            (Delete, ["networks", id]) => gone(draft, Kind::Network, guid(id)?, network::delete),
            (Post, ["endpoints"]) => self.create_endpoint(draft),
            (Post, ["endpoints", id]) => {
                let (wanted, _) = schema::endpoint(&self.request, Unversioned::V1)?;
                endpoint::replace(draft, guid(id)?, wanted)?;
                view_of(draft, Kind::Endpoint, guid(id)?)
            }
            (Delete, ["endpoints", id]) => gone(draft, Kind::Endpoint, guid(id)?, endpoint::delete),
            (Post, ["endpoints", id, "attach"]) => {
                attachment::attach_v1(draft, guid(id)?, &self.body::<AttachRequest>()?)?;
                view_of(draft, Kind::Endpoint, guid(id)?)
            }
            (Post, ["endpoints", id, "detach"]) => {
                attachment::detach_v1(draft, guid(id)?, &self.body::<AttachRequest>()?)?;
                view_of(draft, Kind::Endpoint, guid(id)?)
            }
            (Post, ["namespaces"]) => {
                let id = namespace::create(draft, schema::namespace(&self.request)?, None)?;
                view_of(draft, Kind::Namespace, id)
            }
            (Delete, ["namespaces", id]) => gone(draft, Kind::Namespace, guid(id)?, namespace::delete),
            (Post, ["namespaces", id, action @ ("addresource" | "removeresource")]) => {
                let resource: Resource = self.body()?;
                match *action {
                    "addresource" => namespace::add_resource(draft, guid(id)?, &resource)?,
                    _ => namespace::remove_resource(draft, guid(id)?, &resource)?,
                }
                view_of(draft, Kind::Namespace, guid(id)?)
            }
            (Post, ["policylists"]) => self.create_policy_list(draft),
            (Delete, ["policylists", id]) => delete_policy_list(draft, guid(id)?),
            (Post, ["accelnet"]) => self.set_management_macs(draft),
            (Delete, ["accelnet"]) => set_macs(draft, Vec::new()),
            _ => Err(self.unknown()),
        }
    }

    /// The body; an empty one is an empty object.
    fn body<T: Field>(&self) -> Result<T> {
        match self.request.trim() {
            "" => Ok(T::default()),
            text => parse(text),
        }
    }

    fn create_endpoint(&self, draft: &mut Draft<'_>) -> Result<Value> {
        let (document, name) = schema::endpoint(&self.request, Unversioned::V1)?;
        // The older interface says "Element not found" where the newer one has a code for networks.
        let as_element = |error: Error| match error {
            Error::NetworkNotFound(detail) => Error::NotFound(detail),
            other => other,
        };
        let network = endpoint::network_of(draft, &document, &name, None).map_err(as_element)?;
        let id = endpoint::create(draft, document, network, None).map_err(as_element)?;
        view_of(draft, Kind::Endpoint, id)
    }

    /// A partial update: extensions switched on or off, or the whole document sent back.
    fn change_network(&self, draft: &mut Draft<'_>, id: Guid) -> Result<Value> {
        let body = parse_value(&self.request)?;
        let mut record = network::get(draft, id)?;
        let extensions = body.get("Extensions").cloned().unwrap_or_default();
        if !extensions.is_null() {
            for extension in Vec::<ExtensionSettings>::read(extensions, &Path::Root.key("Extensions"))? {
                network::set_extension(&mut record.document, &extension)?;
            }
        }
        let dns = ["DNSServerList", "DNSSuffix"].iter().any(|key| body.get(key).is_some());
        if dns || body.get("Policies").is_some() {
            let wanted = self.wanted_network(body, &record.document)?;
            if dns {
                record.document.dns = wanted.dns;
            }
            if !wanted.policies.is_empty() || !dns {
                record.document.policies = replaced_policies(draft, &record.document, &wanted.policies)?;
            }
        }
        draft.update(record);
        view_of(draft, Kind::Network, id)
    }

    /// A partial document, read as one of the network's own type.
    fn wanted_network(&self, mut body: Value, network: &Network) -> Result<Network> {
        if body.get("Type").is_none() {
            body["Type"] = network.network_type.write();
        }
        Ok(schema::network(&body.to_string(), Unversioned::V1)?.0)
    }

    fn create_policy_list(&self, draft: &mut Draft<'_>) -> Result<Value> {
        let list: PolicyList = self.body()?;
        match list.to_v2()? {
            PolicyListObject::LoadBalancer(balancer) => {
                let id = load_balancer::create(draft, balancer, None)?;
                view_of(draft, Kind::LoadBalancer, id)
            }
            PolicyListObject::Route(wanted) => {
                let id = route::create(draft, wanted, None)?;
                view_of(draft, Kind::Route, id)
            }
        }
    }

    fn set_management_macs(&self, draft: &mut Draft<'_>) -> Result<Value> {
        let list: MacList = self.body()?;
        let mac = |(index, entry): (usize, &MacEntry)| {
            let field = format!("MacAddressList[{index}].MacAddress");
            validate::text::mac(&entry.mac_address, &field, Error::InvalidParameter).map(|mac| mac.to_string())
        };
        let macs = list.mac_address_list.iter().enumerate().map(mac).collect::<Result<_>>()?;
        set_macs(draft, macs)
    }
}

/// The policies of a network after a schema 1 update. What that schema shows as fields stays where the caller left it out.
fn replaced_policies(draft: &Draft<'_>, network: &Network, wanted: &[Policy]) -> Result<Vec<Policy>> {
    use NetworkPolicyType as Type;
    const AS_FIELDS: [Type; 8] = [
        Type::ProviderAddress,
        Type::DrMacAddress,
        Type::NetAdapterName,
        Type::SourceMacAddress,
        Type::AutomaticDns,
        Type::InterfaceConstraint,
        Type::LayerConstraint,
        Type::VSwitchExtension,
    ];
    let place = validate::policy::Place::new(&draft.world.build, &network.network_type, wanted);
    let mut policies = validate::policy::network_policies(wanted, &place)?;
    for kind in &AS_FIELDS {
        if !policies.iter().any(|policy| policy.is(kind)) {
            policies.extend(network.policies.iter().filter(|old| old.is(kind)).cloned());
        }
    }
    Ok(policies)
}

fn guid(text: &str) -> Result<Guid> {
    parse_guid(text).ok_or_else(|| not_a_guid(text))
}

fn list(state: &State, kind: Kind) -> Value {
    let ids = crate::filter::enumerate(state, kind, Default::default());
    Value::Array(ids.into_iter().filter_map(|id| state.get(kind, id)).map(|record| view::v1(state, &record)).collect())
}

fn document(state: &State, kind: Kind, id: &str) -> Result<Value> {
    let id = guid(id)?;
    let record = state.get(kind, id).ok_or_else(|| kind.not_found(id))?;
    Ok(view::v1(state, &record))
}

fn detailed_endpoint(state: &State, id: &str) -> Result<Value> {
    let mut document = document(state, Kind::Endpoint, id)?;
    let id = guid(id)?;
    if let Some(record) = state.get(Kind::Endpoint, id) {
        document["Resources"] = view::v2(state, &record, true)["Health"]["Extra"]["Resources"].take();
    }
    Ok(document)
}

fn policy_lists(state: &State) -> Value {
    let mut lists = Vec::new();
    for kind in [Kind::LoadBalancer, Kind::Route] {
        if let Value::Array(documents) = list(state, kind) {
            lists.extend(documents);
        }
    }
    Value::Array(lists)
}

fn policy_list(state: &State, id: Guid) -> Result<Value> {
    let record = [Kind::LoadBalancer, Kind::Route].into_iter().find_map(|kind| state.get(kind, id));
    record.map(|record| view::v1(state, &record)).ok_or_else(|| no_policy_list(id))
}

fn delete_policy_list(draft: &mut Draft<'_>, id: Guid) -> Result<Value> {
    if draft.state.load_balancers.contains(id) {
        return gone(draft, Kind::LoadBalancer, id, load_balancer::delete);
    }
    if draft.state.routes.contains(id) {
        return gone(draft, Kind::Route, id, route::delete);
    }
    Err(no_policy_list(id))
}

fn no_policy_list(id: Guid) -> Error {
    Error::NotFound(detail(format!("no policy list has the id {id}")).remedy("GET /policylists/ to see which there are"))
}

/// The counters of an endpoint: zero where it has no port.
pub(crate) fn stats(state: &State, id: Guid, counters: &dyn Fn(Guid) -> Option<EndpointCounters>) -> Result<Value> {
    let record = state.endpoints.get(id).ok_or_else(|| Kind::Endpoint.not_found(id))?;
    Ok(counted(record.document.id, counters).write())
}

fn counted(id: Guid, counters: &dyn Fn(Guid) -> Option<EndpointCounters>) -> EndpointStats {
    let counters = counters(id).unwrap_or_default();
    EndpointStats {
        bytes_received: counters.bytes_received,
        bytes_sent: counters.bytes_sent,
        packets_received: counters.packets_received,
        packets_sent: counters.packets_sent,
        dropped_packets_incoming: counters.dropped_incoming,
        dropped_packets_outgoing: counters.dropped_outgoing,
        ..EndpointStats::new(id)
    }
}

/// The addresses of an endpoint.
pub(crate) fn addresses(state: &State, id: Guid) -> Result<Value> {
    let record = state.endpoints.get(id).ok_or_else(|| Kind::Endpoint.not_found(id))?;
    let document = &record.document;
    Ok(json!({
        "EndpointId": document.id.to_string(),
        "MacAddress": document.mac_address,
        "IpConfigurations": document.ip_configurations.write(),
    }))
}

/// Deletes an object and answers with its last document, as HNS does.
fn gone(draft: &mut Draft<'_>, kind: Kind, id: Guid, delete: fn(&mut Draft<'_>, Guid) -> Result<()>) -> Result<Value> {
    let last = draft.state.get(kind, id).map(|record| view::v1(&draft.state, &record));
    delete(draft, id)?;
    Ok(last.unwrap_or_else(|| json!({})))
}

fn view_of(draft: &Draft<'_>, kind: Kind, id: Guid) -> Result<Value> {
    draft.state.get(kind, id).map(|record| view::v1(&draft.state, &record)).ok_or_else(|| kind.not_found(id))
}

fn need_accelnet(world: &World) -> Result<()> {
    if world.build.has(Feature::Accelnet) {
        return Ok(());
    }
    let cause = format!("accelerated networking is not supported by {}", world.build.profile.windows);
    Err(Error::RequestUnsupported(detail(cause).remedy("use a newer --profile, or --with accelnet")))
}

fn set_macs(draft: &mut Draft<'_>, macs: Vec<String>) -> Result<Value> {
    need_accelnet(draft.world)?;
    draft.state.management_macs.clone_from(&macs);
    let answer = mac_list(&macs);
    draft.changes.push(Change::ManagementMacs(macs));
    Ok(answer)
}

fn mac_list(macs: &[String]) -> Value {
    let entry = |mac: &String| MacEntry { mac_address: mac.clone(), ..MacEntry::default() };
    MacList { mac_address_list: macs.iter().map(entry).collect(), ..MacList::default() }.write()
}
