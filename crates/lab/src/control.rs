//! How a lab is talked to: one line of JSON for what is wanted, and lines of JSON for what comes of it, on a Unix socket.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::check::Row;
use crate::existing::Existing;
use crate::flows::{Outcome, Sample};
use crate::home::Home;
use crate::status::Status;

/// What can be asked of a lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "request")]
pub enum Request {
    /// Make everything that a file says. Whoever asks and goes before it is done does not want it any more.
    Up {
        /// The text of the file.
        text: String,
        /// The cluster to be in, if it is there already.
        existing: Option<Box<Existing>>,
    },
    /// Apply the manifests of a file to what is there.
    Apply {
        /// The text of the file.
        text: String,
    },
    /// What there is and how it is.
    Status,
    /// Try flows.
    Flows {
        /// Between some of the pods that are there; without it one of every kind.
        #[serde(default)]
        sample: Option<Sample>,
    },
    /// Try what the documents say of the build.
    Check {
        /// Only what has this in its title.
        only: Option<String>,
    },
    /// The registry of a container.
    Registry {
        /// The node it is on.
        node: String,
        /// Its id.
        id: String,
        /// Whether as a file that `reg import` reads, and not as `reg query` prints it.
        export: bool,
        /// The key to begin at.
        key: String,
    },
    /// End everything.
    Down,
}

/// What comes of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "reply")]
pub enum Reply {
    /// Something was begun.
    Begun {
        /// What.
        step: String,
    },
    /// How far it has come.
    Going {
        /// For people.
        note: String,
    },
    /// It is done.
    Ended {
        /// What.
        step: String,
        /// How long it took.
        milliseconds: u64,
        /// What came of it, for people.
        note: String,
    },
    /// All is done.
    Done,
    /// It could not be done.
    Failed {
        /// Why, and what to do.
        cause: String,
        /// What was logged last by whoever failed.
        log: Vec<String>,
    },
    /// What there is.
    Status(Box<Status>),
    /// A text for people.
    Text {
        /// It.
        text: String,
    },
    /// What came of all flows.
    Flows {
        /// Each of them.
        outcomes: Vec<Outcome>,
    },
    /// What came of trying what the documents say.
    Check {
        /// Each scenario.
        rows: Vec<Row>,
    },
}

/// Why a lab does not answer.
#[derive(Debug)]
pub enum TalkError {
    /// There is no such lab.
    NoLab(String),
    /// It ended while it was talked to.
    Ended(String),
    /// The system refused something.
    Io(std::io::Error),
}

impl std::fmt::Display for TalkError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoLab(name) => write!(f, "there is no lab {name:?}; start it with `transom lab up`, or see `transom lab list`"),
            Self::Ended(name) => write!(f, "the lab {name:?} ended before it answered"),
            Self::Io(error) => write!(f, "could not talk to the lab: {error}"),
        }
    }
}

impl std::error::Error for TalkError {}

/// A lab that is being talked to.
pub struct Conversation {
    name: String,
    stream: UnixStream,
    lines: BufReader<UnixStream>,
}

impl Conversation {
    /// Asks a lab for something.
    pub fn begin(home: &Home, request: &Request) -> Result<Self, TalkError> {
        let stream = UnixStream::connect(home.socket()).map_err(|_| TalkError::NoLab(home.name().to_owned()))?;
        Self::on(home, stream, request)
    }

    /// Asks a lab that is about to start.
    pub fn begin_patiently(home: &Home, request: &Request, patience: Duration) -> Result<Self, TalkError> {
        let begin = Instant::now();
        loop {
            match Self::begin(home, request) {
                Err(TalkError::NoLab(_)) if begin.elapsed() < patience => std::thread::sleep(Duration::from_millis(5)),
                outcome => return outcome,
            }
        }
    }

    fn on(home: &Home, mut stream: UnixStream, request: &Request) -> Result<Self, TalkError> {
        stream.write_all(line(request).as_bytes()).map_err(TalkError::Io)?;
        let lines = BufReader::new(stream.try_clone().map_err(TalkError::Io)?);
        Ok(Self { name: home.name().to_owned(), stream, lines })
    }

    /// The next thing that it says; nothing any more after the last.
    pub fn hear(&mut self) -> Result<Reply, TalkError> {
        let mut text = String::new();
        match self.lines.read_line(&mut text) {
            Ok(0) | Err(_) => Err(TalkError::Ended(self.name.clone())),
            Ok(_) => parse(&text).map_err(TalkError::Io),
        }
    }

    /// Whoever wants to end the conversation from another thread.
    pub fn handle(&self) -> std::io::Result<UnixStream> {
        self.stream.try_clone()
    }
}

/// A value as a line.
pub(crate) fn line(value: &impl Serialize) -> String {
    // Strings, numbers and lists of them can always be printed.
    format!("{}\n", serde_json::to_string(value).unwrap_or_default())
}

/// A value from a line.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> std::io::Result<T> {
    serde_json::from_str(text).map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidData, error))
}
