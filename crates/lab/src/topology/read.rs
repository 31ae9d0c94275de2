//! From text to a plan. What is wrong is told with its line.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;
use serde_norway::Deserializer;

use super::check::{Wrong, check};
use super::{DEFAULT, KIND, NodeSpec, Topology, families, octal};

/// A topology and the manifests that come with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The topology.
    pub topology: Topology,
    /// The manifests, in their order.
    pub manifests: Vec<Manifest>,
}

/// A Kubernetes object that is to be applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The line where it begins.
    pub line: usize,
    /// The object.
    pub object: Value,
}

impl Manifest {
    /// Its kind, Kubernetes namespace and name, for people.
    pub fn title(&self) -> String {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, metadata) = (text(&self.object["kind"]), &self.object["metadata"]);
        match metadata["namespace"].as_str() {
            Some(namespace) => format!("{kind} {namespace}/{}", text(&metadata["name"])),
            None => format!("{kind} {}", text(&metadata["name"])),
        }
    }

    /// How many pods it asks for.
    pub(crate) fn pods(&self) -> usize {
        match self.object["kind"].as_str() {
            Some("Pod") => 1,
            Some("Deployment" | "ReplicaSet") => {
                self.object["spec"]["replicas"].as_u64().map_or(1, |replicas| usize::try_from(replicas).unwrap_or(usize::MAX))
            }
            _ => 0,
        }
    }
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The line, if it can be told.
    pub line: Option<usize>,
    /// The field, if it is one.
    pub field: Option<String>,
    /// What is wrong, and what to do.
    pub cause: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if let Some(field) = &self.field {
            write!(f, "{field}: ")?;
        }
        f.write_str(&self.cause)
    }
}

impl std::error::Error for Mistake {}

/// One document of a stream.
struct Document<'a> {
    line: usize,
    text: &'a str,
}

/// Reads a file. `is_build` says whether a node's build is one.
pub fn read(text: &str, is_build: &dyn Fn(&NodeSpec) -> Result<(), String>) -> Result<Plan, Mistake> {
    let mut topology = None;
    let mut manifests = Vec::new();
    for document in documents(text) {
        let value = parse(&document)?;
        if value.is_null() {
            continue;
        }
        if value["kind"] != KIND {
            manifests.extend(objects(document.line, value)?);
            continue;
        }
        if topology.is_some() {
            return Err(mistake(document.line, "kind", "there is a second topology; a file has one"));
        }
        topology = Some(read_topology(&document, is_build)?);
    }
    let topology = match topology {
        Some(topology) => topology,
        // A file of manifests alone runs in the usual cluster.
        None => documents(DEFAULT).find_map(|document| read_topology(&document, is_build).ok()).ok_or_else(|| Mistake {
            line: None,
            field: None,
            cause: "the built-in topology cannot be read".to_owned(),
        })?,
    };
    Ok(Plan { topology, manifests })
}

fn mistake(line: usize, field: &str, cause: impl Into<String>) -> Mistake {
    Mistake { line: Some(line), field: Some(field.to_owned()), cause: cause.into() }
}

/// Cuts a stream at its `---` lines, so that every document knows where it begins.
fn documents(text: &str) -> impl Iterator<Item = Document<'_>> {
    let mut found = Vec::new();
    let (mut start, mut line, mut at) = (0, 1, 0);
    for (number, content) in text.split_inclusive('\n').enumerate() {
        let end = at + content.len();
        if content.trim_end() == "---" || content.starts_with("--- ") {
            found.push(Document { line, text: &text[start..at] });
            (start, line) = (end, number + 2);
        }
        at = end;
    }
    found.push(Document { line, text: &text[start..] });
    found.into_iter().filter(|document| !document.text.trim().is_empty())
}

fn parse(document: &Document<'_>) -> Result<Value, Mistake> {
    Value::deserialize(Deserializer::from_str(document.text)).map_err(|error| located(document, &error))
}

fn read_topology(document: &Document<'_>, is_build: &dyn Fn(&NodeSpec) -> Result<(), String>) -> Result<Topology, Mistake> {
    let mut topology = Topology::deserialize(Deserializer::from_str(document.text)).map_err(|error| located(document, &error))?;
    families::settle(&mut topology, &parse(document)?);
    let with_line = |Wrong { field, cause }| Mistake { line: Some(find(document, &field)), field: Some(field), cause };
    check(&topology, is_build).map_err(with_line).map(|()| topology)
}

fn located(document: &Document<'_>, error: &serde_norway::Error) -> Mistake {
    let line = error.location().map(|location| document.line + location.line() - 1);
    let text = error.to_string();
    // It is told in the numbers of the document.
    let cause = text.rfind(" at line ").map_or(text.as_str(), |end| &text[..end]);
    Mistake { line: line.or(Some(document.line)), field: None, cause: cause.to_owned() }
}

/// The line of a field, as near as the text tells: the item of the list, and the key in it.
fn find(document: &Document<'_>, field: &str) -> usize {
    let mut line = 0;
    let lines: Vec<&str> = document.text.lines().collect();
    for part in field.split('.') {
        let (key, item) = part.split_once('[').map_or((part, None), |(key, rest)| (key, rest.trim_end_matches(']').parse::<usize>().ok()));
        let is_key = |text: &str| text.trim_start().trim_start_matches("- ").starts_with(&format!("{key}:"));
        let Some(found) = lines.iter().skip(line).position(|text| is_key(text)) else { break };
        line += found;
        if let Some(item) = item {
            let items = lines.iter().enumerate().skip(line + 1).filter(|(_, text)| text.trim_start().starts_with("- "));
            let indent = |text: &str| text.len() - text.trim_start().len();
            let first = items.clone().next().map_or(0, |(_, text)| indent(text));
            line = items.filter(|(_, text)| indent(text) == first).nth(item).map_or(line, |(number, _)| number);
        }
    }
    document.line + line
}

/// A manifest, or the items of a list of them.
fn objects(line: usize, mut value: Value) -> Result<Vec<Manifest>, Mistake> {
    if let Some(items) = value["items"].as_array().filter(|_| value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"))) {
        let nested: Result<Vec<Vec<Manifest>>, Mistake> = items.iter().map(|item| objects(line, item.clone())).collect();
        return Ok(nested?.concat());
    }
    for (field, value) in [("apiVersion", &value["apiVersion"]), ("kind", &value["kind"]), ("metadata.name", &value["metadata"]["name"])] {
        if value.as_str().is_none_or(str::is_empty) {
            let what = "a manifest needs apiVersion, kind and metadata.name; a topology has kind: Lab";
            return Err(mistake(line, field, format!("it is missing; {what}")));
        }
    }
    octal::settle(&mut value);
    Ok(vec![Manifest { line, object: value }])
}
