//! How the command ends: what its exit codes mean, and how a failure is told.

use std::fmt;
use std::process::ExitCode;

/// What the exit code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Ok = 0,
    /// It was tried and did not work.
    Failed = 1,
    /// The command line or a file it names cannot be understood.
    Usage = 2,
    /// Something named does not exist.
    NotFound = 3,
    /// Something exists already, or is in use.
    Conflict = 4,
    /// The service does not answer.
    Unavailable = 5,
    /// The service answers that it will not: denied or not supported.
    Refused = 6,
}

/// The footer of `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0  done
  1  it was tried and failed
  2  the command line, or a file it names, cannot be understood
  3  not found
  4  conflict: exists already, or is still in use
  5  the service does not answer
  6  the service refuses: access denied, or not supported

Colour only on a terminal, and never with NO_COLOR set.";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// The exit code for a failure of the service.
pub(crate) fn of(error: &hcn::Error) -> Exit {
    use hcn::Error::*;
    match error {
        // Only what a person can name; that an endpoint has no port yet is a failure like any other.
        NetworkNotFound(_)
        | EndpointNotFound(_)
        | SwitchNotFound(_)
        | AdapterNotFound(_)
        | PolicyNotFound(_)
        | SwitchExtensionNotFound(_)
        | NotFound(_)
        | ComputeSystemNotFound(_) => Exit::NotFound,
        NetworkAlreadyExists(_)
        | LayerAlreadyExists(_)
        | PolicyAlreadyExists(_)
        | PortAlreadyExists(_)
        | EndpointAlreadyAttached(_)
        | EndpointNamespaceAlreadyExists(_)
        | DefaultNamespaceExists(_)
        | EntityHasReferences(_)
        | InterfaceParametersAlreadyApplied(_)
        | SharedSwitchModification(_)
        | ObjectAlreadyExists(_)
        | AlreadyExists(_)
        | DuplicateName(_)
        | SharingViolation(_) => Exit::Conflict,
        ServiceUnavailable(_) | ManagerStopped(_) => Exit::Unavailable,
        AccessDenied(_)
        | RequestUnsupported(_)
        | MappingNotSupported(_)
        | EndpointSharingDisabled(_)
        | VfpNotAllowed(_)
        | NotImplemented(_) => Exit::Refused,
        _ => Exit::Failed,
    }
}

/// A failure on its way to the person who gave the command.
///
/// This is the edge: what is inside is text for people and an exit code, and nobody decides anything from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// How the process ends.
    pub(crate) exit: Exit,
    /// Nothing is left to say.
    pub(crate) silent: bool,
    text: Box<Text>,
}

/// What is told. Boxed, because results that carry it are returned everywhere and failures are rare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Text {
    cause: String,
    field: Option<String>,
    code: Option<(&'static str, u32)>,
    notes: Vec<String>,
    remedy: Option<String>,
}

impl Failure {
    /// A failure with a cause.
    pub(crate) fn new(exit: Exit, cause: impl Into<String>) -> Self {
        Self { exit, silent: false, text: Box::new(Text { cause: cause.into(), ..Text::default() }) }
    }

    /// Nobody reads the output any more. That is how `| head` ends, and nothing to complain about.
    pub(crate) fn closed_pipe() -> Self {
        Self { silent: true, ..Self::new(Exit::Ok, "the output was closed") }
    }

    /// An exit code for failures that were told already.
    pub(crate) fn told(exit: Exit) -> Self {
        Self { silent: true, ..Self::new(exit, "see above") }
    }

    /// Puts what was being done in front of the cause.
    pub(crate) fn context(mut self, what: impl fmt::Display) -> Self {
        self.text.cause = format!("{what}: {}", self.text.cause);
        self
    }

    /// Adds a fact worth knowing.
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.text.notes.push(note.into());
        self
    }

    /// Says what to do.
    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.text.remedy = Some(remedy.into());
        self
    }

    /// Ends with another code.
    pub(crate) fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }
}

impl From<hcn::Error> for Failure {
    fn from(error: hcn::Error) -> Self {
        let detail = error.detail();
        let cause = match detail.cause.as_str() {
            "" => error.sentence().trim_end_matches('.'),
            cause => cause,
        };
        let mut failure = Self::new(of(&error), cause);
        failure.text.field = detail.field.clone();
        failure.text.code = Some((error.name(), error.hresult()));
        failure.text.remedy = detail.remedy.clone();
        failure
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        write!(f, "error: {}", text.cause)?;
        if let Some(field) = &text.field {
            write!(f, "\n  field: {field}")?;
        }
        if let Some((name, code)) = &text.code {
            write!(f, "\n  code: {name} 0x{code:08X}")?;
        }
        for note in &text.notes {
            write!(f, "\n  note: {note}")?;
        }
        if let Some(remedy) = &text.remedy {
            write!(f, "\n  help: {remedy}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use hcn::error::detail;

    use super::*;

    #[test]
    fn codes_of_the_service_become_exit_codes() {
        let table = [
            (0x803B_0001, Exit::NotFound),
            (0x803B_0002, Exit::NotFound),
            (0x8007_0490, Exit::NotFound),
            (0x803B_0010, Exit::Conflict),
            (0x803B_0014, Exit::Conflict),
            (0x803B_002C, Exit::Conflict),
            (0x8007_06B5, Exit::Unavailable),
            (0x803B_0020, Exit::Unavailable),
            (0x8007_0005, Exit::Refused),
            (0x803B_0015, Exit::Refused),
            (0x803B_0007, Exit::Failed),
            (0x803B_001B, Exit::Failed),
            (0x1234_5678, Exit::Failed),
        ];
        for (code, exit) in table {
            assert_eq!(of(&hcn::Error::from_hresult(code, detail(""))), exit, "0x{code:08X}");
        }
    }

    #[test]
    fn a_failure_says_field_code_and_remedy() {
        let error = hcn::Error::InvalidPrefix(detail("\"10.0\" is no prefix").field("Ipams[0]").remedy("write address/length"));
        let failure = Failure::from(error).context("a.json").note("1 network was made before it");
        assert_eq!(
            failure.to_string(),
            "error: a.json: \"10.0\" is no prefix\n  field: Ipams[0]\n  code: HCN_E_INVALID_PREFIX 0x803B0030\n  \
             note: 1 network was made before it\n  help: write address/length"
        );
    }
}
