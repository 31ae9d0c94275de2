//! From the bytes of a query to the bytes of its answer.

use hickory_proto::op::{Message, MessageType, ResponseCode};
use hickory_proto::rr::{Name, Record, RecordType};

use super::CurrentZone;
use super::counters::{Counters, Transport};
use crate::forward::{ForwardError, Forwarder};
use crate::message;
use crate::zone::{Answer, Outcome, Zone};

/// Answers queries: from the zone, or by asking others.
#[derive(Debug)]
pub struct Responder {
    zone: CurrentZone,
    forwarder: Forwarder,
    counters: Counters,
}

/// What becomes of a query.
pub(super) enum Reply {
    /// It is none, and nobody waits for an answer.
    Nothing,
    /// The answer.
    Now(Vec<u8>),
    /// Others have to be asked.
    Later(Box<Later>),
}

/// A query whose answer is elsewhere.
pub(super) struct Later {
    query: Message,
    /// The names that led there.
    records: Vec<Record>,
    name: Name,
    kind: RecordType,
    size: usize,
}

impl Responder {
    /// Answers from a zone, and for other names by a forwarder.
    pub fn new(zone: CurrentZone, forwarder: Forwarder) -> Self {
        Self { zone, forwarder, counters: Counters::default() }
    }

    /// What it has done so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Who is asked for other names.
    pub fn forwarder(&self) -> &Forwarder {
        &self.forwarder
    }

    /// Answers a query; none if the bytes are none.
    pub async fn respond(&self, bytes: &[u8], transport: Transport) -> Option<Vec<u8>> {
        match self.begin(bytes, transport) {
            Reply::Nothing => None,
            Reply::Now(answer) => Some(answer),
            Reply::Later(later) => self.finish(*later).await,
        }
    }

    /// Answers what can be answered without waiting.
    pub(super) fn begin(&self, bytes: &[u8], transport: Transport) -> Reply {
        self.counters.asked(transport);
        let Ok(query) = message::decode(bytes) else {
            let complaint = message::answer_to_nonsense(bytes).and_then(|answer| self.write(answer, message::PLAIN_SIZE));
            return complaint.map_or(Reply::Nothing, Reply::Now);
        };
        if query.metadata.message_type == MessageType::Response {
            return Reply::Nothing;
        }
        let size = match transport {
            Transport::Udp => message::datagram_size(&query),
            Transport::Tcp => message::LARGEST_MESSAGE,
        };
        match self.look(query, size) {
            Ok(answer) => self.write(answer, size).map_or(Reply::Nothing, Reply::Now),
            Err(later) => Reply::Later(later),
        }
    }

    /// The answer, or what to ask others.
    fn look(&self, query: Message, size: usize) -> Result<Message, Box<Later>> {
        let (name, kind) = match message::question(&query) {
            Ok(question) => (question.name.clone(), question.query_type),
            Err(code) => return Ok(message::answer_to(&query, code)),
        };
        let zone = self.zone.load();
        match zone.answer(&name, kind) {
            None => Err(Box::new(Later { query, records: Vec::new(), name, kind, size })),
            Some(Answer { records, outcome: Outcome::Elsewhere(name), .. }) => Err(Box::new(Later { query, records, name, kind, size })),
            Some(answer) => Ok(say(&zone, &query, answer)),
        }
    }

    /// Asks others.
    pub(super) async fn finish(&self, later: Later) -> Option<Vec<u8>> {
        let Later { query, mut records, name, kind, size } = later;
        let outcome = self.forwarder.ask(&query, &name, kind).await;
        self.counters.forwarded(outcome.is_ok());
        let answer = match outcome {
            Ok(found) => {
                let mut answer = message::answer_to(&query, found.metadata.response_code);
                answer.metadata.authentic_data = found.metadata.authentic_data && records.is_empty();
                records.extend(found.answers);
                (answer.answers, answer.authorities, answer.additionals) = (records, found.authorities, found.additionals);
                answer.metadata.truncation = found.metadata.truncation;
                answer
            }
            Err(error) => {
                tracing::warn!(%name, %kind, %error, "a name outside of the cluster was not found out");
                let code = if matches!(error, ForwardError::Nobody) { ResponseCode::Refused } else { ResponseCode::ServFail };
                let mut answer = message::answer_to(&query, code);
                answer.answers = records;
                answer
            }
        };
        self.write(answer, size)
    }

    fn write(&self, answer: Message, size: usize) -> Option<Vec<u8>> {
        self.counters.answered(answer.metadata.response_code);
        message::fit(answer, size).inspect_err(|error| tracing::warn!(%error, "a query stays without an answer")).ok()
    }
}

/// What a zone says, as a message.
fn say(zone: &Zone, query: &Message, found: Answer) -> Message {
    let code = match found.outcome {
        Outcome::NoName => ResponseCode::NXDomain,
        Outcome::NotRead => ResponseCode::ServFail,
        Outcome::Found | Outcome::NoRecords | Outcome::Elsewhere(_) => ResponseCode::NoError,
    };
    let mut answer = message::answer_to(query, code);
    answer.metadata.authoritative = code != ResponseCode::ServFail;
    if matches!(found.outcome, Outcome::NoName | Outcome::NoRecords) {
        answer.add_authority(zone.start_of_authority());
    }
    answer.answers = found.records;
    answer.additionals = found.additionals;
    answer
}
