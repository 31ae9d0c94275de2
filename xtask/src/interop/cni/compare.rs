//! What differs between a subject and the reference, and whether it may.

use std::collections::BTreeSet;

use serde_json::Value;

use super::cases::{Case, Intended};
use super::record::Record;

/// A place where two records differ, such as `1-ADD/endpoints/0/Owner`.
#[derive(Debug, PartialEq)]
struct Difference {
    at: String,
    reference: Value,
    ours: Value,
}

/// Decides what may differ, and keeps count.
#[derive(Clone)]
pub(super) struct Judge {
    everywhere: Vec<Intended>,
    seen_everywhere: BTreeSet<&'static str>,
    line: Vec<String>,
    log: Vec<String>,
    steps: usize,
    intended: usize,
    failed: BTreeSet<&'static str>,
}

impl Judge {
    /// With what differs in many cases.
    pub(super) fn new(everywhere: Vec<Intended>) -> Self {
        Self {
            everywhere,
            seen_everywhere: BTreeSet::new(),
            line: Vec::new(),
            log: Vec::new(),
            steps: 0,
            intended: 0,
            failed: BTreeSet::new(),
        }
    }

    /// Compares what somebody did in a case with what the reference did.
    pub(super) fn compare(&mut self, case: &Case, who: &str, reference: &[Record], ours: &[Record]) {
        let mut seen = BTreeSet::new();
        let (mut intended, mut failures) = (0, 0);
        for (theirs, ours) in reference.iter().zip(ours) {
            for difference in differences(theirs, ours) {
                let found = case.intended.iter().find(|listed| covers(listed, &difference));
                seen.extend(found.map(|listed| listed.at));
                let general = self.everywhere.iter().find(|listed| covers(listed, &difference));
                self.seen_everywhere.extend(general.map(|listed| listed.at));
                let reason = found.or(general).map(|listed| listed.why);
                if reason.is_some() {
                    intended += 1
                } else {
                    failures += 1
                }
                let verdict = reason.map_or_else(|| "NOT INTENDED".to_owned(), |why| format!("intended: {why}"));
                let Difference { at, reference, ours } = difference;
                let line = format!("{}, {}: {at}: {verdict}\n    reference {reference}\n    ours      {ours}", case.name, who);
                self.note(line, reason.is_none());
            }
        }
        for listed in case.intended.iter().filter(|listed| !seen.contains(listed.at)) {
            failures += 1;
            self.note(format!("{}, {}: {} is listed, but does not differ", case.name, who, listed.at), true);
        }
        self.steps += ours.len();
        self.intended += intended;
        if failures > 0 {
            self.failed.insert(case.name);
        }
        let word = if failures == 0 { "ok".to_owned() } else { format!("FAILED ({failures})") };
        self.line.push(format!("{} {word}, {intended} intended", who));
    }

    fn note(&mut self, line: String, is_failure: bool) {
        if is_failure {
            println!("{line}");
        }
        self.log.push(line);
    }

    /// Whether somebody did something else in a case than the reference, or than is listed.
    pub(super) fn has_failed(&self, case: &Case) -> bool {
        self.failed.contains(case.name)
    }

    /// What became of the case.
    pub(super) fn take_line(&mut self) -> String {
        std::mem::take(&mut self.line).join("; ")
    }

    /// All differences since the last time.
    pub(super) fn take_log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }

    /// Sums up where not all were played, so that not all that is listed may occur.
    pub(super) fn partial_verdict(&mut self, cases: usize) -> Result<(), String> {
        self.everywhere.clear();
        self.verdict(cases)
    }

    /// Sums up.
    pub(super) fn verdict(&mut self, cases: usize) -> Result<(), String> {
        let unseen: Vec<&str> = self.everywhere.iter().map(|listed| listed.at).filter(|at| !self.seen_everywhere.contains(at)).collect();
        for at in &unseen {
            let line = format!("everywhere: {at} is listed, but does not differ");
            println!("{line}");
            self.log.push(line);
        }
        println!(
            "{cases} cases, {} commands compared, {} intended differences, {} cases failed",
            self.steps,
            self.intended,
            self.failed.len()
        );
        match self.failed.is_empty() && unseen.is_empty() {
            true => Ok(()),
            false => Err(format!("{} of {cases} cases differ from the reference in another way than listed", self.failed.len().max(1))),
        }
    }
}

/// Whether a difference is one that is listed.
fn covers(listed: &Intended, difference: &Difference) -> bool {
    matches(listed.at, &difference.at) && listed.ours.as_ref().is_none_or(|ours| *ours == difference.ours)
}

