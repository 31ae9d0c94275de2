//! Policies. They are no objects of their own: they hang on networks (and their subnets), endpoints and, in schema 1,
//! on load balancers, so every verb says whose policies it means.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;

use hcn::api::Kind;
use hcn::endpoint::Endpoint;
use hcn::event::{Change, Event};
use hcn::modify::{EndpointResource, ModifyRequest, NetworkResource, PolicySettings, RequestType};
use hcn::network::Network;
use hcn::policy::Policy;
use hcn::{Field, Guid, Hcn, HcnExt};
use serde_json::{Value, json};

use super::Context;
use super::watch::{clock, end_on_interrupt, follow};
use crate::cli::{AnyTarget, PolicyVerb, Target};
use crate::describe::{self, Description};
use crate::exit::{Exit, Failure};
use crate::input;
use crate::output::{Table, note};
use crate::world::resolve;

/// The footer of `policy --help`.
pub(crate) const EXAMPLES: &str = "\
Every verb says whose policies it means: --network REF or --endpoint REF.
list, show and watch also take --loadbalancer REF, or nothing for everything.
With -o json they print the policies of the object itself, as -f takes them.

Examples:
  transom policy list
  transom policy list --network vxlan0 --type RemoteSubnetRoute
  transom policy show --endpoint pod1
  transom policy create --endpoint pod1 -f nat.yaml
  transom policy modify --endpoint pod1 -f acls.yaml
  transom policy delete --endpoint pod1 --type ACL
  transom policy watch --network vxlan0

nat.yaml:
  Type: OutBoundNAT
  Settings: {Exceptions: [10.0.0.0/8]}";

/// Something that has policies.
#[derive(Clone, Debug)]
struct Holder {
    kind: Kind,
    id: Guid,
    name: String,
    /// The prefix of the subnet they hang on, if it is one.
    subnet: Option<String>,
    policies: Vec<Policy>,
}

/// Does what a verb says.
pub(crate) fn run(context: &Context, verb: PolicyVerb) -> Result<(), Failure> {
    match verb {
        PolicyVerb::List { target, policy_type } => list(context, &target, policy_type.as_deref()),
        PolicyVerb::Show { target, policy_type } => show(context, &target, policy_type.as_deref()),
        PolicyVerb::Create { target, file } => change(context, &target, RequestType::Add, read(&file)?),
        PolicyVerb::Modify { target, file } => change(context, &target, RequestType::Update, read(&file)?),
        PolicyVerb::Delete { target, file: Some(file), .. } => change(context, &target, RequestType::Remove, read(&file)?),
        PolicyVerb::Delete { target, policy_type, .. } => delete_type(context, &target, policy_type.as_deref().unwrap_or_default()),
        PolicyVerb::Watch { target } => watch(context, &target),
    }
}

/// The one object that is meant, if it is one.
fn find(hcn: &dyn Hcn, target: &AnyTarget) -> Result<Option<(Kind, Guid)>, Failure> {
    let named = [(Kind::Network, &target.network), (Kind::Endpoint, &target.endpoint), (Kind::LoadBalancer, &target.loadbalancer)];
    for (kind, reference) in named {
        if let Some(reference) = reference {
            return Ok(Some((kind, resolve(hcn, kind, reference)?)));
        }
    }
    Ok(None)
}

fn find_one(hcn: &dyn Hcn, target: &Target) -> Result<(Kind, Guid), Failure> {
    let target = AnyTarget { network: target.network.clone(), endpoint: target.endpoint.clone(), loadbalancer: None };
    find(hcn, &target)?.ok_or_else(|| Failure::new(Exit::Usage, "no object was named").remedy("add --network REF or --endpoint REF"))
}

/// The policies of one object, or of all networks and endpoints. A network comes before its subnets.
fn holders(hcn: &dyn Hcn, of: Option<(Kind, Guid)>) -> Result<Vec<Holder>, Failure> {
    Ok(match of {
        Some((Kind::Network, id)) => of_network(hcn.object(id)?),
        Some((Kind::Endpoint, id)) => vec![of_endpoint(hcn.object(id)?)],
        Some((kind, id)) => vec![of_policy_list(kind, id, &hcn.query(kind, id, "{}")?)],
        None => {
            let mut all: Vec<Holder> = hcn.objects::<Network>(&[])?.into_iter().flat_map(of_network).collect();
            all.extend(hcn.objects::<Endpoint>(&[])?.into_iter().map(of_endpoint));
            all
        }
    })
}

