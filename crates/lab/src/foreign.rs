//! Programs of others in the place of ours on a node: what they are told, and Wine around those that are made for Windows.

mod plugins;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use crate::daemon::{Program, Readiness};
use crate::kubelet::expand;
use crate::topology::{CniSpec, NetworkSpec, NodeSpec, Os, Topology};
use crate::wine::{self, Wine, windows_path};
pub(crate) use plugins::{Kept, Plugins, plugins};

/// Where the hnsd of a Windows node also listens: programs under Wine have no Unix sockets.
pub(crate) const HNSD: &str = "127.0.0.1:7777";

/// Where a kube-proxy tells that it is well, unless it is told to do so elsewhere.
const HEALTHZ: (&str, &str) = ("127.0.0.1:10256", "/healthz");

/// What a kube-proxy has to do to be taken for ready.
pub(crate) const READINESS: &str = "a kube-proxy of your own has to answer at http://127.0.0.1:10256/healthz, which is its usual place";

/// Whether a program is one of Windows.
fn is_for_windows(program: &str) -> bool {
    program.to_ascii_lowercase().ends_with(".exe")
}

impl NodeSpec {
    /// Whether something on it runs under Wine.
    pub(crate) fn needs_wine(&self) -> bool {
        self.proxy_program().is_some_and(|program| is_for_windows(&program))
            || self.cni.as_ref().is_some_and(|cni| has_windows_programs(&cni.directory()))
    }

    /// The program that it has in the place of our kube-proxy.
    fn proxy_program(&self) -> Option<String> {
        self.kube_proxy.command.first().map(|program| expand(program, &surroundings()))
    }
}

impl CniSpec {
    fn directory(&self) -> PathBuf {
        let path = PathBuf::from(expand(&self.path, &surroundings()));
        std::path::absolute(&path).unwrap_or(path)
    }
}

fn has_windows_programs(directory: &Path) -> bool {
    let names = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.into_iter().any(|name| is_for_windows(&name.to_string_lossy()))
}

/// Looks whether all programs of others are there, before anything is made.
pub(crate) fn check(topology: &Topology) -> Result<(), String> {
    for (position, node) in topology.nodes.iter().enumerate() {
        let told = |field: &str, cause: String| Err(format!("nodes[{position}].{field}: {cause}"));
        if let Some(program) = node.proxy_program()
            && wine::find(&program).is_none()
        {
            return told("kubeProxy.command", format!("there is no program {program}; a path begins at {}", here()));
        }
        if let Some(cni) = &node.cni
            && let name = kind(cni, topology.network_of(node))
            && plugin(&cni.directory(), name).is_none()
        {
            return told("cni.path", format!("there is neither {name} nor {name}.exe in {}", cni.directory().display()));
        }
        if node.needs_wine()
            && let Err(cause) = wine::check()
        {
            return Err(format!("{} runs programs of Windows: {cause}", node.name));
        }
    }
    Ok(())
}

fn here() -> String {
    std::env::current_dir().unwrap_or_default().display().to_string()
}

/// The plugin that a configuration names, or else the network needs.
fn kind<'a>(cni: &'a CniSpec, network: &NetworkSpec) -> &'a str {
    cni.config.as_ref().and_then(|config| config["type"].as_str()).unwrap_or(network.plugin_name())
}

/// The program of a plugin.
fn plugin(directory: &Path, name: &str) -> Option<PathBuf> {
    [format!("{name}.exe"), name.to_owned()].iter().map(|name| directory.join(name)).find(|path| path.is_file())
}

/// The variables of whoever started the lab.
fn surroundings() -> BTreeMap<String, String> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))).collect()
}

/// What programs of others are told of their node.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    node: String,
    os: Os,
    directory: PathBuf,
    kubeconfig: PathBuf,
    network: &'static str,
    addresses: Vec<IpAddr>,
    pod_subnets: Vec<String>,
    service_subnets: Vec<String>,
    own_subnets: Vec<String>,
}

impl Facts {
    /// Those of a node.
    pub(crate) fn of(topology: &Topology, kubeconfig: &Path, position: usize, directory: &Path) -> Self {
        let texts = |nets: &[ipnet::IpNet]| nets.iter().map(ToString::to_string).collect();
        Self {
            node: topology.nodes[position].name.clone(),
            os: topology.nodes[position].os,
            directory: directory.to_owned(),
            kubeconfig: kubeconfig.to_owned(),
            network: topology.network_of(&topology.nodes[position]).name(),
            addresses: topology.node_addresses(position).iter().map(ipnet::IpNet::addr).collect(),
            pod_subnets: texts(&topology.cluster.pod_subnets),
            service_subnets: texts(&topology.cluster.service_subnets),
            own_subnets: texts(&topology.node_subnets(position)),
        }
    }

