//! The table of tests: what each subject reached, how we stand to the others, and whether that is what was expected.

use rig::figure::{median, short};
use rig::table::{row, table};

use super::figure;
use crate::data_path::DataPath;
use crate::load::Figure;
use crate::measure::{KERNEL, OTHER, OURS, Outcome};
use crate::row::Row;

/// The outcomes of the same subjects as a table, with the targets of a data path.
pub(super) fn comparison(outcomes: &[Outcome], path: DataPath) -> String {
    let Some(Outcome { names: [kernel, ours, other], .. }) = outcomes.first() else { return String::new() };
    let [to_kernel, to_other] = [kernel, other].map(|subject| format!("{ours} : {subject}"));
    let headings = ["test", "ends", kernel, ours, &to_kernel, other, &to_other, "floor", "stretch", "verdict", "switch CPU"];
    let mut rows = vec![row(&headings)];
    rows.extend(outcomes.iter().map(|outcome| cells(outcome, path)));
    table(&rows, 2)
}

fn cells(outcome: &Outcome, path: DataPath) -> Vec<String> {
    let (row, targets) = (&outcome.row, outcome.row.targets(path));
    let target = |target: Option<f64>| {
        target.map_or("-".to_owned(), |target| format!("{} {target:.2}", if row.less_is_better() { "≤" } else { "≥" }))
    };
    let ratios = outcome.ratios(OURS, KERNEL);
    vec![
        row.name(),
        row.placement.name().to_owned(),
        absolute(outcome, KERNEL),
        absolute(outcome, OURS),
        spread(&ratios),
        absolute(outcome, OTHER),
        spread(&outcome.ratios(OURS, OTHER)),
        target(targets.map(|targets| targets.floor)),
        target(targets.map(|targets| targets.stretch)),
        verdict(row, path, &ratios),
        switch(outcome),
    ]
}

/// What a subject reached, in the middle.
fn absolute(outcome: &Outcome, subject: usize) -> String {
    let values: Vec<f64> = outcome.of(subject).map(|figure| figure.value).collect();
    let means: Vec<f64> = outcome.of(subject).filter_map(|figure| figure.mean).collect();
    match (values.is_empty(), means.is_empty()) {
        (true, _) => "-".to_owned(),
        (false, true) => figure(&outcome.row, median(&values)),
        (false, false) => format!("{} (mean {})", figure(&outcome.row, median(&values)), short(median(&means))),
    }
}

/// Middle, least and most of some ratios.
pub(super) fn spread(ratios: &[f64]) -> String {
    if ratios.is_empty() {
        return "-".to_owned();
    }
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{:.2} [{least:.2}-{most:.2}]", median(ratios))
}

/// Whether the targets are reached. What could not be measured reaches none.
fn verdict(row: &Row, path: DataPath, ratios: &[f64]) -> String {
    if ratios.is_empty() {
        return "**not measured**".to_owned();
    }
    let Some(targets) = row.targets(path) else { return "no target".to_owned() };
    let ratio = median(ratios);
    let word = match (row.reaches(ratio, targets.floor), row.reaches(ratio, targets.stretch)) {
        (false, _) => "**short**",
        (true, true) => "pass, stretch",
        (true, false) => "pass",
    };
    if targets.remark.is_empty() { word.to_owned() } else { format!("{word} ({})", targets.remark) }
}

/// Processor time of our processes in the middle, and as a part of the time that the test took.
fn switch(outcome: &Outcome) -> String {
    let of = |value: fn(Figure) -> f64| median(&outcome.of(OURS).map(value).collect::<Vec<_>>());
    match outcome.of(OURS).next() {
        Some(_) => format!("{:.2} s ({:.2} core)", of(|figure| figure.switch), of(|figure| figure.switch / figure.wall)),
        None => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::ROWS;

    #[test]
    fn a_verdict_needs_a_ratio() {
        let verdict = |ratios: &[f64]| verdict(&ROWS[0], DataPath::Tap, ratios);
        assert_eq!(verdict(&[]), "**not measured**");
        assert_eq!(verdict(&[0.1, 0.65, 0.9]), "pass");
        assert_eq!(verdict(&[0.5]), "**short**");
        assert_eq!(verdict(&[0.8]), "pass, stretch");
    }

    #[test]
    fn a_verdict_is_about_a_data_path() {
        assert_eq!(verdict(&ROWS[0], DataPath::Bpf, &[0.8]), "**short**");
        assert_eq!(verdict(&ROWS[0], DataPath::Bpf, &[0.95]), "pass");
        let same_cpu = &ROWS[3];
        assert_eq!(verdict(same_cpu, DataPath::Tap, &[2.0]), "pass, stretch (report only)");
        assert_eq!(verdict(same_cpu, DataPath::Bpf, &[0.9]), "pass");
    }

    #[test]
    fn the_table_shows_the_targets_of_its_path() {
        let text = |path| comparison(&[Outcome::new(ROWS[0], ["kernel", "transom", "OVS"])], path);
        assert!(text(DataPath::Tap).contains("≥ 0.60 |  ≥ 0.75"));
        assert!(text(DataPath::Bpf).contains("≥ 0.90 |  ≥ 1.00"));
    }

    #[test]
    fn headings_name_the_subjects() {
        let text = comparison(&[Outcome::new(ROWS[0], ["kernel", "loaded", "empty"])], DataPath::Bpf);
        assert!(text.contains("| kernel | loaded | loaded : kernel | empty | loaded : empty |"), "{text}");
        assert_eq!(comparison(&[], DataPath::Bpf), "");
    }

    #[test]
    fn ratios_show_their_spread() {
        assert_eq!(spread(&[0.7, 0.5, 0.6]), "0.60 [0.50-0.70]");
        assert_eq!(spread(&[]), "-");
    }
}
