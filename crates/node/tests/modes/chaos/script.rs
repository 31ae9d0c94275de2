//! What happens under a seed: a list of steps that follows from the seed alone, and what must be true in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use crate::random::Random;

/// How much happens under one seed.
const STEPS: usize = 24;

/// How many Services come and go.
const SERVICES: usize = 3;

/// The pods that come and go, by number.
const HERE: Range<usize> = 21..24;

/// The pods on the other node.
pub(super) const THERE: Range<usize> = 31..33;

/// How long is waited between two steps, at most.
const WAIT_MAX_MS: usize = 250;

/// What can be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Api,
    Hnsd,
    KubeProxy,
}

/// The pods behind a Service: those here, which may be there or not, and those on the other node.
#[derive(Clone, Debug, Default)]
pub(super) struct Backends {
    pub(super) here: BTreeSet<usize>,
    pub(super) there: BTreeSet<usize>,
}

/// Something that happens.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// The API gets a Service.
    AddService(usize),
    /// It goes. Its EndpointSlices stay.
    RemoveService(usize),
    /// The EndpointSlices of a Service change, whether it is there or not.
    ChangeBackends(usize, Backends),
    AddPod(usize),
    RemovePod(usize),
    /// Somebody deletes the load balancers of a Service.
    DeleteBalancers(usize),
    /// Somebody takes all backends from the load balancers of a Service.
    EmptyBalancers(usize),
    /// `kill -9`.
    Kill(Part),
    Start(Part),
    Wait(Duration),
}

/// What the API and the node are like, in the plainest words.
#[derive(Default)]
pub(super) struct Model {
    pub(super) services: BTreeSet<usize>,
    backends: BTreeMap<usize, Backends>,
    pods: BTreeSet<usize>,
    down: BTreeSet<Part>,
}

/// The steps of a seed, and what they come to. They begin with a pod and with Services that have backends, and in the end everything runs.
pub(super) fn write(random: &mut Random) -> (Vec<Step>, Model) {
    let (mut model, mut steps) = (Model::default(), vec![Step::AddPod(HERE.start)]);
    for service in 0..SERVICES {
        steps.extend([Step::AddService(service), Step::ChangeBackends(service, Backends::draw(random))]);
    }
    steps.iter().for_each(|step| model.take(step));
    for _ in 0..STEPS {
        let step = model.choose(random);
        model.take(&step);
        steps.push(step);
        if random.once_in(2) {
            steps.push(Step::Wait(Duration::from_millis(random.below(WAIT_MAX_MS) as u64)));
        }
    }
    steps.extend(std::mem::take(&mut model.down).into_iter().map(Step::Start));
    (steps, model)
}

impl Backends {
    fn draw(random: &mut Random) -> Self {
        let mut some = |of: Range<usize>| of.filter(|_| random.once_in(2)).collect();
        Self { here: some(HERE), there: some(THERE) }
    }
}

impl Model {
    /// The pods that should be met at a Service.
    pub(super) fn reached(&self, service: usize) -> Backends {
        let mut reached = self.backends.get(&service).cloned().unwrap_or_default();
        reached.here.retain(|pod| self.pods.contains(pod));
        reached
    }

    /// Something that can happen now.
    fn choose(&self, random: &mut Random) -> Step {
        loop {
            let step = self.draw(random);
            if self.is_possible(&step) {
                return step;
            }
        }
    }

    fn draw(&self, random: &mut Random) -> Step {
        let kind = random.below(16);
        let service = random.below(SERVICES);
        let pod = HERE.start + random.below(HERE.len());
        match kind {
            0..=3 if self.services.contains(&service) && kind == 0 => Step::RemoveService(service),
            0..=3 if !self.services.contains(&service) => Step::AddService(service),
            0..=6 => Step::ChangeBackends(service, Backends::draw(random)),
            7..=9 if self.pods.contains(&pod) => Step::RemovePod(pod),
            7..=9 => Step::AddPod(pod),
            10 => Step::DeleteBalancers(service),
            11 => Step::EmptyBalancers(service),
            12 => self.toggle(Part::Api),
            13 => self.toggle(Part::Hnsd),
            _ => self.toggle(Part::KubeProxy),
        }
    }

    fn toggle(&self, part: Part) -> Step {
        if self.down.contains(&part) { Step::Start(part) } else { Step::Kill(part) }
    }

    /// Whoever is to be asked has to be there.
    fn is_possible(&self, step: &Step) -> bool {
        match step {
            Step::AddService(_) | Step::RemoveService(_) | Step::ChangeBackends(..) => !self.down.contains(&Part::Api),
            Step::AddPod(_) | Step::RemovePod(_) => !self.down.contains(&Part::Hnsd),
            Step::DeleteBalancers(service) | Step::EmptyBalancers(service) => {
                !self.down.contains(&Part::Hnsd) && self.services.contains(service)
            }
            Step::Kill(_) | Step::Start(_) | Step::Wait(_) => true,
        }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::AddService(service) => _ = self.services.insert(*service),
            Step::RemoveService(service) => _ = self.services.remove(service),
            Step::ChangeBackends(service, backends) => _ = self.backends.insert(*service, backends.clone()),
            Step::AddPod(pod) => _ = self.pods.insert(*pod),
            Step::RemovePod(pod) => _ = self.pods.remove(pod),
            Step::Kill(part) => _ = self.down.insert(*part),
            Step::Start(part) => _ = self.down.remove(part),
            Step::DeleteBalancers(_) | Step::EmptyBalancers(_) | Step::Wait(_) => {}
        }
    }
}
