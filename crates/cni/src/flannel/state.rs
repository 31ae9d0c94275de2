//! The file that remembers, for each container, the configuration its delegate was called with.
//!
//! Name, place and content are those of the reference, so that either can delete what the other added.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::environment::is_identifier;
use crate::error::{Error, Result};
use crate::file;
use crate::object::quote;

/// The configuration of a delegate is a few kilobytes.
const LIMIT: u64 = 16 << 20;

/// A directory with a file for each container.
#[derive(Debug)]
pub(super) struct States {
    directory: PathBuf,
}

/// What is remembered of a container.
#[derive(Debug)]
pub(super) enum State {
    /// Nothing.
    Absent,
    /// The configuration of its delegate, and the delegate's name.
    Whole(Config, String),
    /// A file that says nothing any more, and why.
    Torn(Error),
}

impl States {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// What is remembered of a container.
    pub(super) fn read(&self, id: &str) -> Result<State> {
        let path = self.path(id)?;
        let state = match file::read(&path, LIMIT) {
            Ok(None) => State::Absent,
            Ok(Some(content)) => match parse(&content) {
                Ok((config, plugin)) => State::Whole(config, plugin),
                Err(error) => State::Torn(torn(&path, &error.msg)),
            },
            Err(error) => State::Torn(torn(&path, &error.to_string())),
        };
        Ok(state)
    }

    /// Remembers a configuration.
    pub(super) fn write(&self, id: &str, configuration: &[u8]) -> Result<()> {
        let path = self.path(id)?;
        let written = file::make_private_directory(&self.directory).and_then(|()| file::replace(&path, configuration));
        written.map_err(|error| failure("writing", &path, &error))
    }

    /// Forgets a container.
    pub(super) fn remove(&self, id: &str) -> Result<()> {
        let path = self.path(id)?;
        file::remove(&path).map_err(|error| failure("removing", &path, &error))
    }

    /// Every container that something is remembered of, in order.
    pub(super) fn containers(&self) -> Result<Vec<String>> {
        let listing = |error: io::Error| failure("listing", &self.directory, &error);
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(listing)?,
        };
        let mut ids = Vec::new();
        for entry in entries {
            let entry = entry.map_err(listing)?;
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            ids.extend(entry.file_name().into_string().ok().filter(|name| is_file && is_identifier(name)));
        }
        ids.sort();
        Ok(ids)
    }

    /// Whether something can be remembered now.
    pub(super) fn probe(&self) -> Result<()> {
        let path = self.directory.join(".probe");
        let written = file::make_private_directory(&self.directory)
            .and_then(|()| file::replace(&path, b"STATUS writes this to find out whether ADD could write.\n"));
        written.and_then(|()| file::remove(&path)).map_err(|error| failure("writing", &path, &error))
    }

    /// The file of a container, in the directory and never anywhere else.
    fn path(&self, id: &str) -> Result<PathBuf> {
        match is_identifier(id) {
            true => Ok(self.directory.join(id)),
            false => Err(Error::invalid_environment(format!("invalid characters in the sandbox's id: {}", quote(id)))
                .details("CNI_NETNS is container:ID with letters, digits, _ . and - in the id, the first a letter or a digit")),
        }
    }
}

fn parse(content: &[u8]) -> Result<(Config, String)> {
    let config = Config::read(content)?;
    let plugin = config.plugin_type()?;
    match plugin.is_empty() {
        true => Err(Error::invalid_network_config("it has no type")),
        false => Ok((config, plugin)),
    }
}

fn torn(path: &Path, why: &str) -> Error {
    Error::decoding_failure(format!("the state of the container in {} cannot be read: {why}", path.display()))
        .details("DEL the container, which removes the file, and ADD it again")
}

fn failure(what: &str, path: &Path, error: &io::Error) -> Error {
    Error::io_failure(format!("{what} {} failed: {error}", path.display()))
        .details("make room there and let the plugin read and write, or set dataDir to another directory")
}
