//! Session affinity: one client has one backend, and for how long.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::ask::{meet, meet_soon};
use super::stage::{CLIENT, SERVERS, Stage, slice};
use super::subject::{Subject, WS2022};
use super::{Documented, Observed};

/// How often a client asks. By chance alone the same of three backends would answer once in millions of tries.
const QUESTIONS: usize = 16;

/// How long kube-proxy may take to tell HNS of a change, and how often HNS is asked.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);

/// How long a change of backends may take, and how long affinity lasts: three seconds as the Service says, and a little.
const CHANGE: Duration = Duration::from_millis(1200);
const AFFINITY: Duration = Duration::from_millis(3600);

/// What the documents say.
pub(super) fn documented(subject: &Subject) -> Documented {
    Documented::unless(subject.is_before(WS2022), "session affinity needs Windows Server 2022")
}

/// What is observed.
pub(super) async fn observe(stage: &Stage) -> Observed {
    Observed::of(has_one_backend(stage).await)
}

async fn has_one_backend(stage: &Stage) -> Result<String, String> {
    let (client, sticky) = (&stage.pod(CLIENT).namespace, stage.service("sticky").await?.at(false)?);
    let mut met = BTreeSet::from([meet_soon(client, sticky).await?.name]);
    for _ in 1..QUESTIONS {
        met.insert(meet(client, sticky).await?.name);
    }
    let names = met.iter().cloned().collect::<Vec<_>>().join(", ");
    let told = format!("{QUESTIONS} connections were answered by {names}");
    if met.len() == 1 { Ok(told) } else { Err(told) }
}

/// What the documents say of the timeout.
pub(super) fn timeout_documented(subject: &Subject) -> Documented {
    Documented::unless(subject.is_windows(), "sessionAffinityConfig.clientIP.timeoutSeconds is not supported on Windows")
}

/// What is observed of the timeout: a client whose backend went has another one, and keeps it for the time when the first is back.
pub(super) async fn observe_timeout(stage: &Stage) -> Observed {
    Observed::of(keeps_for_a_time(stage).await)
}

async fn keeps_for_a_time(stage: &Stage) -> Result<String, String> {
    let (client, moving) = (&stage.pod(CLIENT).namespace, stage.service("moving").await?.at(false)?);
    let set = |backends: Vec<&'static str>| set_backends(stage, backends);
    set(SERVERS.to_vec()).await?;
    let first = meet_soon(client, moving).await?.name;
    let others = || SERVERS.into_iter().filter(|name| **name != first).collect::<Vec<_>>();
    set(others()).await?;
    let mut is_by_way_of_none = false;
    let second = match another(stage, moving, &first).await {
        Some(second) => second,
        // A build that accepts a change and does nothing needs a new load balancer.
        None => {
            is_by_way_of_none = true;
            replace(stage, others()).await?;
            another(stage, moving, &first).await.ok_or_else(|| format!("{first} answers on, although it is no backend any more"))?
        }
    };
    match is_by_way_of_none {
        true => replace(stage, SERVERS.to_vec()).await?,
        false => set(SERVERS.to_vec()).await?,
    }
    if another(stage, moving, &second).await.is_some() {
        return Err(format!("when {first} was back, {second} lost the client at once"));
    }
    sleep(AFFINITY).await;
    let last = meet_soon(client, moving).await?.name;
    let told = format!("{second} had the client while {first} was back, and {last} after 3 s");
    if last == second { Err(told) } else { Ok(told) }
}

/// Whoever else than the one who answers until now, if somebody else does within the time of a change.
async fn another(stage: &Stage, to: SocketAddr, than: &str) -> Option<String> {
    let begin = Instant::now();
    while begin.elapsed() < CHANGE {
        match meet(&stage.pod(CLIENT).namespace, to).await {
            Ok(met) if met.name != than => return Some(met.name),
            _ => sleep(Duration::from_millis(100)).await,
        }
    }
    None
}

/// Sets the backends so that a new load balancer is made: without a backend there is none.
async fn replace(stage: &Stage, backends: Vec<&'static str>) -> Result<(), String> {
    set_backends(stage, Vec::new()).await?;
    sleep(Duration::from_millis(500)).await;
    set_backends(stage, backends).await
}

/// Sets the backends, and waits until HNS has them: what clients are led to may be another matter, but not one of a busy kube-proxy.
async fn set_backends(stage: &Stage, backends: Vec<&'static str>) -> Result<(), String> {
    let addresses = backends.into_iter().map(|name| stage.pod(name).address(false)).collect::<Result<Vec<IpAddr>, String>>()?;
    let vip = stage.service("moving").await?.cluster_ip(false)?;
    stage.apply(vec![slice("moving", 1, &addresses)]).await?;
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        let balancers = stage.balancers().await?;
        let mut at_vip = balancers.iter().filter(|balancer| balancer.frontend_vips.iter().any(|text| text.parse() == Ok(vip)));
        let is_there = addresses.is_empty() || at_vip.clone().next().is_some();
        if is_there && at_vip.all(|balancer| balancer.endpoints.len() == addresses.len()) {
            return Ok(());
        }
        sleep(PAUSE).await;
    }
    Ok(())
}
