//! Numbers that were measured.

use std::fs;
use std::path::PathBuf;

/// The middle of some numbers.
pub fn median(numbers: &[f64]) -> f64 {
    percentile(numbers, 50)
}

/// The number that so many percent of all are less than.
pub fn percentile(numbers: &[f64], percent: usize) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

/// A number with as many digits as matter.
pub fn short(number: f64) -> String {
    match number.abs() {
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// The name of the processor.
pub fn processor() -> String {
    let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = information.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or("unknown processor", |(_, name)| name).to_owned()
}

/// The machine in a few words.
pub fn machine() -> String {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let (load, cores) = (load.split(' ').next().unwrap_or_default(), std::thread::available_parallelism().map_or(1, usize::from));
    let (processor, kernel) = (processor(), kernel.trim());
    format!("{cores} CPUs of {processor}, Linux {kernel}. Load average before the run: {load}; above 0.5 the ratios say little.")
}

/// A file of the project.
pub fn in_project(file: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(file)
}

/// Writes a report where results are kept, under the name of the benchmark.
pub fn save(benchmark: &str, text: &str) -> Result<(), String> {
    save_as(benchmark, &format!("cargo xtask bench {benchmark}"), text)
}

/// Writes a report where results are kept, under a name, with the command that it is the report of.
pub fn save_as(name: &str, command: &str, text: &str) -> Result<(), String> {
    let path = in_project("bench/results").join(format!("{name}.md"));
    let cannot = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
    path.parent().map_or(Ok(()), fs::create_dir_all).map_err(cannot)?;
    fs::write(&path, format!("# `{command}`\n\n{text}")).map_err(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_tail() {
        let numbers: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert!((median(&numbers) - 51.0).abs() < 1e-9 && (percentile(&numbers, 99) - 100.0).abs() < 1e-9);
        assert!((median(&[3.0]) - 3.0).abs() < 1e-9 && median(&[]).is_nan());
    }

    #[test]
    fn digits_that_matter() {
        assert_eq!([0.123, 12.34, 123.4].map(short), ["0.12", "12.3", "123"]);
    }
}
