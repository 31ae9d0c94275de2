//! The configuration, in the file format that kube-proxy has: `KubeProxyConfiguration` of `kubeproxy.config.k8s.io/v1alpha1`.
//!
//! Fields that mean something on Windows are here, and the few that Linux needs besides. Others are read over, as the original reads over what
//! belongs elsewhere.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

const API_VERSION: &str = "kubeproxy.config.k8s.io/v1alpha1";
const KIND: &str = "KubeProxyConfiguration";

/// How the proxy is run.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Configuration {
    /// Must name this format.
    pub api_version: String,
    /// Must name this kind.
    pub kind: String,
    /// How the API server is reached.
    pub client_connection: ClientConnection,
    /// The node's name, if it is not the machine's.
    pub hostname_override: String,
    /// The node's address, if it is not the one in the Node.
    pub bind_address: String,
    /// Where health is told.
    pub healthz_bind_address: String,
    /// Where metrics are told.
    pub metrics_bind_address: String,
    /// The only mode there is: `kernelspace` on Windows, `nftables` on Linux.
    pub mode: String,
    /// The addresses of all pods, at most one prefix a family, with a comma between. Only Linux has to know.
    #[serde(rename = "clusterCIDR")]
    pub cluster_cidr: String,
    /// How often and how seldom syncs happen. The original names it after another system's rules.
    pub iptables: SyncPeriods,
    /// What belongs to Windows.
    pub winkernel: Winkernel,
    /// Switches of features.
    pub feature_gates: BTreeMap<String, bool>,
    /// Whether to run under the Service Control Manager.
    pub windows_run_as_service: bool,
}

/// How the API server is reached.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientConnection {
    /// The kubeconfig; none is the service account of the pod.
    pub kubeconfig: String,
}

/// How often and how seldom syncs happen.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SyncPeriods {
    /// How long until what HNS has is compared again.
    #[serde(deserialize_with = "duration", serialize_with = "write_duration")]
    pub sync_period: Duration,
    /// How long between two syncs at least.
    #[serde(deserialize_with = "duration", serialize_with = "write_duration")]
    pub min_sync_period: Duration,
}

/// What belongs to Windows.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Winkernel {
    /// The HNS network that pods are on.
    pub network_name: String,
    /// The source address of translated connections on overlay networks; one a family, with a comma between.
    pub source_vip: String,
    /// Whether clients inside are answered straight by the backend.
    #[serde(rename = "enableDSR")]
    pub enable_dsr: bool,
    /// The node's own endpoint.
    pub root_hns_endpoint_name: String,
    /// Whether health checks at load balancers' addresses are led to the node.
    pub forward_health_check_vip: bool,
}

impl Default for Configuration {
    fn default() -> Self {
        Self {
            api_version: API_VERSION.into(),
            kind: KIND.into(),
            client_connection: ClientConnection::default(),
            hostname_override: String::new(),
            bind_address: "0.0.0.0".into(),
            healthz_bind_address: "0.0.0.0:10256".into(),
            metrics_bind_address: "127.0.0.1:10249".into(),
            mode: String::new(),
            cluster_cidr: String::new(),
            iptables: SyncPeriods::default(),
            winkernel: Winkernel::default(),
            feature_gates: BTreeMap::new(),
            windows_run_as_service: false,
        }
    }
}

impl Default for SyncPeriods {
    fn default() -> Self {
        Self { sync_period: Duration::from_secs(30), min_sync_period: Duration::from_secs(1) }
    }
}

impl Default for Winkernel {
    fn default() -> Self {
        Self {
            network_name: String::new(),
            source_vip: String::new(),
            enable_dsr: false,
            root_hns_endpoint_name: "cbr0".into(),
            forward_health_check_vip: false,
        }
    }
}

/// What is wrong with the configuration.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The field, as the file names it.
    pub field: String,
    /// What is wrong, and what to do.
    pub cause: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.cause)
    }
}

impl std::error::Error for ConfigError {}

fn wrong(field: &str, cause: impl Into<String>) -> ConfigError {
    ConfigError { field: field.into(), cause: cause.into() }
}

