//! Watching a lab being made, step by step.

use std::io::IsTerminal;
use std::net::Shutdown;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use indicatif::{ProgressBar, ProgressStyle};
use lab::control::{Conversation, Reply, Request};
use lab::existing::Existing;
use lab::home::Home;

use super::{ask, failure, read, talk_failure};
use crate::exit::{Exit, Failure};
use crate::output::note;

/// How long a lab's first processes may take until they listen.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long nothing is said of a step where there is no terminal.
const SILENCE: Duration = Duration::from_secs(5);

/// How often a file is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Makes what a text says in a lab that was launched. Ctrl-C ends it, with all that was made.
pub(super) fn up(home: &Home, text: String, existing: Option<Box<Existing>>) -> Result<(), Failure> {
    let conversation = Conversation::begin_patiently(home, &Request::Up { text, existing }, PATIENCE).map_err(|error| {
        let said = std::fs::read_to_string(home.log()).unwrap_or_default();
        said.lines().fold(talk_failure(error), Failure::note)
    })?;
    let handle = conversation.handle().map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
    let (is_interrupted, is_up) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (flag, is_done) = (is_interrupted.clone(), is_up.clone());
    let handle = Mutex::new(handle);
    // The lab sees that nobody waits for it any more, and goes. One that is up stays, and only its watcher goes.
    let interrupt = move || {
        if is_done.load(Ordering::Relaxed) {
            std::process::exit(Exit::Ok as i32);
        }
        flag.store(true, Ordering::Relaxed);
        if let Ok(handle) = handle.lock() {
            _ = handle.shutdown(Shutdown::Both);
        }
    };
    ctrlc::set_handler(interrupt).map_err(|error| Failure::new(Exit::Failed, format!("Ctrl-C cannot be listened to: {error}")))?;
    let outcome = follow(conversation);
    is_up.store(outcome.is_ok(), Ordering::Relaxed);
    match is_interrupted.load(Ordering::Relaxed) {
        true => Err(Failure::new(Exit::Failed, "interrupted; nothing is left of the lab")),
        false => outcome,
    }
}

/// Shows what comes until it is done.
pub(super) fn follow(mut conversation: Conversation) -> Result<(), Failure> {
    let mut shown = Steps::default();
    loop {
        match conversation.hear().map_err(talk_failure)? {
            Reply::Begun { step } => shown.begin(&step),
            Reply::Going { note } => shown.go_on(&note),
            Reply::Ended { step, milliseconds, note } => shown.end(&step, milliseconds, &note),
            Reply::Done => return Ok(()),
            other => return Err(failure(other)),
        }
    }
}

/// The steps on a terminal: what is done as lines, and what is being done as the last of them.
#[derive(Default)]
pub(super) struct Steps {
    bar: Option<ProgressBar>,
    step: String,
    /// When something was said last where there is no terminal.
    said: Option<Instant>,
}

impl Steps {
    pub(super) fn begin(&mut self, step: &str) {
        step.clone_into(&mut self.step);
        self.said = Some(Instant::now());
        if !std::io::stderr().is_terminal() {
            return;
        }
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        let bar = ProgressBar::new_spinner().with_message(step.to_owned());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        self.bar = Some(bar);
    }

    /// Shows how far a step has come: at once on a terminal, else now and then.
    fn go_on(&mut self, how: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(format!("{}: {how}", self.step)),
            None if self.said.is_none_or(|said| said.elapsed() > SILENCE) => {
                note(&format!("{:<28}{how}", self.step));
                self.said = Some(Instant::now());
            }
            None => {}
        }
    }

    fn end(&mut self, step: &str, milliseconds: u64, what: &str) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        let seconds = Duration::from_millis(milliseconds).as_secs_f64();
        note(format!("{step:<16} {seconds:>6.2} s  {what}").trim_end());
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// Applies a file again whenever it changes.
pub(super) fn watch(home: &Home, file: &Path) -> Result<(), Failure> {
    let file = file.to_owned();
    note(&format!("watching {}; Ctrl-C ends the watching, not the lab", file.display()));
    let mut known = changed(&file);
    loop {
        std::thread::sleep(LOOK);
        if !home.is_running() {
            return Err(Failure::new(Exit::Unavailable, format!("the lab {:?} has ended", home.name())));
        }
        let now = changed(&file);
        if now == known || now.is_none() {
            continue;
        }
        known = now;
        let outcome = read(&file).and_then(|text| {
            super::plan(&file.display().to_string(), &text)?;
            follow(ask(home, &Request::Apply { text })?)
        });
        match outcome {
            Ok(()) => note("applied"),
            Err(failure) => note(&failure.to_string()),
        }
    }
}

fn changed(file: &Path) -> Option<SystemTime> {
    file.metadata().and_then(|metadata| metadata.modified()).ok()
}
