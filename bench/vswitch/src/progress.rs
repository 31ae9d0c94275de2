//! A line for every measurement, and a bar where there is a terminal.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use crate::load::Figure;
use crate::report;
use crate::row::Row;

/// Measurements under way.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Begins with so many measurements to come.
    pub(crate) fn new(total: usize) -> Self {
        Self { bar: std::io::stderr().is_terminal().then(|| make_bar(total)) }
    }

    /// Says what happens.
    pub(crate) fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| println!("{text}")),
            None => println!("{text}"),
        }
    }

    /// One more is done; none is one that was left out.
    pub(crate) fn measured(&self, row: &Row, round: usize, subject: &str, figure: Option<&Result<Figure, String>>) {
        match figure {
            Some(Ok(figure)) => self.say(&format!("{}, round {round}, {subject}: {}", row.name(), report::figure(row, figure.value))),
            Some(Err(error)) => self.say(&format!("{}, round {round}, {subject}: failed: {error}", row.name())),
            None => {}
        }
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn make_bar(total: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("measuring [{bar:30}] {pos}/{len} {eta}");
    let bar = ProgressBar::new(total as u64);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
