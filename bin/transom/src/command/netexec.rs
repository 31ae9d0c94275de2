//! The built-in server of pods, and what else Kubernetes' test image is asked for.

use std::net::IpAddr;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use netexec::connect::{Protocol, connect};
use netexec::{Server, Settings, duration, resolver, serve_hostname};

use crate::exit::{Exit, Failure};
use crate::output::{Format, Output, note};

/// Options of the server; those that agnhost has are called the same.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct NetexecArgs {
    /// The port of HTTP
    #[arg(long, default_value_t = 8080)]
    http_port: u16,
    /// The port of UDP; -1 is none
    #[arg(long, default_value_t = 8081, allow_negative_numbers = true)]
    udp_port: i32,
    /// The port on which everything is sent back over TCP
    #[arg(long)]
    tcp_port: Option<u16>,
    /// The port of SCTP, which is not served
    #[arg(long, default_value_t = -1, allow_negative_numbers = true, hide = true)]
    sctp_port: i32,
    /// The addresses that UDP is served on; all without it
    #[arg(long, value_delimiter = ',', value_name = "ADDRESSES")]
    udp_listen_addresses: Vec<IpAddr>,
    /// Answer every request as if it were for this path and query
    #[arg(long, value_name = "PATH")]
    http_override: Option<String>,
    /// Seconds to go on after being told to stop
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    delay_shutdown: u64,
}

const EXAMPLES: &str = "\
Paths: / /clientip /dial /echo /exit /header /healthz /hostname /redirect /serverport /shell /shutdown /who
Over UDP: hostname, clientip, echo TEXT

Example:
  transom netexec --http-port 8080 & curl http://127.0.0.1:8080/who";

/// What the image is asked for.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum AgnhostVerb {
    /// Serve HTTP and UDP
    Netexec(NetexecArgs),
    /// Do nothing until told to stop
    Pause,
    /// Serve the host name
    ServeHostname(ServeHostnameArgs),
    /// Serve HTTP on every port that a variable SERVE_PORT_NUMBER names, with its value as the answer
    Porter,
    /// Serve HTTP on port 8080, and be healthy for ten seconds
    Liveness,
    /// Serve an empty directory over HTTP
    TestWebserver(TestWebserverArgs),
    /// Try to connect
    Connect(ConnectArgs),
    /// Print the DNS suffixes
    DnsSuffix,
    /// Print the DNS servers
    DnsServerList,
    /// Print the hosts file
    EtcHosts,
}

/// Options of serving the host name.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServeHostnameArgs {
    /// Serve raw over TCP
    #[arg(long, default_value_t = false, num_args = 0..=1, default_missing_value = "true", require_equals = true, action = ArgAction::Set)]
    tcp: bool,
    /// Serve raw over UDP
    #[arg(long, default_value_t = false, num_args = 0..=1, default_missing_value = "true", require_equals = true, action = ArgAction::Set)]
    udp: bool,
    /// Serve HTTP
    #[arg(long, default_value_t = true, num_args = 0..=1, default_missing_value = "true", require_equals = true, action = ArgAction::Set)]
    http: bool,
    /// Close the connection after each request
    #[arg(long, default_value_t = false, hide = true, num_args = 0..=1, default_missing_value = "true", require_equals = true, action = ArgAction::Set)]
    close: bool,
    /// The port
    #[arg(long, default_value_t = 9376)]
    port: u16,
}

/// Options of serving a directory.
#[derive(Args, Clone, Debug)]
pub(crate) struct TestWebserverArgs {
    /// The port
    #[arg(long, default_value_t = 80)]
    port: u16,
}

/// Options of connecting.
#[derive(Args, Clone, Debug)]
pub(crate) struct ConnectArgs {
    /// The target, such as web:80
    #[arg(value_name = "HOST:PORT")]
    target: String,
    /// How long to try, such as 5s
    #[arg(long, value_parser = parse_duration, default_value = "0")]
    timeout: Duration,
    /// By what to connect
    #[arg(long, value_enum, default_value_t = ConnectProtocol::Tcp)]
    protocol: ConnectProtocol,
    /// What is sent over UDP
    #[arg(long, default_value = "hostname")]
    udp_data: String,
}

