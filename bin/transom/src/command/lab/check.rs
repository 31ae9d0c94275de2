//! What the documents say of a build and what is observed, as a table.

use clap::Args;
use lab::check::Row;
use lab::control::{Reply, Request};

use super::steps::Steps;
use super::{OfLab, ask, failure, talk_failure};
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Output, Table, Tone};

/// What is tried.
#[derive(Args, Clone, Debug)]
pub(crate) struct CheckArgs {
    /// Which lab.
    #[command(flatten)]
    of: OfLab,
    /// Only scenarios with this in their title
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

pub(crate) const EXAMPLES: &str = "\
It is about the build of the first Windows node. What is needed is made in a Kubernetes namespace of its own, and taken away again.
The exit code is 1 if something is observed that the documents do not say.

Examples:
  transom lab up --build ws2022 && transom lab check
  transom lab check --only backends -o wide";

/// Tries everything, and shows what came of it.
pub(crate) fn run(output: &Output, args: &CheckArgs) -> Result<(), Failure> {
    let rows = hear(args)?;
    match output.is_for_people() {
        true => show(output, &rows)?,
        false => output.value(&serde_json::to_value(&rows).map_err(|error| Failure::new(Exit::Failed, error.to_string()))?)?,
    }
    match rows.iter().filter(|row| !row.same).count() {
        0 => Ok(()),
        count => Err(Failure::new(Exit::Failed, format!("{count} of {} scenarios are not as documented", rows.len()))),
    }
}

fn hear(args: &CheckArgs) -> Result<Vec<Row>, Failure> {
    let mut conversation = ask(&args.of.home(), &Request::Check { only: args.only.clone() })?;
    let mut steps = Steps::default();
    loop {
        match conversation.hear().map_err(talk_failure)? {
            Reply::Begun { step } => steps.begin(&step),
            Reply::Check { rows } => return Ok(rows),
            other => return Err(failure(other)),
        }
    }
}

fn show(output: &Output, rows: &[Row]) -> Result<(), Failure> {
    if let Some(first) = rows.first() {
        output.line(&format!("build {}", first.build))?;
    }
    output.table(&table(rows, output.is_wide()))?;
    let differing = || rows.iter().filter(|row| !row.same && !output.is_wide());
    if differing().next().is_some() {
        output.line("")?;
    }
    differing().try_for_each(|row| output.line(&reason(row)))
}

fn table(rows: &[Row], is_wide: bool) -> Table {
    let mut header = vec!["SCENARIO", "DOCUMENTED", "OBSERVED", "SAME"];
    if is_wide {
        header.extend(["MEASURED", "DOCUMENTS"]);
    }
    let mut table = Table::new(header);
    for row in rows {
        let same = if row.same { Cell::toned("yes", Tone::Good) } else { Cell::toned("no", Tone::Bad) };
        let mut cells = vec![Cell::from(row.scenario.as_str()), row.documented.as_str().into(), row.observed.as_str().into(), same];
        if is_wide {
            cells.extend([Cell::from(row.detail.as_str()), row.because.as_str().into()]);
        }
        table.row(cells);
    }
    table
}

fn reason(row: &Row) -> String {
    let documents = if row.because.is_empty() { &row.documented } else { &row.because };
    format!("{}: {} (documents: {documents})", row.scenario, row.detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_seen() {
        let row = |scenario: &str, observed: &str, same| Row {
            scenario: scenario.to_owned(),
            build: "ws2022".to_owned(),
            documented: "works".to_owned(),
            because: String::new(),
            observed: observed.to_owned(),
            detail: "no answer".to_owned(),
            same,
        };
        let rows = [row("pod to pod", "works", true), row("CNI CHECK", "does not work", false)];
        let expected = "\
SCENARIO    DOCUMENTED  OBSERVED       SAME
pod to pod  works       works          yes
CNI CHECK   works       does not work  no
";
        assert_eq!(table(&rows, false).render(false), expected);
        assert_eq!(reason(&rows[1]), "CNI CHECK: no answer (documents: works)");
    }
}
