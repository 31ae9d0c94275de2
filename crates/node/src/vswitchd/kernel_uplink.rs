//! An adapter as the uplink of a switch whose known flows go by the kernel.
//!
//! A program where the adapter's packets come in forwards what is known, and gives a copy of all else to a TAP device, which the engine reads. What
//! the engine sends leaves by a packet socket as ever.

use std::sync::Arc;

use host::netlink::Netlink;
use host::nic::Receiver;
use host::nic::tap::{Tap, TapOptions};

use super::error::Error;
use super::offload::KernelOffload;

/// The program on an adapter, and its TAP device, which goes with this value.
pub(super) struct KernelUplink {
    kernel: Arc<KernelOffload>,
    adapter: (String, u32),
    tap: Tap,
}

impl KernelUplink {
    /// Attaches the program.
    pub(super) fn open(adapter: (&str, u32), netlink: &Netlink, kernel: &Arc<KernelOffload>) -> Result<Self, Error> {
        let name = format!("up{}", adapter.1);
        let tap = Tap::open(&name, TapOptions { persistent: false })?;
        let link = netlink.link_by_name(&name)?.ok_or_else(|| Error::Message(format!("the link {name} has vanished")))?;
        netlink.make_no_addresses(link.index)?;
        netlink.set_up(link.index)?;
        kernel.table().join_uplink(adapter, (&name, link.index))?;
        Ok(Self { kernel: kernel.clone(), adapter: (adapter.0.to_owned(), adapter.1), tap })
    }

    /// What the engine reads of the adapter.
    pub(super) fn receiver(&self) -> Box<dyn Receiver> {
        self.tap.nic().receiver
    }

    /// The table that the adapter's flows are in.
    pub(super) fn kernel(&self) -> &Arc<KernelOffload> {
        &self.kernel
    }

    /// Takes the program away.
    pub(super) fn close(self) {
        self.kernel.table().part_uplink((&self.adapter.0, self.adapter.1));
    }
}
