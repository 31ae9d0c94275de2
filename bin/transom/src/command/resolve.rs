//! Asking for a name as a client in a pod does, with every step shown.

#[cfg(target_os = "linux")]
mod pod;
mod show;

use std::net::SocketAddr;
use std::path::Path;

use clap::{Args, ValueEnum};
use dns::client::{NotAName, Resolution, Rules, Verdict, resolve_at};
use dns::{Name, RecordType};

use super::dns::{domain, server};
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Ask for a name as a pod on a Windows node does, step by step, and see what Linux would have answered
///
/// On Windows a name with a dot is fully qualified, and one suffix is added to all others: that of the pod's Kubernetes namespace. On Linux there
/// is a list of suffixes, and ndots says when it is used. An address is asked for by its reverse name.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ResolveArgs {
    /// The name, or an address
    #[arg(value_name = "NAME")]
    name: String,
    /// The server to ask; without it the first of /etc/resolv.conf
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = server)]
    server: Option<SocketAddr>,
    /// Which records: A, AAAA, A_AAAA, SRV, PTR, CNAME, TXT, SOA and others; without it A and AAAA
    #[arg(long = "type", value_name = "TYPE", default_value = "A_AAAA", hide_default_value = true, value_parser = kinds)]
    kinds: Kinds,
    /// The Kubernetes namespace of the pod, from which the suffix and the search list follow
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// The domain of the cluster
    #[arg(long, visible_alias = "domain", value_name = "NAME", default_value = "cluster.local", value_parser = domain)]
    cluster_domain: Name,
    /// The one suffix on Windows, if it is another
    #[arg(long, value_name = "NAME", value_parser = domain)]
    suffix: Option<Name>,
    /// The search list on Linux, if it is another
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = domain)]
    search: Vec<Name>,
    /// On Linux, a name with so many dots is asked for as it is first
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(0..=15))]
    ndots: u8,
    /// Whose rules decide: windows shows both, linux only its own
    #[arg(long, value_enum, value_name = "SYSTEM", default_value_t = System::Windows)]
    rules: System,
    /// In which pod.
    #[cfg(target_os = "linux")]
    #[command(flatten)]
    of: pod::OfPod,
}

/// Whose rules decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum System {
    /// Those of Windows
    Windows,
    /// Those of Linux
    Linux,
}

/// Which records are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kinds(Vec<RecordType>);

const EXAMPLES: &str = "\
Examples:
  transom resolve kubernetes --server 10.96.0.10
  transom resolve web.shop --namespace shop --server 10.96.0.10
  transom resolve _http._tcp.web.shop.svc.cluster.local --type SRV
  transom resolve 10.96.0.1 -o json
  transom resolve --pod client-win1 web

The exit code is that of the rules that decide: 0 if the name was found, 3 if it was not, 5 if nobody answered.";

/// What was asked, and what came of it.
pub(crate) struct Report {
    name: String,
    server: SocketAddr,
    windows: Option<Resolution>,
    linux: Resolution,
}

/// Asks and shows.
pub(crate) fn run(output: &Output, args: &ResolveArgs) -> Result<(), Failure> {
    #[cfg(target_os = "linux")]
    if args.of.pod.is_some() {
        return pod::run(output, args);
    }
    let server = args.server.map_or_else(usual_server, Ok)?;
    let refuse = |error: NotAName| Failure::new(Exit::Usage, error.to_string());
    let ask = |rules: &Rules| resolve_at(server, &args.name, &args.kinds.0, rules).map_err(refuse);
    let windows = match args.rules {
        System::Windows => Some(ask(&windows(args).map_err(refuse)?)?),
        System::Linux => None,
    };
    let report = Report { name: args.name.clone(), server, windows, linux: ask(&linux(args).map_err(refuse)?)? };
    tell(output, &report)
}

/// Shows a report, and ends as the rules that decide do.
fn tell(output: &Output, report: &Report) -> Result<(), Failure> {
    match output.is_for_people() {
        true => output.text(&show::text(report))?,
        false => output.value(&show::value(report))?,
    }
    match exit(report.windows.as_ref().unwrap_or(&report.linux).verdict()) {
        Exit::Ok => Ok(()),
        exit => Err(Failure::told(exit)),
    }
}

fn exit(verdict: Option<&Verdict>) -> Exit {
    match verdict {
        Some(Verdict::Found) => Exit::Ok,
        Some(Verdict::NoName | Verdict::NoRecords) | None => Exit::NotFound,
        Some(Verdict::Failed(_)) => Exit::Failed,
        Some(Verdict::Silent(_) | Verdict::Unreachable(_)) => Exit::Unavailable,
    }
}

fn windows(args: &ResolveArgs) -> Result<Rules, NotAName> {
    match &args.suffix {
        Some(suffix) => Ok(Rules::Windows { suffix: Some(suffix.clone()) }),
        None => Rules::windows_pod(&args.namespace, &args.cluster_domain.to_string()),
    }
}

fn linux(args: &ResolveArgs) -> Result<Rules, NotAName> {
    let usual = Rules::linux_pod(&args.namespace, &args.cluster_domain.to_string())?;
    let Rules::Linux { search, .. } = usual else { return Ok(usual) };
    let search = if args.search.is_empty() { search } else { args.search.clone() };
    Ok(Rules::Linux { search, ndots: args.ndots.into() })
}

fn usual_server() -> Result<SocketAddr, Failure> {
    let found = dns::forward::read_servers(Path::new("/etc/resolv.conf")).ok().and_then(|servers| servers.first().copied());
    found.ok_or_else(|| Failure::new(Exit::Usage, "there is no server to ask").remedy("name one with --server"))
}

fn kinds(text: &str) -> Result<Kinds, String> {
    let text = text.to_ascii_uppercase();
    if text == "A_AAAA" {
        return Ok(Kinds(vec![RecordType::A, RecordType::AAAA]));
    }
    let kind = text.parse().map_err(|_| "write a type such as A, AAAA, SRV, PTR, CNAME or TXT".to_owned())?;
    Ok(Kinds(vec![kind]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_in_any_letters() {
        assert_eq!(kinds("srv"), Ok(Kinds(vec![RecordType::SRV])));
        assert_eq!(kinds("A_AAAA"), Ok(Kinds(vec![RecordType::A, RecordType::AAAA])));
        assert!(kinds("nonsense").is_err());
    }

    #[test]
    fn the_exit_code_says_how_it_ended() {
        let table = [
            (Some(Verdict::Found), Exit::Ok),
            (Some(Verdict::NoName), Exit::NotFound),
            (Some(Verdict::NoRecords), Exit::NotFound),
            (Some(Verdict::Silent(String::new())), Exit::Unavailable),
            (None, Exit::NotFound),
        ];
        for (verdict, expected) in table {
            assert_eq!(exit(verdict.as_ref()), expected, "{verdict:?}");
        }
    }
}
