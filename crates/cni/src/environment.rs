//! The variables of one call: which a command needs, what may stand in them, and the arguments inside CNI_ARGS.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::netns::Netns;
use crate::object::quote;

/// What a plugin can be asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Attach a container.
    Add,
    /// Detach it.
    Del,
    /// Compare what is with what ADD promised.
    Check,
    /// Remove what no valid attachment owns.
    Gc,
    /// Say whether ADD would work now.
    Status,
    /// Say which versions are spoken.
    Version,
}

impl Command {
    const ALL: [Self; 6] = [Self::Add, Self::Del, Self::Check, Self::Gc, Self::Status, Self::Version];

    /// As it stands in CNI_COMMAND.
    pub fn text(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Del => "DEL",
            Self::Check => "CHECK",
            Self::Gc => "GC",
            Self::Status => "STATUS",
            Self::Version => "VERSION",
        }
    }

    /// The command with this text, which is in upper case.
    pub fn read(text: &str) -> Result<Self> {
        let unknown = || {
            let all = Self::ALL.map(Self::text).join(", ");
            Error::invalid_environment(format!("unknown CNI_COMMAND: {text}")).details(format!("set CNI_COMMAND to one of {all}"))
        };
        Self::ALL.into_iter().find(|command| command.text() == text).ok_or_else(unknown)
    }

    /// Whether the command is about one attachment.
    fn has_attachment(self) -> bool {
        matches!(self, Self::Add | Self::Check | Self::Del)
    }
}

/// Where variables come from: the process's own environment, or a test's map.
pub type Variables<'a> = dyn Fn(&str) -> Option<OsString> + 'a;

/// The variables of one call, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// CNI_COMMAND.
    pub command: Command,
    /// CNI_CONTAINERID; empty for commands that are about no container.
    pub container_id: String,
    /// CNI_NETNS as it was written.
    pub netns: String,
    /// CNI_IFNAME; empty for commands that are about no container.
    pub ifname: String,
    /// CNI_ARGS as it was written; [`Environment::args`] takes it apart.
    pub args: String,
    /// CNI_PATH as it was written; [`Environment::paths`] takes it apart.
    pub path: OsString,
    /// CNI_NETNS_OVERRIDE: the namespace may be the plugin's own.
    pub netns_override: bool,
}

impl Environment {
    /// Reads and checks the variables that the command needs.
    ///
    /// The first one that has something wrong in it is reported; else all that are missing, together.
    pub fn read(variables: &Variables<'_>) -> Result<Self> {
        let text = |name: &str| text_of(variables, name);
        let command = Command::read(&text("CNI_COMMAND")?)?;
        let mut environment = Self {
            command,
            container_id: String::new(),
            netns: String::new(),
            ifname: String::new(),
            args: String::new(),
            path: variables("CNI_PATH").unwrap_or_default(),
            netns_override: false,
        };
        if command == Command::Version {
            return Ok(environment);
        }
        if command.has_attachment() {
            environment.container_id = text("CNI_CONTAINERID")?;
            environment.netns = text("CNI_NETNS")?;
            environment.ifname = text("CNI_IFNAME")?;
            environment.args = text("CNI_ARGS")?;
            let netns_override = text("CNI_NETNS_OVERRIDE")?;
            environment.netns_override = netns_override.eq_ignore_ascii_case("true") || netns_override == "1";
        }
        environment.check()?;
        Ok(environment)
    }

    fn check(&self) -> Result<()> {
        if !self.container_id.is_empty() {
            check_container_id(&self.container_id)?;
        }
        if !self.ifname.is_empty() {
            check_ifname(&self.ifname)?;
        }
        let attachment = self.command.has_attachment();
        let required = [
            ("CNI_CONTAINERID", attachment, self.container_id.is_empty()),
            ("CNI_NETNS", attachment && self.command != Command::Del, self.netns.is_empty()),
            ("CNI_IFNAME", attachment, self.ifname.is_empty()),
            ("CNI_PATH", true, self.path.is_empty()),
        ];
        let missing: Vec<&str> = required.iter().filter(|(_, required, empty)| *required && *empty).map(|(name, ..)| *name).collect();
        match missing.as_slice() {
            [] => Ok(()),
            missing => Err(Error::invalid_environment(format!("required env variables [{}] missing", missing.join(","))).details(format!(
                "set {} before calling {}",
                missing.join(" and "),
                self.command.text()
            ))),
        }
    }

    /// The same variables for another command.
    pub fn with(&self, command: Command) -> Self {
        Self { command, ..self.clone() }
    }

    /// The namespace that CNI_NETNS names.
    pub fn namespace(&self) -> Netns {
        Netns::read(&self.netns)
    }

    /// The arguments in CNI_ARGS.
    pub fn args(&self) -> Result<Args> {
        Args::read(&self.args)
    }

    /// The directories in CNI_PATH, by the operating system's rules for lists of paths.
    pub fn paths(&self) -> Vec<PathBuf> {
        std::env::split_paths(&self.path).filter(|path| !path.as_os_str().is_empty()).collect()
    }

