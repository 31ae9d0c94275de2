//! Programs on links: for as long as the link lives, or until they are taken away.
//!
//! They are attached by the queueing discipline rather than by a descriptor, so that they stay when this process ends. The next process attaches
//! its own behind those of the one before, and takes those away when it knows what they know: no packet finds nobody in between.

use std::ops::RangeInclusive;

use aya::Ebpf;
use aya::programs::tc::{self, NlOptions, SchedClassifierLink, TcAttachOptions, TcError, TcHandle};
use aya::programs::{Link as _, SchedClassifier, TcAttachType};

use super::error::{KernelFlowsError, errno};
use super::program;
use crate::netlink::{Filter, Netlink, NetlinkError};

/// Our places among the programs of a link. The lowest runs first, and each process takes the place behind that of the one before.
pub(super) const PRIORITIES: RangeInclusive<u16> = 8471..=8970;

/// The number of a program at its place.
const HANDLE: TcHandle = TcHandle::new(0, 1);

/// Attaches a program where a link's packets come in.
pub(super) fn attach(
    programs: &mut Ebpf,
    name: &str,
    (link, index): (&str, u32),
    (priority, previous): (u16, Option<u16>),
) -> Result<(), KernelFlowsError> {
    let failed = |error: &(dyn std::error::Error + 'static)| KernelFlowsError::new(format!("attach the program `{name}` to {link}"), error);
    match tc::qdisc_add_clsact(link) {
        Ok(()) => {}
        Err(error) if is_there(&error) => {}
        Err(error) => return Err(failed(&error)),
    }
    // Others of ours may be there: of this very process, or of one that nobody remembers.
    let ours = ingress_filters(index).map_err(|error| failed(&error))?.into_iter().map(|filter| filter.priority);
    ours.filter(|own| PRIORITIES.contains(own) && Some(*own) != previous).for_each(|own| detach(link, own));
    let attached = (|| {
        let program = program(programs, name)?;
        let options = TcAttachOptions::Netlink(NlOptions { priority, handle: HANDLE, ..NlOptions::default() });
        let id = program.attach_with_options(link, TcAttachType::Ingress, options)?;
        program.take_link(id)
    })();
    // Whoever drops it detaches it.
    attached.map(std::mem::forget).map_err(|error| failed(&error))
}

/// Takes a program of ours away from a link. What is not there need not go.
pub(super) fn detach(link: &str, priority: u16) {
    if let Ok(attached) = SchedClassifierLink::attached(link, TcAttachType::Ingress, priority, HANDLE, None) {
        _ = attached.detach();
    }
}

/// Refuses a link where somebody else has a program for what comes in: that one may keep packets from ours.
pub(super) fn check_alone(link: (&str, u32)) -> Result<(), KernelFlowsError> {
    let doing = || format!("attach a program to {}", link.0);
    let filters = ingress_filters(link.1).map_err(|error| KernelFlowsError::new(doing(), &error))?;
    let foreign = filters.into_iter().find(|filter| !PRIORITIES.contains(&filter.priority)).map(|filter| filter.name);
    // Kernels before 6.6 have no such programs, and cannot be asked.
    let others = || SchedClassifier::query_tcx(link.0, TcAttachType::Ingress).ok()?.1.first().map(|it| format!("the program {}", it.id()));
    match foreign.or_else(others) {
        Some(name) => Err(KernelFlowsError::because(doing(), format!("{name} is there already"), "take that away, and restart vswitchd")),
        None => Ok(()),
    }
}

fn ingress_filters(link: u32) -> Result<Vec<Filter>, NetlinkError> {
    Netlink::open().and_then(|netlink| netlink.ingress_filters(link))
}

/// Whether the queue that programs are attached to is there already.
fn is_there(error: &TcError) -> bool {
    matches!(error, TcError::AlreadyAttached) || errno(error) == Some(libc::EEXIST)
}
