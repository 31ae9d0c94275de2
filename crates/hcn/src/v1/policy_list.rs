//! Policy lists: what v1 has in place of load balancers and SDN routes.
//!
//! A list of `ELB` policies is a load balancer, one policy for each port; a list of `ROUTE` policies is an SDN route.

use serde_json::Value;

use crate::Guid;
use crate::base::SchemaVersion;
use crate::document::{Any, Extra, Field, Path, shorten};
use crate::error::{Error, Result, detail};
use crate::load_balancer::{LoadBalancer, LoadBalancerFlags, LoadBalancerPortMapping};
use crate::policy::endpoint::SdnRouteSettings;
use crate::route::SdnRoute;
use crate::v1::policy::FlatPolicy;
use crate::v1::policy::elb::ElbPolicy;
use crate::v1::policy::route::RoutePolicy;
use crate::v1::{homeless, id};

document! {
    /// A policy list.
    ///
    /// `Flags` is v2's, for the flags of a load balancer that its policies cannot say; so are `AdditionalParams` and
    /// `Telemetry`.
    pub struct PolicyList {
        "ActivityId" activity_id: String,
        "AdditionalParams" additional_params: Any,
        "Flags" flags: LoadBalancerFlags,
        "Health" health: Value,
        "HostComputeNetwork" network: String,
        "ID" id: String,
        "IsApplied" is_applied: bool,
        "Name" name: String,
        "Owner" owner: String,
        "Policies" policies: Vec<FlatPolicy> => always,
        "References" references: Vec<String> => always,
        "Resources" resources: Any,
        "SchemaVersion" schema_version: SchemaVersion,
        "State" state: u16,
        "Telemetry" telemetry: Any,
        "Version" version: u64,
    }
}

/// What a policy list is in v2.
#[derive(Clone, Debug, PartialEq)]
pub enum PolicyListObject {
    /// A list of `ELB` policies.
    LoadBalancer(LoadBalancer),
    /// A list of `ROUTE` policies.
    Route(SdnRoute),
}

/// The two kinds of lists.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListKind {
    Elb,
    Route,
}

impl PolicyList {
    /// The v2 document of what the list is.
    pub fn to_v2(self) -> Result<PolicyListObject> {
        match self.kind()? {
            ListKind::Elb => self.load_balancer().map(PolicyListObject::LoadBalancer),
            ListKind::Route => self.route().map(PolicyListObject::Route),
        }
    }

    fn kind(&self) -> Result<ListKind> {
        let kinds = self.policies.iter().enumerate().map(|(index, policy)| kind_of(policy, index)).collect::<Result<Vec<_>>>()?;
        let Some(first) = kinds.first() else {
            let cause = "the list has no policy, and so is neither a load balancer nor a route";
            return Err(Error::InvalidPolicy(detail(cause).field("Policies").remedy("add ELB or ROUTE policies")));
        };
        match kinds.iter().position(|kind| kind != first) {
            Some(index) => Err(invalid(index, "Type", "a list cannot mix ELB and ROUTE policies", "make one list of each")),
            None => Ok(*first),
        }
    }

    fn load_balancer(self) -> Result<LoadBalancer> {
        let ports = self.typed::<ElbPolicy>()?;
        check_agreement(&ports)?;
        let shared = ports.first().cloned().unwrap_or_default();
        Ok(LoadBalancer {
            id: self.v2_id()?,
            network: self.v2_network()?,
            endpoints: self.v2_endpoints()?,
            flags: self.flags.with(shared.load_balancer_flags()),
            source_vip: shared.source_vip,
            frontend_vips: shared.vips,
            port_mappings: ports.into_iter().map(ElbPolicy::mapping).collect(),
            owner: self.owner,
            name: self.name,
            additional_params: self.additional_params,
            telemetry: self.telemetry,
            schema_version: self.schema_version,
            extra: homeless::unknown_to(self.extra, LoadBalancer::FIELDS),
            ..LoadBalancer::default()
        })
    }

