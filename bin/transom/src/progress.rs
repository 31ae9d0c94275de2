//! A bar for work on many objects. It appears after a second, and only on a terminal.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

const PATIENCE: Duration = Duration::from_secs(1);

/// Work in progress.
pub(crate) struct Progress {
    what: &'static str,
    total: usize,
    done: usize,
    started: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Starts work on `total` objects.
    pub(crate) fn new(what: &'static str, total: usize) -> Self {
        Self { what, total, done: 0, started: Instant::now(), bar: None }
    }

    /// One more is done.
    pub(crate) fn step(&mut self) {
        self.done += 1;
        if self.bar.is_none() && self.started.elapsed() >= PATIENCE && std::io::stderr().is_terminal() {
            self.bar = Some(self.make_bar());
        }
        if let Some(bar) = &self.bar {
            bar.set_position(self.done as u64);
        }
    }

    /// Runs something that prints, with the bar out of its way.
    pub(crate) fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    fn make_bar(&self) -> ProgressBar {
        let style = ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len} {eta}");
        let bar = ProgressBar::new(self.total as u64).with_message(self.what);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
