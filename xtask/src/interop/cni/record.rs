//! What a command did: what it printed, and what there was afterwards.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::super::hnsd::Hnsd;
use super::masks::Masks;

/// Where plugins keep something.
pub(super) struct Kept {
    /// The directory of host-local.
    pub(super) addresses: PathBuf,
    /// The directory of flannel.
    pub(super) delegates: PathBuf,
    /// The file of azure-vnet-ipam.
    pub(super) pools: PathBuf,
}

/// One command of a case.
pub(super) struct Record {
    /// The command, and the how manieth of the case it was.
    pub(super) step: String,
    /// `exit`, `result` or `error`, `endpoints`, `namespaces`, `networks`, `addresses`, `delegates` and `pools`.
    pub(super) document: Value,
    /// What was printed, letter for letter but for what is masked.
    pub(super) text: String,
}

impl Record {
    /// Looks at everything after a command that printed `output`.
    pub(super) fn take(step: String, exit: Option<i32>, output: &str, hnsd: &Hnsd, kept: &Kept) -> Result<Self, String> {
        let mut masks = Masks::default();
        let mut document = json!({"exit": exit, "addresses": files(&kept.addresses), "delegates": files(&kept.delegates)});
        document["pools"] = printed(&fs::read_to_string(&kept.pools).unwrap_or_default());
        for kind in ["network", "namespace", "endpoint"] {
            let mut objects = list(hnsd, kind)?;
            sort(&mut objects);
            masks.learn(kind, &objects);
            document[format!("{kind}s")] = objects;
        }
        let key = if exit == Some(0) { "result" } else { "error" };
        document[key] = printed(output);
        let text = masks.text(&output.replace("\r\n", "\n"));
        Ok(Self { step, document: masks.document(document), text })
    }
}

fn list(hnsd: &Hnsd, kind: &str) -> Result<Value, String> {
    let text = hnsd.transom(&[kind, "list", "-o", "json"])?;
    serde_json::from_str(&text).map_err(|error| format!("what hnsd lists is no JSON: {error}\n{text}"))
}

fn sort(objects: &mut Value) {
    let name = |object: &Value| object["Name"].as_str().unwrap_or_default().to_owned();
    if let Some(objects) = objects.as_array_mut() {
        objects.sort_by_key(name);
    }
}

/// The document that was printed, or else the text.
fn printed(output: &str) -> Value {
    match serde_json::from_str(output) {
        Ok(document) => document,
        Err(_) if output.trim().is_empty() => Value::Null,
        Err(_) => Value::String(output.trim().to_owned()),
    }
}

/// The files of host-local or flannel with their content. Windows knows no `:` in names, so there `_` stands for it in IPv6 addresses.
fn files(directory: &Path) -> Value {
    let mut files = Map::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let content = fs::read_to_string(entry.path()).unwrap_or_default();
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_address = name.bytes().all(|byte| byte.is_ascii_hexdigit() || b"_:.".contains(&byte));
        files.insert(if is_address { name.replace('_', ":") } else { name }, Value::String(content));
    }
    Value::Object(files)
}
