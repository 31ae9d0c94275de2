//! Doing the steps of a plan, several at once: HNS makes many changes durable together.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use hcn::api::{Hcn, Kind};
use hcn::error::{Error, Result};
use hcn::load_balancer::LoadBalancer;
use hcn::{Guid, print};

use crate::observed::is_gone;
use crate::plan::BalancerStep;

/// How many calls are under way at once.
const AT_ONCE: usize = 16;

/// Does something with each of many, several at once. The outcomes are in the order of the items.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = items.len().min(AT_ONCE);
    if threads <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let outcomes: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut own = Vec::new();
                while let Some((index, item)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|index| Some((index, items.get(index)?)))
                {
                    own.push((index, work(item)));
                }
                outcomes.lock().unwrap_or_else(PoisonError::into_inner).extend(own);
            });
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcomes.sort_by_key(|(index, _)| *index);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// What became of a step.
#[derive(Debug)]
pub enum Done {
    /// The load balancer is there as it was wanted; others in its place are gone.
    Made(Box<LoadBalancer>, Vec<Guid>),
    /// It was changed in place.
    Changed(Box<LoadBalancer>),
    /// It is gone.
    Gone(Guid),
}

/// Which call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Making it.
    Create,
    /// Changing it in place.
    Update,
    /// Taking it away.
    Delete,
}

/// Does one step.
pub fn balancer(hcn: &dyn Hcn, step: &BalancerStep) -> Result<Done, (Operation, Error)> {
    match step {
        BalancerStep::Create { document, instead_of } => {
            for id in instead_of {
                delete(hcn, Kind::LoadBalancer, *id).map_err(|error| (Operation::Delete, error))?;
            }
            create(hcn, document).map_err(|error| (Operation::Create, error))?;
            Ok(Done::Made(document.clone(), instead_of.clone()))
        }
        BalancerStep::Modify(document) => {
            hcn.modify(Kind::LoadBalancer, document.id, &print(&**document)).map_err(|error| (Operation::Update, error))?;
            Ok(Done::Changed(document.clone()))
        }
        BalancerStep::Delete(id) => {
            delete(hcn, Kind::LoadBalancer, *id).map_err(|error| (Operation::Delete, error))?;
            Ok(Done::Gone(*id))
        }
    }
}

fn create(hcn: &dyn Hcn, document: &LoadBalancer) -> Result<()> {
    hcn.create(Kind::LoadBalancer, None, Some(document.id), &print(document)).map(drop)
}

/// Deletes an object; one that is gone already is as good.
pub fn delete(hcn: &dyn Hcn, kind: Kind, id: Guid) -> Result<()> {
    match hcn.delete(kind, id) {
        Err(error) if is_gone(&error) => Ok(()),
        outcome => outcome,
    }
}