    /// As variables. Paths are as the program reads them.
    fn variables(&self, for_windows: bool) -> BTreeMap<String, String> {
        let path = |path: &Path| if for_windows { windows_path(path) } else { path.display().to_string() };
        let mut variables: BTreeMap<String, String> = [
            ("KUBECONFIG", path(&self.kubeconfig)),
            ("KUBE_NETWORK", self.network.to_owned()),
            ("NODE_DIR", path(&self.directory)),
            ("NODE_IP", self.addresses.first().map(ToString::to_string).unwrap_or_default()),
            ("NODE_NAME", self.node.clone()),
            ("NODE_SUBNETS", self.own_subnets.join(",")),
            ("POD_SUBNETS", self.pod_subnets.join(",")),
            ("SERVICE_SUBNETS", self.service_subnets.join(",")),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        if self.os == Os::Windows {
            variables.insert("TRANSOM_HNSD".to_owned(), HNSD.to_owned());
            variables.insert("TRANSOM_TOKEN_FILE".to_owned(), path(&self.directory.join("hns/token")));
        }
        variables
    }
}

/// Variables that a file adds, each with those before it put in; and all that there is to put in elsewhere.
fn settle(
    facts: BTreeMap<String, String>,
    wine: Option<&Wine>,
    more: &BTreeMap<String, String>,
) -> (Vec<(String, String)>, BTreeMap<String, String>) {
    let mut known = surroundings();
    let mut own: Vec<(String, String)> = wine.map(Wine::variables).unwrap_or_default();
    own.extend(facts);
    known.extend(own.iter().cloned());
    for (name, value) in more {
        let value = expand(value, &known);
        known.insert(name.clone(), value.clone());
        own.push((name.clone(), value));
    }
    (own, known)
}

/// The kube-proxy that a node has in the place of ours.
pub(crate) fn kube_proxy(spec: &NodeSpec, facts: &Facts, wine: Option<&Wine>, source_vips: &[String]) -> Program {
    let wine = wine.filter(|_| spec.proxy_program().is_some_and(|program| is_for_windows(&program)));
    let mut told = facts.variables(wine.is_some());
    told.insert("SOURCE_VIP".to_owned(), source_vips.first().cloned().unwrap_or_default());
    let (variables, known) = settle(told, wine, &spec.kube_proxy.variables);
    let words = spec.kube_proxy.command.iter().map(|word| expand(word, &known));
    let command = wine.map(|_| wine::PROGRAM.to_owned()).into_iter().chain(words).collect();
    let name = format!("{}/kube-proxy", spec.name);
    Program { name, role: "kube-proxy".to_owned(), command, variables, readiness: Readiness::Http(HEALTHZ.0, HEALTHZ.1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::read;

    fn facts(text: &str) -> (NodeSpec, Facts) {
        let topology = read(text, &|_| Ok(())).expect("a plan").topology;
        let spec = topology.nodes[0].clone();
        (spec, Facts::of(&topology, Path::new("/run/lab/kubeconfig"), 0, Path::new("/run/lab/node/win1")))
    }

    fn lab(node: &str) -> String {
        format!("apiVersion: transom/v1\nkind: Lab\nnodes:\n  - {{name: win1, os: windows, {node}}}\n")
    }

    #[test]
    fn a_kube_proxy_is_told_of_its_node() {
        let proxy = "kubeProxy: {command: [bin/proxy, --node=$(NODE_NAME), --vip=$(SOURCE_VIP), $(MORE), $$x], variables: {MORE: '$(KUBE_NETWORK)!'}}";
        let (spec, facts) = facts(&lab(proxy));
        let program = kube_proxy(&spec, &facts, None, &["10.244.1.2".to_owned()]);
        assert_eq!(program.command, ["bin/proxy", "--node=win1", "--vip=10.244.1.2", "vxlan0!", "$x"]);
        let told = |name: &str| program.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        assert_eq!(told("TRANSOM_HNSD"), Some(HNSD));
        assert_eq!(told("TRANSOM_TOKEN_FILE"), Some("/run/lab/node/win1/hns/token"));
        assert_eq!(told("NODE_SUBNETS"), Some("10.244.1.0/24,fd00:244:0:1::/64"));
        assert!(!spec.needs_wine());
    }

    #[test]
    fn programs_of_windows_get_paths_of_windows() {
        let (spec, facts) = facts(&lab("kubeProxy: {command: [C/Kube-Proxy.EXE]}"));
        assert!(spec.needs_wine());
        let variables = facts.variables(true);
        assert_eq!(variables["KUBECONFIG"], "Z:/run/lab/kubeconfig");
        assert_eq!(variables["TRANSOM_TOKEN_FILE"], "Z:/run/lab/node/win1/hns/token");
    }

    #[test]
    fn what_is_not_there_is_told_by_its_field() {
        let told = |node: &str| check(&read(&lab(node), &|_| Ok(())).expect("a plan").topology).expect_err("it is not there");
        assert!(
            told("kubeProxy: {command: [/nowhere/proxy]}").starts_with("nodes[0].kubeProxy.command: there is no program /nowhere/proxy;")
        );
        assert!(
            told("cni: {path: /nowhere}").starts_with("nodes[0].cni.path: there is neither win-overlay nor win-overlay.exe in /nowhere")
        );
    }
}
