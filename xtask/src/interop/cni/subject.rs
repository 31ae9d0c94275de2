//! Whose plugins play, and how one of their programs is called.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::super::hnsd::Hnsd;
use super::super::{Ground, SHORT, limited, make_directory, wine};
use super::cases::{Case, Netns, Verb};
use super::record::{Kept, Record};
use super::{reference, sandbox};
use crate::{dist, shell};

/// The container of all cases.
const CONTAINER: &str = "c1";
/// Where flannel keeps what it told other plugins.
const DELEGATES: &str = "delegates";
/// A namespace that nobody has made.
const NOBODYS: &str = "00000000-0000-4000-8000-000000000001";

/// Whose plugins play.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The reference's, for Windows.
    Reference,
    /// Ours, of this system.
    Linux,
    /// Ours, for Windows.
    Windows,
}

impl Subject {
    /// In a word.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Linux => "linux",
            Self::Windows => "windows",
        }
    }
}

/// All plugins, each subject's in a directory of its own.
pub(super) struct Troupe<'a> {
    ground: &'a Ground,
    directory: PathBuf,
}

impl<'a> Troupe<'a> {
    /// Builds and installs them.
    pub(super) fn gather(ground: &'a Ground) -> Result<Self, String> {
        let troupe = Self::gathered(ground);
        // What is installed is linked to the program that installs, and Windows replaces no program that runs.
        let _ = fs::remove_dir_all(&troupe.directory);
        for subject in [Subject::Reference, Subject::Linux, Subject::Windows] {
            make_directory(&troupe.of(subject))?;
        }
        reference::build(&troupe.of(Subject::Reference))?;
        shell::output(Command::new(&ground.program).args(["cni", "install"]).arg(troupe.of(Subject::Linux)))?;
        let into = wine::windows_path(&troupe.of(Subject::Windows));
        ground.prefix.output(&dist::directory().join("transom.exe"), &["cni", "install", &into], SHORT)?;
        Ok(troupe)
    }

    /// Those that somebody has gathered.
    pub(super) fn gathered(ground: &'a Ground) -> Self {
        Self { ground, directory: ground.directory.join("plugins") }
    }

    fn of(&self, subject: Subject) -> PathBuf {
        self.directory.join(subject.name())
    }

    /// An HNS in which only the network of a case and the namespace of its container are there.
    pub(super) fn stage(&'a self, case: &Case, directory: &Path) -> Result<Stage<'a>, String> {
        make_directory(directory)?;
        sandbox::forget_addresses()?;
        let hnsd = Hnsd::start(&self.ground.program, directory)?;
        self.ground.prefix.point_at(&hnsd)?;
        let create = |kind: &str, document: &Value| {
            let file = directory.join(format!("{kind}.json"));
            write(&file, &document.to_string())?;
            hnsd.transom(&[kind, "create", "-f", &file.to_string_lossy(), "-o", "json"])
        };
        for network in &case.networks {
            create("network", network)?;
        }
        let mut namespace = json!({"Type": "Host", "SchemaVersion": {"Major": 2, "Minor": 0}});
        if case.netns == Netns::None {
            // A sandbox by schema 1 runs when its endpoint comes, and is known by its namespace.
            namespace["Resources"] = json!([{"Type": "Container", "Data": {"Id": CONTAINER}}]);
        }
        let made = create("namespace", &namespace)?;
        let netns = match case.netns {
            Netns::Namespace => id_in(&made)?,
            Netns::Nobodys => NOBODYS.to_owned(),
            Netns::None => "none".to_owned(),
        };
        Ok(Stage { troupe: self, hnsd, directory: directory.to_owned(), netns })
    }
}

/// The id in what `create` prints: a document, or a list of one.
fn id_in(text: &str) -> Result<String, String> {
    let document: Value = serde_json::from_str(text).map_err(|error| format!("{error} in {text}"))?;
    let document = document.get(0).unwrap_or(&document);
    document["ID"].as_str().map(str::to_owned).ok_or_else(|| format!("there is no ID in {text}"))
}

/// Where one subject plays one case.
pub(super) struct Stage<'a> {
    troupe: &'a Troupe<'a>,
    hnsd: Hnsd,
    directory: PathBuf,
    netns: String,
}

