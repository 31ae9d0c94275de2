//! Namespaces as v1 shows them: by compartment, with a list of what is in them.

use serde_json::Value;

use crate::base::SchemaVersion;
use crate::document::{Any, Path, parse_guid};
use crate::error::Result;
use crate::namespace::{Namespace, NamespaceType, Resource, ResourceData, ResourceType};
use crate::v1::{homeless, id};

/// What `addresource` and `removeresource` take: `{"Type":"Endpoint","Data":{"Id":"…"}}`.
pub type ResourceRequest = Resource;

document! {
    /// A namespace. On input only `IsDefault` matters to most clients.
    ///
    /// `Type` is v2's, for the namespaces of guests, which `IsDefault` cannot say; so are `CreateWithCompartment` and
    /// `Telemetry`.
    pub struct HnsNamespace {
        "ActivityId" activity_id: String,
        "AdditionalParams" additional_params: Any,
        "CompartmentGuid" compartment_guid: String,
        "CompartmentId" compartment_id: u32 => always,
        "Containers" containers: Vec<String> => always,
        "Flags" flags: u32,
        "Health" health: Value,
        "ID" id: String,
        "IsDefault" is_default: bool => always,
        "Name" name: String,
        "Owner" owner: String,
        "Policies" policies: Vec<Value>,
        "ResourceList" resource_list: Vec<Resource> => always,
        "Resources" resources: Any,
        "SchemaVersion" schema_version: SchemaVersion,
        "State" state: u16,
        "Version" version: u64,
        "Type" namespace_type: Option<NamespaceType>,
        "CreateWithCompartment" create_with_compartment: bool,
        "Telemetry" telemetry: Any,
    }
}

impl HnsNamespace {
    /// The v2 document of a namespace to make.
    pub fn to_v2(self) -> Result<Namespace> {
        let root = Path::Root;
        let mut extra = homeless::unknown_to(self.extra, Namespace::FIELDS);
        homeless::keep(&mut extra, "Policies", &self.policies);
        homeless::keep(&mut extra, "Flags", &self.flags);
        let by_default = if self.is_default { NamespaceType::HostDefault } else { NamespaceType::Host };
        Ok(Namespace {
            id: id::parse(&self.id, &root.key("ID"))?,
            owner: self.owner,
            name: self.name,
            compartment_id: self.compartment_id,
            compartment_guid: id::parse(&self.compartment_guid, &root.key("CompartmentGuid"))?,
            namespace_type: self.namespace_type.unwrap_or(by_default),
            resources: v2_resources(self.resource_list, self.containers)?,
            create_with_compartment: self.create_with_compartment,
            additional_params: self.additional_params,
            telemetry: self.telemetry,
            schema_version: self.schema_version,
            extra,
            ..Namespace::default()
        })
    }

    /// The v1 view of a namespace.
    pub fn from_v2(namespace: &Namespace) -> Self {
        let mut extra = namespace.extra.clone();
        let is_said = matches!(namespace.namespace_type, NamespaceType::Host | NamespaceType::HostDefault);
        Self {
            additional_params: namespace.additional_params.clone(),
            compartment_guid: id::print(namespace.compartment_guid),
            compartment_id: namespace.compartment_id,
            containers: namespace.containers().map(str::to_owned).collect(),
            flags: homeless::bring_back(&mut extra, "Flags"),
            health: namespace.health.data.as_deref().cloned().unwrap_or_default(),
            id: id::print(namespace.id),
            is_default: namespace.namespace_type.is_default(),
            name: namespace.name.clone(),
            owner: namespace.owner.clone(),
            policies: homeless::bring_back(&mut extra, "Policies"),
            resource_list: namespace.resources.iter().map(v1_resource).collect(),
            schema_version: namespace.schema_version.clone(),
            state: namespace.state,
            version: namespace.version,
            namespace_type: (!is_said).then(|| namespace.namespace_type.clone()),
            create_with_compartment: namespace.create_with_compartment,
            telemetry: namespace.telemetry.clone(),
            extra: homeless::unknown_to(extra, Self::FIELDS),
            ..Self::default()
        }
    }
}

/// The resources of both lists; a container may stand in one or in both.
fn v2_resources(list: Vec<Resource>, containers: Vec<String>) -> Result<Vec<Resource>> {
    let path = Path::Root.key("ResourceList");
    let mut resources = Vec::new();
    for (index, resource) in list.into_iter().enumerate() {
        resources.push(v2_resource(resource, &path.index(index))?);
    }
    for id in containers {
        let data = ResourceData { id, ..ResourceData::default() };
        let container = Resource { resource_type: ResourceType::Container, data, ..Resource::default() };
        let is_same = |listed: &Resource| listed.resource_type == container.resource_type && listed.data.id == container.data.id;
        if !resources.iter().any(is_same) {
            resources.push(container);
        }
    }
    Ok(resources)
}

