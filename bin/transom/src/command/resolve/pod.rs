//! Asking for a name as a pod of a lab does: in its network namespace, at its server, by its rules.

use clap::Args;
use lab::enter::{self, Place};
use lab::home::{self, Home};
use lab::status::{DnsStatus, PodStatus, Status};

use super::{ResolveArgs, System};
use crate::command::lab::{ask_status, find_pod, running_container};
use crate::exit::{Exit, Failure};
use crate::output::{Format, Output};

/// Which pod.
#[derive(Args, Clone, Debug)]
pub(crate) struct OfPod {
    /// Ask in this pod of a lab, with its server and by its rules; --namespace says where it is
    #[arg(long, value_name = "POD", conflicts_with_all = ["rules", "suffix", "search", "ndots", "cluster_domain"])]
    pub(super) pod: Option<String>,
    /// The pod's lab
    #[arg(long, value_name = "NAME", env = "TRANSOM_LAB", default_value = home::DEFAULT_NAME)]
    lab: String,
}

/// Runs the same command once more, inside of the pod's network namespace and with all that is known of the pod.
pub(super) fn run(output: &Output, args: &ResolveArgs) -> Result<(), Failure> {
    let home = Home::of(&args.of.lab);
    let status = ask_status(&home)?;
    let pod = find_pod(&status, &args.namespace, args.of.pod.as_deref().unwrap_or_default())?;
    let place = Place::network_of(running_container(pod, None)?);
    let mut arguments = arguments(&status, pod, args)?;
    arguments.extend(["--output".to_owned(), format(output).to_owned()]);
    let failed = |error: std::io::Error| Failure::new(Exit::Failed, format!("{} cannot be entered: {error}", pod.name));
    let ended = enter::command(&home, &place, &arguments).status().map_err(failed)?;
    std::process::exit(enter::code(ended))
}

/// The command line that says the same without a pod.
fn arguments(status: &Status, pod: &PodStatus, args: &ResolveArgs) -> Result<Vec<String>, Failure> {
    let own = pod.dns.servers.first().map(|address| std::net::SocketAddr::new(*address, 53));
    let nobody = || Failure::new(Exit::NotFound, format!("{} has no server to ask", pod.name)).remedy("name one with --server");
    let server = args.server.or(own).ok_or_else(nobody)?;
    let mut arguments: Vec<String> = ["resolve", &args.name, "--server", &server.to_string()].map(str::to_owned).to_vec();
    arguments.extend(["--namespace", &pod.namespace, "--cluster-domain", &status.cluster.domain].map(str::to_owned));
    if let [kind] = args.kinds.0.as_slice() {
        arguments.extend(["--type".to_owned(), kind.to_string()]);
    }
    let is_linux = status.nodes.iter().any(|node| node.name == pod.node && node.os == "linux");
    arguments.extend(rules(if is_linux { System::Linux } else { System::Windows }, &pod.dns));
    Ok(arguments)
}

/// By which rules the pod's processes resolve names.
fn rules(system: System, dns: &DnsStatus) -> Vec<String> {
    let option = |name: &str, value: &str| vec![name.to_owned(), value.to_owned()];
    match system {
        System::Windows => dns.search.first().map(|suffix| option("--suffix", suffix)).unwrap_or_default(),
        System::Linux => {
            let mut options = option("--rules", "linux");
            // Without the option, and without any search list, a dot makes a name whole.
            let ndots = dns.options.iter().find_map(|text| text.strip_prefix("ndots:")).unwrap_or("1");
            options.extend(option("--ndots", ndots));
            if !dns.search.is_empty() {
                options.extend(option("--search", &dns.search.join(",")));
            }
            options
        }
    }
}

fn format(output: &Output) -> &'static str {
    match output.format {
        Format::Table => "table",
        Format::Wide => "wide",
        Format::Json => "json",
        Format::Yaml => "yaml",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_on_windows_has_one_suffix_and_one_on_linux_a_list() {
        let dns = DnsStatus {
            servers: Vec::new(),
            search: vec!["shop.svc.cluster.local".to_owned(), "svc.cluster.local".to_owned()],
            options: vec!["ndots:5".to_owned()],
        };
        assert_eq!(rules(System::Windows, &dns), ["--suffix", "shop.svc.cluster.local"]);
        let expected = ["--rules", "linux", "--ndots", "5", "--search", "shop.svc.cluster.local,svc.cluster.local"];
        assert_eq!(rules(System::Linux, &dns), expected);
        assert_eq!(rules(System::Linux, &DnsStatus::default()), ["--rules", "linux", "--ndots", "1"]);
    }
}