impl Configuration {
    /// Reads a file of YAML or JSON.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let field = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| wrong(&field, format!("cannot be read: {error}")))?;
        let configuration: Self = serde_norway::from_str(&text).map_err(|error| wrong(&field, error.to_string()))?;
        if configuration.kind != KIND || configuration.api_version != API_VERSION {
            let found = format!("{} of {}", configuration.kind, configuration.api_version);
            return Err(wrong(&field, format!("is a {found}; a {KIND} of {API_VERSION} is needed")));
        }
        Ok(configuration)
    }

    /// The kubeconfig, if there is one.
    pub fn kubeconfig(&self) -> Option<PathBuf> {
        Some(&self.client_connection.kubeconfig).filter(|path| !path.is_empty()).map(PathBuf::from)
    }

    /// The network: named here, or by `KUBE_NETWORK` in the environment.
    pub fn network_name(&self) -> Result<String, ConfigError> {
        let named = Some(self.winkernel.network_name.clone()).filter(|name| !name.is_empty());
        named.or_else(|| std::env::var("KUBE_NETWORK").ok().filter(|name| !name.is_empty())).ok_or_else(|| {
            wrong("winkernel.networkName", "is empty; name the HNS network that pods are on with --network-name or KUBE_NETWORK")
        })
    }

    /// The source addresses.
    pub fn source_vips(&self) -> Result<Vec<IpAddr>, ConfigError> {
        let read = |text: &str| text.parse().map_err(|_| wrong("winkernel.sourceVip", format!("{text:?} is no address")));
        self.winkernel.source_vip.split(',').map(str::trim).filter(|text| !text.is_empty()).map(read).collect()
    }

    /// The node's address, if the configuration names one.
    pub fn node_address(&self) -> Result<Option<IpAddr>, ConfigError> {
        if self.bind_address.is_empty() {
            return Ok(None);
        }
        let address: IpAddr =
            self.bind_address.parse().map_err(|_| wrong("bindAddress", format!("{:?} is no address", self.bind_address)))?;
        Ok(Some(address).filter(|address| !address.is_unspecified()))
    }

    /// Where health is told; none if nowhere.
    pub fn healthz_address(&self) -> Result<Option<SocketAddr>, ConfigError> {
        listen("healthzBindAddress", &self.healthz_bind_address, 10256)
    }

    /// Where metrics are told; none if nowhere.
    pub fn metrics_address(&self) -> Result<Option<SocketAddr>, ConfigError> {
        listen("metricsBindAddress", &self.metrics_bind_address, 10249)
    }

    /// Whether a feature is on, where it is on unless somebody says otherwise.
    pub fn has_feature(&self, name: &str) -> bool {
        self.feature_gates.get(name).copied().unwrap_or(true)
    }

    /// The addresses of all pods, as far as they are configured.
    pub fn cluster_cidrs(&self) -> Result<Vec<IpNet>, ConfigError> {
        let read = |text: &str| {
            let cause = || format!("{text:?} is no prefix; write one such as 10.244.0.0/16");
            text.parse::<IpNet>().map(|prefix| prefix.trunc()).map_err(|_| wrong("clusterCIDR", cause()))
        };
        self.cluster_cidr.split(',').map(str::trim).filter(|text| !text.is_empty()).map(read).collect()
    }

    /// Objects to what nobody can do with HNS.
    pub fn check(&self) -> Result<(), ConfigError> {
        if !matches!(self.mode.as_str(), "" | "kernelspace") {
            return Err(wrong("mode", format!("{:?} is no mode on Windows; write kernelspace, or leave it out", self.mode)));
        }
        self.network_name()?;
        self.source_vips()?;
        self.check_generally()
    }

    /// Objects to what nobody can do with the kernel of Linux.
    pub fn check_for_kernel(&self) -> Result<(), ConfigError> {
        if !matches!(self.mode.as_str(), "" | "nftables") {
            return Err(wrong("mode", format!("{:?} is no mode here; write nftables, or leave it out", self.mode)));
        }
        self.cluster_cidrs()?;
        self.check_generally()
    }

    fn check_generally(&self) -> Result<(), ConfigError> {
        if self.iptables.min_sync_period > self.iptables.sync_period {
            return Err(wrong("iptables.minSyncPeriod", "is longer than iptables.syncPeriod; make it shorter"));
        }
        if self.iptables.sync_period.is_zero() {
            return Err(wrong("iptables.syncPeriod", "is zero; write a time such as 30s"));
        }
        self.node_address()?;
        self.healthz_address()?;
        self.metrics_address()?;
        Ok(())
    }
}

/// Reads an address to listen on, with or without a port. Empty is nowhere.
fn listen(field: &str, text: &str, default_port: u16) -> Result<Option<SocketAddr>, ConfigError> {
    if text.is_empty() {
        return Ok(None);
    }
    let with_port = text.parse::<SocketAddr>().ok();
    let address = with_port.or_else(|| Some(SocketAddr::new(text.trim_matches(['[', ']']).parse().ok()?, default_port)));
    match address {
        Some(address) => Ok(Some(address)),
        None => Err(wrong(field, format!("{text:?} is no address; write one such as 0.0.0.0:{default_port}"))),
    }
}

