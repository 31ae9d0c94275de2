//! The Windows builds that hnsd can run as.

use hcn::profile::{self, Profile};
use serde_json::{Value, json};

use crate::cli::ProfileVerb;
use crate::describe::Description;
use crate::exit::{Exit, Failure};
use crate::output::{Output, Table};

/// Does what a verb says. Profiles are data of this program; no service is asked.
pub(crate) fn run(output: &Output, verb: ProfileVerb) -> Result<(), Failure> {
    match verb {
        ProfileVerb::List => list(output),
        ProfileVerb::Show { name } => show(output, &name),
    }
}

fn list(output: &Output) -> Result<(), Failure> {
    if !output.is_for_people() {
        return output.value(&profile::ALL.iter().map(to_json).collect());
    }
    let mut header = vec!["NAME", "WINDOWS", "BUILD", "HNS", "SCHEMA", "FEATURES", "LIMITS", "DEFECTS"];
    if output.is_wide() {
        header.push("NOTES");
    }
    let mut table = Table::new(header);
    for profile in profile::ALL {
        let mut row = vec![
            profile.name.into(),
            profile.windows.into(),
            build(profile).into(),
            version(profile.version).into(),
            version(profile.schema).into(),
            profile.features().count().to_string().into(),
            profile.limits.len().to_string().into(),
            profile.defects.len().to_string().into(),
        ];
        if output.is_wide() {
            row.push(profile.notes.into());
        }
        table.row(row);
    }
    output.table(&table)
}

fn show(output: &Output, name: &str) -> Result<(), Failure> {
    let known = || profile::ALL.iter().map(|profile| profile.name).collect::<Vec<_>>().join(", ");
    let profile = profile::find(name)
        .ok_or_else(|| Failure::new(Exit::NotFound, format!("there is no profile {name:?}")).remedy(format!("use one of {}", known())))?;
    match output.is_for_people() {
        true => output.text(&describe(profile).render()),
        false => output.value(&to_json(profile)),
    }
}

fn describe(profile: &Profile) -> Description {
    let mut features = Description::default();
    profile.features().for_each(|item| _ = features.line(item.name(), item.says()));
    let mut limits = Description::default();
    profile.limits.iter().for_each(|item| _ = limits.line(item.name(), item.says()));
    let mut defects = Description::default();
    profile.defects.iter().for_each(|item| _ = defects.line(item.name(), item.says()));
    let mut description = Description::default();
    description
        .line("Name", profile.name)
        .line("Windows", profile.windows)
        .line("Build", build(profile))
        .line("HNS", version(profile.version))
        .line("Schema", version(profile.schema))
        .line("Notes", profile.notes)
        .section("Features", features)
        .section("Limits", limits)
        .section("Defects", defects);
    description
}

fn to_json(profile: &Profile) -> Value {
    json!({
        "Name": profile.name,
        "Windows": profile.windows,
        "Build": profile.build,
        "Version": {"Major": profile.version.0, "Minor": profile.version.1},
        "SchemaVersion": {"Major": profile.schema.0, "Minor": profile.schema.1},
        "Features": profile.features().map(|item| item.name()).collect::<Vec<_>>(),
        "Limits": profile.limits.iter().map(|item| item.name()).collect::<Vec<_>>(),
        "Defects": profile.defects.iter().map(|item| item.name()).collect::<Vec<_>>(),
        "Notes": profile.notes,
    })
}

fn build(profile: &Profile) -> String {
    if profile.build == 0 { String::new() } else { profile.build.to_string() }
}

fn version((major, minor): profile::Version) -> String {
    format!("{major}.{minor}")
}