    fn route(self) -> Result<SdnRoute> {
        let routes: Vec<SdnRouteSettings> = self.typed::<RoutePolicy>()?.into_iter().map(RoutePolicy::to_v2).collect();
        let mut extra = homeless::unknown_to(self.extra.clone(), SdnRoute::FIELDS);
        homeless::keep(&mut extra, "Flags", &self.flags);
        homeless::keep(&mut extra, "AdditionalParams", &self.additional_params);
        homeless::keep(&mut extra, "Telemetry", &self.telemetry);
        Ok(SdnRoute {
            id: self.v2_id()?,
            network: self.v2_network()?,
            endpoints: self.v2_endpoints()?,
            setting: routes.clone(),
            routes,
            owner: self.owner,
            name: self.name,
            schema_version: self.schema_version,
            extra,
            ..SdnRoute::default()
        })
    }

    fn v2_id(&self) -> Result<Guid> {
        id::parse(&self.id, &Path::Root.key("ID"))
    }

    fn v2_network(&self) -> Result<Guid> {
        id::parse(&self.network, &Path::Root.key("HostComputeNetwork"))
    }

    fn v2_endpoints(&self) -> Result<Vec<Guid>> {
        let list = Path::Root.key("References");
        self.references.iter().enumerate().map(|(index, reference)| endpoint_in(reference, &list.index(index))).collect()
    }

    fn typed<T: Field>(&self) -> Result<Vec<T>> {
        let list = Path::Root.key("Policies");
        self.policies.iter().enumerate().map(|(index, policy)| T::read(policy.write(), &list.index(index))).collect()
    }

    /// The v1 view of a load balancer: an `ELB` policy for each port.
    pub fn from_load_balancer(load_balancer: &LoadBalancer) -> Self {
        Self {
            flags: load_balancer.flags.set(LoadBalancerFlags::DSR, false),
            policies: ports_of(load_balancer).iter().map(|mapping| elb(load_balancer, mapping)).collect(),
            additional_params: load_balancer.additional_params.clone(),
            telemetry: load_balancer.telemetry.clone(),
            health: load_balancer.health.data.as_deref().cloned().unwrap_or_default(),
            network: id::print(load_balancer.network),
            id: id::print(load_balancer.id),
            is_applied: true,
            name: load_balancer.name.clone(),
            owner: load_balancer.owner.clone(),
            references: load_balancer.endpoints.iter().map(reference_to).collect(),
            schema_version: v1_schema(&load_balancer.schema_version),
            state: load_balancer.state,
            version: load_balancer.version,
            extra: homeless::unknown_to(load_balancer.extra.clone(), Self::FIELDS),
            ..Self::default()
        }
    }

    /// The v1 view of an SDN route: a `ROUTE` policy for each of its prefixes.
    pub fn from_route(route: &SdnRoute) -> Self {
        let mut route = route.clone();
        route.unify();
        let mut extra = route.extra;
        Self {
            policies: route.routes.into_iter().map(|entry| flat(&RoutePolicy::from_v2(entry))).collect(),
            flags: homeless::bring_back(&mut extra, "Flags"),
            additional_params: homeless::bring_back(&mut extra, "AdditionalParams"),
            telemetry: homeless::bring_back(&mut extra, "Telemetry"),
            network: id::print(route.network),
            id: id::print(route.id),
            is_applied: true,
            name: route.name,
            owner: route.owner,
            references: route.endpoints.iter().map(reference_to).collect(),
            schema_version: v1_schema(&route.schema_version),
            state: route.state,
            version: route.version,
            extra: homeless::unknown_to(extra, Self::FIELDS),
            ..Self::default()
        }
    }
}

fn kind_of(policy: &FlatPolicy, index: usize) -> Result<ListKind> {
    if policy.is("ELB") {
        return Ok(ListKind::Elb);
    }
    if policy.is("ROUTE") {
        return Ok(ListKind::Route);
    }
    let cause = format!("{} is no type for a policy list", shorten(&policy.policy_type.to_string()));
    Err(invalid(index, "Type", &cause, "write ELB for a load balancer or ROUTE for a route"))
}

