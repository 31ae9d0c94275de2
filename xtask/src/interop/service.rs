//! The agents as services of Windows, under Wine's service manager.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::hnsd::Hnsd;
use super::wine::windows_path;
use super::{Ground, SHORT, make_directory, step};
use crate::dist;

/// Starting, stopping, and becoming well.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the API server is, and where the agents tell their health.
const API: &str = "127.0.0.1:16443";
const HEALTH: &str = "127.0.0.1:16256";

/// Starts and stops each agent as a service, and has one refuse a wrong configuration.
pub(super) fn run(ground: &Ground) -> Result<(), String> {
    let directory = ground.directory.join("service");
    // What an earlier run left would be part of this one.
    let _ = fs::remove_dir_all(&directory);
    make_directory(&directory)?;
    let hnsd = Hnsd::start(&ground.program, &directory)?;
    ground.prefix.point_at(&hnsd)?;
    let _api = Process(api(&ground.program, &directory)?);
    // Without a program that somebody has started, Wine ends its services too.
    let mut idle = ground.prefix.wine(Path::new("cmd"));
    idle.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let _idle = Process(idle.spawn().map_err(|error| format!("cannot start Wine: {error}"))?);
    let net_conf = directory.join("net-conf.json");
    let text = r#"{"Network":"10.244.0.0/16","Backend":{"Type":"vxlan","VNI":4096,"Port":4789}}"#;
    fs::write(&net_conf, text).map_err(|error| format!("cannot write {}: {error}", net_conf.display()))?;
    let kubeconfig = windows_path(&directory.join("kubeconfig"));
    let proxy = format!(
        "kube-proxy --kubeconfig {kubeconfig} --network-name pods --hostname-override here --healthz-bind-address {HEALTH} \
         --metrics-bind-address 127.0.0.1:0"
    );
    let (ip, port) = HEALTH.split_once(':').ok_or("no port")?;
    let flanneld = format!(
        "flanneld --kubeconfig-file {kubeconfig} --node-name here --net-config-path {} --subnet-file {} --healthz-ip {ip} --healthz-port {port}",
        windows_path(&net_conf),
        windows_path(&directory.join("subnet.env"))
    );
    for (name, arguments) in [("kube-proxy", &proxy), ("flanneld", &flanneld)] {
        let service = Service { ground, name, log: directory.join(format!("{name}.log")) };
        service.create(arguments)?;
        service.starts_and_stops()?;
        println!("{name} ran as a service");
    }
    let wrong = Service { ground, name: "wrong", log: directory.join("wrong.log") };
    wrong.create("kube-proxy --network-name pods --proxy-mode iptables")?;
    wrong.fails()
}

fn api(program: &Path, directory: &Path) -> Result<Child, String> {
    let mut command = Command::new(program);
    command.args(["api", "serve", "--listen", API, "--state-dir"]).arg(directory.join("api"));
    command.arg("--kubeconfig").arg(directory.join("kubeconfig"));
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    child.map_err(|error| format!("cannot start the API server: {error}"))
}

/// A process that ends with us.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A service of Windows. It goes with us.
struct Service<'a> {
    ground: &'a Ground,
    name: &'a str,
    log: PathBuf,
}

impl Service<'_> {
    fn create(&self, arguments: &str) -> Result<(), String> {
        let exe = windows_path(&dist::directory().join("transom.exe"));
        let command = format!("{exe} {arguments} --windows-service --log-file {}", windows_path(&self.log));
        self.control(&["create", self.name, "start=", "demand", "binPath=", &command]).map(drop)
    }

    /// Asks the service manager.
    fn control(&self, arguments: &[&str]) -> Result<String, String> {
        self.ground.prefix.output(Path::new("sc"), arguments, SHORT)
    }

    fn starts_and_stops(&self) -> Result<(), String> {
        step(&format!("{} as a service", self.name));
        self.control(&["start", self.name])?;
        self.wait(|| self.state().is_ok_and(|state| state.contains("RUNNING")), "runs")?;
        self.wait(|| healthy().is_some(), "tells its health")?;
        self.control(&["stop", self.name])?;
        self.wait(|| self.state().is_ok_and(|state| state.contains("STOPPED")), "stops")?;
        let state = self.state()?;
        if exit_code(&state) != Some(0) || healthy().is_some() {
            return Err(format!("{} did not stop in good order:\n{state}", self.name));
        }
        Ok(())
    }

    /// What is wrong with the command line is the service's own exit code, and in its log.
    fn fails(&self) -> Result<(), String> {
        step("a wrong configuration as a service");
        // Whether it is told here or later that the service has ended is a matter of time.
        let _ = self.control(&["start", self.name]);
        self.wait(|| self.state().is_ok_and(|state| exit_code(&state) == Some(2)), "says that it was used wrongly")?;
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        if log.contains("iptables") { Ok(()) } else { Err(format!("the log does not say what is wrong:\n{log}")) }
    }

    fn state(&self) -> Result<String, String> {
        self.control(&["query", self.name])
    }

    fn wait(&self, is: impl Fn() -> bool, what: &str) -> Result<(), String> {
        let begin = Instant::now();
        while !is() {
            if begin.elapsed() > PATIENCE {
                let log = fs::read_to_string(&self.log).unwrap_or_default();
                return Err(format!("the service {} never {what}:\n{}\n{log}", self.name, self.state().unwrap_or_default()));
            }
            thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }
}

impl Drop for Service<'_> {
    fn drop(&mut self) {
        let _ = self.control(&["stop", self.name]);
        let _ = self.control(&["delete", self.name]);
    }
}

/// The service's own exit code, in what `sc query` prints.
fn exit_code(state: &str) -> Option<u32> {
    let line = state.lines().find(|line| line.trim_start().starts_with("SERVICE_EXIT_CODE"))?;
    line.split(':').nth(1)?.split_whitespace().next()?.parse().ok()
}

/// What an agent says of its health, if it says that all is well.
fn healthy() -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&HEALTH.parse().ok()?, Duration::from_secs(1)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    stream.write_all(b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.lines().next()?.contains(" 200 ").then_some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_read_from_what_sc_prints() {
        let printed = "SERVICE_NAME: kube-proxy\n        STATE              : 1  STOPPED\n        WIN32_EXIT_CODE    : 1066  (0x42a)\n        SERVICE_EXIT_CODE  : 2  (0x2)\n";
        assert_eq!(exit_code(printed), Some(2));
        assert_eq!(exit_code(""), None);
    }
}
