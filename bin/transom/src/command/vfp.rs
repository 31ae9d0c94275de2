//! Looking into the switch: ports, rules, flows, counters, packets.

use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use hcn::client::{Address, Client};
use node::vswitchd::{CounterSet, FlowRow, PortRow, RuleRow};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::exit::{Exit, Failure};
use crate::output::{Cell, Output, Table, Tone};

/// Where the switch is.
#[derive(Args, Clone, Debug)]
pub(crate) struct At {
    /// The socket of vswitchd
    #[arg(long, value_name = "PATH", env = "TRANSOM_VSWITCHD", default_value_os_t = node::vswitchd::default_socket())]
    vswitchd: PathBuf,
}

/// What can be looked at.
#[derive(Debug, Subcommand)]
pub(crate) enum VfpVerb {
    /// Ports of the switch: endpoints, the node, adapters, tunnels
    #[command(aliases = ["ports"])]
    Port {
        /// The verb.
        #[command(subcommand)]
        verb: PortVerb,
    },
    /// Rules in force, by port or domain, layer and group, with what they matched
    #[command(aliases = ["rules"])]
    Rule {
        /// The verb.
        #[command(subcommand)]
        verb: RuleVerb,
    },
    /// Flows: both directions of every connection
    #[command(aliases = ["flows"])]
    Flow {
        /// The verb.
        #[command(subcommand)]
        verb: FlowVerb,
    },
    /// Counters of the switch, and drops by reason
    Counters(CountersArgs),
    /// Packets of a port, or of all, as pcapng with the verdict in each packet's comment
    #[command(after_help = "Examples:\n  transom vfp capture -w pods.pcapng\n  transom vfp capture --port web -w - | tshark -r -")]
    Capture(CaptureArgs),
}

/// Verbs for ports.
#[derive(Debug, Subcommand)]
pub(crate) enum PortVerb {
    /// List them
    #[command(visible_alias = "ls")]
    List(At),
}

/// Verbs for rules.
#[derive(Debug, Subcommand)]
pub(crate) enum RuleVerb {
    /// List them, all or some
    #[command(visible_alias = "ls")]
    List(RuleArgs),
}

/// Which rules.
#[derive(Args, Debug)]
pub(crate) struct RuleArgs {
    #[command(flatten)]
    at: At,
    /// Only those of this port or domain
    #[arg(long, value_name = "NAME")]
    port: Option<String>,
    /// Only those of this layer
    #[arg(long, value_name = "NAME")]
    layer: Option<String>,
}

/// Verbs for flows.
#[derive(Debug, Subcommand)]
pub(crate) enum FlowVerb {
    /// List them, all or some
    #[command(visible_alias = "ls")]
    List(FlowArgs),
}

/// Which flows.
#[derive(Args, Debug)]
pub(crate) struct FlowArgs {
    #[command(flatten)]
    at: At,
    /// Only those from or to this port, by number or name
    #[arg(long, value_name = "PORT")]
    port: Option<String>,
    /// Only those with this address at either end
    #[arg(long, value_name = "ADDRESS")]
    address: Option<std::net::IpAddr>,
}

/// Which counters.
#[derive(Args, Debug)]
pub(crate) struct CountersArgs {
    #[command(flatten)]
    at: At,
    /// Show reasons that never occurred as well
    #[arg(short, long)]
    all: bool,
}

/// What to capture.
#[derive(Args, Debug)]
pub(crate) struct CaptureArgs {
    #[command(flatten)]
    at: At,
    /// Only packets of this port, by number or name
    #[arg(long, value_name = "PORT")]
    port: Option<String>,
    /// Where to write; - is standard output
    #[arg(short, long, value_name = "FILE")]
    write: PathBuf,
}

/// Does what a verb says.
pub(crate) fn run(output: &Output, verb: VfpVerb) -> Result<(), Failure> {
    match verb {
        VfpVerb::Port { verb: PortVerb::List(at) } => ports(output, &at),
        VfpVerb::Rule { verb: RuleVerb::List(args) } => rules(output, &args),
        VfpVerb::Flow { verb: FlowVerb::List(args) } => flows(output, &args),
        VfpVerb::Counters(args) => counters(output, &args),
        VfpVerb::Capture(args) => capture(&args),
    }
}

fn ask(at: &At, path: &str) -> Result<Value, Failure> {
    if let Err(error) = UnixStream::connect(&at.vswitchd) {
        return Err(unreachable(&at.vswitchd, &error.to_string()));
    }
    Client::new(Address::Unix(at.vswitchd.clone())).request("GET", path, "").map_err(|error| unreachable(&at.vswitchd, &error.to_string()))
}

fn unreachable(socket: &Path, cause: &str) -> Failure {
    let remedy = "start it with `transom vswitchd`, or name its socket with --vswitchd";
    Failure::new(Exit::Unavailable, format!("vswitchd does not answer on {}: {cause}", socket.display())).remedy(remedy)
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
    serde_json::from_value(value).map_err(|error| Failure::new(Exit::Failed, format!("the answer of vswitchd cannot be read: {error}")))
}

