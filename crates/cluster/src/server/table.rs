//! Tables: what `kubectl get` shows, laid out by the server.

use serde_json::{Value, json};

use super::operation::shown;
use super::resource::{self, Resource};
use super::store::Stored;

/// How much of each object comes along with its row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Object,
}

impl Include {
    pub(crate) fn read(text: &str) -> Self {
        match text {
            "None" => Self::Nothing,
            "Object" => Self::Object,
            _ => Self::Metadata,
        }
    }
}

/// A table without rows.
pub(crate) fn empty(resource: &Resource, version: &str, revision: &str) -> Value {
    let column = |column: &resource::Column| {
        let format = if column.name == "Name" { "name" } else { "" };
        json!({"name": column.name, "type": column.kind, "format": format, "description": column.name, "priority": column.priority})
    };
    let columns: Vec<Value> = resource.columns.iter().map(column).collect();
    json!({
        "kind": "Table", "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": {"resourceVersion": revision},
        "columnDefinitions": columns, "rows": [],
    })
}

/// The row of an object.
pub(crate) fn row(resource: &Resource, stored: &Stored, include: Include) -> Value {
    // Cells are read from the form that is stored, whichever version asks.
    let cells = resource::stored_as(resource.storage).map_or(resource.cells, |resource| resource.cells)(&stored.document());
    let mut row = json!({"cells": cells});
    match include {
        Include::Nothing => {}
        Include::Metadata => row["object"] = partial(&shown(resource, stored)["metadata"]),
        Include::Object => row["object"] = shown(resource, stored),
    }
    row
}

/// Only the metadata of an object.
pub(crate) fn partial(metadata: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}