fn v2_resource(mut resource: Resource, at: &Path<'_>) -> Result<Resource> {
    if resource.resource_type == ResourceType::Endpoint {
        let data = at.key("Data");
        let endpoint = id::parse(&resource.data.id, &data.key("Id"))?;
        resource.data.id = if endpoint.is_nil() { String::new() } else { endpoint.to_string() };
    }
    Ok(resource)
}

fn v1_resource(resource: &Resource) -> Resource {
    let mut resource = resource.clone();
    if resource.resource_type == ResourceType::Endpoint
        && let Some(endpoint) = parse_guid(&resource.data.id)
    {
        resource.data.id = id::print(endpoint);
    }
    resource
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::document::Field;
    use crate::parse;

    fn raised(v1: Value) -> Namespace {
        parse::<HnsNamespace>(&v1.to_string()).unwrap().to_v2().unwrap()
    }

    #[test]
    fn each_field_has_its_place() {
        let table = [
            (json!({}), json!({"Type": "Host"})),
            (json!({"IsDefault": true}), json!({"Type": "HostDefault"})),
            (json!({"IsDefault": true, "Type": "GuestDefault"}), json!({"Type": "GuestDefault"})),
            (
                json!({"ID": "00000000-0000-0000-0000-00000000000A", "CompartmentId": 6, "CompartmentGuid": "00000000-0000-0000-0000-00000000000B"}),
                json!({"ID": "00000000-0000-0000-0000-00000000000a", "NamespaceId": 6, "NamespaceGuid": "00000000-0000-0000-0000-00000000000b",
                    "Type": "Host"}),
            ),
            (
                json!({"ResourceList": [{"Type": "Endpoint", "Data": {"Id": "00000000-0000-0000-0000-00000000000A"}}], "Containers": ["c1"]}),
                json!({"Type": "Host", "Resources": [{"Type": "Endpoint", "Data": {"Id": "00000000-0000-0000-0000-00000000000a"}},
                    {"Type": "Container", "Data": {"Id": "c1"}}]}),
            ),
            (
                json!({"Policies": [1], "Flags": 2, "Brandnew": 3, "CreateWithCompartment": true}),
                json!({"Type": "Host", "CreateWithCompartment": true, "Policies": [1], "Flags": 2, "Brandnew": 3}),
            ),
            (json!({"State": 1, "Version": 2, "Health": {}, "Resources": {"a": 1}, "ActivityId": "x"}), json!({"Type": "Host"})),
        ];
        for (v1, mut v2) in table {
            let namespace = raised(v1.clone());
            v2["SchemaVersion"] = json!({"Major": 0, "Minor": 0});
            assert_eq!(namespace.write(), v2, "{v1}");
            assert_eq!(HnsNamespace::from_v2(&namespace).to_v2(), Ok(namespace), "{v1}");
        }
    }

    #[test]
    fn the_view_of_a_namespace() {
        let namespace = parse(
            r#"{"ID":"77e1c2d4-0000-4000-8000-000000000003","NamespaceId":6,"State":1,
            "Resources":[{"Type":"Endpoint","Data":{"Id":"b0b7a3c1-0000-4000-8000-000000000002"}},{"Type":"Container","Data":{"Id":"c1"}}]}"#,
        );
        let expected = json!({"ID": "77E1C2D4-0000-4000-8000-000000000003", "IsDefault": false, "CompartmentId": 6, "State": 1,
            "ResourceList": [{"Type": "Endpoint", "Data": {"Id": "B0B7A3C1-0000-4000-8000-000000000002"}}, {"Type": "Container", "Data": {"Id": "c1"}}],
            "Containers": ["c1"]});
        assert_eq!(HnsNamespace::from_v2(&namespace.unwrap()).write(), expected);
    }

    #[test]
    fn bad_content_is_named() {
        let table = [
            (json!({"ID": "x"}), "ID"),
            (json!({"CompartmentGuid": "x"}), "CompartmentGuid"),
            (json!({"ResourceList": [{"Type": "Endpoint", "Data": {"Id": "x"}}]}), "ResourceList[0].Data.Id"),
        ];
        for (v1, field) in table {
            let error = parse::<HnsNamespace>(&v1.to_string()).unwrap().to_v2().unwrap_err();
            assert_eq!((error.hresult(), error.detail().field.as_deref()), (0x803B_0019, Some(field)));
        }
    }
}
