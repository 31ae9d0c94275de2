//! Events: what happened to objects. Two API groups have them; they are stored as the core group says.

use serde_json::{Map, Value, json};

use super::{Column, PLAIN, Resource, View, column, name, wide};
use crate::server::document::{age as age_of, as_map, number, text};
use crate::server::field::Errors;

const COLUMNS: &[Column] = &[
    column("Last Seen"),
    column("Type"),
    column("Reason"),
    column("Object"),
    wide("Subobject"),
    wide("Source"),
    column("Message"),
    wide("First Seen"),
    wide("Count"),
    wide("Name"),
];

/// The most letters of what an event is about, and of what it says.
const LONGEST: usize = 128;
const LONGEST_MESSAGE: usize = 1024;

const CORE: Resource = Resource {
    storage: 9,
    kind: "Event",
    plural: "events",
    singular: "event",
    short_names: &["ev"],
    columns: COLUMNS,
    cells,
    field_names: &[
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "reason",
        "type",
        "regarding.kind",
        "regarding.namespace",
        "regarding.name",
        "regarding.uid",
    ],
    fields,
    validate: |document, errors| validate(document, "reportingComponent", errors),
    ..PLAIN
};

pub(crate) static CORE_EVENTS: Resource = CORE;

pub(crate) static EVENTS: Resource = Resource {
    group: "events.k8s.io",
    view: Some(&View {
        inward: |document| rename(document, |(core, events)| (events, core)),
        outward: |document| rename(document, |pair| pair),
    }),
    validate: |document, errors| validate(document, "reportingController", errors),
    validate_new: validate_strictly,
    ..CORE
};

/// The names of one thing: in the core group, and in `events.k8s.io`.
const NAMES: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

fn rename(document: &mut Value, direction: fn((&'static str, &'static str)) -> (&'static str, &'static str)) {
    let map = as_map(document);
    let names: Vec<_> = NAMES.iter().map(|pair| direction(*pair)).collect();
    let renamed = |key: String| names.iter().find(|(from, _)| *from == key).map_or(key, |(_, to)| (*to).to_owned());
    *map = std::mem::take(map).into_iter().map(|(key, value)| (renamed(key), value)).collect::<Map<_, _>>();
}

fn fields(document: &Value) -> Vec<(&'static str, String)> {
    let object = |key: &str| text(document, &format!("/involvedObject/{key}")).to_owned();
    vec![
        ("involvedObject.kind", object("kind")),
        ("involvedObject.namespace", object("namespace")),
        ("involvedObject.name", object("name")),
        ("involvedObject.uid", object("uid")),
        ("regarding.kind", object("kind")),
        ("regarding.namespace", object("namespace")),
        ("regarding.name", object("name")),
        ("regarding.uid", object("uid")),
        ("reason", text(document, "/reason").to_owned()),
        ("type", text(document, "/type").to_owned()),
    ]
}

fn cells(document: &Value) -> Vec<Value> {
    let stamp = |paths: &[&str]| {
        let found = paths.iter().map(|path| text(document, path)).find(|stamp| !stamp.is_empty());
        age_of(found.unwrap_or_default()).into()
    };
    let kind = text(document, "/involvedObject/kind").to_lowercase();
    vec![
        stamp(&["/series/lastObservedTime", "/lastTimestamp", "/eventTime"]),
        text(document, "/type").into(),
        text(document, "/reason").into(),
        format!("{kind}/{}", text(document, "/involvedObject/name")).into(),
        text(document, "/involvedObject/fieldPath").into(),
        text(document, "/source/component").into(),
        text(document, "/message").trim().into(),
        stamp(&["/firstTimestamp", "/eventTime"]),
        number(document, "/count").unwrap_or(1).into(),
        name(document),
    ]
}

/// Events of the newer kind say when they happened, and then also who says so.
fn validate(document: &Value, reporter: &str, errors: &mut Errors) {
    let about = text(document, "/involvedObject/namespace");
    let namespace = text(document, "/metadata/namespace");
    let is_new = !text(document, "/eventTime").is_empty();
    let is_misplaced = match (about, is_new) {
        // An event about an object without a namespace stands in the default one.
        ("", false) => namespace != "default",
        ("", true) => namespace != "default" && namespace != "kube-system",
        (about, false) => namespace != about,
        (_, true) => false,
    };
    if is_misplaced {
        errors.invalid("involvedObject.namespace", about, "does not match event.namespace");
    }
    if is_new {
        validate_report(document, reporter, errors);
    }
}

fn validate_report(document: &Value, reporter: &str, errors: &mut Errors) {
    let name = text(document, "/reportingComponent");
    if name.is_empty() {
        errors.required(reporter, "");
    }
    errors.qualified(reporter, name);
    for key in ["reportingInstance", "action", "reason"] {
        match text(document, &format!("/{key}")).len() {
            0 => errors.required(key, ""),
            1..=LONGEST => {}
            _ => errors.invalid(key, "", format!("can have at most {LONGEST} characters")),
        }
    }
    if text(document, "/message").len() > LONGEST_MESSAGE {
        errors.invalid("message", "", format!("can have at most {LONGEST_MESSAGE} characters"));
    }
}

/// The newer group takes no events of the older kind. The original names the fields as the older group does.
fn validate_strictly(document: &Value, errors: &mut Errors) {
    if text(document, "/eventTime").is_empty() {
        errors.required("eventTime", "");
    }
    let kind = text(document, "/type");
    if !matches!(kind, "Normal" | "Warning") {
        errors.invalid("type", "", format!("has invalid value: {kind}"));
    }
    let is_set = |key: &str| !document[key].is_null() && document[key] != 0 && document[key] != json!({});
    for key in ["firstTimestamp", "lastTimestamp", "count", "source"].into_iter().filter(|key| is_set(key)) {
        errors.invalid(key, "", "needs to be unset");
    }
}
