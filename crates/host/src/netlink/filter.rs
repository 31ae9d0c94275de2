//! Filters: programs and rules for what comes in by a link.

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcFilterBpfOption, TcHandle, TcMessage, TcOption};

use super::{Netlink, NetlinkError};

/// The place where filters for what comes in are.
const INGRESS: TcHandle = TcHandle { major: 0xffff, minor: 0xfff2 };

/// A filter of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Its place among the others.
    pub priority: u16,
    /// What it is, in words.
    pub name: String,
}

impl Netlink {
    /// All filters for what comes in by a link.
    pub fn ingress_filters(&self, index: u32) -> Result<Vec<Filter>, NetlinkError> {
        let mut request = TcMessage::default();
        request.header.index = index.cast_signed();
        request.header.parent = INGRESS;
        match self.dump(&RouteNetlinkMessage::GetTrafficFilter(request)) {
            Ok(answers) => Ok(answers.into_iter().filter_map(read).collect()),
            Err(refusal) => {
                let error = refusal.of(format!("list the filters of link {index}"));
                // Without the queue that filters are in there are none.
                if matches!(error.errno(), Some(libc::EINVAL | libc::ENOENT)) { Ok(Vec::new()) } else { Err(error) }
            }
        }
    }
}

fn read(answer: RouteNetlinkMessage) -> Option<Filter> {
    let RouteNetlinkMessage::NewTrafficFilter(message) = answer else { return None };
    // The list of filters at a place is told of beside each of them.
    if message.header.handle == TcHandle::default() {
        return None;
    }
    let options = message.attributes.iter().filter_map(|attribute| match attribute {
        TcAttribute::Options(options) => Some(options),
        _ => None,
    });
    let program = options.flatten().find_map(|option| match option {
        TcOption::Bpf(TcFilterBpfOption::ProgName(name)) => Some(format!("the program {name}")),
        _ => None,
    });
    let kind = message.attributes.iter().find_map(|attribute| match attribute {
        TcAttribute::Kind(kind) => Some(format!("a filter of kind {kind}")),
        _ => None,
    });
    // The upper half; the lower one is the protocol.
    let priority = (message.header.info >> 16) as u16;
    Some(Filter { priority, name: program.or(kind).unwrap_or_else(|| "a filter".to_owned()) })
}
