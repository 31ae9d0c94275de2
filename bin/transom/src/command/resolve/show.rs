//! What came of asking for a name, as text and as a value.
//!
//! The tables are in the words of `Resolve-DnsName`: people know them, and scripts that cut lines at blanks do.

use dns::client::{Resolution, Step, Verdict};
use dns::{Name, RData, Record};
use serde_json::{Value, json};

use super::Report;
use crate::output::Table;

/// For people.
pub(super) fn text(report: &Report) -> String {
    let server = report.server;
    let Some(windows) = &report.windows else {
        return format!("By the rules of Linux, at {server}:\n\n{}", part(&report.name, &report.linux));
    };
    let conclusion = conclusion(windows, &report.linux).map(|line| format!("\n{line}\n")).unwrap_or_default();
    let ours = part(&format!("Resolve-DnsName : {}", report.name), windows);
    let theirs = part(&report.name, &report.linux);
    format!("By the rules of Windows, at {server}:\n\n{ours}\nWhat Linux would have answered:\n\n{theirs}{conclusion}")
}

/// The steps, and what they led to. A failure begins with who failed at what.
fn part(who: &str, resolution: &Resolution) -> String {
    let steps = steps(resolution).render(false);
    let records = records(resolution);
    let found = match resolution.verdict() {
        Some(verdict) if records.is_empty() => format!("{who} : {verdict}\n"),
        _ => record_table(&records).render(false),
    };
    format!("{steps}\n{found}")
}

fn steps(resolution: &Resolution) -> Table {
    let mut table = Table::new(vec!["Step", "Name", "Type", "Why", "Result", "Then"]);
    for (index, step) in resolution.steps.iter().enumerate() {
        let (number, name, kind) = ((index + 1).to_string(), plain(&step.name), step.kind.to_string());
        table.row(vec![
            number.into(),
            name.into(),
            kind.into(),
            step.reason.as_str().into(),
            result(step).into(),
            step.then.to_string().into(),
        ]);
    }
    table
}

fn result(step: &Step) -> String {
    match step.verdict {
        Verdict::Found => format!("found: {}", step.answers.iter().map(data).collect::<Vec<_>>().join(", ")),
        _ => step.verdict.to_string(),
    }
}

/// A record and where it stood.
struct Shown<'a> {
    section: &'static str,
    record: &'a Record,
}

/// The records that `Resolve-DnsName` would print: what was found, or who says that a name has no such records.
fn records(resolution: &Resolution) -> Vec<Shown<'_>> {
    let mut shown: Vec<Shown<'_>> = Vec::new();
    for record in resolution.records() {
        // The names on the way are said once for each type that was asked for.
        if !shown.iter().any(|known| known.record == record) {
            shown.push(Shown { section: "Answer", record });
        }
    }
    if shown.is_empty() && resolution.verdict() == Some(&Verdict::NoRecords) {
        let step = resolution.steps.iter().find(|step| step.verdict == Verdict::NoRecords);
        shown.extend(step.into_iter().flat_map(|step| &step.authorities).map(|record| Shown { section: "Authority", record }));
    }
    shown
}

