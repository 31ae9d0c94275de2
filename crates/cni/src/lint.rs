//! What is wrong with a configuration before a runtime trips over it, with the place and the fix.
//!
//! A configuration that our plugins would refuse is an error, and so is one that they would accept and that does something
//! else than was meant. What is only odd is a warning. Keys of plugins that are not ours are not looked at.

mod azure;
mod located;
mod policy;
mod range;
mod schema;

use std::fmt;
use std::path::Path;

use ipnet::IpNet;

use crate::environment::is_identifier;
use crate::flannel::{self, SubnetEnv};
use crate::object::quote;
use crate::plugin::Registry;
use crate::result::texts_of;
use crate::version::Version;

use located::{Located, Member, Node, position};
use schema::{Key, Kind};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It will not work, or not as meant.
    Error,
    /// It is odd.
    Warning,
}

impl Severity {
    /// In a word.
    pub fn text(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// Something to mend in a configuration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub fix: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}\n  fix: {}", self.line, self.column, self.severity.text(), self.message, self.fix)
    }
}

/// What a Windows build can do, as far as a configuration depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build {
    /// Its name, for messages.
    pub name: String,
    /// The lowest VXLAN network identifier that it takes.
    pub lowest_vni: i64,
    /// Whether VXLAN may use another port than 4789.
    pub vxlan_port: bool,
    /// Whether there is direct server return.
    pub dsr: bool,
    /// Whether overlay networks may have IPv6.
    pub overlay_ipv6: bool,
    /// Whether a network may have IPv6 alone.
    pub ipv6_only: bool,
    /// Whether an endpoint may have addresses of both families.
    pub dual_stack: bool,
    /// Whether OutBoundNAT may have exceptions on overlay networks.
    pub overlay_exceptions: bool,
}

impl Default for Build {
    /// What every Windows Server from 2022 on has in common.
    fn default() -> Self {
        Self {
            name: "Windows".to_owned(),
            lowest_vni: 4096,
            vxlan_port: true,
            dsr: true,
            overlay_ipv6: false,
            ipv6_only: false,
            dual_stack: true,
            overlay_exceptions: true,
        }
    }
}

/// What a configuration itself does not say.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The build that it is for.
    pub build: Build,
    /// Where the cluster's pods are.
    pub cluster: Vec<IpNet>,
    /// Where its Services are.
    pub service: Vec<IpNet>,
    /// Where its nodes are.
    pub management: Vec<IpNet>,
    /// What flanneld says; without it the file that the configuration names is read, if it is there.
    pub subnet_env: Option<SubnetEnv>,
}

/// Looks at a list or at the configuration of a single plugin. Findings are in the order of their places.
pub fn check(bytes: &[u8], surroundings: &Surroundings, registry: &Registry) -> Vec<Finding> {
    let lossy = String::from_utf8_lossy(bytes);
    let mut linter = Linter { text: &lossy, surroundings, registry, findings: Vec::new() };
    match read(bytes, &lossy) {
        Ok(root) => linter.root(&root),
        Err(finding) => linter.findings.push(finding),
    }
    let mut findings = linter.findings;
    findings.sort();
    findings.dedup();
    findings
}

/// The document, or why there is none.
fn read(bytes: &[u8], lossy: &str) -> Result<Node, Finding> {
    let finding =
        |(line, column), message: String, fix: &str| Finding { line, column, severity: Severity::Error, message, fix: fix.to_owned() };
    let text = std::str::from_utf8(bytes)
        .map_err(|error| finding(position(lossy, error.valid_up_to()), "the file is not UTF-8".to_owned(), "save it as UTF-8"))?;
    if text.starts_with('\u{feff}') {
        let fix = "save it as UTF-8 without one; in PowerShell with -Encoding utf8NoBOM or [IO.File]::WriteAllText";
        return Err(finding((1, 1), "the file begins with a byte order mark, which runtimes do not read".to_owned(), fix));
    }
    if let Err(error) = serde_json::from_str::<serde_json::Value>(text) {
        let full = error.to_string();
        let why = full.rsplit_once(" at line ").map_or(full.as_str(), |(why, _)| why);
        return Err(finding((error.line(), error.column().max(1)), format!("the file is no JSON: {why}"), "mend it there, or just before"));
    }
    let odd = || finding((1, 1), "the file cannot be looked at".to_owned(), "write it anew, without unusual characters");
    let root = Node::scan(text).ok_or_else(odd)?;
    match root.is_object() {
        true => Ok(root),
        false => Err(finding(
            (1, 1),
            format!("an object is expected, but there is {}", root.says()),
            "write a list with cniVersion, name and plugins",
        )),
    }
}

