//! What a zone says to a question.

use hickory_proto::rr::rdata::PTR;
use hickory_proto::rr::{Name, RData, Record, RecordType};

use super::Zone;
use super::labels::reverse_address;

/// How many names may stand for one another before it is taken for a circle.
const LONGEST_CHAIN: usize = 8;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The records that were asked for, and before them the names that led to them.
    pub records: Vec<Record>,
    /// The addresses of names in them, which the client would ask for next.
    pub additionals: Vec<Record>,
    /// How it ends.
    pub outcome: Outcome,
}

/// How an answer ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With records.
    Found,
    /// The name is there, but has no such records (NODATA).
    NoRecords,
    /// There is no such name (NXDOMAIN).
    NoName,
    /// Nobody can say before the cluster was read (SERVFAIL). A client asks again, while it would believe that a name is not there.
    NotRead,
    /// Others know the rest: they are to be asked for this name.
    Elsewhere(Name),
}

impl Zone {
    /// Answers a question; none if others are to be asked.
    ///
    /// Addresses that have no name here may have one elsewhere, so that of reverse names only those that are known are ours.
    pub fn answer(&self, name: &Name, kind: RecordType) -> Option<Answer> {
        let address = reverse_address(name);
        if !self.is_read {
            let may_be_ours = address.is_some() || self.settings.domain.zone_of(name);
            return may_be_ours.then_some(Answer { records: Vec::new(), additionals: Vec::new(), outcome: Outcome::NotRead });
        }
        if let Some(names) = address.and_then(|address| self.reverse.get(&address)) {
            let data = names.iter().map(|target| RData::PTR(PTR(target.clone()))).collect();
            return Some(self.conclude(Vec::new(), name, data, kind));
        }
        self.settings.domain.zone_of(name).then(|| self.follow(name, kind))
    }

    /// Goes from name to name until there are records, or until a name is not ours.
    fn follow(&self, name: &Name, kind: RecordType) -> Answer {
        let (mut records, mut name) = (Vec::new(), name.clone());
        for _ in 0..LONGEST_CHAIN {
            let Some(data) = self.find(&name) else {
                return Answer { records, additionals: Vec::new(), outcome: Outcome::NoName };
            };
            let alias = data.iter().find_map(|data| if let RData::CNAME(alias) = data { Some(alias.0.clone()) } else { None });
            let Some(alias) = alias.filter(|_| !matches!(kind, RecordType::CNAME | RecordType::ANY)) else {
                return self.conclude(records, &name, data, kind);
            };
            records.extend(data.into_iter().map(|data| self.record(&name, data)));
            if !self.settings.domain.zone_of(&alias) {
                return Answer { records, additionals: Vec::new(), outcome: Outcome::Elsewhere(alias) };
            }
            name = alias;
        }
        // The client sees the circle.
        Answer { records, additionals: Vec::new(), outcome: Outcome::Found }
    }

    fn conclude(&self, mut records: Vec<Record>, name: &Name, data: Vec<RData>, kind: RecordType) -> Answer {
        let is_wanted = |data: &RData| kind == RecordType::ANY || data.record_type() == kind;
        let wanted: Vec<RData> = data.into_iter().filter(is_wanted).collect();
        let outcome = if wanted.is_empty() { Outcome::NoRecords } else { Outcome::Found };
        let additionals = self.additionals(&wanted);
        records.extend(wanted.into_iter().map(|data| self.record(name, data)));
        Answer { records, additionals, outcome }
    }

    /// The addresses of the hosts that ports are at.
    fn additionals(&self, data: &[RData]) -> Vec<Record> {
        let mut found = Vec::new();
        for target in data.iter().filter_map(|data| if let RData::SRV(place) = data { Some(&place.target) } else { None }) {
            let addresses = self.find(target).into_iter().flatten().filter(|data| data.ip_addr().is_some());
            found.extend(addresses.map(|data| self.record(target, data)));
        }
        found
    }

    fn record(&self, name: &Name, data: RData) -> Record {
        Record::from_rdata(name.clone(), self.settings.ttl, data)
    }
}