fn invalid(index: usize, field: &str, cause: &str, remedy: &str) -> Error {
    Error::InvalidPolicy(detail(cause).field(format!("Policies[{index}].{field}")).remedy(remedy))
}

/// A load balancer has its addresses once, so the policies of a list cannot differ in them.
fn check_agreement(ports: &[ElbPolicy]) -> Result<()> {
    let Some(first) = ports.first() else {
        return Ok(());
    };
    for (index, port) in ports.iter().enumerate() {
        let fields =
            [("VIPs", port.vips == first.vips), ("SourceVIP", port.source_vip == first.source_vip), ("IsDSR", port.is_dsr == first.is_dsr)];
        if let Some((field, _)) = fields.iter().find(|(_, agrees)| !agrees) {
            let cause = format!("all ELB policies of a list have the same {field}, but this one differs from the first");
            return Err(invalid(index, field, &cause, "give it a policy list of its own"));
        }
    }
    Ok(())
}

/// The endpoint that `/endpoints/<id>` refers to; slashes at the ends and the case do not matter.
fn endpoint_in(reference: &str, at: &Path<'_>) -> Result<Guid> {
    match reference.trim_matches('/').split_once('/') {
        Some((collection, id)) if collection.eq_ignore_ascii_case("endpoints") && !id.is_empty() => id::parse(id, at),
        _ => {
            let cause = format!("{:?} refers to no endpoint", shorten(reference));
            Err(Error::InvalidJsonReference(detail(cause).at(at).remedy("write /endpoints/ and the endpoint's id")))
        }
    }
}

fn reference_to(endpoint: &Guid) -> String {
    format!("/endpoints/{}", id::print(*endpoint))
}

/// The port mappings. A load balancer without any still has addresses, which one policy without ports shows.
fn ports_of(load_balancer: &LoadBalancer) -> Vec<LoadBalancerPortMapping> {
    match load_balancer.port_mappings.is_empty() {
        true => vec![LoadBalancerPortMapping::default()],
        false => load_balancer.port_mappings.clone(),
    }
}

fn elb(load_balancer: &LoadBalancer, mapping: &LoadBalancerPortMapping) -> FlatPolicy {
    flat(&ElbPolicy {
        vips: load_balancer.frontend_vips.clone(),
        source_vip: load_balancer.source_vip.clone(),
        is_dsr: load_balancer.flags.has(LoadBalancerFlags::DSR),
        ..ElbPolicy::from_mapping(mapping)
    })
}

/// A typed policy as a flat one.
fn flat(policy: &impl Field) -> FlatPolicy {
    let mut extra = match policy.write() {
        Value::Object(fields) => fields.into(),
        _ => Extra::new(),
    };
    FlatPolicy { policy_type: extra.shift_remove("Type").unwrap_or_default(), extra }
}

