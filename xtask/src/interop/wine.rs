//! A Wine prefix with our DLLs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::hnsd::Hnsd;
use super::{limited, make_directory};
use crate::{dist, shell};

/// Making a prefix.
const BOOT: Duration = Duration::from_secs(300);

/// A Windows of our own.
pub(crate) struct Prefix {
    directory: PathBuf,
}

impl Prefix {
    /// Makes the prefix unless it is there, and puts our DLLs where Windows has its own.
    pub(crate) fn prepare(under: &Path) -> Result<Self, String> {
        let prefix = Self::prepared(under);
        if !prefix.directory.join("system.reg").exists() {
            make_directory(&prefix.directory)?;
            let mut said = String::new();
            let status = limited::run(prefix.command("wineboot").arg("--init"), BOOT, |line| said += &format!("{line}\n"))?;
            if !status.success() {
                return Err(format!("Wine cannot make a prefix: {status}\n{said}"));
            }
        }
        let system = prefix.drive_c().join("windows/system32");
        for dll in dist::dlls() {
            let (from, to) = (dist::directory().join(dll), system.join(dll));
            fs::copy(&from, &to).map_err(|error| format!("cannot copy {} to {}: {error}", from.display(), to.display()))?;
        }
        Ok(prefix)
    }

    /// The prefix that somebody has prepared.
    pub(super) fn prepared(under: &Path) -> Self {
        Self { directory: under.join("prefix") }
    }

    /// Ends what Wine keeps in the background, which would serve programs in other namespaces too.
    pub(super) fn end(&self) -> Result<(), String> {
        // It fails if there is nothing to end.
        let _ = limited::run(self.command("wineserver").arg("--kill"), BOOT, |_| {})?;
        limited::run(self.command("wineserver").arg("--wait"), BOOT, |_| {}).map(drop)
    }

    /// Where it is.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The drive C.
    pub(super) fn drive_c(&self) -> PathBuf {
        self.directory.join("drive_c")
    }

    /// Tells the DLLs where hnsd is. A file and no variables, so that transom.exe too takes the way through the DLLs.
    pub(super) fn point_at(&self, hnsd: &Hnsd) -> Result<(), String> {
        let config = serde_json::json!({"Address": hnsd.address(), "TokenFile": windows_path(&hnsd.token_file())});
        // Services have another %ProgramData% under Wine.
        for place in ["ProgramData", "users/Public"] {
            let directory = self.drive_c().join(place).join("transom");
            make_directory(&directory)?;
            fs::write(directory.join("hnsd.json"), config.to_string()).map_err(|error| format!("cannot write hnsd.json: {error}"))?;
        }
        Ok(())
    }

    /// Runs a program and shows every line it prints.
    pub(super) fn run(&self, exe: &Path, arguments: &[&str], limit: Duration, each: impl FnMut(&str)) -> Result<(), String> {
        let status = limited::run(self.command("wine").arg(exe).args(arguments), limit, each)?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("{} {} failed: {status}", exe.display(), arguments.join(" "))),
        }
    }

    /// Runs a program and returns what it prints.
    pub(super) fn output(&self, exe: &Path, arguments: &[&str], limit: Duration) -> Result<String, String> {
        match self.output_once(exe, arguments, limit) {
            // Our programs say why they fail. Where not a word was said it is Wine that did not start one, which it now and then does
            // not while what it left in the background goes.
            Err((error, output)) if output.is_empty() => {
                println!("{error}, without a word; once more");
                self.output_once(exe, arguments, limit)
            }
            other => other,
        }
        .map_err(|(error, output)| format!("{error}\n{output}"))
    }

    /// What a program prints, or why it failed and what it had printed.
    fn output_once(&self, exe: &Path, arguments: &[&str], limit: Duration) -> Result<String, (String, String)> {
        let mut output = String::new();
        let ran = self.run(exe, arguments, limit, |line| {
            output += line;
            output.push('\n');
        });
        match ran {
            Ok(_) => Ok(output),
            Err(error) => Err((error, output)),
        }
    }

    /// Runs the tests of some of our crates as Windows programs.
    pub(super) fn cargo_test(&self, packages: &[&str], limit: Duration) -> Result<(), String> {
        let mut cargo = shell::cargo();
        cargo.args(["test", "--target", dist::TARGET]).args(packages.iter().flat_map(|package| ["-p", package]));
        self.surround(&mut cargo).env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", "wine");
        let status = limited::run(&mut cargo, limit, |line| println!("{line}"))?;
        if status.success() { Ok(()) } else { Err(format!("the tests failed: {status}")) }
    }

    /// A program, to be run as somebody else sees fit.
    pub(super) fn wine(&self, exe: &Path) -> Command {
        let mut command = self.command("wine");
        command.arg(exe);
        command
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        self.surround(&mut command);
        command
    }

    /// What a program needs around it to run in this prefix.
    pub(super) fn surround<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("WINEPREFIX", &self.directory).env("WINEARCH", "win64").env("WINEDEBUG", "-all");
        // No dialogs about Mono and Gecko, and no desktop. Without wmic nobody knows when Windows was started; with it, services are
        // started that keep the output of whoever asked open.
        command.env("WINEDLLOVERRIDES", "mscoree,mshtml,wmic.exe=").env_remove("DISPLAY");
        // What these say is for programs outside.
        command.env_remove("TRANSOM_HNSD").env_remove("TRANSOM_TOKEN_FILE");
        command
    }
}

/// A path as Windows programs under Wine write it.
pub(super) fn windows_path(path: &Path) -> String {
    format!("Z:{}", path.display()).replace('/', r"\")
}
