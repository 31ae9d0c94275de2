//! Probes: whether a container has started, is ready, and is alive.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use host::namespace::Namespace;
use k8s_openapi::api::core::v1::{Container, HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::time::timeout;

use crate::http::{connect_in, get_with};
use crate::runtime::RunningContainer;

/// How a probe is timed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    pub(super) initial: Duration,
    pub(super) period: Duration,
    pub(super) timeout: Duration,
    pub(super) failures: u32,
    pub(super) successes: u32,
}

impl Timing {
    pub(super) fn of(probe: &Probe) -> Self {
        let seconds = |value: Option<i32>, default: i32| Duration::from_secs(u64::try_from(value.unwrap_or(default)).unwrap_or(0));
        let count = |value: Option<i32>, default: u32| {
            value.and_then(|value| u32::try_from(value).ok()).filter(|count| *count > 0).unwrap_or(default)
        };
        Self {
            initial: seconds(probe.initial_delay_seconds, 0),
            period: seconds(probe.period_seconds.filter(|seconds| *seconds > 0), 10),
            timeout: seconds(probe.timeout_seconds.filter(|seconds| *seconds > 0), 1),
            failures: count(probe.failure_threshold, 3),
            successes: count(probe.success_threshold, 1),
        }
    }
}

/// Where a container is probed.
pub(super) struct Target<'a> {
    /// Where the kubelet is.
    pub(super) node: &'a Namespace,
    /// The pod's address.
    pub(super) address: IpAddr,
    pub(super) container: &'a Container,
    pub(super) running: &'a RunningContainer,
}

/// Asks once. An error says what was wrong.
pub(super) async fn ask(probe: &Probe, target: &Target<'_>) -> Result<(), String> {
    let patience = Timing::of(probe).timeout;
    match timeout(patience, ask_patiently(probe, target)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(format!("no answer in {} s", patience.as_secs())),
    }
}

async fn ask_patiently(probe: &Probe, target: &Target<'_>) -> Result<(), String> {
    if let Some(http) = &probe.http_get {
        let address = target.socket(&http.port, http.host.as_deref())?;
        let stream = connect_in(target.node, address).await.map_err(|error| format!("{address}: {error}"))?;
        let (path, headers) = (http.path.as_deref().unwrap_or("/"), headers(http));
        let answer = get_with(stream, &address.to_string(), path, &headers).await.map_err(|error| format!("{address}: {error}"))?;
        return match (200..400).contains(&answer.status) {
            true => Ok(()),
            false => Err(format!("HTTP probe failed with statuscode: {}", answer.status)),
        };
    }
    if let Some(tcp) = &probe.tcp_socket {
        let address = target.socket(&tcp.port, tcp.host.as_deref())?;
        return connect_in(target.node, address).await.map(drop).map_err(|error| format!("{address}: {error}"));
    }
    if let Some(exec) = &probe.exec {
        let code = target.running.exec(exec.command.clone().unwrap_or_default()).await?;
        return if code == 0 { Ok(()) } else { Err(format!("the command ended with {code}")) };
    }
    Err("the lab knows httpGet, tcpSocket and exec".to_owned())
}

/// The headers that a question has besides the usual ones.
pub(super) fn headers(http: &HTTPGetAction) -> Vec<(&str, &str)> {
    http.http_headers.iter().flatten().map(|header| (header.name.as_str(), header.value.as_str())).collect()
}

impl Target<'_> {
    pub(super) fn socket(&self, port: &IntOrString, host: Option<&str>) -> Result<SocketAddr, String> {
        let number = match port {
            IntOrString::Int(number) => u16::try_from(*number).ok(),
            IntOrString::String(name) => {
                let named = self.container.ports.iter().flatten().find(|port| port.name.as_ref() == Some(name));
                named.and_then(|port| u16::try_from(port.container_port).ok()).or_else(|| name.parse().ok())
            }
        };
        let number = number.ok_or_else(|| format!("{port:?} is no port of the container"))?;
        let address = match host {
            Some(host) => host.parse().map_err(|_| format!("host: {host:?} is no address"))?,
            None => self.address,
        };
        Ok(SocketAddr::new(address, number))
    }
}