fn of_network(network: Network) -> Vec<Holder> {
    let subnets: Vec<Holder> = network
        .subnets()
        .map(|subnet| Holder {
            kind: Kind::Network,
            id: network.id,
            name: network.name.clone(),
            subnet: Some(subnet.ip_address_prefix.clone()),
            policies: subnet.policies.clone(),
        })
        .collect();
    let own = Holder { kind: Kind::Network, id: network.id, name: network.name, subnet: None, policies: network.policies };
    std::iter::once(own).chain(subnets).collect()
}

fn of_endpoint(endpoint: Endpoint) -> Holder {
    Holder { kind: Kind::Endpoint, id: endpoint.id, name: endpoint.name, subnet: None, policies: endpoint.policies }
}

/// The policies of a document of schema 1, whose settings stand beside the type.
fn of_policy_list(kind: Kind, id: Guid, document: &Value) -> Holder {
    let policies = document.get("Policies").and_then(Value::as_array).into_iter().flatten().map(|policy| {
        let mut settings = policy.as_object().cloned().unwrap_or_default();
        let policy_type = settings.shift_remove("Type").unwrap_or_default();
        Policy { policy_type, settings: Value::Object(settings), ..Policy::default() }
    });
    Holder { kind, id, name: String::new(), subnet: None, policies: policies.collect() }
}

impl Holder {
    /// Such as `network/vxlan0` or `network/vxlan0 10.244.3.0/24`.
    fn title(&self) -> String {
        let name = if self.name.is_empty() { self.id.to_string() } else { self.name.clone() };
        let subnet = self.subnet.as_ref().map(|prefix| format!(" {prefix}")).unwrap_or_default();
        format!("{}/{name}{subnet}", self.kind.name().to_ascii_lowercase())
    }

    fn keep(mut self, policy_type: Option<&str>) -> Self {
        if let Some(wanted) = policy_type {
            self.policies.retain(|policy| describe::policy_type(policy).eq_ignore_ascii_case(wanted));
        }
        self
    }

    fn to_json(&self) -> Value {
        let mut value = json!({"Kind": self.kind.name(), "ID": self.id.to_string(), "Name": self.name});
        if let Some(prefix) = &self.subnet {
            value["Subnet"] = json!(prefix);
        }
        value["Policies"] = self.policies.write();
        value
    }
}

fn chosen(context: &Context, target: &AnyTarget, policy_type: Option<&str>) -> Result<(bool, Vec<Holder>), Failure> {
    let of = find(context.hcn.as_ref(), target)?;
    let holders = holders(context.hcn.as_ref(), of)?.into_iter().map(|holder| holder.keep(policy_type));
    Ok((of.is_some(), holders.collect()))
}

/// For programs: an object's own policies as `-f` takes them, or everything with its owner.
fn print_value(context: &Context, one: bool, holders: &[Holder]) -> Result<(), Failure> {
    match (one, holders) {
        (true, [first, ..]) => context.output.value(&first.policies.write()),
        _ => {
            let filled = holders.iter().filter(|holder| !holder.policies.is_empty());
            context.output.value(&filled.map(Holder::to_json).collect())
        }
    }
}

fn list(context: &Context, target: &AnyTarget, policy_type: Option<&str>) -> Result<(), Failure> {
    let (one, holders) = chosen(context, target, policy_type)?;
    if !context.output.is_for_people() {
        return print_value(context, one, &holders);
    }
    let mut table = Table::new(vec!["OBJECT", "TYPE", "SETTINGS"]);
    for holder in &holders {
        for policy in &holder.policies {
            let settings = describe::settings(&policy.settings);
            table.row(vec![holder.title().into(), describe::policy_type(policy).into(), settings.into()]);
        }
    }
    if holders.iter().all(|holder| holder.policies.is_empty()) {
        note("no policies");
        return Ok(());
    }
    context.output.table(&table)
}

