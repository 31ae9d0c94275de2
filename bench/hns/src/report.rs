//! The numbers as text: tables that are readable as they are and are Markdown as well.

use rig::figure::{processor, short};
use rig::table::{row, table};

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
        let mut costs = vec![row(&["microseconds per call", "at 100", "at 1,000", "at 10,000", "10,000 : 100"])];
        for row in &self.costs.rows {
            let mut cells = vec![row.name.clone()];
            cells.extend(row.micros.iter().map(|micros| short(*micros)));
            cells.push(format!("{:.2}", row.ratio()));
            costs.push(cells);
        }
        let rates = vec![
            row(&["eight clients together", "durable creates per second"]),
            vec!["threads".into(), short(self.rates.threads)],
            vec!["processes".into(), short(self.rates.processes)],
        ];
        let mut claims = vec![row(&["claim", "measured", "limit", "unit", "verdict"])];
        claims.extend(self.claims.iter().map(Claim::cells));
        let [best, middle] = self.costs.sync_us.map(short);
        let machine = format!("{}; one small durable write costs {best} µs at best on its disk, and {middle} µs in the middle.", machine());
        let sizes = format!("Medians, over a Unix socket; \"at N\" is with N endpoints and N load balancers (N: {SIZES:?}).");
        format!("{machine}\n{sizes}\n\n{}\n{}\n{}", table(&costs, 1), table(&rates, 1), table(&claims, 1))
    }
}

/// The machine in a few words.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{cores} cores of {}", processor())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_needs_a_number() {
        assert!(Claim::at_most(String::new(), 1.5, 1.5, "times").holds());
        assert!(!Claim::at_most(String::new(), f64::NAN, 1.5, "times").holds());
        assert!(!Claim::at_least(String::new(), 4999.0, 5000.0, "per second").holds());
    }
}
