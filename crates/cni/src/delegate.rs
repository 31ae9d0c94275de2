//! Calling another plugin: an IPAM plugin, or the one that a meta plugin stands for.
//!
//! One of ours is called in this process. Any other is found by CNI_PATH and started as a program, with the whole
//! configuration on its standard input, our variables, and a time limit. Whether what an ADD that failed has left behind is
//! removed by a DEL is for the caller to decide.

use std::ffi::OsString;
use std::path::{MAIN_SEPARATOR, Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::config::Config;
use crate::dispatch;
use crate::environment::{Command, Environment};
use crate::error::{Error, Result};
use crate::object::{Object, quote};
use crate::plugin::{Call, Registry};
use crate::result::AddResult;

mod program;

use program::Answer;

/// How long another plugin may take, unless somebody sets something else.
pub const TIME_LIMIT: Duration = Duration::from_secs(60);

/// How many plugins of ours may be behind each other: flannel, its delegate and IPAM are three. Configurations that name a plugin
/// as its own IPAM would go on for ever.
const DEPTH_MAX: usize = 4;

/// What a file may end in to be a program, in the order in which it is looked for.
#[cfg(windows)]
const EXTENSIONS: &[&str] = &[".exe", ""];
#[cfg(not(windows))]
const EXTENSIONS: &[&str] = &[""];

/// The other plugins, as one of them sees them.
#[derive(Clone, Copy)]
pub struct Delegates<'a> {
    registry: &'a Registry,
    time_limit: Duration,
    depth: usize,
}

impl<'a> Delegates<'a> {
    /// Those of the registry, and whatever CNI_PATH leads to.
    pub fn new(registry: &'a Registry) -> Self {
        Self { registry, time_limit: TIME_LIMIT, depth: 1 }
    }

    /// With another limit on the time that a program may take.
    pub fn with_time_limit(self, time_limit: Duration) -> Self {
        Self { time_limit, ..self }
    }

    /// Has a plugin do an ADD, with a configuration that need not be the caller's own.
    pub fn add(&self, plugin: &str, environment: &Environment, configuration: &[u8]) -> Result<AddResult> {
        let environment = environment.with(Command::Add);
        match self.call(plugin, &environment, configuration)? {
            Reply::Result(result) => Ok(result),
            Reply::Text(text) => read_result(plugin, &text, configuration),
        }
    }

    /// Has a plugin do anything but an ADD.
    pub fn run(&self, command: Command, plugin: &str, environment: &Environment, configuration: &[u8]) -> Result<()> {
        self.call(plugin, &environment.with(command), configuration).map(|_| ())
    }

    fn call(&self, plugin: &str, environment: &Environment, configuration: &[u8]) -> Result<Reply> {
        if let Some(ours) = self.registry.find(plugin) {
            if self.depth >= DEPTH_MAX {
                return Err(Error::invalid_network_config(format!("{} is called by plugins that it has called itself", quote(plugin)))
                    .details("name a plugin that gives out addresses in ipam.type, such as host-local"));
            }
            let delegates = Self { depth: self.depth + 1, ..*self };
            let call = Call { environment: environment.clone(), config: Config::read(configuration)?, delegates };
            return Ok(dispatch::run(ours, &call)?.map_or(Reply::Text(String::new()), Reply::Result));
        }
        let path = find(plugin, &environment.paths())?;
        let answer = program::run(plugin, &path, environment, configuration, self.time_limit)?;
        match answer.status.success() {
            true => Ok(Reply::Text(answer.stdout)),
            false => Err(failure(plugin, &answer)),
        }
    }
}

/// What came back.
enum Reply {
    Result(AddResult),
    Text(String),
}

/// The file of a plugin: the first regular one in the directories, with each of the extensions.
fn find(plugin: &str, directories: &[PathBuf]) -> Result<PathBuf> {
    if plugin.is_empty() {
        return Err(
            Error::invalid_network_config("no plugin name provided").details("set the type of the plugin to call, such as ipam.type")
        );
    }
    if plugin.contains(MAIN_SEPARATOR) || plugin.contains('/') {
        return Err(Error::invalid_network_config(format!("invalid plugin name: {}", quote(plugin)))
            .details("name the plugin without a path; CNI_PATH says where it is looked for"));
    }
    if directories.is_empty() {
        return Err(Error::invalid_environment("CNI_PATH has no directories").details("list the directories with the plugins"));
    }
    let candidates = directories.iter().flat_map(|directory| EXTENSIONS.iter().map(move |extension| file(directory, plugin, extension)));
    candidates.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        let searched: Vec<String> = directories.iter().map(|directory| directory.display().to_string()).collect();
        Error::invalid_network_config(format!("failed to find plugin {} in path [{}]", quote(plugin), searched.join(" ")))
            .details("install the plugin there, or add its directory to CNI_PATH")
    })
}

fn file(directory: &Path, plugin: &str, extension: &str) -> PathBuf {
    let mut name = OsString::from(plugin);
    name.push(extension);
    directory.join(name)
}

/// The error that a program reported, or one about how it failed to.
fn failure(plugin: &str, answer: &Answer) -> Error {
    let Answer { status, stdout, stderr } = answer;
    if stdout.is_empty() {
        return match stderr.is_empty() {
            true => Error::internal(format!("plugin {plugin} failed with no error message: {status}")),
            false => Error::internal(format!("plugin {plugin} failed: {}: {status}", quote(stderr))),
        };
    }
    read_error(stdout).unwrap_or_else(|why| {
        Error::internal(format!("plugin {plugin} failed ({status}), and its message {} cannot be read: {why}", quote(stdout)))
    })
}

fn read_error(text: &str) -> Result<Error, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let read =
        |object: Object<'_>| Ok(Error::new(object.number("code")?.unwrap_or(0), object.text("msg")?).details(object.text("details")?));
    Object::read(&value, String::new()).and_then(read).map_err(|error| error.msg)
}

fn read_result(plugin: &str, text: &str, configuration: &[u8]) -> Result<AddResult> {
    let printed = || format!("it printed {}", quote(text));
    let value: Value = serde_json::from_str(text).map_err(|error| {
        Error::decoding_failure(format!("plugin {plugin} succeeded, but its result cannot be read: {error}")).details(printed())
    })?;
    let version = Config::read(configuration)?.answer_version();
    let result = Object::read(&value, format!("the result of {plugin}")).and_then(|object| AddResult::read(&object, version));
    result.map_err(|error| error.details(printed()))
}

#[cfg(test)]
mod tests;
