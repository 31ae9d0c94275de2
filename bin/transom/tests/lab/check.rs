//! `lab check`: what the documents say is what is observed.

use serde_json::Value;

use crate::running::Running;

/// The rows of a lab of a build: scenario, what was observed.
fn rows(build: &str) -> Vec<(String, String)> {
    let Some(lab) = Running::start(build) else { return Vec::new() };
    let output = lab.transom(&["check", "-o", "json"]);
    let text = String::from_utf8_lossy(&output.stdout);
    let rows: Vec<Value> = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text} {output:?}"));
    let differing: Vec<&Value> = rows.iter().filter(|row| row["same"] != true).collect();
    assert!(differing.is_empty() && output.status.success(), "{differing:#?}");
    assert!(rows.iter().all(|row| row["build"] == build));
    let member = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    rows.iter().map(|row| (member(row, "scenario"), member(row, "observed"))).collect()
}

#[test]
fn a_build_of_windows_has_the_limits_that_the_documents_say() {
    let rows = rows("ws2022");
    let limited = rows.iter().filter(|(_, observed)| observed == "does not work" || observed == "at most 1024").count();
    assert!(rows.is_empty() || limited == 16, "{rows:#?}");
}

#[test]
fn transom_has_none_of_them() {
    for (scenario, observed) in rows("transom") {
        assert!(observed == "works" || observed == "no limit", "{scenario}: {observed}");
    }
}
