//! Queries and answers as bytes, and what fits where.
//!
//! Whatever the bytes are, reading them ends in a message or in an error, never in a panic: they come from anybody.

use std::io;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RecordType};

/// How long an answer over UDP may be for a client that does not say.
pub const PLAIN_SIZE: usize = 512;

/// How long an answer over UDP is at most, whatever the client says: this much passes every network in one packet, also overlays. Longer ones
/// go over TCP.
pub const LARGEST_DATAGRAM: u16 = 1232;

/// How long a message over TCP can be.
pub const LARGEST_MESSAGE: usize = u16::MAX as usize;

/// The length of what every message begins with.
const HEADER: usize = 12;

/// A query with an id that nobody can guess.
pub fn query(name: &Name, kind: RecordType) -> Message {
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(name.clone(), kind));
    message.set_edns(edns());
    message
}

/// What we say about ourselves in every message.
pub fn edns() -> Edns {
    let mut edns = Edns::new();
    edns.set_max_payload(LARGEST_DATAGRAM);
    edns
}

/// How long an answer to this query may be over UDP.
pub fn datagram_size(query: &Message) -> usize {
    let told = query.edns.as_ref().map(|edns| edns.max_payload().min(LARGEST_DATAGRAM));
    told.map_or(PLAIN_SIZE, |size| usize::from(size).max(PLAIN_SIZE))
}

/// An empty answer to a query, with everything that must be the same in both.
pub fn answer_to(query: &Message, code: ResponseCode) -> Message {
    let mut answer = Message::response(query.metadata.id, query.metadata.op_code);
    answer.metadata.recursion_desired = query.metadata.recursion_desired;
    answer.metadata.checking_disabled = query.metadata.checking_disabled;
    answer.metadata.recursion_available = true;
    answer.metadata.response_code = code;
    answer.add_queries(query.queries.iter().cloned());
    answer.edns = query.edns.as_ref().map(|_| edns());
    answer
}

/// The answer to bytes that begin like a query and then make no sense; none if they do not even do that. An answer is never answered, or two
/// servers would talk for ever.
pub fn answer_to_nonsense(bytes: &[u8]) -> Option<Message> {
    let [first, second, flags, ..] = *bytes.get(..HEADER)? else { return None };
    let is_query = flags & 0x80 == 0;
    let id = u16::from_be_bytes([first, second]);
    is_query.then(|| Message::error_msg(id, OpCode::from_u8(flags >> 3 & 0x0f), ResponseCode::FormErr))
}

/// Whether an answer is one to this query: the id, and the question again.
pub fn is_answer_to(answer: &Message, query: &Message) -> bool {
    let is_same = || answer.queries.first().zip(query.queries.first()).is_some_and(|(given, asked)| given == asked);
    // A server that understood nothing need not say what it was asked.
    let has_failed = answer.queries.is_empty() && answer.metadata.response_code != ResponseCode::NoError;
    answer.metadata.message_type == MessageType::Response && answer.metadata.id == query.metadata.id && (has_failed || is_same())
}

/// A message in at most so many bytes. Additional records go first; then, marked as cut, whatever is at the end, so that clients that never
/// come over TCP have something at least.
pub fn fit(mut message: Message, size: usize) -> io::Result<Vec<u8>> {
    let whole = encode(&message)?;
    if whole.len() <= size && !is_cut(&whole) {
        return Ok(whole);
    }
    message.additionals.clear();
    let without = encode(&message)?;
    if without.len() <= size && !is_cut(&without) {
        return Ok(without);
    }
    message.metadata.truncation = true;
    message.authorities.clear();
    let answers = std::mem::take(&mut message.answers);
    let (mut fits, mut too_many) = (0, answers.len() + 1);
    while fits + 1 < too_many {
        let middle = fits.midpoint(too_many);
        message.answers = answers[..middle].to_vec();
        if encode(&message)?.len() <= size { fits = middle } else { too_many = middle }
    }
    message.answers = answers[..fits].to_vec();
    encode(&message)
}

/// Whether the encoder itself has cut a message that is longer than any can be.
fn is_cut(bytes: &[u8]) -> bool {
    bytes.get(2).is_some_and(|flags| flags & 0x02 != 0)
}

/// A message as bytes.
pub fn encode(message: &Message) -> io::Result<Vec<u8>> {
    message.to_vec().map_err(|error| io::Error::other(format!("a message cannot be written: {error}")))
}

/// Reads a message.
pub fn decode(bytes: &[u8]) -> io::Result<Message> {
    Message::from_vec(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("this is no DNS message: {error}")))
}

/// The one question of a query, if it is one that can be answered; otherwise what to say.
pub fn question(query: &Message) -> Result<&Query, ResponseCode> {
    if query.metadata.op_code != OpCode::Query {
        return Err(ResponseCode::NotImp);
    }
    if query.edns.as_ref().is_some_and(|edns| edns.version() > 0) {
        return Err(ResponseCode::BADVERS);
    }
    match query.queries.as_slice() {
        [question] if question.query_class != DNSClass::IN => Err(ResponseCode::Refused),
        [question] if matches!(question.query_type, RecordType::AXFR | RecordType::IXFR) => Err(ResponseCode::Refused),
        [question] => Ok(question),
        _ => Err(ResponseCode::FormErr),
    }
}

/// What people call a code.
pub fn code_name(code: ResponseCode) -> String {
    let name = match u16::from(code) {
        0 => "NOERROR",
        1 => "FORMERR",
        2 => "SERVFAIL",
        3 => "NXDOMAIN",
        4 => "NOTIMP",
        5 => "REFUSED",
        16 => "BADVERS",
        number => return format!("RCODE{number}"),
    };
    name.to_owned()
}