fn record_table(records: &[Shown<'_>]) -> Table {
    let mut table = Table::new(vec!["Name", "Type", "TTL", "Section", "IPAddress/NameHost"]);
    for Shown { section, record } in records {
        let (kind, ttl) = (record.record_type().to_string(), record.ttl.to_string());
        table.row(vec![plain(&record.name).into(), kind.into(), ttl.into(), (*section).into(), data(record).into()]);
    }
    table
}

/// A name as Windows writes it: without the dot at its end.
fn plain(name: &Name) -> String {
    let text = name.to_string();
    text.strip_suffix('.').filter(|rest| !rest.is_empty()).map_or_else(|| text.clone(), str::to_owned)
}

fn data(record: &Record) -> String {
    match &record.data {
        RData::CNAME(name) => plain(name),
        RData::PTR(name) => plain(name),
        data => data.to_string(),
    }
}

/// What somebody who is surprised should know.
fn conclusion(windows: &Resolution, linux: &Resolution) -> Option<String> {
    match (windows.is_found(), linux.is_found()) {
        (false, true) => {
            let found = linux.steps.iter().find(|step| step.verdict == Verdict::Found)?;
            Some(format!("Linux finds it, Windows does not. A name that both find: {}", plain(&found.name)))
        }
        (true, false) => Some("Windows finds it, Linux does not.".to_owned()),
        (true, true) if windows.addresses() != linux.addresses() => Some("Both find something, but not the same.".to_owned()),
        _ => None,
    }
}

/// For machines.
pub(super) fn value(report: &Report) -> Value {
    let windows = report.windows.as_ref().map(resolution_value);
    json!({"Name": report.name, "Server": report.server.to_string(), "Windows": windows, "Linux": resolution_value(&report.linux)})
}

fn resolution_value(resolution: &Resolution) -> Value {
    let steps: Vec<Value> = resolution.steps.iter().map(step_value).collect();
    let result = resolution.verdict().map(ToString::to_string);
    json!({"Found": resolution.is_found(), "Result": result, "Steps": steps})
}

fn step_value(step: &Step) -> Value {
    let of = |section: &'static str, records: &[Record]| -> Vec<Value> {
        let value = |record: &Record| {
            json!({"Name": plain(&record.name), "Type": record.record_type().to_string(), "TTL": record.ttl, "Section": section,
                "Data": data(record)})
        };
        records.iter().map(value).collect()
    };
    let records = [of("Answer", &step.answers), of("Authority", &step.authorities)].concat();
    json!({"Name": plain(&step.name), "Type": step.kind.to_string(), "Why": step.reason, "Result": step.verdict.to_string(), "Then": step.then.to_string(),
        "Records": records})
}

#[cfg(test)]
mod tests {
    use dns::client::{Rules, resolve};
    use dns::{RecordType, ResponseCode, message};

    use super::*;

    /// `kubernetes.default`, at a server that has one Service with an address of IPv4.
    fn report() -> Report {
        let known = Name::from_ascii("kubernetes.default.svc.cluster.local.").expect("a name");
        let mut server = |name: &Name, kind: RecordType| {
            let code = if *name == known { ResponseCode::NoError } else { ResponseCode::NXDomain };
            let mut answer = message::answer_to(&message::query(name, kind), code);
            if *name == known && kind == RecordType::A {
                answer.add_answer(Record::from_rdata(name.clone(), 30, RData::A("10.96.0.1".parse().expect("an address"))));
            }
            Ok(answer)
        };
        let name = "kubernetes.default";
        let mut ask = |rules: Rules| resolve(name, &[RecordType::A], &rules, &mut server).expect("a name");
        let windows = ask(Rules::windows_pod("default", "cluster.local").expect("a name"));
        let linux = ask(Rules::linux_pod("default", "cluster.local").expect("a name"));
        Report { name: name.into(), server: "10.96.0.10:53".parse().expect("an address"), windows: Some(windows), linux }
    }

    #[test]
    fn every_step_is_shown_and_what_linux_would_have_answered() {
        let expected = "\
By the rules of Windows, at 10.96.0.10:53:

Step  Name                Type  Why                                                   Result                   Then
1     kubernetes.default  A     has a dot: taken for fully qualified, asked as it is  DNS name does not exist  nothing is left

Resolve-DnsName : kubernetes.default : DNS name does not exist

What Linux would have answered:

Step  Name                                          Type  Why                                         Result                   Then
1     kubernetes.default.default.svc.cluster.local  A     has one dot, and ndots is 5: suffix 1 of 3  DNS name does not exist  the next name
2     kubernetes.default.svc.cluster.local          A     has one dot, and ndots is 5: suffix 2 of 3  found: 10.96.0.1         done

Name                                  Type  TTL  Section  IPAddress/NameHost
kubernetes.default.svc.cluster.local  A     30   Answer   10.96.0.1

Linux finds it, Windows does not. A name that both find: kubernetes.default.svc.cluster.local
";
        assert_eq!(text(&report()), expected);
    }

    #[test]
    fn the_value_has_the_same_steps() {
        let value = value(&report());
        assert_eq!(value["Windows"]["Steps"][0]["Result"], "DNS name does not exist");
        assert_eq!(value["Linux"]["Steps"][1]["Records"][0]["Data"], "10.96.0.1");
        assert_eq!(value["Linux"]["Found"], true);
    }
}
