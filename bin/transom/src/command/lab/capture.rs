//! Packets of a lab as they pass.

mod blocks;
mod filter;
mod sink;
mod source;

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use clap::Args;
use wire::pcapng::{self, Block};

use super::OfLab;
use super::look::ask_status;
use crate::exit::{Exit, Failure};
use crate::output::note;
use filter::Filter;
use sink::Sink;
use source::{Source, Target};

/// How many blocks may wait to be written.
const LAG: usize = 1024;

/// How long is waited where nobody has said how long.
const FOREVER: Duration = Duration::from_secs(u32::MAX as u64);

/// What to capture.
#[derive(Args, Clone, Debug)]
pub(crate) struct CaptureArgs {
    /// A pod, node/NAME, router or outside
    #[arg(value_name = "POD")]
    place: String,
    /// Only packets of which this is true: host ADDRESS, port NUMBER, tcp, udp, icmp, arp, joined with `and`
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
    /// The pod's Kubernetes namespace
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    namespace: String,
    /// Where to write; - is standard output. Without it, lines on a terminal and pcapng into a pipe
    #[arg(short, long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Print a line for each packet, also where the output is no terminal
    #[arg(long, conflicts_with = "write")]
    summary: bool,
    /// End after so many packets
    #[arg(short, long, value_name = "PACKETS")]
    count: Option<u64>,
    /// End after so many seconds
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Which lab.
    #[command(flatten)]
    of: OfLab,
}

pub(super) const EXAMPLES: &str = "\
On Windows nodes it is the switch that captures: each packet's comment says layer, rule and verdict.

Examples:
  transom lab capture client-win1
  transom lab capture client-win1 tcp and port 80 --count 10
  transom lab capture node/win1 -w win1.pcapng --seconds 10
  transom lab capture router host 10.244.2.3 | tshark -r -";

/// What can come next.
enum Event {
    /// A block of pcapng.
    Block(Vec<u8>),
    /// The stream has ended, well or not.
    End(io::Result<()>),
    /// Somebody has had enough.
    Interrupt,
}

/// Captures until it is to end.
pub(crate) fn run(args: &CaptureArgs) -> Result<(), Failure> {
    let filter = Filter::parse(&args.filter).map_err(|cause| Failure::new(Exit::Usage, cause))?;
    let home = args.of.home();
    let target = Target::find(&ask_status(&home)?, &args.namespace, &args.place)?;
    let label = target.is_one_port().then_some(args.place.as_str());
    let mut sink = Sink::open(args.write.as_deref(), args.summary, label)?;
    let mut source = Source::open(&home, &target)?;
    let (sender, events) = sync_channel(LAG);
    if let Some(packets) = source.packets.take() {
        let sender = sender.clone();
        std::thread::spawn(move || read(packets, &sender));
    }
    // Whoever does not listen any more is about to end anyway.
    ctrlc::set_handler(move || _ = sender.send(Event::Interrupt))
        .map_err(|error| Failure::new(Exit::Failed, format!("Ctrl-C cannot be listened to: {error}")))?;
    note(&format!("capturing {}; Ctrl-C ends it", args.place));
    let end = Instant::now() + args.seconds.map_or(FOREVER, Duration::from_secs);
    let mut packets = 0;
    while args.count.is_none_or(|count| packets < count) {
        match events.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(Event::Block(block)) => packets += u64::from(pass(&block, &filter, &mut sink)?),
            Ok(Event::End(outcome)) => {
                outcome.map_err(|error| Failure::new(Exit::Unavailable, format!("the capture broke off: {error}")))?;
                break;
            }
            Ok(Event::Interrupt) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    note(&format!("{packets} packets"));
    source.conclude()
}

/// Hands a block on if it is wanted. Returns whether it was a packet.
fn pass(block: &[u8], filter: &Filter, sink: &mut Sink) -> Result<bool, Failure> {
    match pcapng::blocks(block).next() {
        Some(Block::Packet(packet)) if filter.wants(packet.bytes) => sink.put(block).map(|()| true),
        Some(Block::Packet(_)) => Ok(false),
        _ => sink.put(block).map(|()| false),
    }
}

fn read(mut stream: Box<dyn Read + Send>, events: &SyncSender<Event>) {
    loop {
        let event = match blocks::next(&mut stream) {
            Ok(Some(block)) => Event::Block(block),
            Ok(None) => Event::End(Ok(())),
            Err(error) => Event::End(Err(error)),
        };
        let is_last = matches!(event, Event::End(_));
        if events.send(event).is_err() || is_last {
            return;
        }
    }
}
