//! Asking by the rules, with every step kept.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{Name, Record, RecordType};

use super::ask::ask;
use super::rules::{Candidate, NotAName, Rules};
use crate::message;

/// What came of asking for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// Every question, in order.
    pub steps: Vec<Step>,
}

/// One question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The name that was asked for.
    pub name: Name,
    /// Which records.
    pub kind: RecordType,
    /// Why this name, and why now.
    pub reason: String,
    /// How it went.
    pub verdict: Verdict,
    /// What follows from it.
    pub then: Then,
    /// What the server said it from: the records that were asked for, with the names that led there.
    pub answers: Vec<Record>,
    /// Who says that something is not there.
    pub authorities: Vec<Record>,
}

/// How a question went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There are records.
    Found,
    /// The name is there, but has no such records.
    NoRecords,
    /// There is no such name.
    NoName,
    /// The server could not say, or did not want to.
    Failed(ResponseCode),
    /// Nothing was heard in time.
    Silent(String),
    /// Nobody can be asked there.
    Unreachable(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found => f.write_str("found"),
            Self::NoRecords => f.write_str("the name is there, but has no such records"),
            Self::NoName => f.write_str("DNS name does not exist"),
            Self::Failed(code) => write!(f, "the server says {}", message::code_name(*code)),
            Self::Silent(cause) | Self::Unreachable(cause) => write!(f, "no answer: {cause}"),
        }
    }
}

/// What a client does after a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It asks for other records of the same name, which does not depend on this.
    OtherRecords,
    /// It asks for the next name.
    NextName,
    /// It has what it wanted.
    Done,
    /// It leaves the other suffixes out, and asks for the name as it is. So glibc does when a server refuses or is silent.
    AsItIs,
    /// There is no name left to ask for.
    NothingLeft,
    /// It gives up: nobody is there to be asked.
    GivesUp,
}

impl fmt::Display for Then {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::OtherRecords => "other records",
            Self::NextName => "the next name",
            Self::Done => "done",
            Self::AsItIs => "the name as it is",
            Self::NothingLeft => "nothing is left",
            Self::GivesUp => "gives up",
        })
    }
}

impl Verdict {
    fn of(outcome: &io::Result<Message>) -> Self {
        let message = match outcome {
            Ok(message) => message,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Self::Silent(error.to_string()),
            Err(error) => return Self::Unreachable(error.to_string()),
        };
        let kind = message.queries.first().map(|query| query.query_type);
        let is_wanted = |record: &Record| kind.is_none_or(|kind| kind == RecordType::ANY || record.record_type() == kind);
        match message.metadata.response_code {
            ResponseCode::NoError if message.answers.iter().any(is_wanted) => Self::Found,
            ResponseCode::NoError => Self::NoRecords,
            ResponseCode::NXDomain => Self::NoName,
            code => Self::Failed(code),
        }
    }

    /// Whether a name with another suffix may be worth a question. To a server that is silent or refuses it is not.
    fn allows_more(&self) -> bool {
        matches!(self, Self::NoRecords | Self::NoName | Self::Failed(ResponseCode::ServFail))
    }
}

impl Resolution {
    /// Whether there are records.
    pub fn is_found(&self) -> bool {
        self.steps.iter().any(|step| step.verdict == Verdict::Found)
    }

    /// The records that were found.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.steps.iter().filter(|step| step.verdict == Verdict::Found).flat_map(|step| &step.answers)
    }

    /// The addresses among them.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.records().filter_map(|record| record.data.ip_addr()).collect()
    }

    /// How it ended, in the words of the step that says most.
    pub fn verdict(&self) -> Option<&Verdict> {
        let weight = |step: &&Step| match step.verdict {
            Verdict::Found => 4,
            Verdict::Silent(_) | Verdict::Unreachable(_) => 3,
            Verdict::Failed(_) => 2,
            Verdict::NoRecords => 1,
            Verdict::NoName => 0,
        };
        self.steps.iter().max_by_key(weight).map(|step| &step.verdict)
    }
}

/// Asks for a name by the rules, one candidate after the other, until one has records. `ask` asks a server.
pub fn resolve(
    text: &str,
    kinds: &[RecordType],
    rules: &Rules,
    ask: &mut dyn FnMut(&Name, RecordType) -> io::Result<Message>,
) -> Result<Resolution, NotAName> {
    // An address has no addresses; whoever asks for one wants its name.
    let kinds = if text.parse::<IpAddr>().is_ok() { &[RecordType::PTR] } else { kinds };
    let mut steps: Vec<Step> = Vec::new();
    let mut candidates = rules.candidates(text)?.into_iter();
    while let Some(candidate) = candidates.next() {
        let begin = steps.len();
        for kind in kinds {
            let outcome = ask(&candidate.name, *kind);
            let verdict = Verdict::of(&outcome);
            let (answers, authorities) = outcome.map(|message| (message.answers, message.authorities)).unwrap_or_default();
            let (name, reason, then) = (candidate.name.clone(), candidate.reason.clone(), Then::OtherRecords);
            steps.push(Step { name, kind: *kind, reason, verdict, then, answers, authorities });
        }
        let then = next(&steps[begin..], &candidate, candidates.as_slice());
        steps.last_mut().into_iter().for_each(|step| step.then = then);
        match then {
            Then::NextName => {}
            Then::AsItIs => {
                candidates = candidates.as_slice().iter().filter(|left| left.is_as_asked).cloned().collect::<Vec<_>>().into_iter()
            }
            _ => break,
        }
    }
    Ok(Resolution { steps })
}

