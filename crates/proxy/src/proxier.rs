//! One sync after the other.

use std::collections::BTreeMap;

use hcn::api::{Hcn, Kind};
use hcn::endpoint::Endpoint;
use hcn::error::{Error, Result};
use hcn::event::Event;
use hcn::{Guid, print};
use serde_json::Value;

use crate::apply::{self, Done, Operation};
use crate::cluster::Cluster;
use crate::desired::{self, Abilities, Balancer, Desired, Frontend, HealthCheck, Role, Setting};
use crate::family::Family;
use crate::observed::{Observed, SeenNetwork};
use crate::plan::{BalancerStep, EXTRAS, Planner, Step};
use crate::service::{PortKey, ServiceName};

/// Something that could not be done. It is tried again.
#[derive(Debug)]
pub struct Failure {
    /// What was tried, for people.
    pub what: String,
    /// Which call failed.
    pub operation: Operation,
    /// What the load balancer is for; none for endpoints.
    pub role: Option<Role>,
    /// Addresses of which family.
    pub family: Family,
    /// Whom it was for.
    pub cause: Option<PortKey>,
    /// What HNS said.
    pub error: Error,
}

/// What a sync did.
#[derive(Debug, Default)]
pub struct Report {
    /// How many load balancers were made.
    pub created: usize,
    /// How many were changed in place.
    pub modified: usize,
    /// How many were taken away.
    pub deleted: usize,
    /// How many endpoints were made and taken away.
    pub endpoints: (usize, usize),
    /// What could not be done.
    pub failures: Vec<Failure>,
    /// What is wrong with the cluster's documents, or cannot be as they ask.
    pub complaints: Vec<(ServiceName, String)>,
    /// The health checks there should be.
    pub health_checks: BTreeMap<u16, HealthCheck>,
    /// How many ports the Local policy leaves without backends here: of the internal policy, and of the external one.
    pub without_local: (usize, usize),
}

/// Why a sync could not begin. Nothing was changed, and what is there goes on.
#[derive(Debug)]
pub enum Obstacle {
    /// HNS does not answer, or refuses to.
    Hns(Error),
    /// There is no network of that name.
    NoNetwork(String),
    /// The network is an overlay, and nobody said what address translated connections come from.
    NoSourceVip(String),
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Hns(error) => write!(f, "HNS: {error}"),
            Self::NoNetwork(name) => {
                write!(f, "HNS has no network {name:?}; start the agent that makes it, or name another with --network-name")
            }
            Self::NoSourceVip(name) => {
                write!(f, "the network {name:?} is an overlay and needs a source address; give one of its pod subnet with --source-vip")
            }
        }
    }
}

impl std::error::Error for Obstacle {}

impl From<Error> for Obstacle {
    fn from(error: Error) -> Self {
        Self::Hns(error)
    }
}

/// What one sync works with.
struct Round<'a> {
    hcn: &'a dyn Hcn,
    desired: &'a Desired,
    network: &'a SeenNetwork,
    abilities: Abilities,
}

/// Makes HNS do what the cluster says, as often as it is asked to.
#[derive(Debug)]
pub struct Proxier {
    setting: Setting,
    observed: Observed,
    abilities: Option<Abilities>,
}

impl Proxier {
    /// A proxier that knows nothing yet.
    pub fn new(setting: Setting) -> Self {
        Self { setting, observed: Observed::new(), abilities: None }
    }

    /// Takes in what HNS said. Returns whether it is news, and there may be something to do.
    pub fn note(&mut self, event: &Event) -> bool {
        self.observed.note(event)
    }

    /// Says that events were missed: HNS was restarted, or the stream broke.
    pub fn forget(&mut self) {
        self.observed.forget();
        self.abilities = None;
    }

    /// Changes how the node is set.
    pub fn set(&mut self, setting: Setting) {
        self.setting = setting;
    }

    /// Looks whether anything came or went without a word. Returns whether it did.
    pub fn compare(&mut self, hcn: &dyn Hcn) -> Result<bool> {
        self.observed.compare(hcn)
    }

    /// Makes what is what should be.
    pub fn sync(&mut self, hcn: &dyn Hcn, cluster: &Cluster) -> Result<Report, Obstacle> {
        let abilities = self.abilities(hcn)?;
        self.observed.refresh(hcn, &self.setting.network)?;
        let Some(network) = self.observed.network.clone() else { return Err(Obstacle::NoNetwork(self.setting.network.clone())) };
        if network.is_overlay && self.setting.source_vips.is_empty() {
            return Err(Obstacle::NoSourceVip(self.setting.network.clone()));
        }
        let desired = desired::compute(cluster, &self.setting, abilities);
        let mut report = Report { health_checks: desired.health_checks.clone(), without_local: desired.without_local, ..Report::default() };
        report.complaints = [cluster.complaints.clone(), desired.complaints.clone(), overlaps(&desired, &network)].concat();
        let round = Round { hcn, desired: &desired, network: &network, abilities };
        self.make_endpoints(&round, &mut report);
        self.change_balancers(&round, &mut report);
        self.drop_endpoints(&round, &mut report);
        Ok(report)
    }

    fn planner<'a>(&'a self, round: &Round<'a>) -> Planner<'a> {
        let Round { desired, network, abilities, .. } = *round;
        Planner { desired, observed: &self.observed, network, setting: &self.setting, abilities }
    }

