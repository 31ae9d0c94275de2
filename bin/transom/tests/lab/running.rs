//! A lab that goes with its test.

use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// The exit code of what the system does not let us do.
const REFUSED: i32 = 6;

/// Two Windows nodes, whose backends answer clients straight.
const TOPOLOGY: &str = "\
apiVersion: transom/v1
kind: Lab
nodes:
  - {name: win1, os: windows, kubeProxy: {dsr: true}}
  - {name: win2, os: windows, kubeProxy: {dsr: true}}
";

/// A lab.
pub(crate) struct Running {
    directory: TempDir,
}

impl Running {
    /// Starts a lab of a build; none where labs cannot be.
    pub(crate) fn start(build: &str) -> Option<Self> {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("lab.yaml");
        std::fs::write(&file, TOPOLOGY).expect("a file");
        let lab = Self { directory };
        let output = lab.transom(&["up", &file.display().to_string(), "--build", build]);
        if output.status.code() == Some(REFUSED) {
            println!("skipped: {}", String::from_utf8_lossy(&output.stderr));
            return None;
        }
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(lab)
    }

    /// Runs `transom lab` with these arguments.
    pub(crate) fn transom(&self, arguments: &[&str]) -> Output {
        run(self.directory.path(), arguments)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        run(self.directory.path(), &["down"]);
    }
}

fn run(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transom"));
    command.arg("lab").args(arguments).env("TRANSOM_LAB_DIR", directory.join("labs")).env_remove("TRANSOM_LAB");
    command.output().expect("the command runs")
}