struct Linter<'a> {
    text: &'a str,
    surroundings: &'a Surroundings,
    registry: &'a Registry,
    findings: Vec<Finding>,
}

/// A plugin's object, and what the checks of it ask again and again.
struct Subject<'a> {
    node: &'a Node,
    /// What the plugin is called.
    plugin: &'a str,
    path: String,
    /// What flanneld says, for a delegate of flannel.
    flannel: Option<SubnetEnv>,
}

impl Subject<'_> {
    fn path(&self, key: &str) -> String {
        join(&self.path, key)
    }

    /// The network that it is for is an overlay.
    fn is_overlay(&self) -> bool {
        matches!(self.plugin, "win-overlay" | "sdnoverlay")
    }

    /// The network that it is for is a bridge, on which pods have the addresses of the node's network.
    fn is_bridge(&self) -> bool {
        matches!(self.plugin, "win-bridge" | "sdnbridge")
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

impl Linter<'_> {
    fn find(&mut self, severity: Severity, at: usize, message: impl Into<String>, fix: impl Into<String>) {
        let (line, column) = position(self.text, at);
        self.findings.push(Finding { line, column, severity, message: message.into(), fix: fix.into() });
    }

    fn error(&mut self, at: usize, message: impl Into<String>, fix: impl Into<String>) {
        self.find(Severity::Error, at, message, fix);
    }

    fn warning(&mut self, at: usize, message: impl Into<String>, fix: impl Into<String>) {
        self.find(Severity::Warning, at, message, fix);
    }

    fn root(&mut self, root: &Node) {
        self.duplicates(root);
        self.network_name(root);
        let plugins: Vec<(&Node, String)> = match root.member("plugins") {
            None => vec![(root, String::new())],
            Some(member) => {
                self.keys(root, "", schema::LIST);
                let elements = member.node.elements();
                if elements.is_empty() {
                    self.error(member.node.at, "plugins: there is none", "list at least one plugin");
                }
                elements.iter().enumerate().map(|(index, node)| (node, format!("plugins[{index}]"))).collect()
            }
        };
        let mut seen: Vec<&str> = Vec::new();
        for (node, path) in &plugins {
            let Some(subject) = self.subject(node, path) else { continue };
            if seen.contains(&subject.plugin) && schema::plugin(subject.plugin).is_some() {
                let message =
                    format!("{}: {} is there twice, and both would make the same endpoint", subject.path("type"), quote(subject.plugin));
                self.error(node.at, message, "leave one of them out");
            }
            seen.push(subject.plugin);
            self.version(root, &subject);
            self.plugin(&subject);
        }
        if seen.is_empty() || !plugins.iter().any(|(node, _)| node.get("type").is_some()) {
            self.version_text(root);
        }
    }

    /// The plugin's object, if it is one with a type.
    fn subject<'n>(&mut self, node: &'n Node, path: &str) -> Option<Subject<'n>> {
        let what = if path.is_empty() { "the configuration" } else { path };
        if !node.is_object() {
            self.error(
                node.at,
                format!("{what}: an object is expected, but there is {}", node.says()),
                "write a plugin's configuration there",
            );
            return None;
        }
        match node.text("type") {
            Some(plugin) if !plugin.is_empty() => Some(Subject { node, plugin, path: path.to_owned(), flannel: None }),
            _ => {
                self.error(node.at, format!("{what} has no type"), "set type to the name of a plugin");
                None
            }
        }
    }

    fn network_name(&mut self, root: &Node) {
        let fix = "use letters, digits, _ . and -, the first a letter or a digit";
        match root.get("name") {
            None => self.error(root.at, "name is missing", "give the network a name"),
            Some(node) => {
                if node.as_text().is_some_and(|name| !is_identifier(name)) {
                    self.error(node.at, format!("name: {} has characters that no name has", node.says()), fix);
                }
            }
        }
    }

    /// The version that the file asks for, if it is one.
    fn version_text(&mut self, root: &Node) -> Option<(Version, usize)> {
        let Some(node) = root.get("cniVersion") else {
            self.warning(root.at, "cniVersion is missing, which means 0.1.0", "set it, for example to \"1.0.0\"");
            return None;
        };
        let text = node.as_text()?;
        match Version::find(text) {
            Some(version) => Some((version, node.at)),
            None => {
                let message = format!("cniVersion: there is no version {}", quote(text));
                self.error(node.at, message, format!("use one of {}", texts_of(Version::ALL)));
                None
            }
        }
    }

    fn version(&mut self, root: &Node, subject: &Subject<'_>) {
        let Some((version, at)) = self.version_text(root) else { return };
        let ipam = subject.node.get("ipam").and_then(|ipam| ipam.text("type"));
        for name in [Some(subject.plugin), ipam].into_iter().flatten() {
            let Some(plugin) = self.registry.find(name) else { continue };
            if !plugin.versions().contains(&version) {
                let message = format!("cniVersion: {name} does not speak {version}");
                self.error(at, message, format!("use one of {}", texts_of(plugin.versions())));
            }
        }
    }

    fn plugin(&mut self, subject: &Subject<'_>) {
        self.duplicates(subject.node);
        let Some(own) = schema::plugin(subject.plugin) else {
            if let Some(near) = schema::nearest(subject.plugin, schema::names(false)) {
                let at = subject.node.get("type").map_or(subject.node.at, |node| node.at);
                self.error(
                    at,
                    format!("{}: there is no plugin {}", subject.path("type"), quote(subject.plugin)),
                    format!("write {near:?}"),
                );
            }
            return;
        };
        // The configuration of a single plugin has keys of a list too.
        let list = if subject.path.is_empty() { schema::LIST } else { &[] };
        self.keys(subject.node, &subject.path, &[schema::STANDARD, own, list].concat());
        match subject.plugin {
            "flannel" => self.flannel(subject),
            _ => {
                if subject.plugin == "azure-vnet" {
                    self.azure_vnet(subject);
                }
                self.ipam(subject);
                self.policies(subject);
                self.build(subject);
            }
        }
    }

    /// Keys that nobody reads, and values of the wrong type.
    fn keys(&mut self, node: &Node, path: &str, known: &[Key]) {
        for member in node.members() {
            let here = join(path, &member.key);
            match known.iter().find(|(key, _)| key.eq_ignore_ascii_case(&member.key)) {
                Some((_, kind)) => self.value(&member.node, &here, *kind),
                None if member.key.starts_with("cni.dev/") => {}
                None => self.unknown(member, &here, known),
            }
        }
    }

    fn unknown(&mut self, member: &Member, path: &str, known: &[Key]) {
        let mut names: Vec<&str> = known.iter().map(|(key, _)| *key).collect();
        let message = format!("{path}: nobody reads this key");
        if let Some(near) = schema::nearest(&member.key, names.iter().copied()) {
            return self.error(member.at, message, format!("write {near:?}"));
        }
        names.sort_unstable();
        names.dedup();
        self.warning(member.at, message, format!("leave it out; known are {}", names.join(", ")));
    }

    fn value(&mut self, node: &Node, path: &str, kind: Kind) {
        let expected = match (kind, &node.value) {
            (Kind::Any, _) | (_, Located::Null) => return,
            (Kind::Text | Kind::FlagOrText, Located::Text(_)) | (Kind::Flag | Kind::FlagOrText, Located::Flag(_)) => return,
            (Kind::Address, Located::Text(text)) if text.is_empty() || text.parse::<std::net::IpAddr>().is_ok() => return,
            (Kind::Prefix, Located::Text(text)) if text.is_empty() || text.parse::<IpNet>().is_ok() => return,
            (Kind::MacPrefix, Located::Text(text)) if text.is_empty() || is_mac_prefix(text) => return,
            (Kind::Whole(low, high), Located::Number(number)) if number.as_i64().is_some_and(|number| (low..=high).contains(&number)) => {
                return;
            }
            (Kind::List(kind), Located::List(elements)) => {
                return elements.iter().enumerate().for_each(|(index, node)| self.value(node, &format!("{path}[{index}]"), *kind));
            }
            (Kind::Object(keys), Located::Object(_)) => {
                self.duplicates(node);
                return self.keys(node, path, keys);
            }
            (Kind::Map(kind), Located::Object(members)) => {
                return members.iter().for_each(|member| self.value(&member.node, &join(path, &member.key), *kind));
            }
            (kind, _) => says(kind),
        };
        self.error(node.at, format!("{path}: {expected} is expected, but there is {}", node.says()), format!("write {expected}"));
    }

    /// A key that is there twice: which one counts depends on who reads it.
    fn duplicates(&mut self, node: &Node) {
        let members = node.members();
        for (index, member) in members.iter().enumerate() {
            if members[..index].iter().any(|before| before.key.eq_ignore_ascii_case(&member.key)) {
                self.error(member.at, format!("{}: the key is there twice", member.key), "leave one of them out");
            }
        }
    }

    /// Who gives out addresses, and which.
    fn ipam(&mut self, subject: &Subject<'_>) {
        let path = subject.path("ipam");
        let ipam = subject.node.get("ipam");
        let name = ipam.and_then(|ipam| ipam.text("type")).unwrap_or_default();
        if name.is_empty() && subject.flannel.is_none() {
            self.missing_ipam(subject, ipam);
        }
        let Some(ipam) = ipam else { return };
        if !ipam.is_object() {
            return self.error(
                ipam.at,
                format!("{path}: an object is expected, but there is {}", ipam.says()),
                "write an object with a type",
            );
        }
        self.duplicates(ipam);
        match schema::ipam(subject.plugin, name) {
            Some(keys) => self.keys(ipam, &path, &keys),
            None => {
                if let Some(near) = schema::nearest(name, schema::names(true)) {
                    let at = ipam.get("type").map_or(ipam.at, |node| node.at);
                    self.error(at, format!("{path}.type: there is no IPAM plugin {}", quote(name)), format!("write {near:?}"));
                }
            }
        }
        match name {
            "host-local" => self.ranges(subject, ipam, &path),
            "azure-vnet-ipam" | "azure-vnet-ipamv6" => self.azure_environment(ipam, &path),
            _ => {}
        }
    }

    fn missing_ipam(&mut self, subject: &Subject<'_>, ipam: Option<&Node>) {
        let path = subject.path("ipam.type");
        let at = ipam.unwrap_or(subject.node).at;
        match subject.plugin {
            "win-overlay" => self.error(
                at,
                format!("{path} is missing, and the endpoints of an overlay are named after their addresses"),
                "set ipam, for example to {\"type\": \"host-local\", \"subnet\": \"10.244.1.0/24\"}",
            ),
            "azure-vnet" => self.error(at, format!("{path} is missing"), "set ipam to {\"type\": \"azure-vnet-ipam\"}"),
            "win-bridge" => self.warning(
                at,
                format!("{path} is missing, so that HNS chooses addresses, also those that other nodes use"),
                "set ipam, for example to {\"type\": \"host-local\", \"subnet\": \"10.244.1.0/24\", \"rangeStart\": \"10.244.1.3\"}",
            ),
            _ => {}
        }
    }

    /// What a meta plugin has beside its keys: a delegate, which is looked at as what it will become.
    fn flannel(&mut self, subject: &Subject<'_>) {
        if let Some(member) = subject.node.member("ipam") {
            self.warning(
                member.at,
                format!("{}: nobody reads this key", subject.path("ipam")),
                "leave it out; flannel sets ipam for the delegate",
            );
        }
        let path = subject.path("delegate");
        let empty = Node { at: subject.node.at, value: Located::Object(Vec::new()) };
        let delegate = subject.node.get("delegate").unwrap_or(&empty);
        if !delegate.is_object() {
            return self.error(delegate.at, format!("{path}: an object is expected, but there is {}", delegate.says()), "write an object");
        }
        for member in delegate.members() {
            let here = join(&path, &member.key);
            match member.key.as_str() {
                "name" | "ipam" => self.error(member.at, format!("{here}: flannel sets it, and refuses to find it there"), "leave it out"),
                "capabilities" => {
                    let fix = format!("move it to {}", if subject.path.is_empty() { "the top" } else { &subject.path });
                    self.error(member.at, format!("{here}: runtimes look for it beside the delegate, not in it"), fix);
                }
                "cniVersion" | "ipMasq" | "ipMasqNetwork" => {
                    self.warning(member.at, format!("{here}: flannel overwrites it"), "leave it out");
                }
                _ => {}
            }
        }
        let plugin = match delegate.get("type").map(|node| (node, node.as_text())) {
            None => flannel::DELEGATE,
            Some((_, Some(plugin))) if !plugin.is_empty() => plugin,
            Some((node, _)) => {
                return self.error(node.at, format!("{path}.type: the name of a plugin is expected"), "name it, or leave it out");
            }
        };
        let flannel = self.subnet_env(subject).unwrap_or_default();
        self.plugin(&Subject { node: delegate, plugin, path, flannel: Some(flannel) });
    }

    /// What flanneld says, if that can be known here.
    fn subnet_env(&self, subject: &Subject<'_>) -> Option<SubnetEnv> {
        let file = || {
            SubnetEnv::load(Path::new(subject.node.text("subnetFile").filter(|file| !file.is_empty()).unwrap_or(flannel::SUBNET_FILE))).ok()
        };
        self.surroundings.subnet_env.clone().or_else(file)
    }

    /// What the build cannot do.
    fn build(&mut self, subject: &Subject<'_>) {
        let build = self.surroundings.build.clone();
        let flags = [subject.node.member("loopbackDSR"), subject.node.get("optionalFlags").and_then(|flags| flags.member("loopbackDSR"))];
        for member in flags.into_iter().flatten().filter(|member| member.node.value == Located::Flag(true) && !build.dsr) {
            self.error(member.at, format!("{}: {} has no direct server return", subject.path(&member.key), build.name), "set it to false");
        }
        if let Some(node) = subject.node.get("apiVersion").filter(|node| node.as_whole() == Some(1)) {
            self.warning(
                node.at,
                format!("{}: 1 is the same as none", subject.path("apiVersion")),
                "leave it out, or set it to 2 for containerd",
            );
        }
    }
}

fn is_mac_prefix(text: &str) -> bool {
    let hex = |byte: &u8| byte.is_ascii_hexdigit();
    matches!(text.as_bytes(), [a, b, b'-', c, d] if [a, b, c, d].into_iter().all(hex))
}

fn says(kind: Kind) -> String {
    match kind {
        Kind::Any => "anything".to_owned(),
        Kind::Text => "a string".to_owned(),
        Kind::Flag | Kind::FlagOrText => "true or false".to_owned(),
        Kind::Whole(low, i64::MAX) => format!("a whole number from {low} on"),
        Kind::Whole(low, high) => format!("a whole number from {low} to {high}"),
        Kind::Address => "an address such as \"10.244.1.1\"".to_owned(),
        Kind::Prefix => "a prefix such as \"10.244.1.0/24\"".to_owned(),
        Kind::MacPrefix => "two bytes such as \"0E-2A\"".to_owned(),
        Kind::List(_) => "a list".to_owned(),
        Kind::Object(_) | Kind::Map(_) => "an object".to_owned(),
    }
}

#[cfg(test)]
mod tests;
