//! Following events, across restarts of the service.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hcn::Hcn;
use hcn::api::{Events, Kind};
use hcn::event::{Change, Event};

use super::Context;
use crate::exit::{Exit, Failure};
use crate::output::note;

/// How often a service that went away is looked for.
const RETRY: Duration = Duration::from_millis(500);

/// Prints a line for everything that happens to objects of one kind.
pub(crate) fn run(context: &Context, kind: Kind) -> Result<(), Failure> {
    end_on_interrupt()?;
    follow(
        context.hcn.as_ref(),
        || Ok(()),
        |event| match event.kind == Some(kind) {
            false => Ok(()),
            true if context.output.is_for_people() => context.output.line(&line(&event, &clock())),
            true => context.output.element(&event.to_json()),
        },
    )
}

/// Ctrl-C is how watching ends, and so no failure. Lines are written whole, so none is cut.
pub(crate) fn end_on_interrupt() -> Result<(), Failure> {
    ctrlc::set_handler(|| std::process::exit(Exit::Ok as i32))
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot listen for Ctrl-C: {error}")))
}

/// Hands every event to `each`, for ever. `connected` is called whenever a new stream begins, the first time included:
/// what happened before it was not seen.
pub(crate) fn follow(
    hcn: &dyn Hcn,
    mut connected: impl FnMut() -> Result<(), Failure>,
    mut each: impl FnMut(Event) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut events = hcn.events()?;
    loop {
        match connected() {
            Err(failure) if failure.exit == Exit::Unavailable => {}
            outcome => {
                outcome?;
                drain(&mut events, &mut each)?;
            }
        }
        note("the service went away; waiting for it to come back");
        events = reconnect(hcn)?;
        note("connected again; events in between were not seen");
    }
}

/// Hands on events until the stream ends, however it does.
fn drain(events: &mut Events, each: &mut impl FnMut(Event) -> Result<(), Failure>) -> Result<(), Failure> {
    for event in events {
        match event {
            Ok(event) if event.change == Change::Disconnected => break,
            Ok(event) => match each(event) {
                Err(failure) if failure.exit == Exit::Unavailable => break,
                outcome => outcome?,
            },
            Err(_) => break,
        }
    }
    Ok(())
}

/// Waits for the service. A service that answers but refuses will not change its mind.
fn reconnect(hcn: &dyn Hcn) -> Result<Events, Failure> {
    loop {
        match hcn.events().map_err(Failure::from) {
            Err(failure) if failure.exit == Exit::Refused => return Err(failure),
            Err(_) => thread::sleep(RETRY),
            Ok(events) => return Ok(events),
        }
    }
}

fn line(event: &Event, clock: &str) -> String {
    format!("{clock}  {:<9}  {}  {}", event.change, event.id, event.name).trim_end().to_owned()
}

/// The time of day, in UTC.
pub(crate) fn clock() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()) % 86_400;
    format!("{:02}:{:02}:{:02}Z", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use hcn::Guid;
    use serde_json::Value;

    use super::*;

    #[test]
    fn an_event_is_a_line() {
        let event = Event {
            sequence: 7,
            kind: Some(Kind::Network),
            change: Change::Created,
            id: Guid::from_u128(5),
            name: "cbr0".into(),
            flags: 0,
            data: Value::Null,
        };
        assert_eq!(line(&event, "12:00:00Z"), "12:00:00Z  Created    00000000-0000-0000-0000-000000000005  cbr0");
    }
}
