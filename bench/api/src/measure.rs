//! What is measured.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use rig::figure::{median, percentile};

use crate::subject::{Subject, Watcher};

/// How many of everything.
pub(crate) struct Sizes {
    pub(crate) few: usize,
    pub(crate) many: usize,
    pub(crate) watchers: usize,
    /// Calls one after the other.
    calls: usize,
    lists: usize,
    /// Changes made at once while everybody watches.
    burst: usize,
}

impl Sizes {
    pub(crate) const FULL: Self = Self { few: 100, many: 10_000, watchers: 100, calls: 300, lists: 7, burst: 500 };
    pub(crate) const QUICK: Self = Self { few: 50, many: 1000, watchers: 20, calls: 50, lists: 3, burst: 100 };
}

/// How many requests are under way at once, where that is said.
const AT_ONCE: usize = 16;
/// A page, as kubectl asks for.
const PAGE: usize = 500;

/// One line of the report.
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) unit: &'static str,
    pub(crate) ours: f64,
    pub(crate) original: f64,
    pub(crate) wanted: Wanted,
}

/// What is asked of a line.
pub(crate) enum Wanted {
    /// Ours is less than the original by this factor at least.
    Less(f64),
    /// Ours is more than the original.
    More,
    /// Ours with much takes at most so many times what it takes with little, which stands where the original does.
    Flat(f64),
}

/// Everything, in order.
pub(crate) async fn all(ours: &Subject, small: &Subject, original: &Subject, sizes: &Sizes) -> Result<Vec<Row>, String> {
    let both = [ours, original];
    let mut rows = Vec::new();
    fill(both, 0, sizes.few).await?;
    calls(both, sizes, sizes.few, &mut rows).await?;
    let [fast, slow] = fill(both, sizes.few, sizes.many).await?;
    let count = (sizes.many - sizes.few) as f64;
    rows.push(row(format!("create, {AT_ONCE} at once, up to {}", sizes.many), "1/s", count / fast, count / slow, Wanted::More));
    calls(both, sizes, sizes.many, &mut rows).await?;
    flatness(ours, small, sizes, &mut rows).await?;
    lists(both, sizes, &mut rows).await?;
    fan_out(both, sizes, &mut rows).await?;
    rows.push(row("memory at the end".to_owned(), "MiB", ours.memory(), original.memory(), Wanted::Less(0.1)));
    Ok(rows)
}

fn row(what: String, unit: &'static str, ours: f64, original: f64, wanted: Wanted) -> Row {
    println!("{what}: {ours:.2} and {original:.2} {unit}");
    Row { what, unit, ours, original, wanted }
}

/// Makes objects, many at once. Tells how many seconds each took.
async fn fill(both: [&Subject; 2], from: usize, to: usize) -> Result<[f64; 2], String> {
    let mut times = [0.0; 2];
    for (subject, time) in both.iter().zip(&mut times) {
        let begin = Instant::now();
        let client = |first: usize| async move {
            for number in (from + first..to).step_by(AT_ONCE) {
                subject.create(&name(number)).await?;
            }
            Ok::<(), String>(())
        };
        try_join_all((0..AT_ONCE).map(client)).await?;
        *time = begin.elapsed().as_secs_f64();
    }
    Ok(times)
}

fn name(number: usize) -> String {
    format!("object-{number:05}")
}

/// The calls that are made one after the other.
const CALLS: [&str; 3] = ["create", "get", "update"];

/// How long each call takes, in microseconds: of each kind some, one after the other, the subjects in turn.
async fn timed(subjects: [&Subject; 2], calls: usize, there: [usize; 2], tag: &str) -> Result<[[Vec<f64>; 3]; 2], String> {
    let mut times: [[Vec<f64>; 3]; 2] = Default::default();
    for call in 0..calls {
        for ((subject, times), there) in subjects.iter().zip(&mut times).zip(there) {
            let known = name(call * 31 % there);
            let [created, got, updated] = times;
            created.push(micros(subject.create(&format!("one-{tag}-{call}")).await?));
            got.push(micros(subject.get(&known).await?));
            updated.push(micros(subject.update(&known).await?));
        }
    }
    Ok(times)
}