impl Stage<'_> {
    /// Plays the case and records every step. Who does a step is asked for each.
    pub(super) fn play(&self, case: &Case, who: impl Fn(usize) -> Subject) -> Result<Vec<Record>, String> {
        let mut config = self.furnish(case)?;
        let mut records = Vec::new();
        for (index, verb) in case.steps.iter().enumerate() {
            let step = format!("{}-{}", index + 1, verb.name());
            let (exit, output) = self.call(who(index), &step, *verb, &config, case.arguments)?;
            if *verb == Verb::Add && exit == Some(0) {
                config["prevResult"] = serde_json::from_str(&output).map_err(|error| format!("{step} printed {output:?}: {error}"))?;
            }
            records.push(Record::take(step, exit, &output, &self.hnsd, &self.kept(case))?);
        }
        Ok(records)
    }

    /// Writes the files that the case's plugin reads, and gives its configuration with the places of those it writes.
    fn furnish(&self, case: &Case) -> Result<Value, String> {
        let mut config = case.config.clone();
        let file = |name: &str| self.directory.join(name);
        if let Some(subnet) = case.subnet {
            // Without a drive it is the same path under Wine, whose current drive is this system's root.
            config["subnetFile"] = json!(file("subnet.env"));
            config["dataDir"] = json!(file(DELEGATES));
            write(&file("subnet.env"), subnet)?;
        }
        if let Some(interfaces) = &case.interfaces {
            let elsewhere = self.troupe.ground.prefix.drive_c().join("k");
            make_directory(&elsewhere)?;
            for place in [file("interfaces.json"), elsewhere.join("interfaces.json")] {
                write(&place, &interfaces.to_string())?;
            }
            // The reference knows no such keys: it reads the second file, and keeps its own where it is called.
            config["ipam"]["file"] = json!(file("interfaces.json"));
            config["ipam"]["stateDir"] = json!(self.directory);
        }
        Ok(config)
    }

    /// Where plugins keep something.
    fn kept(&self, case: &Case) -> Kept {
        Kept {
            addresses: Path::new(sandbox::ADDRESSES).join(case.config["name"].as_str().unwrap_or_default()),
            delegates: self.directory.join(DELEGATES),
            pools: self.directory.join("azure-vnet-ipam.json"),
        }
    }

    /// Calls a plugin as a runtime does. What goes in and what comes out stays in files, for people and because what Wine leaves
    /// in the background would keep a pipe open.
    fn call(&self, subject: Subject, step: &str, verb: Verb, config: &Value, arguments: &str) -> Result<(Option<i32>, String), String> {
        let mut config = config.clone();
        if verb == Verb::Add {
            // Only the first plugin of a list is played.
            config.as_object_mut().map(|config| config.remove("prevResult"));
        }
        write(&self.file(step, "in"), &format!("{config:#}"))?;
        let plugin = config["type"].as_str().unwrap_or_default();
        let mut command = self.command(subject, plugin);
        command.env("CNI_COMMAND", verb.name()).env("CNI_CONTAINERID", CONTAINER).env("CNI_IFNAME", "eth0");
        command.env("CNI_NETNS", &self.netns).env("CNI_ARGS", arguments).current_dir(&self.directory);
        let called = self.call_once(&mut command, step)?;
        // A plugin says why it fails. Where not a word was said it is Wine that did not start it.
        if subject != Subject::Linux && called.is_silent_failure() {
            println!("{plugin} of {} failed at {step} without a word; once more", subject.name());
            return self.call_once(&mut command, step).map(|called| (called.exit, called.output));
        }
        Ok((called.exit, called.output))
    }

    fn call_once(&self, command: &mut Command, step: &str) -> Result<Called, String> {
        let open = File::open(self.file(step, "in")).map_err(|error| format!("cannot read what was written: {error}"))?;
        command.stdin(open).stdout(create(&self.file(step, "out"))?).stderr(create(&self.file(step, "err"))?);
        let exit = limited::wait(command, SHORT)?.code();
        let cannot = |error| format!("cannot read what {step} printed: {error}");
        let output = fs::read_to_string(self.file(step, "out")).map_err(cannot)?;
        let errors = fs::read(self.file(step, "err")).map_err(cannot)?;
        Ok(Called { exit, output, errors })
    }

    fn file(&self, step: &str, what: &str) -> PathBuf {
        self.directory.join(format!("{step}.{what}"))
    }

    fn command(&self, subject: Subject, plugin: &str) -> Command {
        let directory = self.troupe.of(subject);
        match subject {
            Subject::Linux => {
                let mut command = Command::new(directory.join(plugin));
                command.env("CNI_PATH", directory).env("TRANSOM_HNSD", self.hnsd.socket());
                command
            }
            Subject::Reference | Subject::Windows => {
                let mut command = self.troupe.ground.prefix.wine(&directory.join(format!("{plugin}.exe")));
                command.env("CNI_PATH", wine::windows_path(&directory));
                command
            }
        }
    }
}

/// How a plugin ended and what it printed.
struct Called {
    exit: Option<i32>,
    output: String,
    errors: Vec<u8>,
}

impl Called {
    fn is_silent_failure(&self) -> bool {
        self.exit != Some(0) && self.output.is_empty() && self.errors.is_empty()
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn create(path: &Path) -> Result<File, String> {
    File::create(path).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
