//! An hnsd that keeps documents and moves no packets, and what is in it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use hcn::client::{Address, Client};
use hcn::endpoint::Endpoint;
use hcn::load_balancer::LoadBalancer;
use hcn::{Hcn, HcnExt, Kind};
use serde_json::json;

use crate::subject::Process;

/// The network that pods would be on.
pub(crate) const NETWORK: &str = "bench";

/// Which addresses are reached at which virtual address.
pub(crate) type Reached = BTreeMap<String, BTreeSet<String>>;

/// A running hnsd.
pub(crate) struct Hns {
    child: Child,
    directory: PathBuf,
    client: Client,
}

impl Hns {
    pub(crate) fn start(transom: &Path, directory: &Path) -> Result<Self, String> {
        fs::create_dir_all(directory).map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
        let path = |file: &str| directory.join(file);
        let log = File::create(path("hnsd.log")).map_err(|error| format!("no log: {error}"))?;
        let mut command = Command::new(transom);
        command.args(["hnsd", "--switch", "none", "--adapter", "Ethernet,ip=192.0.2.10/24,mac=00-15-5D-00-00-01"]);
        command.args(["--listen", "127.0.0.1:0", "--port-file"]).arg(path("port")).arg("--socket").arg(path("hnsd.sock"));
        command.arg("--state-dir").arg(path("state")).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().map_err(|error| format!("cannot start hnsd: {error}"))?;
        let output = child.stdout.take().ok_or("hnsd has no output")?;
        let is_ready = BufReader::new(output).lines().map_while(Result::ok).any(|line| line.starts_with("ready"));
        let hns = Self { child, directory: directory.to_owned(), client: Client::new(Address::Unix(path("hnsd.sock"))) };
        if !is_ready {
            return Err(format!("hnsd did not start; see {}", path("hnsd.log").display()));
        }
        let network = json!({
            "Name": NETWORK, "Type": "L2Bridge",
            "Ipams": [{"Type": "Static", "Subnets": [{
                "IpAddressPrefix": "10.1.0.0/16", "Routes": [{"NextHop": "10.1.0.1", "DestinationPrefix": "0.0.0.0/0"}]}]}],
            "SchemaVersion": {"Major": 2, "Minor": 0}});
        hns.client.create(Kind::Network, None, None, &network.to_string()).map_err(|error| format!("no network: {error}"))?;
        Ok(hns)
    }

    /// Where our proxy reaches it without a relay.
    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.join("hnsd.sock")
    }

    pub(crate) fn token_file(&self) -> PathBuf {
        self.directory.join("state").join("token")
    }

    /// Its TCP port.
    pub(crate) fn port(&self) -> Result<u16, String> {
        let text = fs::read_to_string(self.directory.join("port")).map_err(|error| format!("no port: {error}"))?;
        text.trim().parse().map_err(|error| format!("no port: {error}"))
    }

    pub(crate) fn log(&self, name: &str) -> Result<File, String> {
        File::create(self.directory.join(name)).map_err(|error| format!("no log: {error}"))
    }

    /// What the proxy has logged last.
    fn last_words(&self) -> String {
        let log = fs::read_to_string(self.directory.join("kube-proxy.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    pub(crate) fn load_balancers(&self) -> Result<usize, String> {
        self.client.enumerate(Kind::LoadBalancer, "{}").map(|ids| ids.len()).map_err(|error| error.to_string())
    }

    /// What is reached at every virtual address.
    fn reached(&self) -> Result<Reached, String> {
        let endpoints: Vec<Endpoint> = self.client.objects(&[]).map_err(|error| error.to_string())?;
        let address = |endpoint: &Endpoint| endpoint.ip_configurations.first().map(|ip| ip.ip_address.clone()).unwrap_or_default();
        let addresses: HashMap<hcn::Guid, String> = endpoints.iter().map(|endpoint| (endpoint.id, address(endpoint))).collect();
        let balancers: Vec<LoadBalancer> = self.client.objects(&[]).map_err(|error| error.to_string())?;
        let reached = balancers.iter().filter_map(|balancer| {
            let backends = balancer.endpoints.iter().filter_map(|id| addresses.get(id).cloned()).collect();
            Some((balancer.frontend_vips.first()?.clone(), backends))
        });
        Ok(reached.collect())
    }

    /// Whether everything that is wanted is reached, and nothing else at the same addresses.
    pub(crate) fn reaches(&self, wanted: &Reached) -> Result<bool, String> {
        let reached = self.reached()?;
        Ok(wanted.iter().all(|(address, backends)| reached.get(address) == Some(backends)))
    }

    /// Waits until a proxy has made something so.
    pub(crate) fn wait(&self, proxy: &mut Process, is: impl Fn(&Self) -> Result<bool, String>, limit: Duration) -> Result<(), String> {
        let begin = Instant::now();
        while !is(self)? {
            proxy.check().map_err(|error| format!("{error}; it said:\n{}", self.last_words()))?;
            if begin.elapsed() > limit {
                return Err(format!("it took longer than {limit:?}; it said:\n{}", self.last_words()));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Hns {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
