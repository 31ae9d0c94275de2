//! How many backends one Service can have. Most of them are nobody; Services whose load balancer is there lead some datagrams to somebody.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::ask::is_any_answered;
use super::stage::{CLIENT, SERVERS, SERVICE_UDP, Stage, UDP_PORT, service, slice};
use super::subject::{Subject, WS2022};
use super::{Documented, Finding, Observed};

/// The numbers that the documents name.
const FEW: usize = 64;
const MANY: usize = 1024;

/// How many backends an EndpointSlice has at most.
const SLICE: usize = 500;

/// How long a Service that works may take, and one of which is known that it should be there by now.
const LONG: Duration = Duration::from_secs(40);
const SHORT: Duration = Duration::from_secs(3);

/// How long is waited between two tries.
const PAUSE: Duration = Duration::from_millis(500);

/// What the documents say.
pub(super) fn documented(subject: &Subject) -> Documented {
    let because = "a Service has at most 64 backends, or 1,024 on newer builds";
    match (subject.is_windows(), subject.is_before(WS2022)) {
        (false, _) => Documented::other(Finding::NoLimit, ""),
        (true, true) => Documented::other(Finding::AtMost(FEW), because),
        (true, false) => Documented::other(Finding::AtMost(MANY), because),
    }
}

/// What is observed.
pub(super) async fn observe(stage: &Stage) -> Observed {
    match count(stage).await {
        Ok((finding, detail)) => Observed::new(finding, detail),
        Err(detail) => Observed::new(Finding::DoesNotWork, detail),
    }
}

async fn count(stage: &Stage) -> Result<(Finding, String), String> {
    for most in [FEW, MANY] {
        if !is_more_possible(stage, most).await? {
            return Ok((Finding::AtMost(most), format!("{most} backends answer, {} do not", most + 1)));
        }
    }
    Ok((Finding::NoLimit, format!("{} backends answer", MANY + 1)))
}

/// Whether a Service with one backend more than a number answers. If it does not, one with the number has to: then it is no matter of time.
async fn is_more_possible(stage: &Stage, most: usize) -> Result<bool, String> {
    let (next, last) = (make(stage, most + 1).await?, make(stage, most).await?);
    let mut begin = Instant::now();
    let mut is_known = false;
    while begin.elapsed() < if is_known { SHORT } else { LONG } {
        if answers(stage, next, most + 1).await? {
            return Ok(true);
        }
        if !is_known && answers(stage, last, most).await? {
            (is_known, begin) = (true, Instant::now());
        }
        // Whoever makes load balancers needs the processor more.
        sleep(PAUSE).await;
    }
    if is_known { Ok(false) } else { Err(format!("a Service with {most} backends does not answer")) }
}

/// Makes a Service with this many backends, and says where it is.
async fn make(stage: &Stage, count: usize) -> Result<SocketAddr, String> {
    let name = format!("many-{count}");
    let addresses = addresses(stage, count)?;
    let slices = addresses.chunks(SLICE).enumerate().map(|(number, part)| slice(&name, number, part));
    let mut service = service(&name, json!({}));
    // One load balancer is enough.
    service["spec"]["ports"] = json!([{"name": "udp", "port": SERVICE_UDP, "targetPort": UDP_PORT, "protocol": "UDP"}]);
    stage.apply(slices.chain([service]).collect()).await?;
    Ok(SocketAddr::new(stage.service(&name).await?.cluster_ip(false)?, SERVICE_UDP))
}

/// The servers, and addresses in the upper half of pods' range that nobody has.
fn addresses(stage: &Stage, count: usize) -> Result<Vec<IpAddr>, String> {
    let ranges = &stage.lab.topology().cluster.pod_subnets;
    let Some(ipnet::IpNet::V4(range)) = ranges.iter().find(|range| range.addr().is_ipv4()) else {
        return Err("pods have no IPv4 addresses".to_owned());
    };
    let last = u32::from(range.broadcast());
    let nobody = (1..).map(|number| IpAddr::from(Ipv4Addr::from(last - number)));
    let servers = SERVERS.into_iter().map(|name| stage.pod(name).address(false)).collect::<Result<Vec<IpAddr>, String>>()?;
    Ok(servers.into_iter().chain(nobody).take(count).collect())
}

/// Whether a Service leads anybody to a server. So many datagrams miss the servers among the backends once in a hundred thousand tries.
async fn answers(stage: &Stage, at: SocketAddr, count: usize) -> Result<bool, String> {
    is_any_answered(&stage.pod(CLIENT).namespace, at, count * 4).await
}