    /// Every variable with its value, for a process that is to see this environment. An empty one is to be unset.
    pub fn variables(&self) -> [(&'static str, OsString); 7] {
        [
            ("CNI_COMMAND", self.command.text().into()),
            ("CNI_CONTAINERID", self.container_id.clone().into()),
            ("CNI_NETNS", self.netns.clone().into()),
            ("CNI_IFNAME", self.ifname.clone().into()),
            ("CNI_ARGS", self.args.clone().into()),
            ("CNI_PATH", self.path.clone()),
            ("CNI_NETNS_OVERRIDE", if self.netns_override { "1".into() } else { OsString::new() }),
        ]
    }
}

fn text_of(variables: &Variables<'_>, name: &str) -> Result<String> {
    let value = variables(name).unwrap_or_default();
    value.into_string().map_err(|value| {
        Error::invalid_environment(format!("{name} is not UTF-8: {}", quote(&value.to_string_lossy())))
            .details(format!("set {name} to plain text"))
    })
}

/// Whether a text may be a container id or the name of a network: letters, digits, `_`, `.` and `-`, the first a letter or
/// a digit. So it is never a path that leads anywhere else.
pub(crate) fn is_identifier(text: &str) -> bool {
    let mut bytes = text.bytes();
    let first = bytes.next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    first && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

fn check_container_id(id: &str) -> Result<()> {
    if is_identifier(id) {
        return Ok(());
    }
    Err(Error::invalid_environment(format!("invalid characters in containerID: CNI_CONTAINERID is {}", quote(id)))
        .details("use letters, digits, _ . and -, the first a letter or a digit"))
}

/// The longest name that an interface of Linux can have.
const IFNAME_LENGTH: usize = 15;

fn check_ifname(name: &str) -> Result<()> {
    let refuse = |why: &str, remedy: &str| Err(Error::invalid_environment(format!("{why}: CNI_IFNAME is {}", quote(name))).details(remedy));
    if name.len() > IFNAME_LENGTH {
        return refuse("interface name is too long", "interface name should be less than 16 characters");
    }
    if name == "." || name == ".." {
        return refuse("interface name is . or ..", "use a name such as eth0");
    }
    if name.contains(|character: char| character == '/' || character == ':' || character.is_whitespace()) {
        return refuse("interface name contains / or : or whitespace characters", "use a name such as eth0");
    }
    Ok(())
}

/// The arguments in CNI_ARGS, `K=V;K2=V2`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Args {
    pairs: Vec<(String, String)>,
    ignore_unknown: bool,
}

impl Args {
    /// Takes the text apart.
    pub fn read(text: &str) -> Result<Self> {
        let mut args = Self::default();
        if text.is_empty() {
            return Ok(args);
        }
        for pair in text.split(';') {
            let mut parts = pair.split('=');
            let (Some(key), Some(value), None) = (parts.next(), parts.next(), parts.next()) else {
                return Err(Error::invalid_environment(format!("CNI_ARGS: invalid pair {}", quote(pair)))
                    .details("write pairs with one = each and ; between them, as in IgnoreUnknown=1;K8S_POD_NAME=web"));
            };
            match key {
                "IgnoreUnknown" => args.ignore_unknown = read_flag(value)?,
                key => args.pairs.push((key.to_owned(), value.to_owned())),
            }
        }
        Ok(args)
    }

    /// The value of a key, which matches exactly; the last one counts.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().rev().find(|(found, _)| found == key).map(|(_, value)| value.as_str())
    }

    /// Objects to keys that are none of those `known`, unless `IgnoreUnknown` was given.
    pub fn require_known(&self, known: &[&str]) -> Result<()> {
        let unknown: Vec<&str> = self.pairs.iter().map(|(key, _)| key.as_str()).filter(|key| !known.contains(key)).collect();
        if unknown.is_empty() || self.ignore_unknown {
            return Ok(());
        }
        Err(Error::invalid_environment(format!("CNI_ARGS: unknown args {}", quote(&unknown.join(";"))))
            .details("leave them out, or add IgnoreUnknown=1"))
    }
}

