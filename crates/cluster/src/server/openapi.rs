//! As much of OpenAPI as clients need to find kinds and let documents through: every kind is an object with open fields.

use serde_json::{Map, Value, json};

use super::discovery::MINOR;
use super::resource::{ALL, Resource};
use super::status::{Failure, Result};

/// The name of a kind's schema.
fn schema_name(resource: &Resource) -> String {
    let group = match resource.group {
        "" => "core",
        group => group.split('.').next().unwrap_or_default(),
    };
    format!("io.k8s.api.{group}.{}.{}", resource.version, resource.kind)
}

fn schema(resource: &Resource) -> Value {
    let mut properties = Map::new();
    properties.insert("apiVersion".into(), json!({"type": "string"}));
    properties.insert("kind".into(), json!({"type": "string"}));
    properties.insert("metadata".into(), json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    for key in resource.top_level {
        properties.insert((*key).to_owned(), json!({"x-kubernetes-preserve-unknown-fields": true}));
    }
    let kind = json!([{"group": resource.group, "version": resource.version, "kind": resource.kind}]);
    json!({"type": "object", "description": format!("A {}.", resource.kind), "properties": properties, "x-kubernetes-group-version-kind": kind})
}

fn info() -> Value {
    json!({"title": "Kubernetes", "version": format!("v1.{MINOR}.0")})
}

/// The path of a resource, with its name as a parameter.
fn path(resource: &Resource) -> String {
    let root = if resource.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", resource.group) };
    let space = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    format!("{root}/{}{space}/{}/{{name}}", resource.version, resource.plural)
}

/// The verbs of a path that clients look for: those that take `dryRun` and `fieldValidation`.
fn operations(resource: &Resource) -> Value {
    let kind = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
    let query = |name: &str| json!({"name": name, "in": "query", "type": "string", "uniqueItems": true});
    let patch = json!({
        "x-kubernetes-action": "patch", "x-kubernetes-group-version-kind": kind, "consumes": ["application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json"],
        "parameters": [query("dryRun"), query("fieldManager"), query("fieldValidation")], "responses": {"200": {"description": "OK"}},
    });
    let get = json!({"x-kubernetes-action": "get", "x-kubernetes-group-version-kind": kind, "responses": {"200": {"description": "OK"}}});
    json!({"get": get, "patch": patch})
}

/// `/openapi/v2`
pub(crate) fn v2() -> Value {
    let definitions: Map<String, Value> = ALL.iter().map(|resource| (schema_name(resource), schema(resource))).collect();
    let paths: Map<String, Value> = ALL.iter().map(|resource| (path(resource), operations(resource))).collect();
    json!({"swagger": "2.0", "info": info(), "paths": paths, "definitions": definitions})
}

/// `/openapi/v3` and what it leads to.
pub(crate) fn v3(rest: &str) -> Result<Value> {
    let place = |resource: &&&Resource| match resource.group {
        "" => format!("api/{}", resource.version),
        group => format!("apis/{group}/{}", resource.version),
    };
    if rest.is_empty() {
        let paths: Map<String, Value> = ALL
            .iter()
            .map(|resource| place(&resource))
            .map(|place| (place.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{place}")})))
            .collect();
        return Ok(json!({"paths": paths}));
    }
    let here: Vec<&Resource> = ALL.iter().filter(|resource| place(resource) == rest).copied().collect();
    if here.is_empty() {
        return Err(Failure::no_such_path());
    }
    let schemas: Map<String, Value> = here.iter().map(|resource| (schema_name(resource), schema(resource))).collect();
    let paths: Map<String, Value> = here.iter().map(|resource| (path(resource), operations_v3(resource))).collect();
    Ok(json!({"openapi": "3.0.0", "info": info(), "paths": paths, "components": {"schemas": schemas}}))
}

fn operations_v3(resource: &Resource) -> Value {
    let kind = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
    let query = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let patch = json!({
        "x-kubernetes-action": "patch", "x-kubernetes-group-version-kind": kind,
        "parameters": [query("dryRun"), query("fieldManager"), query("fieldValidation")], "responses": {"200": {"description": "OK"}},
    });
    let get = json!({"x-kubernetes-action": "get", "x-kubernetes-group-version-kind": kind, "responses": {"200": {"description": "OK"}}});
    json!({"get": get, "patch": patch})
}
