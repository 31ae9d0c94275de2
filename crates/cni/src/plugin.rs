//! What a plugin is: a name, the versions it speaks, and five commands. Which plugins are ours is a [`Registry`].

use crate::config::Config;
use crate::delegate::Delegates;
use crate::environment::{Command, Environment};
use crate::error::Result;
use crate::result::AddResult;
use crate::version::Version;

/// A plugin. All five commands are asked of it: one that has nothing to do for a command says so with its `Ok(())`.
///
/// Versions are settled before a plugin is called, and its result is printed in the configuration's version after.
pub trait Plugin: Sync {
    /// The name that runtimes and configurations call it by.
    fn name(&self) -> &'static str;

    /// What it is for, in one line.
    fn about(&self) -> &'static str;

    /// The versions that it speaks.
    fn versions(&self) -> &'static [Version] {
        Version::ALL
    }

    /// ADD: attaches a container, wholly or not at all.
    fn add(&self, call: &Call<'_>) -> Result<AddResult>;

    /// DEL: detaches a container; what is gone already is no failure.
    fn del(&self, call: &Call<'_>) -> Result<()>;

    /// CHECK: says what is not as ADD promised.
    fn check(&self, call: &Call<'_>) -> Result<()>;

    /// GC: removes what belongs to none of the valid attachments, and nothing else.
    fn gc(&self, call: &Call<'_>) -> Result<()>;

    /// STATUS: says whether ADD would work now, and why not.
    fn status(&self, call: &Call<'_>) -> Result<()>;
}

/// One call of a plugin.
pub struct Call<'a> {
    /// Its variables.
    pub environment: Environment,
    /// Its configuration.
    pub config: Config,
    /// The other plugins.
    pub delegates: Delegates<'a>,
}

impl Call<'_> {
    /// Has the plugin that `ipam.type` names do an ADD with this configuration. Without one there is nothing to ask.
    ///
    /// If it fails, or if what the addresses are for fails later, [`Call::ipam`] with DEL gives them back.
    pub fn ipam_add(&self) -> Result<Option<AddResult>> {
        match self.config.ipam_type()?.as_str() {
            "" => Ok(None),
            plugin => self.delegates.add(plugin, &self.environment, self.config.bytes()).map(Some),
        }
    }

    /// Has the plugin that `ipam.type` names do anything but an ADD. Without one there is nothing to do.
    pub fn ipam(&self, command: Command) -> Result<()> {
        match self.config.ipam_type()?.as_str() {
            "" => Ok(()),
            plugin => self.delegates.run(command, plugin, &self.environment, self.config.bytes()),
        }
    }
}

/// Our plugins.
#[derive(Default)]
pub struct Registry {
    plugins: Vec<Box<dyn Plugin>>,
}

impl Registry {
    /// With these plugins.
    pub fn new(plugins: Vec<Box<dyn Plugin>>) -> Self {
        Self { plugins }
    }

    /// The plugin with a name.
    pub fn find(&self, name: &str) -> Option<&dyn Plugin> {
        self.plugins.iter().map(Box::as_ref).find(|plugin| plugin.name() == name)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &dyn Plugin> {
        self.plugins.iter().map(Box::as_ref)
    }

    /// The plugin that a program is called as: the file name of its first argument, with or without `.exe`.
    pub fn called_as(&self, program: &std::ffi::OsStr) -> Option<&dyn Plugin> {
        let name = std::path::Path::new(program).file_name()?.to_str()?;
        let stem = match name.len().checked_sub(4).and_then(|at| name.split_at_checked(at)) {
            Some((stem, extension)) if extension.eq_ignore_ascii_case(".exe") => stem,
            _ => name,
        };
        self.find(stem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipam::host_local::HostLocal;

    #[test]
    fn a_program_is_the_plugin_it_is_called_as() {
        let registry = Registry::new(vec![Box::new(HostLocal)]);
        for name in ["host-local", "host-local.exe", "host-local.EXE", "/opt/cni/bin/host-local", "./host-local"] {
            assert!(registry.called_as(name.as_ref()).is_some(), "{name}");
        }
        for name in ["transom", "host-local.sh", "host", "", "/", "é.e", "host-local/x"] {
            assert!(registry.called_as(name.as_ref()).is_none(), "{name}");
        }
    }
}