    fn make_endpoints(&mut self, round: &Round<'_>, report: &mut Report) {
        let missing = self.planner(round).missing_endpoints();
        let make = |endpoint: &Endpoint| round.hcn.create(Kind::Endpoint, Some(endpoint.network), Some(endpoint.id), &print(endpoint));
        let outcomes = apply::in_parallel(&missing, make);
        for (endpoint, outcome) in missing.iter().zip(outcomes) {
            match outcome {
                Ok(_) => {
                    report.endpoints.0 += 1;
                    self.observed.put_endpoint(endpoint);
                }
                Err(error) => {
                    self.observed.mark(Kind::Endpoint, endpoint.id);
                    report.failures.push(endpoint_failure(endpoint.id, &endpoint.name, Operation::Create, error));
                }
            }
        }
    }

    fn change_balancers(&mut self, round: &Round<'_>, report: &mut Report) {
        let steps = self.planner(round).balancer_steps();
        // What goes first makes room for what comes.
        let (going, coming): (Vec<Step>, Vec<Step>) = steps.into_iter().partition(|step| matches!(step.step, BalancerStep::Delete(_)));
        for part in [going, coming] {
            let outcomes = apply::in_parallel(&part, |step| apply::balancer(round.hcn, &step.step));
            for (step, outcome) in part.into_iter().zip(outcomes) {
                match outcome {
                    Ok(done) => self.take_in(done, report),
                    Err((operation, error)) => self.take_failure(step, operation, error, report),
                }
            }
        }
    }

    fn take_in(&mut self, done: Done, report: &mut Report) {
        match done {
            Done::Made(document, others) => {
                report.created += 1;
                for id in others {
                    self.observed.drop_object(Kind::LoadBalancer, id);
                }
                self.observed.put_balancer(&document);
            }
            Done::Changed(document) => {
                report.modified += 1;
                self.observed.expect_change(document.id);
                self.observed.put_balancer(&document);
            }
            Done::Gone(id) => {
                report.deleted += 1;
                self.observed.drop_object(Kind::LoadBalancer, id);
            }
        }
    }

    /// What a failed call left behind is not known, so that it is read again.
    fn take_failure(&mut self, step: Step, operation: Operation, error: Error, report: &mut Report) {
        let ids = match &step.step {
            BalancerStep::Create { document, instead_of } => [vec![document.id], instead_of.clone()].concat(),
            BalancerStep::Modify(document) => vec![document.id],
            BalancerStep::Delete(id) => vec![*id],
        };
        for id in ids {
            self.observed.mark(Kind::LoadBalancer, id);
        }
        if operation == Operation::Update && matches!(error, Error::NotImplemented(_)) {
            // The version promised it. From now on load balancers are made anew.
            self.abilities = self.abilities.map(|abilities| Abilities { modify: false, ..abilities });
        }
        let what = format!("the load balancer at {}", step.frontend);
        report.failures.push(Failure { what, operation, role: Some(step.role), family: step.family, cause: step.cause, error });
    }

    fn drop_endpoints(&mut self, round: &Round<'_>, report: &mut Report) {
        let surplus = self.planner(round).surplus_endpoints();
        let outcomes = apply::in_parallel(&surplus, |id| apply::delete(round.hcn, Kind::Endpoint, *id));
        for (id, outcome) in surplus.into_iter().zip(outcomes) {
            match outcome {
                Ok(()) => {
                    report.endpoints.1 += 1;
                    self.observed.drop_object(Kind::Endpoint, id);
                }
                Err(error) => {
                    self.observed.mark(Kind::Endpoint, id);
                    report.failures.push(endpoint_failure(id, "", Operation::Delete, error));
                }
            }
        }
    }

    fn abilities(&mut self, hcn: &dyn Hcn) -> Result<Abilities> {
        if let Some(abilities) = self.abilities {
            return Ok(abilities);
        }
        let abilities = ask_abilities(hcn)?;
        tracing::info!(?abilities, "HNS");
        self.abilities = Some(abilities);
        Ok(abilities)
    }
}

/// Services whose own address could be a pod's as well. They are served, and a pod that gets the address is not reached where they are.
fn overlaps(desired: &Desired, network: &SeenNetwork) -> Vec<(ServiceName, String)> {
    let cluster_ips = desired.balancers.iter().filter(|(_, balancer)| balancer.role == Role::ClusterIp);
    let overlap = |(frontend, balancer): (&Frontend, &Balancer)| {
        let vip = frontend.vip?;
        let subnet = network.subnets.iter().find(|subnet| subnet.contains(&vip))?;
        let cause = format!("clusterIPs: {vip} lies within the pods' subnet {subnet}; give Services and pods ranges that do not overlap");
        Some((balancer.cause.service.clone(), cause))
    };
    cluster_ips.filter_map(overlap).collect()
}

fn endpoint_failure(id: Guid, name: &str, operation: Operation, error: Error) -> Failure {
    let what = if name.is_empty() { format!("the endpoint {id}") } else { format!("the endpoint {name}") };
    Failure { what, operation, role: None, family: Family::V4, cause: None, error }
}

/// What an HNS of this version can do; and whether it is one that takes more than Windows does.
fn ask_abilities(hcn: &dyn Hcn) -> Result<Abilities> {
    let version = hcn.call("GET", "/globals/version", "")?;
    let number = |key: &str| version.get(key).and_then(Value::as_u64).unwrap_or_default();
    let version = (number("Major"), number("Minor"));
    Ok(Abilities {
        dsr: (version.0 == 9 && version.1 >= 3) || version >= (10, 2),
        modify: version >= (15, 5),
        dual_stack: version >= (11, 10),
        extras: hcn.call("GET", "/globals/extensions", "").is_ok_and(|answer| has_extras(&answer)),
    })
}

fn has_extras(answer: &Value) -> bool {
    let listed = answer.get("LoadBalancer").and_then(Value::as_array);
    listed.is_some_and(|names| EXTRAS.iter().all(|name| names.iter().any(|known| known == name)))
}
