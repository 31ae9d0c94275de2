//! Addresses, as the IPAM plugin of a configuration gives them out. Without one HNS gives them out itself.

use crate::environment::Command;
use crate::error::{Error, Result};
use crate::plugin::Call;
use crate::result::AddResult;

/// Takes addresses for a container that has no endpoint.
///
/// So nobody uses what an ADD that died may have left to it: where the first attempt fails, that is given back, and the
/// second attempt decides.
pub(super) fn take(call: &Call<'_>) -> Result<Option<AddResult>> {
    let lease = match call.ipam_add() {
        Ok(lease) => lease,
        Err(_) => {
            call.ipam(Command::Del)?;
            call.ipam_add().inspect_err(|_| give_back(call))?
        }
    };
    match lease {
        Some(lease) if lease.ips.is_empty() => {
            give_back(call);
            Err(Error::invalid_network_config("ipam.type: the plugin gave no address")
                .details("see to it that the IPAM plugin has addresses for this network"))
        }
        lease => Ok(lease),
    }
}

/// Whatever half of them is left, the error to tell is the first one.
pub(super) fn give_back(call: &Call<'_>) {
    let _ = call.ipam(Command::Del);
}
