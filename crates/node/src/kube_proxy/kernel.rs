//! Services by the kernel of this machine: what should be goes into the tables of nf_tables, all of it at once.

use std::collections::BTreeMap;

use hcn::event::Event;
use host::nftables::NftError;
use host::nftables::services::{Affinity, Frontend, Pool, Services, Way};
use host::sysctl::Key;
use proxy::cluster::Cluster;
use proxy::desired::{self, Balancer, Setting};
use proxy::kernel::{self, Rules};
use proxy::proxier::Report;
use proxy::service::Protocol;

use super::datagrams::{Datagrams, UDP};
use super::plane::Plane;

/// What the kernel has to be set to, and what is missing otherwise.
const NEEDED: [(&str, &str); 4] = [
    ("ipv4.ip_forward", "pods and others do not reach IPv4 backends through this node"),
    ("ipv6.conf.all.forwarding", "pods and others do not reach IPv6 backends through this node"),
    ("bridge.bridge-nf-call-iptables", "a pod does not reach an IPv4 backend on the same bridge by a Service"),
    ("bridge.bridge-nf-call-ip6tables", "a pod does not reach an IPv6 backend on the same bridge by a Service"),
];

/// The load balancers that should be.
type Balancers = BTreeMap<desired::Frontend, Balancer>;

/// The kernel, and what it was told last.
pub(super) struct Kernel {
    setting: Setting,
    told: Option<(Balancers, Services)>,
    datagrams: Datagrams,
}

impl Kernel {
    pub(super) fn new(setting: Setting) -> Self {
        Self { setting, told: None, datagrams: Datagrams::default() }
    }

    /// Whether the kernel has to be told. If it is due, it is asked whether it still has what it was told.
    fn has_to_hear(&self, services: &Services, is_due: bool) -> Result<bool, NftError> {
        match &self.told {
            Some((_, told)) if told == services => {
                let is_missing = is_due && !services.are_installed()?;
                if is_missing {
                    tracing::info!("somebody has changed the table of Services; it is made again");
                }
                Ok(is_missing)
            }
            _ => Ok(true),
        }
    }

    /// How many load balancers came, changed and went.
    fn difference(&self, now: &Balancers) -> (usize, usize, usize) {
        let before = self.told.as_ref().map(|(balancers, _)| balancers);
        let known = |frontend| before.and_then(|before| before.get(frontend));
        let created = now.keys().filter(|frontend| known(frontend).is_none()).count();
        let modified = now.iter().filter(|(frontend, balancer)| known(frontend).is_some_and(|known| known != *balancer)).count();
        let deleted = before.map_or(0, |before| before.keys().filter(|frontend| !now.contains_key(frontend)).count());
        (created, modified, deleted)
    }
}

impl Plane for Kernel {
    fn set(&mut self, setting: Setting) {
        self.setting = setting;
    }

    fn note(&mut self, _: &Event) -> bool {
        false
    }

    fn forget(&mut self) {
        self.told = None;
    }

    fn sync(&mut self, mut cluster: Cluster, is_due: bool) -> Result<Report, String> {
        let complaints = std::mem::take(&mut cluster.complaints);
        let desired = kernel::desired(cluster, &self.setting);
        let services = services(&kernel::rules(&desired, &self.setting.pods));
        let mut report = Report { health_checks: desired.health_checks, without_local: desired.without_local, ..Report::default() };
        report.complaints = [complaints, desired.complaints].concat();
        if self.has_to_hear(&services, is_due).map_err(|error| error.to_string())? {
            services.install().map_err(|error| error.to_string())?;
            (report.created, report.modified, report.deleted) = self.difference(&desired.balancers);
            self.datagrams.follow(&services);
            self.told = Some((desired.balancers, services));
        }
        Ok(report)
    }
}

/// Takes everything away that any proxy has told the kernel.
pub(super) fn clean_up() -> Result<(), String> {
    Services::remove().map_err(|error| error.to_string())
}

/// Warns of what is not as the kernel has to be set. It is not ours to change.
pub(super) fn look_at_settings() {
    for (key, without) in NEEDED {
        match Key::global(key).read() {
            Ok(value) if value.trim() == "1" => {}
            Ok(_) => tracing::warn!("net.{key} is not 1: {without}"),
            // A bridge that does not look into packets has no such key until the module br_netfilter is there.
            Err(_) => tracing::info!("there is no net.{key}: {without}"),
        }
    }
}

fn services(rules: &Rules) -> Services {
    Services {
        pods: rules.pods.clone(),
        pools: rules.pools.iter().map(pool).collect(),
        frontends: rules.frontends.iter().map(frontend).collect(),
        own_backends: rules.own_backends.clone(),
    }
}

fn pool(pool: &kernel::Pool) -> Pool {
    let affinity = pool.affinity.map(|it| Affinity { id: it.id, seconds: it.seconds });
    Pool { name: pool.cause.to_string(), targets: pool.targets.clone(), affinity }
}

fn frontend(front: &kernel::Front) -> Frontend {
    Frontend {
        name: front.cause.to_string(),
        address: front.address,
        protocol: match front.protocol {
            Protocol::Tcp => 6,
            Protocol::Udp => UDP,
            Protocol::Sctp => 132,
        },
        port: front.port,
        for_pods: way(front.for_pods),
        for_node: way(front.for_node),
        for_others: way(front.for_others),
        source_ranges: front.source_ranges.clone(),
    }
}

fn way(way: kernel::Way) -> Way {
    match way {
        kernel::Way::Refused => Way::Refused,
        kernel::Way::Pool { index, is_hidden } => Way::Pool { index, is_hidden },
    }
}
