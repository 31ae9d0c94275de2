//! `transom cni`: laying the plugins out for a runtime, calling one by name, and configurations for them.

mod check_config;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::Value;

use crate::exit::{Exit, Failure};
use crate::output::Output;

/// What can be done with plugins.
#[derive(Debug, Subcommand)]
pub(crate) enum CniVerb {
    /// Lay all plugins out in a directory, under their names
    Install(InstallArgs),
    /// Say what is wrong with a network configuration, where, and what to write instead
    CheckConfig(check_config::CheckConfigArgs),
    /// Print a network configuration to begin with
    Sample {
        /// The plugin it is for
        #[arg(value_parser = clap::builder::PossibleValuesParser::new(cni::sample::ALL.map(|(name, _)| name)))]
        name: String,
    },
    /// Call a plugin by name, as a runtime would: variables, configuration on standard input, answer on standard output
    Run {
        /// The name, such as host-local
        name: String,
    },
}

/// Where to install what.
#[derive(clap::Args, Debug)]
pub(crate) struct InstallArgs {
    /// The runtime's directory of plugins, such as /opt/cni/bin
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// A network configuration list to install with them
    #[arg(long, value_name = "FILE", requires = "conf_dir")]
    conf: Option<PathBuf>,
    /// The runtime's directory of configurations, such as /etc/cni/net.d
    #[arg(long, value_name = "DIR", requires = "conf")]
    conf_dir: Option<PathBuf>,
}

/// The footer of `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  transom cni install /opt/cni/bin --conf 10-pods.conflist --conf-dir /etc/cni/net.d
  CNI_COMMAND=VERSION transom cni run host-local
  transom cni sample flannel > 10-pods.conflist
  transom cni check-config 10-pods.conflist --service-cidr 10.96.0.0/12 --profile ws2022

A link to or a copy of this program under the name of a plugin is that plugin.";

/// Does what the verb says.
pub(crate) fn run(output: &Output, verb: CniVerb) -> Result<(), Failure> {
    match verb {
        CniVerb::Install(args) => install(output, &args),
        CniVerb::CheckConfig(args) => check_config::run(output, &args),
        CniVerb::Sample { name } => sample(output, &name),
        CniVerb::Run { name } => run_plugin(&name),
    }
}

fn sample(output: &Output, name: &str) -> Result<(), Failure> {
    let text = cni::sample::find(name).ok_or_else(|| Failure::new(Exit::NotFound, format!("there is no sample {name:?}")))?;
    output.text(text)
}

fn run_plugin(name: &str) -> Result<(), Failure> {
    let registry = cni::registry();
    let Some(plugin) = registry.find(name) else {
        let names: Vec<&str> = registry.iter().map(cni::Plugin::name).collect();
        return Err(Failure::new(Exit::NotFound, format!("there is no plugin {name:?}")).remedy(format!("use one of {}", names.join(", "))));
    };
    match cni::process::run(plugin, &registry) {
        0 => Ok(()),
        // The plugin has told it on standard output, in its own way.
        _ => Err(Failure::told(Exit::Failed)),
    }
}

/// The configuration comes last, since a runtime that sees it calls the plugins at once.
fn install(output: &Output, args: &InstallArgs) -> Result<(), Failure> {
    let conf = args.conf.as_deref().map(read_conf).transpose()?;
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(Exit::Failed, format!("where this program is cannot be found out: {error}")))?;
    make_directory(&args.directory)?;
    for plugin in cni::registry().iter() {
        let path = args.directory.join(format!("{}{}", plugin.name(), std::env::consts::EXE_SUFFIX));
        replace(&path, |new| link_or_copy(&program, new))?;
        output.text(&format!("installed {}\n", path.display()))?;
    }
    if let (Some((name, content)), Some(directory)) = (conf, &args.conf_dir) {
        make_directory(directory)?;
        let path = directory.join(name);
        replace(&path, |new| fs::write(new, &content))?;
        output.text(&format!("installed {}\n", path.display()))?;
    }
    Ok(())
}