fn show(context: &Context, target: &AnyTarget, policy_type: Option<&str>) -> Result<(), Failure> {
    let (one, holders) = chosen(context, target, policy_type)?;
    if !context.output.is_for_people() {
        return print_value(context, one, &holders);
    }
    for holder in holders.iter().filter(|holder| one || !holder.policies.is_empty()) {
        if one && holder.subnet.is_some() && holder.policies.is_empty() {
            continue;
        }
        context.output.text(&describe_holder(holder).render())?;
    }
    Ok(())
}

fn describe_holder(holder: &Holder) -> Description {
    let mut description = Description::default();
    description.line("Object", holder.title()).line("ID", holder.id.to_string());
    if holder.policies.is_empty() {
        description.line("Policies", "");
    }
    for policy in &holder.policies {
        let mut settings = Description::default();
        for (key, value) in policy.settings.as_object().into_iter().flatten() {
            settings.line(key, describe::compact(value));
        }
        match policy.settings.as_object().is_some_and(|map| !map.is_empty()) {
            true => description.section(&describe::policy_type(policy), settings),
            false => description.line(&describe::policy_type(policy), "(no settings)"),
        };
    }
    description
}

/// Policies in a file: one a document, an array, or the `Policies` of a request.
fn read(file: &Path) -> Result<Vec<Policy>, Failure> {
    let mut policies = Vec::new();
    for document in input::read(file)? {
        let values = match document.value.get("Policies") {
            Some(Value::Array(values)) => values.clone(),
            _ => vec![document.value.clone()],
        };
        for value in values {
            let policy =
                Policy::read(value, &hcn::Path::Root).map_err(|error| Failure::from(error).context(&document.place).exit(Exit::Usage))?;
            if policy.policy_type.is_null() {
                return Err(Failure::new(Exit::Usage, format!("{}: the policy has no Type", document.place))
                    .remedy(r#"write {"Type":"ACL","Settings":{…}}"#));
            }
            policies.push(policy);
        }
    }
    Ok(policies)
}

fn change(context: &Context, target: &Target, request_type: RequestType, policies: Vec<Policy>) -> Result<(), Failure> {
    let hcn = context.hcn.as_ref();
    let (kind, id) = find_one(hcn, target)?;
    let done = match request_type {
        RequestType::Add => "added to",
        RequestType::Remove => "removed from",
        _ => "set on",
    };
    let count = policies.len();
    hcn.modify(kind, id, &hcn::print(&request(kind, request_type, policies)))?;
    let holders = holders(hcn, Some((kind, id)))?;
    if !context.output.is_for_people() {
        return print_value(context, true, &holders);
    }
    let word = if count == 1 { "policy" } else { "policies" };
    let title = holders.first().map(Holder::title).unwrap_or_default();
    context.output.line(&format!("{count} {word} {done} {title} {id}"))
}

fn request(kind: Kind, request_type: RequestType, policies: Vec<Policy>) -> ModifyRequest {
    let resource_type = match kind {
        Kind::Network => NetworkResource::Policy.write(),
        _ => EndpointResource::Policy.write(),
    };
    ModifyRequest {
        resource_type,
        request_type: Some(request_type),
        settings: PolicySettings { policies, ..PolicySettings::default() }.write(),
        ..ModifyRequest::default()
    }
}

fn delete_type(context: &Context, target: &Target, policy_type: &str) -> Result<(), Failure> {
    let hcn = context.hcn.as_ref();
    let of = find_one(hcn, target)?;
    let own = holders(hcn, Some(of))?.into_iter().next().map(|holder| holder.keep(Some(policy_type)));
    match own {
        Some(holder) if !holder.policies.is_empty() => change(context, target, RequestType::Remove, holder.policies),
        _ => Err(Failure::new(Exit::NotFound, format!("there is no policy of the type {policy_type}")).remedy("see `transom policy list`")),
    }
}

/// Policies by where they hang.
type Seen = HashMap<(Guid, Option<String>), Holder>;

/// Events say that an object changed, not how; so the policies from before are kept and compared.
fn watch(context: &Context, target: &AnyTarget) -> Result<(), Failure> {
    let hcn = context.hcn.as_ref();
    let of = find(hcn, target)?;
    end_on_interrupt()?;
    let seen: RefCell<Option<Seen>> = RefCell::new(None);
    let concerns = |event: &Event| match of {
        Some((kind, id)) => event.kind == Some(kind) && event.id == id,
        None => matches!(event.kind, Some(Kind::Network | Kind::Endpoint)),
    };
    follow(
        hcn,
        || {
            let now = index(current(hcn, of)?);
            match seen.replace(Some(now.clone())) {
                Some(before) => report(context, &before, &now),
                None => Ok(()),
            }
        },
        |event| {
            if !concerns(&event) || matches!(event.change, Change::PreCreate | Change::PreDelete) {
                return Ok(());
            }
            let now = index(current(hcn, event.kind.map(|kind| (kind, event.id)))?);
            let mut seen = seen.borrow_mut();
            let all = seen.get_or_insert_default();
            let before: Seen = all.extract_if(|(id, _), _| *id == event.id).collect();
            all.extend(now.clone());
            report(context, &before, &now)
        },
    )
}

/// The policies there are now; none where the object is gone.
fn current(hcn: &dyn Hcn, of: Option<(Kind, Guid)>) -> Result<Vec<Holder>, Failure> {
    match holders(hcn, of) {
        Err(failure) if failure.exit == Exit::NotFound => Ok(Vec::new()),
        outcome => outcome,
    }
}

fn index(holders: Vec<Holder>) -> Seen {
    holders.into_iter().map(|holder| ((holder.id, holder.subnet.clone()), holder)).collect()
}

fn report(context: &Context, before: &Seen, now: &Seen) -> Result<(), Failure> {
    for (change, from, to) in [("Removed", before, now), ("Added", now, before)] {
        for (key, holder) in from {
            let others = to.get(key).map(|other| other.policies.as_slice()).unwrap_or_default();
            for policy in missing(&holder.policies, others) {
                print_change(context, change, holder, policy)?;
            }
        }
    }
    Ok(())
}

/// The policies that the others do not have, counting equal ones.
fn missing<'a>(policies: &'a [Policy], others: &[Policy]) -> Vec<&'a Policy> {
    let mut others: Vec<&Policy> = others.iter().collect();
    let mut missing = Vec::new();
    for policy in policies {
        match others.iter().position(|other| *other == policy) {
            Some(index) => _ = others.swap_remove(index),
            None => missing.push(policy),
        }
    }
    missing
}

