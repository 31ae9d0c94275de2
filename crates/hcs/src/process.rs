//! Processes of a compute system: what to run, and how it ended.

use std::collections::BTreeMap;
use std::fs::File;

use hcn::document;
use hcn::document::Any;
use serde_json::Value;

use crate::command_line;

document! {
    /// What to run.
    pub struct ProcessParameters {
        "ApplicationName" application_name: String,
        /// The command in one line, as Windows programs take it.
        "CommandLine" command_line: String,
        /// The command and its arguments, instead of the line.
        "CommandArgs" command_args: Vec<String>,
        "User" user: String,
        "WorkingDirectory" working_directory: String,
        /// Variables by their names.
        "Environment" environment: Any,
        "EmulateConsole" emulate_console: bool,
        "CreateStdInPipe" create_std_in_pipe: bool,
        "CreateStdOutPipe" create_std_out_pipe: bool,
        "CreateStdErrPipe" create_std_err_pipe: bool,
    }
}

impl ProcessParameters {
    /// A command and its arguments.
    pub fn new<S: Into<String>>(arguments: impl IntoIterator<Item = S>) -> Self {
        Self { command_args: arguments.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// The command with variables.
    pub fn with_environment(mut self, environment: impl IntoIterator<Item = (String, String)>) -> Self {
        let map = environment.into_iter().map(|(name, value)| (name, Value::String(value))).collect();
        self.environment = Some(Box::new(Value::Object(map)));
        self
    }

    /// The program and its arguments, by whichever field says so.
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = match self.command_args.is_empty() {
            true => command_line::split(&self.command_line),
            false => self.command_args.clone(),
        };
        // The application is what is run; the line then only says what it is told of itself, which Linux programs ignore.
        if !self.application_name.is_empty() {
            match arguments.first_mut() {
                Some(program) => program.clone_from(&self.application_name),
                None => arguments.push(self.application_name.clone()),
            }
        }
        arguments
    }

    /// The variables. What is no text is left out.
    pub fn variables(&self) -> BTreeMap<String, String> {
        let map = self.environment.as_deref().and_then(Value::as_object);
        let text = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
        map.into_iter().flatten().filter_map(text).collect()
    }
}

document! {
    /// How a process is.
    pub struct ProcessStatus {
        "ProcessId" process_id: u32 => always,
        "Exited" exited: bool => always,
        "ExitCode" exit_code: u32 => always,
        "LastWaitResult" last_wait_result: u32 => always,
    }
}

/// Where a process reads from and writes to.
#[derive(Debug)]
pub enum Streams {
    /// Nowhere.
    Null,
    /// It reads nothing, and writes to the container's log.
    Log,
    /// Open files: input, output, errors.
    Given([File; 3]),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_and_a_list_are_the_same_command() {
        let line: ProcessParameters = hcn::parse(r#"{"CommandLine":"ping -n \"1 2\""}"#).unwrap();
        let list: ProcessParameters = hcn::parse(r#"{"CommandArgs":["ping","-n","1 2"],"Environment":{"A":"b","N":1}}"#).unwrap();
        assert_eq!(line.arguments(), list.arguments());
        assert_eq!(list.variables(), BTreeMap::from([("A".to_owned(), "b".to_owned())]));
    }

    #[test]
    fn the_application_is_what_is_run() {
        let parameters: ProcessParameters = hcn::parse(r#"{"ApplicationName":"/bin/sh","CommandLine":"sh -c true"}"#).unwrap();
        assert_eq!(parameters.arguments(), ["/bin/sh", "-c", "true"]);
    }
}