fn read_flag(value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err(Error::invalid_environment(format!("CNI_ARGS: IgnoreUnknown is {}", quote(value)))
            .details("write IgnoreUnknown=1 or IgnoreUnknown=0")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Environment> {
        Environment::read(&|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value)))
    }

    const ADD: [(&str, &str); 5] = [
        ("CNI_COMMAND", "ADD"),
        ("CNI_CONTAINERID", "c1"),
        ("CNI_NETNS", "/run/netns/x"),
        ("CNI_IFNAME", "eth0"),
        ("CNI_PATH", "/opt/cni/bin"),
    ];

    fn change<'a>(name: &'a str, value: &'a str) -> Vec<(&'a str, &'a str)> {
        ADD.iter().map(|pair| if pair.0 == name { (name, value) } else { *pair }).collect()
    }

    #[test]
    fn a_whole_environment_is_read() {
        let mut pairs = ADD.to_vec();
        pairs.extend([("CNI_ARGS", "IP=10.0.0.5"), ("CNI_NETNS_OVERRIDE", "True")]);
        let environment = read(&pairs).unwrap();
        assert_eq!(environment.command, Command::Add);
        assert_eq!(environment.args().unwrap().get("IP"), Some("10.0.0.5"));
        assert!(environment.netns_override);
        assert_eq!(environment.namespace(), Netns::Path("/run/netns/x".into()));
        let again = environment.variables();
        let again = Environment::read(&|name| again.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone()));
        assert_eq!(again, Ok(environment));
    }

    #[test]
    fn what_is_missing_is_listed() {
        for (command, missing) in [
            ("ADD", "CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH"),
            ("CHECK", "CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH"),
            ("DEL", "CNI_CONTAINERID,CNI_IFNAME,CNI_PATH"),
            ("GC", "CNI_PATH"),
            ("STATUS", "CNI_PATH"),
        ] {
            let error = read(&[("CNI_COMMAND", command)]).unwrap_err();
            assert_eq!((error.code, error.msg), (4, format!("required env variables [{missing}] missing")), "{command}");
        }
        assert!(read(&[("CNI_COMMAND", "VERSION")]).is_ok());
        assert!(read(&change("CNI_NETNS", "")).is_err());
    }

    #[test]
    fn unknown_commands_are_refused() {
        for command in ["", "add", "UPDATE", "ADD "] {
            let error = read(&change("CNI_COMMAND", command)).unwrap_err();
            assert_eq!((error.code, error.msg), (4, format!("unknown CNI_COMMAND: {command}")));
        }
    }

    #[test]
    fn container_ids_lead_nowhere() {
        for id in ["../../etc/passwd", "a/b", ".", "..", "-a", "_a", "a b", "a\u{0}b", "ä", "a\r\nb", "C:\\x", "a\\b"] {
            let error = read(&change("CNI_CONTAINERID", id)).unwrap_err();
            assert_eq!(error.code, 4, "{id}");
            assert!(error.msg.contains("CNI_CONTAINERID"), "{}", error.msg);
        }
        for id in ["a", "0", "A-b_c.d", "a..b"] {
            assert!(read(&change("CNI_CONTAINERID", id)).is_ok(), "{id}");
        }
    }

    #[test]
    fn names_of_interfaces_are_those_of_linux() {
        for name in [".", "..", "a/b", "a:b", "a b", "a\tb", "sixteen-letters-"] {
            assert_eq!(read(&change("CNI_IFNAME", name)).unwrap_err().code, 4, "{name}");
        }
        for name in ["eth0", "fifteen-letters", "..a"] {
            assert!(read(&change("CNI_IFNAME", name)).is_ok(), "{name}");
        }
    }

    #[test]
    fn gc_looks_at_no_container() {
        let environment = read(&[("CNI_COMMAND", "GC"), ("CNI_PATH", "/x"), ("CNI_CONTAINERID", "../x")]).unwrap();
        assert_eq!(environment.container_id, "");
    }

    #[cfg(unix)]
    #[test]
    fn bytes_that_are_no_text_are_an_error() {
        use std::os::unix::ffi::OsStringExt;
        let error = Environment::read(&|name| match name {
            "CNI_CONTAINERID" => Some(OsString::from_vec(vec![0xff, 0xfe])),
            name => ADD.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value)),
        });
        let error = error.unwrap_err();
        assert_eq!(error.code, 4);
        assert!(error.msg.starts_with("CNI_CONTAINERID is not UTF-8"), "{}", error.msg);
    }

    #[test]
    fn paths_are_a_list_of_the_systems_kind() {
        let list = std::env::join_paths(["one", "two"]).unwrap();
        let list = list.to_str().unwrap();
        assert_eq!(read(&change("CNI_PATH", list)).unwrap().paths(), [PathBuf::from("one"), PathBuf::from("two")]);
    }

    #[test]
    fn arguments_are_pairs() {
        let args = Args::read("IP=10.0.0.1;K8S_POD_NAME=a;IP=10.0.0.2").unwrap();
        assert_eq!(args.get("IP"), Some("10.0.0.2"));
        assert_eq!(args.get("ip"), None);
        for text in ["IP", "a=b=c", "a=b;", ";", "IgnoreUnknown=maybe"] {
            assert_eq!(Args::read(text).unwrap_err().code, 4, "{text}");
        }
    }

    #[test]
    fn unknown_arguments_are_refused_unless_ignored() {
        let error = Args::read("IP=1;X=2").unwrap().require_known(&["IP"]).unwrap_err();
        assert_eq!(error.msg, "CNI_ARGS: unknown args \"X\"");
        for flag in ["1", "true", "TRUE"] {
            assert_eq!(Args::read(&format!("X=2;IgnoreUnknown={flag}")).unwrap().require_known(&[]), Ok(()));
        }
        assert!(Args::read("X=2;IgnoreUnknown=0").unwrap().require_known(&[]).is_err());
    }
}