fn drops(row: &PortRow) -> Cell {
    let text: Vec<String> = row.drops.iter().map(|(reason, packets)| format!("{reason}={packets}")).collect();
    Cell::toned(text.join(","), Tone::Bad)
}

fn ports(output: &Output, at: &At) -> Result<(), Failure> {
    let answer = ask(at, "/ports")?;
    if !output.is_for_people() {
        return output.value(&answer);
    }
    let mut header = vec!["PORT", "NAME", "KIND", "MAC", "ADDRESSES", "SENT", "RECEIVED", "DROPS"];
    if output.is_wide() {
        header.extend(["DOMAIN", "MTU", "GENERATION", "CONNECTIONS", "LOST"]);
    }
    let mut table = Table::new(header);
    for row in read::<Vec<PortRow>>(answer)? {
        let mut cells: Vec<Cell> = vec![
            row.id.to_string().into(),
            row.name.clone().into(),
            row.kind.clone().into(),
            row.mac_address.clone().into(),
            row.addresses.join(",").into(),
            row.packets_sent.to_string().into(),
            row.packets_received.to_string().into(),
            drops(&row),
        ];
        if output.is_wide() {
            let more =
                [row.domain, row.mtu.to_string(), row.generation.to_string(), row.connections.to_string(), row.packets_lost.to_string()];
            cells.extend(more.map(Cell::from));
        }
        table.row(cells);
    }
    output.table(&table)
}

fn rules(output: &Output, args: &RuleArgs) -> Result<(), Failure> {
    let all: Vec<RuleRow> = read(ask(&args.at, "/rules")?)?;
    let wanted = |row: &RuleRow| {
        args.port.as_ref().is_none_or(|port| row.owner == *port) && args.layer.as_ref().is_none_or(|layer| row.layer == *layer)
    };
    let mut rows: Vec<RuleRow> = all.into_iter().filter(wanted).collect();
    rows.sort_by(|left, right| {
        (&left.owner, &left.layer, &left.group, left.priority).cmp(&(&right.owner, &right.layer, &right.group, right.priority))
    });
    if !output.is_for_people() {
        return output.value(&to_value(&rows)?);
    }
    let mut table = Table::new(vec!["OWNER", "LAYER", "GROUP", "PRIORITY", "RULE", "CONDITIONS", "ACTION", "PACKETS", "BYTES"]);
    for row in rows {
        let cells = [
            row.owner,
            row.layer,
            row.group,
            row.priority.to_string(),
            row.rule,
            row.conditions,
            row.action,
            row.packets.to_string(),
            row.bytes.to_string(),
        ];
        table.row(cells.map(Cell::from).to_vec());
    }
    output.table(&table)
}

fn to_value(rows: &impl serde::Serialize) -> Result<Value, Failure> {
    serde_json::to_value(rows).map_err(|error| Failure::new(Exit::Failed, error.to_string()))
}

fn flows(output: &Output, args: &FlowArgs) -> Result<(), Failure> {
    let port = match &args.port {
        Some(name) => Some(port_number(&args.at, name)?),
        None => None,
    };
    let has = |end: &str, address: std::net::IpAddr| end.parse::<std::net::SocketAddr>().is_ok_and(|end| end.ip() == address);
    let wanted = |row: &FlowRow| {
        port.is_none_or(|port| row.from == port || row.to == port)
            && args.address.is_none_or(|address| has(&row.source, address) || has(&row.destination, address))
    };
    let rows: Vec<FlowRow> = read::<Vec<FlowRow>>(ask(&args.at, "/flows")?)?.into_iter().filter(wanted).collect();
    if !output.is_for_people() {
        return output.value(&to_value(&rows)?);
    }
    let mut header = vec![
        "CONNECTION",
        "WAY",
        "FROM",
        "TO",
        "PROTOCOL",
        "SOURCE",
        "DESTINATION",
        "TRANSLATED",
        "TUNNEL",
        "STATE",
        "UNIFIED",
        "PACKETS",
        "IDLE",
    ];
    if output.is_wide() {
        header.extend(["BYTES", "RULES"]);
    }
    let mut table = Table::new(header);
    for row in rows {
        let mut cells: Vec<Cell> = vec![
            row.connection.to_string().into(),
            if row.reply { "reply" } else { "forward" }.into(),
            row.from.to_string().into(),
            row.to.to_string().into(),
            protocol(row.protocol).into(),
            row.source.into(),
            row.destination.into(),
            row.translated.unwrap_or_default().into(),
            row.tunnel.unwrap_or_default().into(),
            row.state.unwrap_or_default().into(),
            match (row.unified, row.kernel) {
                (_, true) => "kernel",
                (true, false) => "yes",
                (false, false) => "no",
            }
            .into(),
            row.packets.to_string().into(),
            format!("{:.1}s", row.idle_ms as f64 / 1000.0).into(),
        ];
        if output.is_wide() {
            cells.extend([row.bytes.to_string(), row.rules.join(" ")].map(Cell::from));
        }
        table.row(cells);
    }
    output.table(&table)
}

