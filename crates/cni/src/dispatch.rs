//! One call from beginning to end: variables and standard input in, standard output and an exit code out.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::config::Config;
use crate::delegate::Delegates;
use crate::environment::{Command, Environment, Variables};
use crate::error::{Error, Result};
use crate::plugin::{Call, Plugin, Registry};
use crate::result::{AddResult, texts_of};
use crate::version::Version;

/// What a call left to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// For standard output: a result, an error, or nothing.
    pub stdout: String,
    /// For standard error.
    pub stderr: String,
    /// 0 or 1.
    pub exit_code: u8,
}

/// Runs a plugin. Standard input is asked for only by commands that have a configuration.
pub fn dispatch(
    plugin: &dyn Plugin,
    registry: &Registry,
    variables: &Variables<'_>,
    stdin: impl FnOnce() -> io::Result<Vec<u8>>,
) -> Outcome {
    if variables("CNI_COMMAND").is_none_or(|command| command.is_empty()) {
        return about(plugin);
    }
    let mut version = Version::LATEST;
    match serve(plugin, registry, variables, stdin, &mut version) {
        Ok(stdout) => Outcome { stdout, ..Outcome::default() },
        Err(error) => Outcome { stdout: error.print(version), exit_code: 1, ..Outcome::default() },
    }
}

/// What a person sees who starts a plugin by hand.
fn about(plugin: &dyn Plugin) -> Outcome {
    let stderr = format!(
        "CNI plugin {} of transom {}: {}\nCNI protocol versions supported: {}\n",
        plugin.name(),
        env!("CARGO_PKG_VERSION"),
        plugin.about(),
        texts_of(plugin.versions())
    );
    Outcome { stderr, ..Outcome::default() }
}

/// The text for standard output. `version` becomes the one that answers are printed in as soon as it is known.
fn serve(
    plugin: &dyn Plugin,
    registry: &Registry,
    variables: &Variables<'_>,
    stdin: impl FnOnce() -> io::Result<Vec<u8>>,
    version: &mut Version,
) -> Result<String> {
    let environment = Environment::read(variables)?;
    if environment.command == Command::Version {
        return Ok(versions(plugin));
    }
    let bytes = stdin().map_err(|error| Error::io_failure(format!("error reading from standard input: {error}")))?;
    let config = Config::read(&bytes)?;
    *version = config.answer_version();
    let call = Call { environment, config, delegates: Delegates::new(registry) };
    let Some(result) = run(plugin, &call)? else { return Ok(String::new()) };
    result.print(*version).inspect_err(|_| {
        // Nobody will ever learn of what was made, so it must not stay. The error to tell is the first one.
        let _ = plugin.del(&call);
    })
}

fn versions(plugin: &dyn Plugin) -> String {
    let spoken: Vec<&str> = plugin.versions().iter().map(|version| version.text()).collect();
    format!("{}\n", serde_json::json!({"cniVersion": Version::LATEST.text(), "supportedVersions": spoken}))
}

/// Settles the version, and does what the call asks for. ADD gives a result, the others give none.
pub(crate) fn run(plugin: &dyn Plugin, call: &Call<'_>) -> Result<Option<AddResult>> {
    let command = call.environment.command;
    check_command(plugin, call)?;
    call.config.version(plugin.versions())?;
    let guarded = catch_unwind(AssertUnwindSafe(|| match command {
        Command::Add => {
            check_namespace(&call.environment)?;
            plugin.add(call).map(Some)
        }
        Command::Del => plugin.del(call).map(|()| None),
        Command::Check => plugin.check(call).map(|()| None),
        Command::Gc => plugin.gc(call).map(|()| None),
        Command::Status => plugin.status(call).map(|()| None),
        Command::Version => Ok(None),
    }));
    guarded.unwrap_or_else(|_| {
        Err(Error::internal(format!("{} broke down on {}", plugin.name(), command.text()))
            .details("this is a fault of the plugin; standard error has the place"))
    })
}

/// CHECK, GC and STATUS came later than the rest, and a configuration of before has none of them.
fn check_command(plugin: &dyn Plugin, call: &Call<'_>) -> Result<()> {
    let command = call.environment.command;
    let since = match command {
        Command::Check => Version::V0_4_0,
        Command::Gc | Command::Status => Version::V1_1_0,
        Command::Add | Command::Del | Command::Version => return Ok(()),
    };
    let number = call.config.number()?;
    let refuse = |who: &str, remedy: String| {
        Err(Error::incompatible_version(format!("{who} version does not allow {}", command.text())).details(remedy))
    };
    if number < since.number() {
        return refuse("config", format!("set cniVersion to {since} or later"));
    }
    if !plugin.versions().iter().any(|version| version.number() >= number) {
        return refuse("plugin", format!("set cniVersion to one of {}", texts_of(plugin.versions())));
    }
    Ok(())
}

/// An interface that is made in the plugin's own namespace would be the host's. DEL is not stopped: whatever it finds
/// should go.
fn check_namespace(environment: &Environment) -> Result<()> {
    if environment.netns_override || !environment.namespace().is_own() {
        return Ok(());
    }
    Err(Error::invalid_netns(format!("plugin's netns and netns from CNI_NETNS should not be the same: CNI_NETNS is {}", environment.netns))
        .details("name the container's network namespace, or set CNI_NETNS_OVERRIDE=1"))
}

#[cfg(test)]
mod tests;