/// The name and the content of a configuration list. What no runtime would load is refused.
fn read_conf(path: &Path) -> Result<(OsString, Vec<u8>), Failure> {
    let refuse = |why: String| Failure::new(Exit::Usage, format!("{}: {why}", path.display()));
    let content = fs::read(path).map_err(|error| refuse(error.to_string()))?;
    let document: Value = serde_json::from_slice(&content).map_err(|error| refuse(format!("it is no JSON: {error}")))?;
    let has = |key: &str| document.as_object().is_some_and(|object| object.keys().any(|found| found.eq_ignore_ascii_case(key)));
    let (required, extension) = if has("plugins") { ("name", "conflist") } else { ("type", "conf") };
    if !has(required) {
        return Err(refuse(format!("it has no {required:?}")).remedy("write a list with name, cniVersion and plugins"));
    }
    let known = path.extension().is_some_and(|found| found == extension || (found == "json" && extension == "conf"));
    match path.file_name().filter(|_| known) {
        Some(name) => Ok((name.to_owned(), content)),
        None => Err(refuse(format!("runtimes load this kind of file only if its name ends in .{extension}")).remedy("rename it")),
    }
}

fn make_directory(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path).map_err(|error| Failure::new(Exit::Failed, format!("making {} failed: {error}", path.display())))
}

/// Makes a file beside its place and moves it there, so that whoever looks sees the old one or the new one, whole.
fn replace(path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), Failure> {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    let replaced = remove(&new).and_then(|()| make(&new)).and_then(|()| fs::rename(&new, path));
    // Moving one link onto another of the same file leaves both, and so does a failure leave the new one.
    let removed = remove(&new);
    replaced.and(removed).map_err(|error| {
        Failure::new(Exit::Failed, format!("installing {} failed: {error}", path.display()))
            .remedy("check that you may write there and that nobody runs the old one")
    })
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A link costs no room; across file systems, and on those without links, it has to be a copy.
fn link_or_copy(program: &Path, new: &Path) -> io::Result<()> {
    fs::hard_link(program, new).or_else(|_| fs::copy(program, new).map(|_| ()))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn installing_twice_leaves_the_same() {
        let directory = TempDir::new().unwrap();
        let program = directory.path().join("program");
        fs::write(&program, "x").unwrap();
        let path = directory.path().join("plugin");
        for _ in 0..2 {
            replace(&path, |new| link_or_copy(&program, new)).unwrap();
            let mut names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            assert_eq!(names, ["plugin", "program"]);
            assert_eq!(fs::read(&path).unwrap(), b"x");
        }
    }

    #[test]
    fn a_failure_leaves_the_old_one() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("plugin");
        fs::write(&path, "old").unwrap();
        let failed = replace(&path, |new| fs::write(new, "half").and(Err(io::Error::other("full"))));
        assert!(failed.unwrap_err().to_string().contains("full"));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn only_what_a_runtime_loads_is_installed() {
        let directory = TempDir::new().unwrap();
        let read = |name: &str, content: &str| {
            let path = directory.path().join(name);
            fs::write(&path, content).unwrap();
            read_conf(&path).map(|(name, _)| name)
        };
        assert_eq!(read("a.conflist", r#"{"name":"n","plugins":[]}"#), Ok("a.conflist".into()));
        assert_eq!(read("a.conf", r#"{"name":"n","type":"x"}"#), Ok("a.conf".into()));
        assert_eq!(read("a.json", r#"{"name":"n","type":"x"}"#), Ok("a.json".into()));
        for (name, content) in [
            ("a.txt", r#"{"name":"n","plugins":[]}"#),
            ("a.conf", r#"{"name":"n","plugins":[]}"#),
            ("b.conflist", "{}"),
            ("c.conflist", "x"),
            ("d.conf", "[]"),
        ] {
            assert_eq!(read(name, content).unwrap_err().exit, Exit::Usage, "{name} {content}");
        }
    }
}
