//! `transom cni install`: the plugins under their names in a runtime's directory, and a configuration for them.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use host::same_file;
use serde_json::Value;

use crate::exit::{Exit, Failure};
use crate::output::Output;

/// How the names end of programs that had to make room while they ran.
const OLD: &str = "old";

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

/// The configuration comes last, since a runtime that sees it calls the plugins at once.
pub(crate) fn run(output: &Output, args: &InstallArgs) -> Result<(), Failure> {
    let conf = args.conf.as_deref().map(read_conf).transpose()?;
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(Exit::Failed, format!("where this program is cannot be found out: {error}")))?;
    make_directory(&args.directory)?;
    sweep(&args.directory);
    for plugin in cni::registry().iter() {
        let path = args.directory.join(format!("{}{}", plugin.name(), std::env::consts::EXE_SUFFIX));
        // Another link to this very program needs nothing; and Windows would not let it be replaced while this one runs.
        if !same_file::is_same(&program, &path) {
            replace(&path, |new| link_or_copy(&program, new))?;
        }
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
    let new = beside(path, "new");
    let replaced = remove(&new).and_then(|()| make(&new)).and_then(|()| put(&new, path, |new, path| fs::rename(new, path)));
    // Moving one link onto another of the same file leaves both, and so does a failure leave the new one.
    let removed = remove(&new);
    replaced.and(removed).map_err(|error| {
        Failure::new(Exit::Failed, format!("installing {} failed: {error}", path.display()))
            .remedy("check that you may write there and that nobody runs the old one")
    })
}

/// A name beside a file that no runtime takes for a plugin.
fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.{what}", std::process::id()));
    path.with_file_name(name)
}

/// Moves a file into the place of another. Windows does not let a program be overwritten that runs, but lets it be moved away.
fn put(new: &Path, path: &Path, overwrite: impl Fn(&Path, &Path) -> io::Result<()>) -> io::Result<()> {
    match overwrite(new, path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && path.is_file() => {
            let old = beside(path, OLD);
            fs::rename(path, &old).map_err(|_| error)?;
            fs::rename(new, path).inspect_err(|_| _ = fs::rename(&old, path))?;
            // One that runs stays until the next installation.
            let _ = fs::remove_file(&old);
            Ok(())
        }
        outcome => outcome,
    }
}

/// Removes what earlier installations had to leave, as far as nobody runs it any more.
fn sweep(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let plugin = name.strip_prefix('.').and_then(|name| name.strip_suffix(OLD)?.strip_suffix('.')?.rsplit_once('.'));
        let is_ours = |(name, number): (&str, &str)| cni::registry().called_as(name.as_ref()).is_some() && number.parse::<u32>().is_ok();
        if plugin.is_some_and(is_ours) {
            let _ = fs::remove_file(entry.path());
        }
    }
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
    fn one_that_runs_is_moved_away_and_removed_later() {
        let directory = TempDir::new().unwrap();
        let names = || {
            let mut names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        let path = directory.path().join("win-bridge");
        let new = directory.path().join("new");
        fs::write(&path, "old").unwrap();
        fs::write(&new, "new").unwrap();
        put(&new, &path, |_, _| Err(io::ErrorKind::PermissionDenied.into())).unwrap();
        assert_eq!((fs::read(&path).unwrap(), names()), (b"new".to_vec(), vec!["win-bridge".into()]));
        let refused = put(&new, &path, |_, _| Err(io::ErrorKind::PermissionDenied.into()));
        assert!(refused.is_err(), "there is nothing to put there");
        assert_eq!((fs::read(&path).unwrap(), names()), (b"new".to_vec(), vec!["win-bridge".into()]));
        for name in [".win-bridge.77.old", ".win-bridge.exe.78.old", ".mine.77.old", ".win-bridge.old"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        sweep(directory.path());
        assert_eq!(names(), [".mine.77.old", ".win-bridge.old", "win-bridge"]);
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