fn v1_schema(version: &SchemaVersion) -> SchemaVersion {
    if version.major < 2 { version.clone() } else { SchemaVersion::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::parse;

    fn object(v1: Value) -> Result<PolicyListObject> {
        parse::<PolicyList>(&v1.to_string())?.to_v2()
    }

    const V1: &str = "00000000-0000-0000-0000-00000000000A";
    const V2: &str = "00000000-0000-0000-0000-00000000000a";

    #[test]
    fn load_balancers() {
        let table = [
            (
                json!({"ID": V1, "References": [format!("/endpoints/{V1}")],
                    "Policies": [{"Type": "ELB", "Protocol": 6, "InternalPort": 80, "ExternalPort": 8080, "VIPs": ["10.0.0.9"], "SourceVIP": "10.0.0.2",
                        "ILB": true, "IsDSR": true}]}),
                json!({"ID": V2, "HostComputeEndpoints": [V2], "SourceVIP": "10.0.0.2", "FrontendVIPs": ["10.0.0.9"], "Flags": 1,
                    "PortMappings": [{"Protocol": 6, "InternalPort": 80, "ExternalPort": 8080, "Flags": 1}]}),
            ),
            (
                json!({"References": [], "Flags": 2, "Brandnew": 1,
                    "Policies": [{"Type": "ELB", "Protocol": 6, "ExternalPort": 1, "Flags": 18, "DistributionType": 2, "New": 1},
                        {"Type": "ELB", "Protocol": 17, "ExternalPort": 2}]}),
                json!({"Flags": 2, "Brandnew": 1, "PortMappings": [
                    {"Protocol": 6, "ExternalPort": 1, "DistributionType": 2, "Flags": 18, "New": 1}, {"Protocol": 17, "ExternalPort": 2}]}),
            ),
        ];
        for (v1, v2) in table {
            let expected: LoadBalancer = parse(&v2.to_string()).unwrap();
            assert_eq!(object(v1.clone()), Ok(PolicyListObject::LoadBalancer(expected.clone())), "{v1}");
            let mut view = PolicyList::from_load_balancer(&expected);
            assert!(std::mem::take(&mut view.is_applied));
            assert_eq!(view.write(), v1);
        }
    }

    #[test]
    fn routes() {
        let v1 = json!({"ID": V1, "References": [format!("/endpoints/{V1}")], "Policies": [
            {"Type": "ROUTE", "DestinationPrefix": "10.96.0.0/12", "NextHop": "10.0.0.1", "NeedEncap": true}]});
        let entry = json!({"DestinationPrefix": "10.96.0.0/12", "NextHop": "10.0.0.1", "NeedEncap": true});
        let v2 = json!({"ID": V2, "HostComputeEndpoints": [V2], "Routes": [entry], "Setting": [entry]});
        let expected: SdnRoute = parse(&v2.to_string()).unwrap();
        assert_eq!(object(v1.clone()), Ok(PolicyListObject::Route(expected.clone())));
        let mut view = PolicyList::from_route(&expected);
        assert!(std::mem::take(&mut view.is_applied));
        assert_eq!(view.write(), v1);
    }

    #[test]
    fn spellings_of_references() {
        for reference in
            [format!("/endpoints/{V1}"), format!("/ENDPOINTS/{V2}/"), format!("endpoints/{V1}"), format!("/endpoints/{{{V2}}}")]
        {
            assert_eq!(endpoint_in(&reference, &Path::Root), Ok(Guid::from_u128(0xA)), "{reference}");
        }
    }

    #[test]
    fn bad_content_is_named() {
        let elb = json!({"Type": "elb"});
        let table = [
            (json!({}), 0x803B_000D, "Policies"),
            (json!({"Policies": [elb, {"Type": "ROUTE"}]}), 0x803B_000D, "Policies[1].Type"),
            (json!({"Policies": [{"Type": "NAT"}]}), 0x803B_000D, "Policies[0].Type"),
            (json!({"Policies": [elb, {}]}), 0x803B_000D, "Policies[1].Type"),
            (json!({"Policies": [elb, {"Type": "ELB", "VIPs": ["10.0.0.1"]}]}), 0x803B_000D, "Policies[1].VIPs"),
            (json!({"Policies": [elb, {"Type": "ELB", "IsDSR": true}]}), 0x803B_000D, "Policies[1].IsDSR"),
            (json!({"Policies": [{"Type": "ELB", "VIPs": "10.0.0.1"}]}), 0x803B_001B, "Policies[0].VIPs"),
            (json!({"Policies": [elb], "References": ["/networks/x"]}), 0x803B_001C, "References[0]"),
            (json!({"Policies": [elb], "References": ["/endpoints/"]}), 0x803B_001C, "References[0]"),
            (json!({"Policies": [elb], "References": ["/endpoints/x"]}), 0x803B_0019, "References[0]"),
            (json!({"Policies": [elb], "ID": "x"}), 0x803B_0019, "ID"),
        ];
        for (v1, code, field) in table {
            let error = object(v1.clone()).unwrap_err();
            assert_eq!((error.hresult(), error.detail().field.as_deref()), (code, Some(field)), "{v1}");
            assert!(error.detail().remedy.is_some(), "{v1}");
        }
    }
}
