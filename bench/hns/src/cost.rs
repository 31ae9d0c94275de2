//! What one call costs, by how much is already there.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::Instant;

use hcn::client::Client;
use hcn::{Guid, Hcn, Kind};

use crate::documents::{self, create};
use crate::service::Service;

/// How many endpoints, and how many load balancers, are there.
pub(crate) const SIZES: [usize; 3] = [100, 1000, 10_000];

/// Calls of a kind in a round, to each service.
const CALLS: usize = 20;

/// Clients that fill a service.
const FILLERS: usize = 8;

/// All costs.
#[derive(Debug)]
pub(crate) struct Costs {
    pub(crate) rows: Vec<Row>,
    /// What the largest service occupies.
    pub(crate) resident_mb: f64,
    /// What one small durable write costs on this disk, in microseconds, at best and in the middle: no change alone can
    /// be cheaper.
    pub(crate) sync_us: [f64; 2],
}

/// The cost of one kind of call at every size, in microseconds.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) is_create: bool,
    pub(crate) micros: [f64; SIZES.len()],
}

impl Row {
    /// The cost at the largest size against that at the smallest.
    pub(crate) fn ratio(&self) -> f64 {
        self.micros[SIZES.len() - 1] / self.micros[0]
    }
}

/// The kinds of calls, in the order of a round. A round leaves as much behind as it found.
const PHASES: [Phase; 5] = [Phase::Create, Phase::Query, Phase::Enumerate, Phase::List, Phase::Delete];

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Create,
    Query,
    Enumerate,
    List,
    Delete,
}

impl Phase {
    /// How many calls a round makes. Long lists would take most of the time otherwise.
    fn calls(self) -> usize {
        match self {
            Self::Create | Self::Query | Self::Delete => CALLS,
            Self::Enumerate | Self::List => 1,
        }
    }
}

/// Measures all calls at all sizes.
pub(crate) fn measure(transom: &Path, rounds: usize) -> Result<Costs, String> {
    let mut subjects = Vec::new();
    for size in SIZES {
        println!("filling a service with {size} endpoints and {size} load balancers");
        subjects.push(Subject::fill(transom, size)?);
    }
    let filled_mb = largest(&subjects)?;
    println!("measuring {rounds} rounds");
    for round in 0..rounds {
        for kind in [Kind::Endpoint, Kind::LoadBalancer] {
            for phase in PHASES {
                play(&mut subjects, kind, phase, round)?;
            }
        }
    }
    let resident_mb = filled_mb.max(largest(&subjects)?);
    let samples: Vec<&Samples> = subjects.iter().map(|subject| &subject.samples).collect();
    Ok(Costs { rows: rows(&samples), resident_mb, sync_us: sync_us()? })
}

/// Makes the calls of a phase, one to each service in turn, and every service is the first as often as the others.
fn play(subjects: &mut [Subject], kind: Kind, phase: Phase, round: usize) -> Result<(), String> {
    let before_ns: Vec<u64> = subjects.iter().map(|subject| subject.service.processor_ns()).collect();
    for call in 0..phase.calls() {
        for turn in 0..subjects.len() {
            let index = (round + call + turn) % subjects.len();
            subjects[index].sample(kind, phase)?;
        }
    }
    if phase == Phase::Create {
        for (subject, before_ns) in subjects.iter_mut().zip(before_ns) {
            let used_ns = subject.service.processor_ns().saturating_sub(before_ns);
            subject.push(format!("create {}, hnsd's processor time", noun(kind)), used_ns as f64 / 1e3 / CALLS as f64);
        }
    }
    Ok(())
}

fn noun(kind: Kind) -> &'static str {
    if kind == Kind::Endpoint { "endpoint" } else { "load balancer" }
}

fn largest(subjects: &[Subject]) -> Result<f64, String> {
    subjects.last().map_or(Ok(0.0), |subject| subject.service.resident_mb())
}

/// Times of every kind of call, by its name.
type Samples = Vec<(String, Vec<f64>)>;

/// A service of a certain size, and what was measured on it.
struct Subject {
    service: Service,
    client: Client,
    endpoints: Vec<Guid>,
    load_balancers: Vec<Guid>,
    /// What the round has made and will delete.
    created: Vec<Guid>,
    /// The number of the next object, so that all differ.
    next: usize,
    samples: Samples,
}

impl Subject {
    fn fill(transom: &Path, size: usize) -> Result<Self, String> {
        let service = Service::start(transom)?;
        let client = service.client();
        create(&client, Kind::Network, &documents::network())?;
        let endpoints = create_many(&service, Kind::Endpoint, size, &|number| documents::endpoint(number))?;
        let backends = |number: usize| [endpoints[number % size], endpoints[(number * 7 + 1) % size]];
        let settings = |number: usize| documents::load_balancer(number, backends(number));
        let load_balancers = create_many(&service, Kind::LoadBalancer, size, &settings)?;
        let (created, samples) = Default::default();
        Ok(Self { service, client, endpoints, load_balancers, created, next: size, samples })
    }

