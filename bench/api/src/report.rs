//! What was measured, as a text.

use rig::figure::short;
use rig::table::{row, table};

use crate::measure::{Row, Sizes, Wanted};

/// The whole report.
pub(crate) fn text(machine: &str, sizes: &Sizes, rows: &[Row]) -> String {
    let mut lines = vec![row(&["", "", "transom", "kube-apiserver, etcd", "ratio", "wanted", ""])];
    lines.extend(rows.iter().map(line));
    format!(
        "{machine}\n\nConfigMaps of a kilobyte, {} and {} of them, {} watchers; one client program, over TLS. Both servers answer a change \
         when it is on the disk. A ratio is ours to theirs; in lines that say so, ours to another one of ours. Memory is what \
         the processes hold: ours is one, theirs are two.\n\n{}",
        sizes.few,
        sizes.many,
        sizes.watchers,
        table(&lines, 1)
    )
}

fn line(measured: &Row) -> Vec<String> {
    let Row { what, unit, ours, original, wanted } = measured;
    let ratio = ours / original;
    let (ratio, wanted, is_met) = match wanted {
        Wanted::Less(factor) => (ratio, format!("< {factor}"), ratio < *factor),
        Wanted::More => (ratio, "> 1".to_owned(), ratio > 1.0),
        Wanted::Flat(factor) => (ratio, format!("≤ {factor}"), ratio <= *factor),
    };
    let verdict = if is_met { "pass" } else { "**short**" };
    row(&[what, unit, &short(*ours), &short(*original), &short(ratio), &wanted, verdict])
}
