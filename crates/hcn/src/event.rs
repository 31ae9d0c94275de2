//! What the service tells those who follow it.

use std::fmt;

use serde_json::{Value, json};

use crate::api::Kind;
use crate::document::{Field, Path, object, parse_guid, take};
use crate::error::{Error, Result, detail};
use crate::{Guid, document};

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is about to be made.
    PreCreate,
    /// It was made.
    Created,
    /// It was changed.
    Modified,
    /// It is about to go, whether or not that then succeeds.
    PreDelete,
    /// It is gone.
    Deleted,
    /// An endpoint got a port on the switch.
    Attached,
    /// An endpoint lost its port.
    Detached,
    /// A guest network service changed its state.
    StateChanged,
    /// The service stops; nothing more comes.
    Disconnected,
}

impl Change {
    const NAMES: [(Change, &'static str); 9] = [
        (Change::PreCreate, "PreCreate"),
        (Change::Created, "Created"),
        (Change::Modified, "Modified"),
        (Change::PreDelete, "PreDelete"),
        (Change::Deleted, "Deleted"),
        (Change::Attached, "Attached"),
        (Change::Detached, "Detached"),
        (Change::StateChanged, "StateChanged"),
        (Change::Disconnected, "Disconnected"),
    ];

    fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, text)| *text == name).map(|(change, _)| *change)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(change, _)| change == self).map_or("", |(_, name)| name);
        f.pad(name)
    }
}

/// One event. On the wire a line of JSON:
/// `{"Sequence":7,"Kind":"Network","Change":"Created","ID":"…","Name":"…","Flags":8,"Data":…}`.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Number of the event. Numbers have no gaps while the service runs, and rise when it is restarted.
    pub sequence: u64,
    /// What kind of object it is about; none for events of the service itself.
    pub kind: Option<Kind>,
    /// What happened.
    pub change: Change,
    /// Which object.
    pub id: Guid,
    /// The object's name, for people.
    pub name: String,
    /// The object's flags; Windows puts a network's flags into its notifications.
    pub flags: u32,
    /// Anything more, as `Data` of the notification.
    pub data: Value,
}

impl Event {
    /// The documented notification code, for events that Windows has one for.
    pub fn notification(&self) -> Option<u32> {
        Some(match (self.kind, self.change) {
            (Some(Kind::Network), Change::PreCreate) => 0x1,
            (Some(Kind::Network), Change::Created) => 0x2,
            (Some(Kind::Network), Change::PreDelete) => 0x3,
            (Some(Kind::Network), Change::Deleted) => 0x4,
            (Some(Kind::Namespace), Change::Created) => 0x5,
            (Some(Kind::Namespace), Change::Deleted) => 0x6,
            (Some(Kind::GuestNetworkService), Change::Created) => 0x7,
            (Some(Kind::GuestNetworkService), Change::Deleted) => 0x8,
            (Some(Kind::Endpoint), Change::Attached) => 0x9,
            (Some(Kind::Endpoint), Change::Detached) => 0x10,
            (Some(Kind::GuestNetworkService), Change::StateChanged) => 0x11,
            (None, Change::Disconnected) => 0x0100_0000,
            _ => return None,
        })
    }

    /// `NotificationData` as Windows passes it to callbacks.
    pub fn notification_data(&self) -> Value {
        let mut data = json!({"ID": self.id.to_string(), "Flags": self.flags});
        if !self.data.is_null() {
            data["Data"] = self.data.clone();
        }
        data
    }

    /// The event as a line of the stream.
    pub fn to_json(&self) -> Value {
        let mut line = json!({
            "Sequence": self.sequence,
            "Change": self.change.to_string(),
        });
        if let Some(kind) = self.kind {
            line["Kind"] = json!(kind.name());
            line["ID"] = json!(self.id.to_string());
            line["Name"] = json!(self.name);
            line["Flags"] = json!(self.flags);
        }
        if !self.data.is_null() {
            line["Data"] = self.data.clone();
        }
        line
    }

    /// Reads a line of the stream.
    pub fn from_json(line: &str) -> Result<Self> {
        let broken = |what: &str| Error::InvalidJson(detail(format!("the event has no {what}: {}", document::shorten(line))));
        let mut map = object(document::parse_value(line)?, &Path::Root)?;
        let mut text = |name: &str| take(&mut map, &[name]).and_then(|value| value.as_str().map(str::to_owned));
        let change = text("Change").and_then(|name| Change::from_name(&name)).ok_or_else(|| broken("Change"))?;
        let kind = text("Kind").and_then(|name| Kind::from_name(&name));
        let id = text("ID").and_then(|id| parse_guid(&id)).unwrap_or_default();
        let name = text("Name").unwrap_or_default();
        let sequence = take(&mut map, &["Sequence"]).and_then(|number| number.as_u64()).ok_or_else(|| broken("Sequence"))?;
        let flags = match take(&mut map, &["Flags"]) {
            Some(flags) => u32::read(flags, &Path::Root.key("Flags"))?,
            None => 0,
        };
        let data = take(&mut map, &["Data"]).unwrap_or_default();
        Ok(Self { sequence, kind, change, id, name, flags, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_and_back() {
        let event = Event {
            sequence: 7,
            kind: Some(Kind::Endpoint),
            change: Change::Detached,
            id: Guid::from_u128(5),
            name: "pod".into(),
            flags: 0,
            data: Value::Null,
        };
        assert_eq!(Event::from_json(&event.to_json().to_string()), Ok(event.clone()));
        assert_eq!(event.notification(), Some(0x10));
    }
}