    /// Makes one call and takes its time.
    fn sample(&mut self, kind: Kind, phase: Phase) -> Result<(), String> {
        match phase {
            Phase::Create => {
                let settings = self.settings(kind);
                let id = self.time(format!("create {}", noun(kind)), |client| create(client, kind, &settings))?;
                self.created.push(id);
            }
            Phase::Query => {
                let id = self.existing(kind);
                self.time(format!("query {}", noun(kind)), |client| client.query(kind, id, &documents::everything()).map_err(text))?;
            }
            Phase::Enumerate => {
                let name = format!("list all {}s, ids", noun(kind));
                self.time(name, |client| client.enumerate(kind, &documents::everything()).map_err(text))?;
            }
            Phase::List => {
                let name = format!("list all {}s, documents", noun(kind));
                self.time(name, |client| client.list(kind, &documents::everything()).map_err(text))?;
            }
            Phase::Delete => {
                let id = self.created.pop().ok_or("there is nothing to delete")?;
                self.time(format!("delete {}", noun(kind)), |client| client.delete(kind, id).map_err(text))?;
            }
        }
        Ok(())
    }

    fn time<T>(&mut self, name: String, call: impl FnOnce(&Client) -> Result<T, String>) -> Result<T, String> {
        let start = Instant::now();
        let answer = call(&self.client)?;
        self.push(name, start.elapsed().as_secs_f64() * 1e6);
        Ok(answer)
    }

    fn settings(&mut self, kind: Kind) -> String {
        self.next += 1;
        match kind {
            Kind::LoadBalancer => documents::load_balancer(self.next, self.backends()),
            _ => documents::endpoint(self.next),
        }
    }

    /// Two endpoints from the filling.
    fn backends(&self) -> [Guid; 2] {
        let first = self.next * 31 % self.endpoints.len();
        [self.endpoints[first], self.endpoints[(first + 1) % self.endpoints.len()]]
    }

    /// An object from the filling, another one at every call.
    fn existing(&mut self, kind: Kind) -> Guid {
        self.next += 1;
        let ids = if kind == Kind::Endpoint { &self.endpoints } else { &self.load_balancers };
        ids[self.next * 31 % ids.len()]
    }

    fn push(&mut self, name: String, micros: f64) {
        match self.samples.iter_mut().find(|(known, _)| *known == name) {
            Some((_, times)) => times.push(micros),
            None => self.samples.push((name, vec![micros])),
        }
    }
}

/// Makes many objects from several threads, and returns their ids.
fn create_many(service: &Service, kind: Kind, count: usize, settings: &(dyn Fn(usize) -> String + Sync)) -> Result<Vec<Guid>, String> {
    let part = |filler: usize| {
        let client = service.client();
        (filler..count).step_by(FILLERS).map(|number| create(&client, kind, &settings(number))).collect::<Result<Vec<Guid>, String>>()
    };
    let parts: Vec<Result<Vec<Guid>, String>> = thread::scope(|scope| {
        let fillers: Vec<_> = (0..FILLERS).map(|filler| scope.spawn(move || part(filler))).collect();
        fillers.into_iter().map(|filler| filler.join().unwrap_or_else(|_| Err("a filler panicked".into()))).collect()
    });
    Ok(parts.into_iter().collect::<Result<Vec<_>, String>>()?.concat())
}

fn text(error: hcn::Error) -> String {
    error.to_string()
}

fn rows(samples: &[&Samples]) -> Vec<Row> {
    let names = samples.first().map(|samples| samples.iter().map(|(name, _)| name.clone())).into_iter().flatten();
    let row = |name: String| {
        let times = |index: usize| samples.get(index).and_then(|samples| samples.iter().find(|(known, _)| *known == name));
        let micros = std::array::from_fn(|index| times(index).map_or(f64::NAN, |(_, times)| median(times)));
        Row { is_create: name.starts_with("create") && !name.contains("processor"), name, micros }
    };
    names.map(row).collect()
}

/// The middle of some numbers.
pub(crate) fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// What it takes to bring four kilobytes to the disk, in a file that has room for them already.
fn sync_us() -> Result<[f64; 2], String> {
    let cannot = |error: std::io::Error| format!("cannot measure the disk: {error}");
    let file = tempfile::tempfile().map_err(cannot)?;
    let blocks = 200;
    file.write_all_at(&vec![1; blocks * 4096], 0).and_then(|()| file.sync_all()).map_err(cannot)?;
    let mut times = Vec::new();
    for block in 0..blocks as u64 {
        let start = Instant::now();
        file.write_all_at(&[2; 4096], block * 4096).and_then(|()| file.sync_data()).map_err(cannot)?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    let best = times.iter().copied().fold(f64::INFINITY, f64::min);
    Ok([best, median(&times)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn samples_become_rows() {
        let samples = |scale: f64| vec![("create endpoint".to_owned(), vec![scale, 2.0 * scale, 3.0 * scale])];
        let all = [samples(1.0), samples(2.0), samples(4.0)];
        let rows = rows(&all.iter().collect::<Vec<_>>());
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].micros, [2.0, 4.0, 8.0]);
        assert_eq!(rows[0].ratio(), 4.0);
        assert!(rows[0].is_create);
    }
}
