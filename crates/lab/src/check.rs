//! What the documents say of a build, and what is observed of it with real packets: one scenario for every setting, limit and known issue.
//!
//! Each scenario has a page of its own below, or shares one with its like. What the documents say is a pure function of the build and the
//! lab's setting. What is observed is asked from inside of pods, nodes and the host outside, on a stage of pods and Services that is made for
//! it and taken away again.

mod affinity;
mod ask;
mod backends;
mod client_address;
mod cni_check;
mod direct;
mod families;
mod hns;
mod host_network;
mod icmp;
mod names;
mod node;
mod overlay;
mod pod_to_pod;
mod scenario;
mod stage;
mod subject;
#[cfg(test)]
mod tests;
mod trial;
mod update;

use std::fmt;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedSender;

use crate::control::Reply;
use crate::lab::{Failure, Lab};
use scenario::Scenario;
use stage::Stage;

/// The Kubernetes namespace of all that is made.
const NAMESPACE: &str = "transom-check";

/// How many scenarios are tried at once. Most of their time is waiting for answers that do not come.
const AT_ONCE: usize = 8;

/// What there is to say of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finding {
    /// It works.
    Works,
    /// It does not.
    DoesNotWork,
    /// It works up to a number.
    AtMost(usize),
    /// It works, whatever the number.
    NoLimit,
    /// The topology does not ask for it.
    NotAskedFor,
    /// A lab like this one does not have it.
    NotHere,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Works => f.write_str("works"),
            Self::DoesNotWork => f.write_str("does not work"),
            Self::AtMost(most) => write!(f, "at most {most}"),
            Self::NoLimit => f.write_str("no limit"),
            Self::NotAskedFor => f.write_str("not asked for"),
            Self::NotHere => f.write_str("not in this lab"),
        }
    }
}

impl Finding {
    /// Whether there is nothing to observe.
    fn is_absent(self) -> bool {
        matches!(self, Self::NotAskedFor | Self::NotHere)
    }
}

/// What the documents say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Documented {
    finding: Finding,
    because: &'static str,
}

impl Documented {
    /// It works.
    fn works() -> Self {
        Self { finding: Finding::Works, because: "" }
    }

    /// Something else, because of a sentence.
    fn other(finding: Finding, because: &'static str) -> Self {
        Self { finding, because }
    }

    /// It works, unless a sentence says that it does not.
    fn unless(is_limited: bool, because: &'static str) -> Self {
        if is_limited { Self::other(Finding::DoesNotWork, because) } else { Self::works() }
    }
}

/// What was observed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Observed {
    finding: Finding,
    detail: String,
}

impl Observed {
    fn new(finding: Finding, detail: impl Into<String>) -> Self {
        Self { finding, detail: detail.into() }
    }

    /// It works if somebody says what they saw, and not if they say why not.
    fn of(outcome: Result<String, String>) -> Self {
        match outcome {
            Ok(detail) => Self::new(Finding::Works, detail),
            Err(detail) => Self::new(Finding::DoesNotWork, detail),
        }
    }
}

/// One scenario: what the documents say, and what was observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// What it is about.
    pub scenario: String,
    /// The build.
    pub build: String,
    /// What the documents say.
    pub documented: String,
    /// The sentence that says so, if it is not simply to work.
    pub because: String,
    /// What was observed.
    pub observed: String,
    /// What was measured, or why it does not work.
    pub detail: String,
    /// Whether both are the same.
    pub same: bool,
}

/// Tries all scenarios, or those with a text in their title.
pub(crate) async fn run(lab: &Arc<Lab>, only: Option<&str>, progress: UnboundedSender<Reply>) -> Result<Vec<Row>, Failure> {
    let wanted = |scenario: &Scenario| only.is_none_or(|text| scenario.title().to_lowercase().contains(&text.to_lowercase()));
    let scenarios: Vec<Scenario> = Scenario::ALL.into_iter().filter(wanted).collect();
    if scenarios.is_empty() {
        let titles = Scenario::ALL.map(Scenario::title).join("\n  ");
        return Err(Failure::new(format!("no scenario has {:?} in its title; there are\n  {titles}", only.unwrap_or_default())));
    }
    let tell = |step: String| _ = progress.send(Reply::Begun { step });
    tell("pods and Services".to_owned());
    let outcome = match Stage::make(lab).await {
        Ok(stage) => Ok(rows(&stage, scenarios, &tell).await),
        Err(failure) => Err(failure),
    };
    tell("taking everything away".to_owned());
    stage::remove(lab).await?;
    outcome
}

async fn rows(stage: &Stage, scenarios: Vec<Scenario>, tell: &(impl Fn(String) + Sync)) -> Vec<Row> {
    let count = scenarios.len();
    let numbered = scenarios.into_iter().enumerate();
    let (heavy, light): (Vec<_>, Vec<_>) = numbered.partition(|(_, scenario)| scenario.is_heavy());
    let try_it = |(number, scenario): (usize, Scenario)| async move {
        tell(format!("{}/{count} {}", number + 1, scenario.title()));
        (number, row(stage, scenario).await)
    };
    let mut rows: Vec<(usize, Row)> = stream::iter(light).map(try_it).buffered(AT_ONCE).collect().await;
    rows.extend(stream::iter(heavy).then(try_it).collect::<Vec<_>>().await);
    rows.sort_by_key(|(number, _)| *number);
    rows.into_iter().map(|(_, row)| row).collect()
}

async fn row(stage: &Stage, scenario: Scenario) -> Row {
    let documented = scenario.documented(&stage.subject);
    let observed = match documented.finding.is_absent() {
        true => Observed::new(documented.finding, documented.because),
        false => scenario.observe(stage).await,
    };
    Row {
        scenario: scenario.title().to_owned(),
        build: stage.subject.profile.name.to_owned(),
        documented: documented.finding.to_string(),
        because: documented.because.to_owned(),
        observed: observed.finding.to_string(),
        detail: observed.detail,
        // What this lab does not have says nothing against the documents.
        same: observed.finding == documented.finding || observed.finding == Finding::NotHere,
    }
}
