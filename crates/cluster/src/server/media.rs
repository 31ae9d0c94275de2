//! The form in which a client wants its answer.

use super::status::{Failure, Result};

/// The shape of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    /// The documents themselves.
    Plain,
    /// Rows and columns for people.
    Table,
    /// Only the metadata.
    Metadata,
}

/// What a client accepts, as far as it matters here.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Accept {
    pub(crate) shape: Shape,
    /// `v1` or `v1beta1` of the table's group.
    pub(crate) shape_version: String,
    pub(crate) is_yaml: bool,
    /// Whether discovery is wanted in one document, and in which version.
    pub(crate) aggregated: Option<String>,
}

/// Reads an `Accept` header: the first of its entries that can be served counts.
pub(crate) fn accept(header: &str) -> Result<Accept> {
    let entries = header.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    let served: Vec<Accept> = entries.clone().filter_map(entry).collect();
    // Who knows the newer form of discovery gets it, wherever it stands.
    let aggregated = served.iter().find_map(|accept| accept.aggregated.clone());
    match served.into_iter().next() {
        Some(accept) => Ok(Accept { aggregated, ..accept }),
        None if entries.clone().count() == 0 => Ok(plain()),
        None if entries.clone().any(|entry| is_yaml(entry).is_some()) => Err(Failure::unknown_shape()),
        None => Err(Failure::not_acceptable()),
    }
}

fn plain() -> Accept {
    Accept { shape: Shape::Plain, shape_version: "v1".into(), is_yaml: false, aggregated: None }
}

/// Whether an entry asks for YAML or for JSON; none if for something else.
fn is_yaml(entry: &str) -> Option<bool> {
    match entry.split(';').next()?.trim() {
        "application/json" | "application/*" | "*/*" => Some(false),
        "application/yaml" => Some(true),
        _ => None,
    }
}

fn entry(entry: &str) -> Option<Accept> {
    let is_yaml = is_yaml(entry)?;
    let parameter =
        |name: &str| entry.split(';').filter_map(|part| part.trim().split_once('=')).find(|(key, _)| *key == name).map(|(_, value)| value);
    let version = parameter("v").unwrap_or("v1").to_owned();
    match parameter("as") {
        None => Some(Accept { is_yaml, ..plain() }),
        Some("Table") if matches!(version.as_str(), "v1" | "v1beta1") => {
            Some(Accept { shape: Shape::Table, shape_version: version, is_yaml, ..plain() })
        }
        Some("PartialObjectMetadata" | "PartialObjectMetadataList") => {
            Some(Accept { shape: Shape::Metadata, shape_version: version, is_yaml, ..plain() })
        }
        Some("APIGroupDiscoveryList") if version == "v2" || version == "v2beta1" => {
            Some(Accept { aggregated: Some(version), is_yaml, ..plain() })
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_can_be_served_counts() {
        let table = accept("application/json;as=Table;v=v1;g=meta.k8s.io,application/json").unwrap();
        assert_eq!(table.shape, Shape::Table);
        assert_eq!(accept("application/vnd.kubernetes.protobuf,application/json").unwrap(), plain());
        assert_eq!(accept("").unwrap(), plain());
        assert!(accept("application/yaml").unwrap().is_yaml);
        assert_eq!(accept("application/json;as=Thing;v=v1,*/*").unwrap(), plain());
        assert_eq!(accept("application/vnd.kubernetes.protobuf").unwrap_err().code, 406);
        assert_eq!(
            accept("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList").unwrap().aggregated.as_deref(),
            Some("v2")
        );
    }
}