/// What follows from everything that was asked about a name.
fn next(steps: &[Step], candidate: &Candidate, left: &[Candidate]) -> Then {
    let any = |is: fn(&Verdict) -> bool| steps.iter().any(|step| is(&step.verdict));
    if any(|verdict| *verdict == Verdict::Found) {
        Then::Done
    } else if any(|verdict| matches!(verdict, Verdict::Unreachable(_))) {
        Then::GivesUp
    } else if left.is_empty() {
        Then::NothingLeft
    } else if candidate.is_as_asked || steps.iter().all(|step| step.verdict.allows_more()) {
        Then::NextName
    } else {
        Then::AsItIs
    }
}

/// The same at a server, from the network namespace of the calling thread.
pub fn resolve_at(server: SocketAddr, text: &str, kinds: &[RecordType], rules: &Rules) -> Result<Resolution, NotAName> {
    resolve(text, kinds, rules, &mut |name, kind| ask(server, name, kind))
}

#[cfg(test)]
mod tests {
    use hickory_proto::rr::RData;
    use hickory_proto::rr::rdata::A;

    use super::*;

    /// A server that knows some names, and fails for some.
    fn server(known: &'static [&'static str], failing: &'static [&'static str]) -> impl FnMut(&Name, RecordType) -> io::Result<Message> {
        move |name, kind| {
            let is_in = |list: &[&str]| list.contains(&name.to_string().as_str());
            let code = match (is_in(known), is_in(failing)) {
                (true, _) => ResponseCode::NoError,
                (_, true) => ResponseCode::ServFail,
                _ => ResponseCode::NXDomain,
            };
            let mut answer = message::answer_to(&message::query(name, kind), code);
            if is_in(known) && kind == RecordType::A {
                answer.add_answer(Record::from_rdata(name.clone(), 5, RData::A(A::new(10, 0, 0, 1))));
            }
            Ok(answer)
        }
    }

    fn steps(resolution: &Resolution) -> Vec<String> {
        resolution.steps.iter().map(|step| format!("{} {}: {} -> {}", step.name, step.kind, step.verdict, step.then)).collect()
    }

    #[test]
    fn windows_does_not_find_what_linux_finds() {
        let kinds = [RecordType::A, RecordType::AAAA];
        let known = &["kubernetes.default.svc.cluster.local."];
        let windows = Rules::windows_pod("default", "cluster.local").expect("a name");
        let linux = Rules::linux_pod("default", "cluster.local").expect("a name");
        let ask = |text: &str, rules: &Rules| resolve(text, &kinds, rules, &mut server(known, &[])).expect("a name").is_found();
        let table = [
            ("kubernetes", true, true),
            ("kubernetes.default", false, true),
            ("kubernetes.default.svc", false, true),
            ("kubernetes.default.svc.cluster.local", true, true),
            ("kubernetes.default.svc.cluster.local.", true, true),
            ("kubernetes.", false, false),
        ];
        for (text, on_windows, on_linux) in table {
            assert_eq!((ask(text, &windows), ask(text, &linux)), (on_windows, on_linux), "{text}");
        }
    }

    #[test]
    fn it_ends_where_one_family_is_found() {
        let linux = Rules::linux_pod("default", "c.l").expect("a name");
        let found =
            resolve("web.svc", &[RecordType::A, RecordType::AAAA], &linux, &mut server(&["web.svc.svc.c.l."], &[])).expect("a name");
        assert_eq!(
            steps(&found),
            [
                "web.svc.default.svc.c.l. A: DNS name does not exist -> other records",
                "web.svc.default.svc.c.l. AAAA: DNS name does not exist -> the next name",
                "web.svc.svc.c.l. A: found -> other records",
                "web.svc.svc.c.l. AAAA: the name is there, but has no such records -> done",
            ]
        );
        assert_eq!(found.addresses(), [IpAddr::from([10, 0, 0, 1])]);
    }

    #[test]
    fn a_server_that_fails_may_know_the_next_name() {
        let linux = Rules::linux_pod("default", "c.l").expect("a name");
        let ask = &mut server(&["web.svc.c.l."], &["web.default.svc.c.l."]);
        let found = resolve("web", &[RecordType::A], &linux, ask).expect("a name");
        let expected = ["web.default.svc.c.l. A: the server says SERVFAIL -> the next name", "web.svc.c.l. A: found -> done"];
        assert_eq!(steps(&found), expected);
    }

    #[test]
    fn after_silence_the_other_suffixes_are_left_out() {
        let linux = Rules::linux_pod("default", "c.l").expect("a name");
        let silent = &mut |_: &Name, _| Err(io::Error::new(io::ErrorKind::TimedOut, "too late"));
        let lost = resolve("web", &[RecordType::A], &linux, silent).expect("a name");
        let expected =
            ["web.default.svc.c.l. A: no answer: too late -> the name as it is", "web. A: no answer: too late -> nothing is left"];
        assert_eq!(steps(&lost), expected);
        assert_eq!(lost.verdict(), Some(&Verdict::Silent("too late".into())));
    }

    #[test]
    fn nobody_there_is_the_end() {
        let linux = Rules::linux_pod("default", "c.l").expect("a name");
        let nobody = &mut |_: &Name, _| Err(io::Error::other("nobody is there"));
        let lost = resolve("web", &[RecordType::A], &linux, nobody).expect("a name");
        assert_eq!(steps(&lost), ["web.default.svc.c.l. A: no answer: nobody is there -> gives up"]);
    }

    #[test]
    fn an_address_is_asked_for_by_its_reverse_name() {
        let rules = Rules::Windows { suffix: None };
        let found = resolve("10.0.0.1", &[RecordType::A], &rules, &mut server(&[], &[])).expect("a name");
        assert_eq!(steps(&found), ["1.0.0.10.in-addr.arpa. PTR: DNS name does not exist -> nothing is left"]);
    }
}