/// By what to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ConnectProtocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    duration::parse(text).ok_or_else(|| "write a number and a unit, such as 500ms or 5s".to_owned())
}

/// The image's own command line. It is small, and so is what it takes to parse: pods run it by the thousand.
#[derive(Debug, Parser)]
#[command(name = "agnhost", subcommand_required = true, arg_required_else_help = true)]
struct Agnhost {
    #[command(subcommand)]
    verb: AgnhostVerb,
}

/// The server's own command line.
#[derive(Debug, Parser)]
#[command(name = "transom netexec")]
struct Netexec {
    #[command(flatten)]
    args: NetexecArgs,
}

/// Runs what the command line says if it is for a pod; nothing if it is for the rest of the command.
pub(crate) fn run_early(arguments: &[String]) -> Option<Result<(), Failure>> {
    let name = arguments.first().map_or("", |path| path.rsplit(['/', '\\']).next().unwrap_or(path));
    let first = arguments.get(1).map_or("", String::as_str);
    match (name.trim_end_matches(".exe"), first) {
        ("agnhost", _) => Some(run(Agnhost::parse_from(arguments).verb)),
        (_, "agnhost") => Some(run(Agnhost::parse_from(&arguments[1..]).verb)),
        (_, "netexec") => Some(serve(Netexec::parse_from(&arguments[1..]).args)),
        _ => None,
    }
}

/// Does what the image is asked for.
pub(crate) fn run(verb: AgnhostVerb) -> Result<(), Failure> {
    let print = |text: std::io::Result<String>| Output::new(Format::Table).line(text.map_err(|error| failed(&error))?.trim_end());
    match verb {
        AgnhostVerb::Netexec(args) => serve(args),
        AgnhostVerb::Pause => wait_for_the_end(Duration::ZERO),
        AgnhostVerb::ServeHostname(args) => serve_name(&args),
        AgnhostVerb::Porter => serve_ports(),
        AgnhostVerb::Liveness => serve_and_park(&[Settings { http_port: 8080, healthy_for: Some(HEALTHY_FOR), ..Settings::default() }]),
        AgnhostVerb::TestWebserver(args) => {
            serve_and_park(&[Settings { http_port: args.port, http_override: Some(EMPTY_DIRECTORY.to_owned()), ..Settings::default() }])
        }
        AgnhostVerb::Connect(args) => try_to_connect(&args),
        AgnhostVerb::DnsSuffix => print(resolver::suffixes()),
        AgnhostVerb::DnsServerList => print(resolver::servers()),
        AgnhostVerb::EtcHosts => print(resolver::hosts()),
    }
}

/// Serves until told to stop, by a signal or by a request.
pub(crate) fn serve(args: NetexecArgs) -> Result<(), Failure> {
    let settings = Settings {
        http_port: args.http_port,
        udp_port: u16::try_from(args.udp_port).ok(),
        tcp_port: args.tcp_port,
        udp_addresses: args.udp_listen_addresses,
        http_override: args.http_override,
        healthy_for: None,
    };
    // Before there are threads: they must not be ended either.
    let delay = Some(Duration::from_secs(args.delay_shutdown)).filter(|delay| !delay.is_zero());
    if let Some(delay) = delay {
        end_later(delay)?;
    }
    let server = Server::start(&settings).map_err(|error| failed(&error))?;
    note(&format!("Started HTTP server on port {}", server.http().port()));
    if let Some(udp) = server.udp() {
        note(&format!("Started UDP server on port {}", udp.port()));
    }
    if args.sctp_port != -1 {
        note("SCTP is not served");
    }
    std::process::exit(server.wait());
}

/// For how long the image's `liveness` is healthy.
const HEALTHY_FOR: Duration = Duration::from_secs(10);

/// What Go answers for a directory without files.
const EMPTY_DIRECTORY: &str = "/echo?msg=%3Cpre%3E%0A%3C/pre%3E%0A";

