//! Leases: who holds something, and until when.

use serde_json::Value;

use super::{Column, PLAIN, Resource, age, column, name};
use crate::server::document::{child, number, text};
use crate::server::field::Errors;

const COLUMNS: &[Column] = &[column("Name"), column("Holder"), column("Age")];

pub(crate) static LEASES: Resource = Resource {
    storage: 11,
    group: "coordination.k8s.io",
    kind: "Lease",
    plural: "leases",
    singular: "lease",
    columns: COLUMNS,
    cells: |document| vec![name(document), text(document, "/spec/holderIdentity").into(), age(document)],
    default: |document| _ = child(document, "spec"),
    validate,
    ..PLAIN
};

fn validate(document: &Value, errors: &mut Errors) {
    if let Some(seconds) = number(document, "/spec/leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        errors.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0");
    }
    if let Some(count) = number(document, "/spec/leaseTransitions").filter(|count| *count < 0) {
        errors.invalid("spec.leaseTransitions", count, "must be greater than or equal to 0");
    }
}
