//! `cargo xtask bench api`: the embedded API server against kube-apiserver with etcd.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::interop::kubernetes;
use crate::{dist, shell};

/// Builds everything, starts both servers and measures.
pub(super) fn run(arguments: &[String]) -> Result<(), String> {
    shell::run(shell::cargo().args(["build", "--release", "--package", "transom", "--package", "api-bench"]))?;
    let release = dist::target_directory()?.join("release");
    let (directory, original) = kubernetes::start()?;
    // Beside the other's state, so that both write to the same disk.
    let ours = Server::start(&release.join("transom"), &directory.join("ours"))?;
    let small = Server::start(&release.join("transom"), &directory.join("small"))?;
    let processes: Vec<String> = original.processes().iter().map(u32::to_string).collect();
    let mut command = shell::program(release.join("api-bench"));
    command.arg("--ours").arg(ours.kubeconfig()).args(["--ours-process", &ours.process.id().to_string()]);
    command
        .arg("--small")
        .arg(small.kubeconfig())
        .arg("--original")
        .arg(original.kubeconfig())
        .args(["--original-process", &processes.join(",")]);
    shell::run(command.args(arguments))
}

/// Ours, ended when dropped.
struct Server {
    process: Child,
    directory: PathBuf,
}

impl Server {
    fn start(program: &Path, directory: &Path) -> Result<Self, String> {
        // The state of an earlier run would be part of this one.
        let _ = fs::remove_dir_all(directory);
        fs::create_dir_all(directory).map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
        let mut command = Command::new(program);
        command.args(["api", "serve", "--listen", "127.0.0.1:0", "--state-dir"]).arg(directory.join("state"));
        command.arg("--kubeconfig").arg(directory.join("kubeconfig")).stdin(Stdio::null()).stdout(Stdio::piped());
        let process = command.spawn().map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let mut server = Self { process, directory: directory.to_owned() };
        let output = server.process.stdout.take().ok_or("our server has no output")?;
        let mut lines = BufReader::new(output).lines();
        match lines.any(|line| line.is_ok_and(|line| line.starts_with("ready"))) {
            true => Ok(server),
            false => Err("our server did not become ready".to_owned()),
        }
    }

    fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its state is of no use any more.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
