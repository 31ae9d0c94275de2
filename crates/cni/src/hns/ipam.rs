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
    let plugin = call.config.ipam_type()?;
    if plugin.is_empty() {
        return Ok(None);
    }
    let add = || call.delegates.add(&plugin, &call.environment, call.config.bytes());
    let lease = match add() {
        Ok(lease) => lease,
        Err(_) => {
            run(call, Command::Del)?;
            add().inspect_err(|_| {
                // Whatever half of it is left, the error to tell is the plugin's.
                let _ = run(call, Command::Del);
            })?
        }
    };
    if lease.ips.is_empty() {
        let _ = run(call, Command::Del);
        return Err(Error::invalid_network_config(format!("ipam.type: {plugin} gave no address"))
            .details("see to it that the IPAM plugin has addresses for this network"));
    }
    Ok(Some(lease))
}

/// Passes a command on, if there is an IPAM plugin.
pub(super) fn run(call: &Call<'_>, command: Command) -> Result<()> {
    let plugin = call.config.ipam_type()?;
    match plugin.is_empty() {
        true => Ok(()),
        false => call.delegates.run(command, &plugin, &call.environment, call.config.bytes()),
    }
}
