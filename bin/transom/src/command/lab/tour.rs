//! Being shown around: short steps, each with a few sentences, a command as one would type it, and what it really prints.

mod steps;

use std::io::{self, BufRead, IsTerminal};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clap::Args;
use lab::status::Status;

use super::OfLab;
use super::look::ask_status;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use steps::{STEPS, Step};

/// Who is shown around, and how.
#[derive(Args, Clone, Debug)]
pub(crate) struct TourArgs {
    /// Which lab.
    #[command(flatten)]
    of: OfLab,
    /// Go on without asking
    #[arg(short, long)]
    yes: bool,
}

/// The pods that the steps are about.
const NEEDED: [&str; 2] = ["client-win1", "client-win2"];

/// How long a command that looks has before the other begins.
const HEAD_START: Duration = Duration::from_millis(500);

/// Goes through all steps.
pub(crate) fn run(output: &Output, args: &TourArgs) -> Result<(), Failure> {
    let tour = Tour { output: *output, lab: args.of.name.clone(), is_asking: !args.yes && io::stdin().is_terminal() };
    let is_ours = !args.of.home().is_running();
    if is_ours && !tour.start()? {
        return Ok(());
    }
    let status = ask_status(&args.of.home())?;
    check(&status)?;
    for (number, step) in (1..).zip(STEPS) {
        tour.show(number, step)?;
    }
    tour.end(is_ours)
}

/// Whether the lab has what the steps are about.
fn check(status: &Status) -> Result<(), Failure> {
    let is_there = |name: &str| status.pods.iter().any(|pod| pod.namespace == "default" && pod.name == name);
    match NEEDED.into_iter().find(|name| !is_there(name)) {
        None => Ok(()),
        Some(name) => {
            let cause = format!("the lab {:?} has no pod {name}, which the tour is about", status.name);
            Err(Failure::new(Exit::NotFound, cause).remedy("take the built-in lab: `transom lab tour --name tour`"))
        }
    }
}

struct Tour {
    output: Output,
    lab: String,
    is_asking: bool,
}

impl Tour {
    /// Starts the built-in lab, if that is wanted.
    fn start(&self) -> Result<bool, Failure> {
        self.output
            .line(&format!("There is no lab {:?}. The tour starts the built-in one: a Linux node and two Windows nodes.", self.lab))?;
        if !self.is_wanted("Start it?", true)? {
            return Ok(false);
        }
        self.run("transom lab up", None)?;
        Ok(true)
    }

    fn show(&self, number: usize, step: &Step) -> Result<(), Failure> {
        self.output.line(&format!("\n── {number} of {}: {} ──\n\n{}\n", STEPS.len(), step.title, step.text))?;
        if let Some(beside) = step.beside {
            self.output.line(&format!("$ {}    (meanwhile)", self.typed(beside)))?;
        }
        self.output.line(&format!("$ {}", self.typed(step.command)))?;
        self.wait()?;
        self.run(step.command, step.beside)
    }

    fn end(&self, is_ours: bool) -> Result<(), Failure> {
        self.output.line("\nThat was it. docs/guide/first-lab.md goes on from here.")?;
        // Without anybody to ask, what was there before stays.
        let is_over = is_ours && !self.is_asking;
        if is_over || (self.is_asking && self.is_wanted("End the lab?", is_ours)?) {
            self.run("transom lab down", None)?;
        }
        Ok(())
    }

    /// A command as one would type it for this lab: a shell takes backslashes for itself unless they are quoted.
    fn typed(&self, command: &str) -> String {
        let quoted = |word: String| if word.contains('\\') { format!("'{word}'") } else { word };
        words(command, &self.lab).into_iter().map(quoted).collect::<Vec<_>>().join(" ")
    }

    /// Runs a command to its end, and another beside it. That one of them fails may be the point of the step.
    fn run(&self, command: &str, beside: Option<&str>) -> Result<(), Failure> {
        let mut started = self.spawn(command, false)?;
        if let Some(beside) = beside {
            std::thread::sleep(HEAD_START);
            let mut other = self.spawn(beside, true)?;
            other.wait().map_err(|error| failed(beside, &error))?;
        }
        let status = started.wait().map_err(|error| failed(command, &error))?;
        match status.code() {
            Some(0) => Ok(()),
            Some(code) => self.output.line(&format!("(exit code {code})")),
            None => Err(Failure::new(Exit::Failed, "interrupted")),
        }
    }

    fn spawn(&self, command: &str, is_quiet: bool) -> Result<Child, Failure> {
        let program = std::env::current_exe().map_err(|error| failed(command, &error))?;
        let mut process = Command::new(program);
        process.args(&words(command, &self.lab)[1..]).stdin(Stdio::null());
        if is_quiet {
            process.stdout(Stdio::null()).stderr(Stdio::null());
        }
        process.spawn().map_err(|error| failed(command, &error))
    }

    fn wait(&self) -> Result<(), Failure> {
        if self.is_asking { self.ask("[Enter to run it] ").map(drop) } else { Ok(()) }
    }

    fn is_wanted(&self, question: &str, usual: bool) -> Result<bool, Failure> {
        if !self.is_asking {
            return Ok(usual);
        }
        let choices = if usual { "[Y/n]" } else { "[y/N]" };
        let answer = self.ask(&format!("{question} {choices} "))?;
        Ok(match answer.trim().to_ascii_lowercase().as_str() {
            "" => usual,
            answer => answer.starts_with('y'),
        })
    }

    fn ask(&self, question: &str) -> Result<String, Failure> {
        self.output.text(question)?;
        let mut answer = String::new();
        let failed = |error: io::Error| Failure::new(Exit::Failed, format!("nobody answers: {error}"));
        match io::stdin().lock().read_line(&mut answer).map_err(failed)? {
            0 => Err(Failure::new(Exit::Failed, "nobody answers; use --yes to go on without asking")),
            _ => Ok(answer),
        }
    }
}

fn failed(command: &str, error: &io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("cannot run `{command}`: {error}"))
}

/// The words of a command, with the lab's name where it is not the usual one. What belongs to a command inside of the lab stands behind `--`.
fn words(command: &str, lab: &str) -> Vec<String> {
    let (ours, inside) = command.split_once(" -- ").map_or((command, None), |(ours, inside)| (ours, Some(inside)));
    let mut words: Vec<String> = ours.split(' ').map(str::to_owned).collect();
    if lab != lab::home::DEFAULT_NAME {
        let option = if words[1] == "resolve" { "--lab" } else { "--name" };
        words.extend([option.to_owned(), lab.to_owned()]);
    }
    if let Some(inside) = inside {
        words.push("--".to_owned());
        words.extend(inside.split(' ').map(str::to_owned));
    }
    words
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_step_is_a_command_that_can_be_typed() {
        for step in STEPS {
            for command in [Some(step.command), step.beside].into_iter().flatten() {
                for lab in ["default", "mine"] {
                    let parsed = Cli::try_parse_from(words(command, lab));
                    assert!(parsed.is_ok(), "{command}: {}", parsed.err().map(|error| error.to_string()).unwrap_or_default());
                }
            }
        }
    }

    #[test]
    fn the_name_of_the_lab_stands_before_what_runs_inside() {
        assert_eq!(words("transom lab exec a -- cat b", "default").join(" "), "transom lab exec a -- cat b");
        assert_eq!(words("transom lab exec a -- cat b", "mine").join(" "), "transom lab exec a --name mine -- cat b");
        assert_eq!(words("transom resolve --pod a web", "mine").join(" "), "transom resolve --pod a web --lab mine");
    }
}
