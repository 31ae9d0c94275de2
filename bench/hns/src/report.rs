//! The numbers as text: tables that are readable as they are and are Markdown as well.

use std::fs;
use std::path::PathBuf;

use crate::cost::{Costs, SIZES};
use crate::throughput::Rates;

/// Everything measured, and what was claimed of it.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) costs: Costs,
    pub(crate) rates: Rates,
    pub(crate) claims: Vec<Claim>,
}

/// A number and its limit.
#[derive(Debug)]
pub(crate) struct Claim {
    what: String,
    value: f64,
    limit: Limit,
    unit: &'static str,
}

#[derive(Debug)]
enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

impl Claim {
    pub(crate) fn at_most(what: String, value: f64, limit: f64, unit: &'static str) -> Self {
        Self { what, value, limit: Limit::AtMost(limit), unit }
    }

    pub(crate) fn at_least(what: String, value: f64, limit: f64, unit: &'static str) -> Self {
        Self { what, value, limit: Limit::AtLeast(limit), unit }
    }

    /// Whether it is so. What is no number holds nothing.
    pub(crate) fn holds(&self) -> bool {
        match self.limit {
            Limit::AtMost(limit) => self.value <= limit,
            Limit::AtLeast(limit) => self.value >= limit,
        }
    }

    fn cells(&self) -> Vec<String> {
        let limit = match self.limit {
            Limit::AtMost(limit) => format!("at most {limit}"),
            Limit::AtLeast(limit) => format!("at least {limit}"),
        };
        let verdict = if self.holds() { "PASS" } else { "FAIL" };
        vec![self.what.clone(), short(self.value), limit, self.unit.to_owned(), verdict.to_owned()]
    }
}

impl Report {
    /// The report as text.
    pub(crate) fn print(&self) -> String {
        let mut costs = vec![strings(&["microseconds per call", "at 100", "at 1,000", "at 10,000", "10,000 : 100"])];
        for row in &self.costs.rows {
            let mut cells = vec![row.name.clone()];
            cells.extend(row.micros.iter().map(|micros| short(*micros)));
            cells.push(format!("{:.2}", row.ratio()));
            costs.push(cells);
        }
        let rates = vec![
            strings(&["eight clients together", "durable creates per second"]),
            vec!["threads".into(), short(self.rates.threads)],
            vec!["processes".into(), short(self.rates.processes)],
        ];
        let mut claims = vec![strings(&["claim", "measured", "limit", "unit", "verdict"])];
        claims.extend(self.claims.iter().map(Claim::cells));
        let [best, middle] = self.costs.sync_us.map(short);
        let machine = format!("{}; one small durable write costs {best} µs at best on its disk, and {middle} µs in the middle.", machine());
        let sizes = format!("Medians, over a Unix socket; \"at N\" is with N endpoints and N load balancers (N: {SIZES:?}).");
        format!("{machine}\n{sizes}\n\n{}\n{}\n{}", table(&costs), table(&rates), table(&claims))
    }
}

/// Writes the report where results are kept.
pub(crate) fn save(text: &str) -> Result<(), String> {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../results/hns.md"));
    let cannot = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
    path.parent().map_or(Ok(()), fs::create_dir_all).map_err(cannot)?;
    fs::write(&path, format!("# `cargo xtask bench hns`\n\n{text}")).map_err(cannot)
}

/// The machine in a few words.
fn machine() -> String {
    let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = information
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown processor", |(_, name)| name);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{cores} cores of {model}")
}

fn strings(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

/// A number with as many digits as matter.
fn short(number: f64) -> String {
    match number.abs() {
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// Rows as a table; the first has the headings, and the first column stands left and the others right.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut lines = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let cell = |(column, cell): (usize, &String)| match column {
            0 => format!(" {cell:<width$} ", width = widths[column]),
            _ => format!(" {cell:>width$} ", width = widths[column]),
        };
        lines.push(format!("|{}|\n", row.iter().enumerate().map(cell).collect::<Vec<_>>().join("|")));
        if index == 0 {
            let rule = |(column, width): (usize, &usize)| format!("{}{}", "-".repeat(width + 1), if column == 0 { "-" } else { ":" });
            lines.push(format!("|{}|\n", widths.iter().enumerate().map(rule).collect::<Vec<_>>().join("|")));
        }
    }
    lines.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_line_up() {
        let rows = [strings(&["call", "µs"]), strings(&["create", "112"])];
        assert_eq!(table(&rows), "| call   |  µs |\n|--------|----:|\n| create | 112 |\n");
    }

    #[test]
    fn a_claim_needs_a_number() {
        assert!(Claim::at_most(String::new(), 1.5, 1.5, "times").holds());
        assert!(!Claim::at_most(String::new(), f64::NAN, 1.5, "times").holds());
        assert!(!Claim::at_least(String::new(), 4999.0, 5000.0, "per second").holds());
    }
}