fn duration<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration(&text).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is no time; write one such as 30s, 1m30s or 500ms")))
}

fn write_duration<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{}s", time.as_secs_f64()))
}

/// A time as Go writes it: numbers with units.
pub fn parse_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut total = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let end = rest.find(|letter: char| letter.is_ascii_digit()).unwrap_or(rest.len());
        let seconds = match &rest[..end] {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        total += number * seconds;
        rest = &rest[end..];
    }
    (!text.is_empty()).then(|| Duration::try_from_secs_f64(total).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Configuration, ConfigError> {
        let file = std::env::temp_dir().join(format!("kube-proxy-{}-{}.conf", std::process::id(), text.len()));
        std::fs::write(&file, text).unwrap();
        let outcome = Configuration::read(&file);
        _ = std::fs::remove_file(&file);
        outcome
    }

    #[test]
    fn the_file_of_a_windows_node_is_read() {
        let configuration = read(
            "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: kernelspace\nclusterCIDR: 10.1.0.0/16\n\
             clientConnection: {kubeconfig: /etc/k, qps: 5}\nwinkernel: {enableDSR: true, networkName: cbr0, sourceVip: '10.1.1.2, fd00::2'}\n\
             iptables: {syncPeriod: 1m30s, minSyncPeriod: 500ms}\nhealthzBindAddress: 127.0.0.1\n",
        )
        .unwrap();
        configuration.check().unwrap();
        assert!(configuration.winkernel.enable_dsr);
        assert_eq!(configuration.source_vips().unwrap().len(), 2);
        assert_eq!(configuration.iptables.sync_period, Duration::from_secs(90));
        assert_eq!(configuration.healthz_address().unwrap(), Some("127.0.0.1:10256".parse().unwrap()));
        assert_eq!(configuration.kubeconfig(), Some(PathBuf::from("/etc/k")));
        let shown = serde_json::to_value(&configuration).unwrap();
        assert_eq!((&shown["iptables"]["syncPeriod"], &shown["winkernel"]["enableDSR"]), (&"90s".into(), &true.into()));
        assert_eq!(serde_json::from_value::<Configuration>(shown).unwrap().iptables.min_sync_period, Duration::from_millis(500));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";
        for (text, part) in [
            ("kind: Pod\napiVersion: v1\n", "is a Pod of v1"),
            (&*format!("{head}iptables: {{syncPeriod: soon}}\n"), "\"soon\" is no time"),
            (&*format!("{head}winkernel: 7\n"), "winkernel"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        let with = |change: fn(&mut Configuration)| {
            let mut configuration = Configuration::default();
            configuration.winkernel.network_name = "pods".into();
            change(&mut configuration);
            configuration.check().map_err(|error| error.field)
        };
        assert_eq!(with(|_| {}), Ok(()));
        assert_eq!(with(|it| it.mode = "ipvs".into()), Err("mode".into()));
        assert_eq!(with(|it| it.winkernel.source_vip = "x".into()), Err("winkernel.sourceVip".into()));
        assert_eq!(with(|it| it.bind_address = "x".into()), Err("bindAddress".into()));
        assert_eq!(with(|it| it.metrics_bind_address = "x".into()), Err("metricsBindAddress".into()));
        assert_eq!(with(|it| it.iptables.min_sync_period = Duration::from_secs(99)), Err("iptables.minSyncPeriod".into()));
    }

    #[test]
    fn the_kernel_needs_no_network_and_knows_pods() {
        let with = |mode: &str, cidr: &str| Configuration { mode: mode.into(), cluster_cidr: cidr.into(), ..Configuration::default() };
        let checked = |mode, cidr| with(mode, cidr).check_for_kernel().map_err(|error| error.field);
        assert_eq!(checked("", "10.244.0.1/16, fd00::/48"), Ok(()));
        assert_eq!(checked("nftables", ""), Ok(()));
        assert_eq!(checked("iptables", ""), Err("mode".into()));
        assert_eq!(checked("", "10.244.0.0"), Err("clusterCIDR".into()));
        assert_eq!(with("", "10.244.0.1/16").cluster_cidrs().unwrap(), ["10.244.0.0/16".parse().unwrap()]);
    }

    #[test]
    fn times_are_read_as_go_writes_them() {
        for (text, millis) in [("30s", 30_000), ("1m30s", 90_000), ("500ms", 500), ("1h", 3_600_000), ("0", 0), ("1.5s", 1500)] {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        assert!(["", "x", "5", "5x", "s"].iter().all(|text| parse_duration(text).is_none()));
    }
}
