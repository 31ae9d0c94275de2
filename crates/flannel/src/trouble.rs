//! What keeps the agent from doing its work, in words for people.

use std::fmt;

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The Kubernetes API.
    Api,
    /// This node's Node object.
    Node,
    /// An interface of this machine.
    Interface,
    /// The Host Networking Service.
    Hns,
    /// The kernel of this machine.
    Kernel,
    /// The way to another node.
    Peer,
    /// The file for CNI plugins.
    File,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Api => "api",
            Self::Node => "node",
            Self::Interface => "interface",
            Self::Hns => "hns",
            Self::Kernel => "kernel",
            Self::Peer => "peer",
            Self::File => "file",
        })
    }
}

/// Something that is not as it should be, until a later round finds it well.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trouble {
    /// Whose fault it is.
    pub subject: Subject,
    /// What it is, and what to do.
    pub text: String,
}

impl Trouble {
    /// Trouble with somebody.
    pub fn new(subject: Subject, text: impl Into<String>) -> Self {
        Self { subject, text: text.into() }
    }

    /// What HNS refused, and its own remedy.
    pub fn of_hns(doing: &str, error: &hcn::Error) -> Self {
        let detail = error.detail();
        let cause = if detail.cause.is_empty() { error.sentence() } else { &detail.cause };
        let remedy = detail.remedy.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default();
        Self::new(Subject::Hns, format!("{doing}: {cause} ({}){remedy}", error.name()))
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.text)
    }
}
