//! What was measured, as a text.

use std::time::Duration;

use rig::figure::short;
use rig::table::{row, table};

/// What was measured of one proxy.
pub(crate) struct Figures {
    /// From the start of the process until the last load balancer is there.
    pub(crate) cold: Duration,
    /// What it asked of HNS for that.
    pub(crate) cold_calls: u64,
    /// From the first change until HNS has all of them.
    pub(crate) changed: Duration,
    /// What it asked of HNS for that.
    pub(crate) calls: u64,
    /// What it holds at the end, in MiB.
    pub(crate) memory: f64,
}

/// The whole report.
pub(crate) fn text(machine: &str, services: usize, backends: usize, changes: usize, ours: &Figures, original: Option<&Figures>) -> String {
    let rows = [
        ("cold start", "s", ours.cold.as_secs_f64(), original.map(|it| it.cold.as_secs_f64()), Some(1.3)),
        ("calls of HNS for it", "", ours.cold_calls as f64, original.map(|it| it.cold_calls as f64), None),
        ("changes", "s", ours.changed.as_secs_f64(), original.map(|it| it.changed.as_secs_f64()), None),
        ("calls of HNS for them", "", ours.calls as f64, original.map(|it| it.calls as f64), None),
        ("memory at the end", "MiB", ours.memory, original.map(|it| it.memory), Some(40e6 / f64::from(1 << 20))),
    ];
    let mut lines = vec![row(&["", "", "transom", "kube-proxy.exe", "ratio", "wanted", ""])];
    for (what, unit, ours, original, limit) in rows {
        let theirs = original.map_or_else(|| "-".to_owned(), short);
        let ratio = original.map_or_else(|| "-".to_owned(), |original| short(ours / original));
        let wanted = limit.map_or_else(|| "-".to_owned(), |limit| format!("< {}", short(limit)));
        let verdict = limit.map_or("", |limit| if ours < limit { "pass" } else { "**short**" });
        lines.push(row(&[what, unit, &short(ours), &theirs, &ratio, &wanted, verdict]));
    }
    format!(
        "{machine}\n\n{services} Services with {backends} backends, then {changes} backends replaced, on an L2Bridge network. Both proxies drive \
         our hnsd, which keeps documents on the disk and moves no packets; kube-proxy.exe runs under Wine. Times are from outside; calls are counted at a relay.\n\n{}",
        table(&lines, 1)
    )
}