fn print_change(context: &Context, change: &str, holder: &Holder, policy: &Policy) -> Result<(), Failure> {
    if context.output.is_for_people() {
        return context.output.line(&format!("{}  {change:<7}  {}  {}", clock(), holder.title(), describe::policy(policy)));
    }
    let mut event = holder.to_json();
    if let Some(map) = event.as_object_mut() {
        map.shift_remove("Policies");
        map.insert("Change".into(), json!(change));
        map.insert("Policy".into(), policy.write());
    }
    context.output.element(&event)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(name: &str) -> Policy {
        Policy { policy_type: json!(name), ..Policy::default() }
    }

    #[test]
    fn equal_policies_are_counted() {
        let (a, b) = (policy("A"), policy("B"));
        let names = |policies: Vec<&Policy>| policies.into_iter().map(describe::policy_type).collect::<Vec<_>>();
        assert_eq!(names(missing(&[a.clone(), a.clone(), b.clone()], &[a.clone(), policy("C")])), ["A", "B"]);
        assert!(missing(&[a.clone(), b.clone()], &[b, a]).is_empty());
    }

    #[test]
    fn schema_1_policies_carry_their_settings_beside_the_type() {
        let document = json!({"Policies": [{"Type": "ELB", "VIPs": ["10.0.0.1"], "InternalPort": 80}]});
        let holder = of_policy_list(Kind::LoadBalancer, Guid::nil(), &document);
        assert_eq!(describe::policy(&holder.policies[0]), "ELB  VIPs=10.0.0.1 InternalPort=80");
    }

    #[test]
    fn requests_name_the_resource() {
        let request = hcn::print(&request(Kind::Endpoint, RequestType::Add, vec![policy("ACL")]));
        assert_eq!(request, r#"{"ResourceType":"Policy","RequestType":"Add","Settings":{"Policies":[{"Type":"ACL"}]}}"#);
    }
}