fn serve_ports() -> Result<(), Failure> {
    let ports = netexec::porter::ports(std::env::vars()).map_err(|cause| Failure::new(Exit::Usage, cause))?;
    let settings: Vec<Settings> = ports.iter().map(netexec::porter::Port::settings).collect();
    serve_and_park(&settings)
}

/// Serves until the process is ended.
fn serve_and_park(settings: &[Settings]) -> Result<(), Failure> {
    let _servers: Vec<Server> = settings.iter().map(Server::start).collect::<Result<_, _>>().map_err(|error| failed(&error))?;
    loop {
        std::thread::park();
    }
}

fn serve_name(args: &ServeHostnameArgs) -> Result<(), Failure> {
    let raw = args.tcp || args.udp;
    if args.tcp {
        serve_hostname::serve_tcp(args.port).map_err(|error| failed(&error))?;
    }
    if args.udp {
        serve_hostname::serve_udp(args.port).map_err(|error| failed(&error))?;
    }
    let http = Settings { http_port: args.port, http_override: Some("/hostname".into()), ..Settings::default() };
    let _server = (args.http && !raw).then(|| Server::start(&http)).transpose().map_err(|error| failed(&error))?;
    loop {
        std::thread::park();
    }
}

fn try_to_connect(args: &ConnectArgs) -> Result<(), Failure> {
    let protocol = match args.protocol {
        ConnectProtocol::Tcp => Protocol::Tcp,
        ConnectProtocol::Udp => Protocol::Udp,
    };
    let timeout = Some(args.timeout).filter(|timeout| !timeout.is_zero());
    connect(&args.target, protocol, timeout, &args.udp_data).map_err(|obstacle| {
        // Tests look for the word at the beginning of the line.
        note(&obstacle.to_string());
        Failure::told(Exit::Failed)
    })
}

fn failed(error: &std::io::Error) -> Failure {
    Failure::new(Exit::Failed, error.to_string())
}

#[cfg(unix)]
fn end_later(delay: Duration) -> Result<(), Failure> {
    let termination = host::termination::Termination::hold().map_err(|error| failed(&error))?;
    std::thread::spawn(move || {
        let _ = termination.wait();
        std::thread::sleep(delay);
        std::process::exit(0);
    });
    Ok(())
}

#[cfg(not(unix))]
fn end_later(_: Duration) -> Result<(), Failure> {
    Ok(())
}

/// Waits until the process is told to stop.
fn wait_for_the_end(delay: Duration) -> Result<(), Failure> {
    end_later(delay)?;
    loop {
        std::thread::park();
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn command_lines_of_manifests_are_understood() {
        Agnhost::command().debug_assert();
        let lines: [&[&str]; 10] = [
            &["netexec", "--http-port=8080", "--udp-port=-1", "--sctp-port=-1"],
            &["netexec", "--http-port", "80", "--http-override", "/echo?msg=x", "--delay-shutdown=5"],
            &["pause"],
            &["serve-hostname", "--tcp", "--http=false", "--port=9377"],
            &["serve-hostname"],
            &["connect", "web:80", "--timeout=5s", "--protocol", "udp"],
            &["dns-suffix"],
            &["porter"],
            &["liveness"],
            &["test-webserver", "--port", "8080"],
        ];
        for line in lines {
            let parsed = Agnhost::try_parse_from([&["agnhost"], line].concat());
            assert!(parsed.is_ok(), "{line:?}: {parsed:?}");
        }
    }

    #[test]
    fn only_pods_commands_are_run_early() {
        let of = |line: &[&str]| line.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert!(run_early(&of(&["transom", "network", "list"])).is_none());
        assert!(run_early(&of(&["transom"])).is_none());
        assert!(run_early(&[]).is_none());
        assert!(run_early(&of(&["/agnhost", "connect", "nowhere"])).is_some_and(|result| result.is_err()));
        assert!(run_early(&of(&["transom", "agnhost", "connect", "nowhere"])).is_some_and(|result| result.is_err()));
    }
}
