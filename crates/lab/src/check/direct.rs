//! Direct server return, and load balancers that leave the virtual address in packets.

use std::net::{IpAddr, SocketAddr};

use hcn::load_balancer::{LoadBalancer, LoadBalancerFlags};
use hcn::{Hcn, HcnExt};
use host::netlink::{Address, Netlink};
use ipnet::IpNet;

use super::ask::{Met, meet_soon};
use super::hns;
use super::stage::{Actor, CLIENT, HTTP_PORT, SERVERS, Stage};
use super::subject::{Subject, VERSION_1903, WS2019};
use super::{Documented, Finding, Observed};
use crate::underlay::index;

/// How often somebody outside asks. The router leads connections to all nodes, and not every node may have a backend.
const QUESTIONS: usize = 6;

/// What the documents say of DSR.
pub(super) fn documented(subject: &Subject) -> Documented {
    match subject.dsr {
        false => Documented::other(Finding::NotAskedFor, "the topology has no kubeProxy: {dsr: true} on the node"),
        true => Documented::unless(subject.is_before(WS2019), "direct server return needs Windows Server 2019"),
    }
}

/// What is observed of it: HNS has such a load balancer, and a backend on another node sees the pod that asks. The second alone would say
/// nothing on a bridge, where it is so without DSR too.
pub(super) async fn observe(stage: &Stage) -> Observed {
    Observed::of(sees_the_client(stage).await)
}

async fn sees_the_client(stage: &Stage) -> Result<String, String> {
    let (client, far) = (stage.pod(CLIENT), stage.service("far").await?.at(false)?);
    let Met { name, client: seen, .. } = meet_soon(&client.namespace, far).await?;
    let is_direct = hns::call(stage, move |hcn| is_direct(hcn, far.ip())).await?;
    let told = format!("{name} saw {seen}; HNS {} the flag DSR", if is_direct { "has" } else { "does not have" });
    if is_direct && client.addresses.contains(&seen) { Ok(told) } else { Err(told) }
}

/// Whether all load balancers at an address have the flag.
fn is_direct(hcn: &dyn Hcn, vip: IpAddr) -> hcn::Result<bool> {
    let is_there = |balancer: &LoadBalancer| balancer.frontend_vips.iter().any(|text| text.parse() == Ok(vip));
    let balancers: Vec<LoadBalancer> = hcn.objects(&[])?.into_iter().filter(is_there).collect();
    Ok(!balancers.is_empty() && balancers.iter().all(|balancer| balancer.flags.has(LoadBalancerFlags::DSR)))
}

/// What the documents say of `preserve-destination`.
pub(super) fn preserved_documented(subject: &Subject) -> Documented {
    Documented::unless(subject.is_before(VERSION_1903), "preserve-destination needs Windows Server, version 1903")
}

/// What is observed of it: a backend that has the virtual address is asked at it.
pub(super) async fn observe_preserved(stage: &Stage) -> Observed {
    Observed::of(is_asked_at_the_address(stage).await)
}

async fn is_asked_at_the_address(stage: &Stage) -> Result<String, String> {
    let vip = stage.service("preserved").await?.ingress()?;
    for name in SERVERS {
        give(stage.pod(name), vip)?;
    }
    let mut last = Err("nobody was asked".to_owned());
    for _ in 0..QUESTIONS {
        last = match meet_soon(&stage.outside, SocketAddr::new(vip, HTTP_PORT)).await {
            Ok(met) if met.local == vip => return Ok(format!("{} was asked at {vip}", met.name)),
            Ok(met) => Err(format!("{} was asked at {} instead of {vip}", met.name, met.local)),
            // Nobody answers where HNS refuses the load balancer.
            Err(cause) => return Err(cause),
        };
    }
    last
}

/// Gives a pod the virtual address, as backends need it that are sent it.
fn give(pod: &Actor, vip: IpAddr) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("a backend cannot have {vip}: {error}");
    let netlink = Netlink::open_in(&pod.namespace).map_err(|error| failed(&error))?;
    let loopback = index(&netlink, "lo").map_err(|error| failed(&error))?;
    match netlink.add_address(loopback, &Address::new(IpNet::from(vip))) {
        Err(error) if !error.is_present() => Err(failed(&error)),
        _ => Ok(()),
    }
}