/// Whether a place is one that a pattern names, or below it. `*` stands for any one part.
fn matches(pattern: &str, at: &str) -> bool {
    let mut parts = at.split('/');
    pattern.split('/').all(|wanted| parts.next().is_some_and(|part| wanted == "*" || wanted == part))
}

fn differences(reference: &Record, ours: &Record) -> Vec<Difference> {
    let mut found = Vec::new();
    walk(&ours.step, &reference.document, &ours.document, &mut found);
    let result = format!("{}/result", ours.step);
    let same_result = !found.iter().any(|difference| matches(&result, &difference.at));
    // Errors are told in our own words.
    if same_result && ours.document.get("result").is_some() && reference.text != ours.text {
        let text = |record: &Record| Value::String(record.text.clone());
        found.push(Difference { at: format!("{}/text", ours.step), reference: text(reference), ours: text(ours) });
    }
    found
}

fn walk(at: &str, reference: &Value, ours: &Value, found: &mut Vec<Difference>) {
    match (reference, ours) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for key in keys {
                walk(&format!("{at}/{key}"), one.get(key).unwrap_or(&Value::Null), other.get(key).unwrap_or(&Value::Null), found);
            }
        }
        (Value::Array(one), Value::Array(other)) => {
            for index in 0..one.len().max(other.len()) {
                walk(&format!("{at}/{index}"), one.get(index).unwrap_or(&Value::Null), other.get(index).unwrap_or(&Value::Null), found);
            }
        }
        (one, other) if one == other => {}
        (one, other) => found.push(Difference { at: at.to_owned(), reference: one.clone(), ours: other.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_place_that_differs_is_named() {
        let mut found = Vec::new();
        walk("1-ADD", &json!({"a": [1, 2], "b": 3, "same": 1}), &json!({"a": [1, 4, 5], "same": 1}), &mut found);
        let found: Vec<(&str, Value)> = found.iter().map(|difference| (difference.at.as_str(), difference.ours.clone())).collect();
        assert_eq!(found, [("1-ADD/a/1", json!(4)), ("1-ADD/a/2", json!(5)), ("1-ADD/b", Value::Null)]);
    }

    #[test]
    fn a_pattern_covers_what_is_below_it() {
        assert!(matches("*/endpoints/*/Policies", "1-ADD/endpoints/0/Policies/1/Settings"));
        assert!(!matches("*/endpoints/*/Policies", "1-ADD/endpoints/0/Owner"));
        assert!(!matches("*/endpoints/*/Policies", "1-ADD/endpoints"));
    }

    #[test]
    fn only_what_is_listed_may_differ_and_it_must() {
        let record = |exit: u32| vec![Record { step: "1-ADD".to_owned(), document: json!({"exit": exit}), text: String::new() }];
        let passes = |at: Option<&'static str>, value: u32, ours: u32| {
            let listed = |at| Intended { at, why: "because", ours: Some(json!(value)) };
            let intended = at.into_iter().map(listed).collect();
            let case = Case { intended, ..Case::new("case", json!({})) };
            let mut judge = Judge::new(Vec::new());
            judge.compare(&case, "ours", &record(0), &record(ours));
            judge.verdict(1).is_ok()
        };
        assert!(passes(None, 0, 0) && passes(Some("1-ADD/exit"), 1, 1));
        assert!(!passes(None, 0, 1), "it is not listed");
        assert!(!passes(Some("1-ADD/exit"), 1, 0), "it does not occur");
        assert!(!passes(Some("1-ADD/exit"), 1, 2), "it is another value");
        let everywhere = vec![Intended { at: "*/exit", why: "because", ours: None }];
        assert!(Judge::new(everywhere).verdict(0).is_err(), "it does not occur anywhere");
    }

    #[test]
    fn texts_count_where_documents_are_the_same() {
        let record =
            |result: Value, text: &str| Record { step: "1-ADD".to_owned(), document: json!({"result": result}), text: text.to_owned() };
        let at = |one: &Record, other: &Record| -> Vec<String> { differences(one, other).into_iter().map(|found| found.at).collect() };
        assert_eq!(at(&record(json!(1), "1"), &record(json!(1), " 1")), ["1-ADD/text"]);
        assert_eq!(at(&record(json!(1), "1"), &record(json!(2), "2")), ["1-ADD/result"]);
        assert_eq!(at(&record(json!(1), "1"), &record(json!(1), "1")), [""; 0]);
    }
}
