//! Many flows that are there while something else is measured.

use std::time::Duration;

use super::{generator, start_ready};
use crate::process;
use crate::system::System;

/// How long opening all flows may take, on a machine that does other things too.
const LIMIT: Duration = Duration::from_secs(120);

/// Opens all flows of [`crate::generator::FLOWS`] between the pods of a system, or uses them once more.
pub(crate) fn open(system: &System) -> Result<(), String> {
    let _server = start_ready(generator()?.arg("answer"), &system.server, None)?;
    let mut client = generator()?;
    client.args(["open", "--server", &system.address.to_string()]);
    process::output(&mut client, &system.client, None, LIMIT).map(drop)
}