fn port_number(at: &At, name: &str) -> Result<u32, Failure> {
    let rows: Vec<PortRow> = read(ask(at, "/ports")?)?;
    let found = rows.iter().find(|row| row.name == name || row.id.to_string() == name).map(|row| row.id);
    found.ok_or_else(|| Failure::new(Exit::NotFound, format!("no port is called {name:?}")).remedy("see `transom vfp port list`"))
}

fn protocol(number: u8) -> String {
    match number {
        1 => "ICMP".into(),
        6 => "TCP".into(),
        17 => "UDP".into(),
        58 => "ICMPv6".into(),
        132 => "SCTP".into(),
        other => other.to_string(),
    }
}

fn counters(output: &Output, args: &CountersArgs) -> Result<(), Failure> {
    let answer = ask(&args.at, "/counters")?;
    if !output.is_for_people() {
        return output.value(&answer);
    }
    let set: CounterSet = read(answer)?;
    let mut table = Table::new(vec!["COUNTER", "VALUE", "MEANING"]);
    for (name, value) in &set.switch {
        table.row(vec![name.as_str().into(), value.to_string().into(), "".into()]);
    }
    for (reason, meaning) in &set.reasons {
        let packets = set.drops.get(reason).copied().unwrap_or(0);
        if packets > 0 || args.all {
            let tone = if packets > 0 { Tone::Bad } else { Tone::Plain };
            table.row(vec![format!("dropped-{reason}").into(), Cell::toned(packets.to_string(), tone), meaning.as_str().into()]);
        }
    }
    output.table(&table)
}

fn capture(args: &CaptureArgs) -> Result<(), Failure> {
    let to_stdout = args.write.as_os_str() == "-";
    if to_stdout && io::stdout().is_terminal() {
        let remedy = "write to a file with -w FILE, or pipe it into `tshark -r -`";
        return Err(Failure::new(Exit::Usage, "a capture is no text for a terminal".to_owned()).remedy(remedy));
    }
    let failed = |error: io::Error| unreachable(&args.at.vswitchd, &error.to_string());
    let mut answer = open_capture(&args.at.vswitchd, args.port.as_deref())?;
    let mut target: Box<dyn Write> = match to_stdout {
        true => Box::new(io::stdout().lock()),
        false => {
            let path = &args.write;
            Box::new(
                std::fs::File::create(path)
                    .map_err(|error| Failure::new(Exit::Failed, format!("cannot write {}: {error}", path.display())))?,
            )
        }
    };
    if !to_stdout {
        crate::output::note("capturing; Ctrl-C ends it");
    }
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = answer.read(&mut buffer).map_err(failed)?;
        if length == 0 {
            return Ok(());
        }
        let written = target.write_all(&buffer[..length]).and_then(|()| target.flush());
        written.map_err(|error| Failure::new(Exit::Failed, format!("cannot write the capture: {error}")))?;
    }
}

/// Begins to capture the packets of a port, or of all: a stream of pcapng until either side hangs up.
pub(crate) fn open_capture(socket: &Path, port: Option<&str>) -> Result<BufReader<UnixStream>, Failure> {
    let failed = |error: io::Error| unreachable(socket, &error.to_string());
    let mut stream = UnixStream::connect(socket).map_err(failed)?;
    let query = port.map(|port| format!("?port={}", encode(port))).unwrap_or_default();
    // With HTTP 1.0 the answer is the bytes and nothing else, until either side hangs up.
    write!(stream, "GET /capture{query} HTTP/1.0\r\nHost: vswitchd\r\n\r\n").map_err(failed)?;
    let mut answer = BufReader::new(stream);
    read_head(&mut answer, socket)?;
    Ok(answer)
}

/// The number of the port whose NIC has one of these addresses.
#[cfg(target_os = "linux")]
pub(crate) fn port_of(socket: &Path, addresses: &[std::net::IpAddr]) -> Result<String, Failure> {
    let rows: Vec<PortRow> = read(ask(&At { vswitchd: socket.to_owned() }, "/ports")?)?;
    let has = |row: &PortRow| row.addresses.iter().any(|text| text.parse().is_ok_and(|address| addresses.contains(&address)));
    let found = rows.iter().find(|row| has(row)).map(|row| row.id.to_string());
    found.ok_or_else(|| Failure::new(Exit::NotFound, "it has no port on the switch of its node yet"))
}

fn read_head(answer: &mut BufReader<UnixStream>, socket: &Path) -> Result<(), Failure> {
    let mut first = String::new();
    let mut line = String::new();
    loop {
        line.clear();
        let length = answer.read_line(&mut line).map_err(|error| unreachable(socket, &error.to_string()))?;
        if first.is_empty() {
            first.clone_from(&line);
        }
        if length == 0 || line.trim().is_empty() {
            break;
        }
    }
    if first.contains(" 200 ") {
        return Ok(());
    }
    let mut body = String::new();
    _ = answer.read_to_string(&mut body);
    let cause: Option<String> = serde_json::from_str::<Value>(&body).ok().and_then(|body| Some(body.get("Error")?.as_str()?.to_owned()));
    Err(Failure::new(Exit::NotFound, cause.unwrap_or_else(|| format!("vswitchd answers {}", first.trim()))))
}

/// A name as a part of a URL.
fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
