//! OpenAPI: the fields of every kind, from the table in `schema`.

use serde_json::{Map, Value, json};

use super::discovery::MINOR;
use super::patch::merging;
use super::resource::{ALL, Resource};
use super::schema::{Presence, Type, fields, message_of, messages};
use super::status::{Failure, Result};

/// The name of a message's schema, as the original calls it.
fn schema_name(message: &str) -> String {
    match message.split_once('.') {
        Some(("meta", kind)) => format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}"),
        Some((group, kind)) => format!("io.k8s.api.{group}.v1.{kind}"),
        None => message.to_owned(),
    }
}

/// The schema of a message. `place` is where schemas stand in the document.
fn schema(message: &str, place: &str) -> Value {
    let mut properties = Map::new();
    add_properties(message, place, &mut properties);
    let mut schema = json!({"type": "object", "properties": properties});
    if let Some(resource) = ALL.iter().find(|resource| message_of(resource) == message) {
        properties_of_type(&mut schema);
        schema["description"] = format!("A {}.", resource.kind).into();
        schema["x-kubernetes-group-version-kind"] = json!([{"group": resource.group, "version": resource.version, "kind": resource.kind}]);
    }
    schema
}

fn properties_of_type(schema: &mut Value) {
    for key in ["apiVersion", "kind"] {
        schema["properties"][key] = json!({"type": "string"});
    }
}

fn add_properties(message: &str, place: &str, properties: &mut Map<String, Value>) {
    for field in fields(message) {
        match (&field.holds, field.presence) {
            (Type::Message(inner), Presence::Inline) => add_properties(inner, place, properties),
            (holds, _) => {
                let mut property = property(holds, place);
                describe_merging(message, field.name, holds, &mut property);
                properties.insert(field.name.to_owned(), property);
            }
        }
    }
}

/// Says how strategic patches merge a list, which clients need to know to make one.
fn describe_merging(message: &str, field: &str, holds: &Type, property: &mut Value) {
    let kind = message.split('.').nth(1).unwrap_or_default();
    // Where messages of this kind stand in documents.
    let parent = match kind {
        "ObjectMeta" => "metadata",
        "Container" | "EphemeralContainer" => "containers",
        _ if kind.ends_with("Spec") => "spec",
        _ if kind.ends_with("Status") => "status",
        _ => kind,
    };
    if let (Type::List(_), Some(by)) = (holds, merging(&format!("{parent}.{field}"))) {
        property["x-kubernetes-patch-strategy"] = "merge".into();
        if let Some(by) = by {
            property["x-kubernetes-patch-merge-key"] = by.into();
        }
    }
}

fn property(holds: &Type, place: &str) -> Value {
    match holds {
        Type::Text | Type::Quantity => json!({"type": "string"}),
        Type::Integer => json!({"type": "integer", "format": "int64"}),
        Type::Bool => json!({"type": "boolean"}),
        Type::Bytes => json!({"type": "string", "format": "byte"}),
        Type::Time { .. } => json!({"type": "string", "format": "date-time"}),
        Type::IntegerOrText => json!({"type": "string", "format": "int-or-string"}),
        Type::Any => json!({"type": "object"}),
        Type::Message(message) => json!({"$ref": format!("{place}{}", schema_name(message))}),
        Type::List(item) => json!({"type": "array", "items": property(item, place)}),
        Type::Map(item) => json!({"type": "object", "additionalProperties": property(item, place)}),
    }
}

/// All schemas. They refer to each other, so every document has all of them.
fn schemas(place: &str) -> Map<String, Value> {
    let mut all: Vec<(String, Value)> = messages().map(|(message, _)| (schema_name(message), schema(message, place))).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all.into_iter().collect()
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
    let definitions = schemas("#/definitions/");
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
        // The documents are the same for as long as the program is, and clients may keep them that long.
        let hash = hash(&format!("{}{}", info(), Value::Object(schemas(""))));
        let url = |place: &str| format!("/openapi/v3/{place}?hash={hash}");
        let paths: Map<String, Value> =
            ALL.iter().map(|resource| place(&resource)).map(|place| (place.clone(), json!({"serverRelativeURL": url(&place)}))).collect();
        return Ok(json!({"paths": paths}));
    }
    let here: Vec<&Resource> = ALL.iter().filter(|resource| place(resource) == rest).copied().collect();
    if here.is_empty() {
        return Err(Failure::no_such_path());
    }
    let schemas = schemas("#/components/schemas/");
    let paths: Map<String, Value> = here.iter().map(|resource| (path(resource), operations_v3(resource))).collect();
    Ok(json!({"openapi": "3.0.0", "info": info(), "paths": paths, "components": {"schemas": schemas}}))
}

/// A number that differs where texts do, in hexadecimal digits.
fn hash(text: &str) -> String {
    let sum = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{sum:016X}")
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
