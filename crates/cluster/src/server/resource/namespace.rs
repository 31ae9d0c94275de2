//! Kubernetes namespaces. Deleting one deletes what is in it; the controller of namespaces does that.

use serde_json::{Value, json};

use super::{Column, PLAIN, Resource, age, column, name};
use crate::server::document::{child, default, list, text};
use crate::server::field::Errors;
use crate::server::name::label;

const COLUMNS: &[Column] = &[column("Name"), column("Status"), column("Age")];

pub(crate) static NAMESPACES: Resource = Resource {
    storage: 1,
    kind: "Namespace",
    plural: "namespaces",
    singular: "namespace",
    short_names: &["ns"],
    namespaced: false,
    has_status: true,
    can_delete_collection: false,
    name_rule: label,
    columns: COLUMNS,
    cells: |document| vec![name(document), text(document, "/status/phase").into(), age(document)],
    field_names: &["status.phase"],
    fields: |document| vec![("status.phase", text(document, "/status/phase").to_owned())],
    default: complete,
    first_status: |_| json!({"phase": "Active"}),
    validate,
    ..PLAIN
};

/// The finalizer that keeps a namespace until it is empty, and the label by which it can be selected.
fn complete(document: &mut Value) {
    let name = text(document, "/metadata/name").to_owned();
    default(child(document, "spec"), "finalizers", json!(["kubernetes"]));
    if !name.is_empty() {
        let metadata = crate::server::document::metadata(document);
        let labels = metadata.entry("labels").or_insert_with(|| json!({}));
        crate::server::document::as_map(labels).insert("kubernetes.io/metadata.name".into(), name.into());
    }
}

fn validate(document: &Value, errors: &mut Errors) {
    for finalizer in list(document, "/spec/finalizers").iter().filter_map(Value::as_str) {
        errors.qualified("spec.finalizers", finalizer);
        if !finalizer.contains('/') && finalizer != "kubernetes" {
            let cause = "name is neither a standard finalizer name nor is it fully qualified";
            errors.invalid("spec.finalizers", finalizer, cause);
        }
    }
}
