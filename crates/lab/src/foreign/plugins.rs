//! CNI plugins of others in the place of ours.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::Command;

use super::{Facts, is_for_windows, kind, plugin, settle};
use crate::kubelet::expand;
use crate::topology::{CniSpec, NetworkSpec};
use crate::wine::{self, Wine, windows_path};

/// CNI plugins of others on a node.
#[derive(Clone, Debug)]
pub(crate) struct Plugins {
    /// The beginning of a plugin's command: nothing, or Wine.
    pub(crate) command: Vec<String>,
    /// The program of the plugin.
    pub(crate) program: PathBuf,
    /// Where plugins look for others.
    pub(crate) path: String,
    /// Their variables.
    pub(crate) variables: Vec<(String, String)>,
    /// Where what they print is kept.
    pub(crate) scratch: PathBuf,
}

impl Plugins {
    /// The program of the plugin, with all that it needs around it.
    pub(crate) fn program(&self) -> Command {
        let mut words = self.command.iter().map(AsRef::as_ref).chain([self.program.as_os_str()]);
        let mut command = Command::new(words.next().unwrap_or(self.program.as_os_str()));
        // Under Wine a path without a drive begins at the root of this system, if the directory is outside of drive C.
        command.args(words).envs(self.variables.iter().map(|(name, value)| (name, value))).env("CNI_PATH", &self.path).current_dir("/");
        command
    }

    /// Files for what a plugin prints: what Wine leaves in the background would keep a pipe open.
    pub(crate) fn keep_output(&self, container: &str) -> io::Result<Kept> {
        std::fs::create_dir_all(&self.scratch)?;
        let make = |name: &str| {
            let path = self.scratch.join(format!("{container}.{name}"));
            let file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
            // It is needed by those who have it open, and by nobody else.
            std::fs::remove_file(&path).map(|()| file)
        };
        Ok(Kept { output: make("out")?, errors: make("err")? })
    }
}

/// What a plugin prints.
pub(crate) struct Kept {
    output: File,
    errors: File,
}

impl Kept {
    /// The plugin's outputs.
    pub(crate) fn outputs(&self) -> (Stdio, Stdio) {
        let end = |file: &File| file.try_clone().map_or_else(|_| Stdio::null(), Stdio::from);
        (end(&self.output), end(&self.errors))
    }

    /// What was printed.
    pub(crate) fn read(mut self) -> io::Result<(Vec<u8>, Vec<u8>)> {
        let mut texts = (Vec::new(), Vec::new());
        for (file, text) in [(&mut self.output, &mut texts.0), (&mut self.errors, &mut texts.1)] {
            file.rewind()?;
            file.read_to_end(text)?;
        }
        Ok(texts)
    }
}

/// The plugins that a node has in the place of ours, and their configuration, which has what ours has where the file does not say.
pub(crate) fn plugins(cni: &CniSpec, facts: &Facts, network: &NetworkSpec, wine: Option<&Wine>, ours: &Value) -> Option<(Plugins, Value)> {
    let directory = cni.directory();
    let program = plugin(&directory, kind(cni, network))?;
    let wine = wine.filter(|_| is_for_windows(&program.to_string_lossy()));
    let (variables, known) = settle(facts.variables(wine.is_some()), wine, &cni.variables);
    let mut config = cni.config.as_ref().map_or_else(|| direct(facts, ours), |config| expand_all(config, &known));
    for key in ["cniVersion", "name"] {
        if config[key].is_null() {
            config[key] = ours[key].clone();
        }
    }
    let plugins = Plugins {
        command: wine.map(|_| wine::PROGRAM.to_owned()).into_iter().collect(),
        program,
        path: if wine.is_some() { windows_path(&directory) } else { directory.display().to_string() },
        variables,
        scratch: facts.directory.join("cni"),
    };
    Some((plugins, config))
}

/// Our own configuration; where that is of `flannel`, the one of the plugin behind it, with the node's addresses.
fn direct(facts: &Facts, ours: &Value) -> Value {
    if ours["delegate"].is_null() {
        return ours.clone();
    }
    let mut config = ours["delegate"].clone();
    let ranges: Vec<Value> = facts.own_subnets.iter().map(|subnet| json!([{"subnet": subnet}])).collect();
    config["ipam"] = json!({"type": "host-local", "ranges": ranges, "dataDir": facts.directory.join("addresses")});
    config["capabilities"] = json!({"dns": true});
    config
}

/// Puts in what `$(NAME)` stands for in every text of a document.
fn expand_all(document: &Value, known: &BTreeMap<String, String>) -> Value {
    match document {
        Value::String(text) => Value::String(expand(text, known)),
        Value::Array(items) => items.iter().map(|item| expand_all(item, known)).collect(),
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), expand_all(value, known))).collect(),
        other => other.clone(),
    }
}