/// One call after the other with so many objects.
async fn calls(both: [&Subject; 2], sizes: &Sizes, there: usize, rows: &mut Vec<Row>) -> Result<(), String> {
    let [ours, original] = timed(both, sizes.calls, [there; 2], &there.to_string()).await?;
    for (what, (ours, original)) in CALLS.iter().zip(ours.iter().zip(&original)) {
        rows.push(row(format!("{what} with {there}, p50"), "µs", median(ours), median(original), Wanted::Less(1.0)));
        rows.push(row(format!("{what} with {there}, p99"), "µs", percentile(ours, 99), percentile(original, 99), Wanted::Less(1.0)));
    }
    Ok(())
}

/// What a call costs with much against what it costs with little, of ours.
async fn flatness(ours: &Subject, small: &Subject, sizes: &Sizes, rows: &mut Vec<Row>) -> Result<(), String> {
    for number in 0..sizes.few {
        small.create(&name(number)).await?;
    }
    let [much, little] = timed([ours, small], sizes.calls, [sizes.many, sizes.few], "flat").await?;
    for (what, (much, little)) in CALLS.iter().zip(much.iter().zip(&little)) {
        let what = format!("{what}: ours with {} against ours with {}", sizes.many, sizes.few);
        rows.push(row(what, "µs", median(much), median(little), Wanted::Flat(1.5)));
    }
    Ok(())
}

async fn lists(both: [&Subject; 2], sizes: &Sizes, rows: &mut Vec<Row>) -> Result<(), String> {
    for (what, limit) in [("all", None), ("a page of 500 of", Some(PAGE))] {
        let mut times: [Vec<f64>; 2] = Default::default();
        for _ in 0..sizes.lists {
            for (subject, times) in both.iter().zip(&mut times) {
                times.push(micros(subject.list(limit).await?) / 1e3);
            }
        }
        rows.push(row(format!("list {what} {}", sizes.many), "ms", median(&times[0]), median(&times[1]), Wanted::Less(1.0)));
    }
    Ok(())
}

/// Changes that many watch: how long until the last of them has seen one, and how many arrive in a second.
async fn fan_out(both: [&Subject; 2], sizes: &Sizes, rows: &mut Vec<Row>) -> Result<(), String> {
    let mut single: [Vec<f64>; 2] = Default::default();
    let mut rates = [0.0; 2];
    for (index, subject) in both.iter().enumerate() {
        let watchers = try_join_all((0..sizes.watchers).map(|_| subject.watch())).await?;
        // What they are told to begin with is no change.
        tokio::time::sleep(Duration::from_secs(1)).await;
        for call in 0..sizes.calls / 3 {
            let targets: Vec<usize> = watchers.iter().map(|watcher| watcher.count() + 1).collect();
            let begin = Instant::now();
            subject.update(&name(call)).await?;
            arrive(&watchers, &targets).await?;
            single[index].push(micros(begin.elapsed()) / 1e3);
        }
        let targets: Vec<usize> = watchers.iter().map(|watcher| watcher.count() + sizes.burst).collect();
        let begin = Instant::now();
        let client = |first: usize| async move {
            for number in (first..sizes.burst).step_by(AT_ONCE) {
                subject.update(&name(number)).await?;
            }
            Ok::<(), String>(())
        };
        try_join_all((0..AT_ONCE).map(client)).await?;
        arrive(&watchers, &targets).await?;
        rates[index] = (sizes.burst * sizes.watchers) as f64 / begin.elapsed().as_secs_f64();
    }
    let who = sizes.watchers;
    rows.push(row(format!("update until {who} watchers have it, p50"), "ms", median(&single[0]), median(&single[1]), Wanted::Less(1.0)));
    let late = |times: &[f64]| percentile(times, 99);
    rows.push(row(format!("update until {who} watchers have it, p99"), "ms", late(&single[0]), late(&single[1]), Wanted::Less(1.0)));
    rows.push(row(format!("events to {who} watchers, {AT_ONCE} writers"), "1/s", rates[0], rates[1], Wanted::More));
    Ok(())
}

async fn arrive(watchers: &[Watcher], targets: &[usize]) -> Result<(), String> {
    try_join_all(watchers.iter().zip(targets).map(|(watcher, target)| watcher.reach(*target))).await.map(drop)
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
