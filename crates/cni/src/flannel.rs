//! `flannel`: a meta plugin that knows from flanneld which subnet this node has, and has another plugin do the work.
//!
//! It is the plugin of Windows on every system: the delegate is `win-bridge` unless the configuration names another, and
//! what it is told is what the reference tells it on Windows. The configuration made for the delegate is kept in a file
//! for each container before anything else happens, so that DEL needs nothing but that file. Different from the reference:
//!
//! * `subnet.env` may have IPv6 beside IPv4, or alone: the delegate's host-local then gets `ranges`, one set a family.
//! * What the configuration says under `ipam` is passed on, as on Linux.
//! * CHECK, GC and STATUS do something.
//! * An ADD that fails for a container that was not there before is undone.
//! * A file whose content is lost is an error that names it, and no obstacle to DEL.

mod state;
mod subnet_env;

use std::path::{Path, PathBuf};

use ipnet::IpNet;
use serde_json::{Map, Value, json};

use crate::config::Config;
use crate::environment::{Command, Environment};
use crate::error::{Error, Result};
use crate::object::Object;
use crate::plugin::{Call, Plugin};
use crate::print;
use crate::result::AddResult;

use state::{State, States};
pub use subnet_env::SubnetEnv;

/// Where flanneld writes unless `subnetFile` says otherwise; on Windows on the current drive.
pub(crate) const SUBNET_FILE: &str = "/run/flannel/subnet.env";
/// Where configurations of delegates are kept unless `dataDir` says otherwise.
const DATA_DIRECTORY: &str = "/var/lib/cni/flannel";
/// The delegate unless the configuration names one.
pub(crate) const DELEGATE: &str = "win-bridge";
/// The version of a delegate's configuration if ours has none, as for the reference.
const DEFAULT_VERSION: &str = "0.2.0";
/// What runtimes call the interface. Files do not tell, and GC has no other source; whatever else an attachment was called,
/// the delegate's own GC finds.
const IFNAME: &str = "eth0";

/// Keys that a delegate's configuration needs on GC and CHECK from ours, as the runtime put them there for this call.
const OF_THE_CALL: [&str; 3] = ["prevResult", "cni.dev/valid-attachments", "cni.dev/attachments"];

/// The plugin.
#[derive(Debug)]
pub struct Flannel;

impl Plugin for Flannel {
    fn name(&self) -> &'static str {
        "flannel"
    }

    fn about(&self) -> &'static str {
        "has another plugin work with the subnet that flanneld got for this node"
    }

    fn add(&self, call: &Call<'_>) -> Result<AddResult> {
        let states = states(&call.config)?;
        let id = sandbox_id(&call.environment);
        let before = match states.read(&id)? {
            State::Absent => None,
            State::Whole(config, _) => Some(config),
            State::Torn(error) => return Err(error),
        };
        let delegate = Delegate::merge(&call.config)?;
        let configuration = delegate.print();
        states.write(&id, configuration.as_bytes())?;
        let added = call.delegates.add(&delegate.plugin, &call.environment, configuration.as_bytes());
        added.map_err(|error| {
            // The failure of the ADD is the one to tell. Where undoing fails too, the file stays for the runtime's DEL.
            let _ = match before {
                // The container is there already, and it is not for this call to remove it.
                Some(before) => states.write(&id, before.bytes()),
                None => call.run(Command::Del, &delegate.plugin, &call.environment, &configuration).and_then(|()| states.remove(&id)),
            };
            error.context("failed to delegate add")
        })
    }

    fn del(&self, call: &Call<'_>) -> Result<()> {
        del(call, &states(&call.config)?, &sandbox_id(&call.environment), &call.environment)
    }

    fn check(&self, call: &Call<'_>) -> Result<()> {
        let states = states(&call.config)?;
        let id = sandbox_id(&call.environment);
        match states.read(&id)? {
            State::Whole(stored, plugin) => {
                let mut document = stored.root().map().clone();
                copy_of_the_call(&call.config, &mut document);
                call.run(Command::Check, &plugin, &call.environment, &print(document))
            }
            State::Torn(error) => Err(error),
            State::Absent => Err(Error::unknown_container(format!("flannel knows nothing of container {id}"))
                .details("DEL and ADD the container again; it was added elsewhere, or dataDir is another than at ADD")),
        }
    }

    /// Has delegates remove the containers that are not valid, and then whatever else they have of them.
    fn gc(&self, call: &Call<'_>) -> Result<()> {
        let valid = call.config.valid_attachments()?;
        let states = states(&call.config)?;
        let mut failures = Vec::new();
        for id in states.containers()? {
            if !valid.iter().any(|attachment| attachment.container_id == id) {
                failures.extend(collect(call, &states, &id).err().map(|error| error.context(&id)));
            }
        }
        failures.extend(gc_delegate(call).err());
        all(failures)
    }

    fn status(&self, call: &Call<'_>) -> Result<()> {
        let limited = Error::limited_connectivity("").code;
        let unavailable = |error: Error| match error.code == limited {
            true => error,
            false => Error { code: Error::plugin_not_available("").code, ..error },
        };
        let status = || {
            let mut delegate = Delegate::merge(&call.config)?;
            states(&call.config)?.probe()?;
            copy_of_the_call(&call.config, &mut delegate.document);
            let context = |error: Error| error.context(format!("delegate {}", delegate.plugin));
            call.run(Command::Status, &delegate.plugin, &call.environment, &delegate.print()).map_err(context)
        };
        status().map_err(unavailable)
    }
}

impl Call<'_> {
    fn run(&self, command: Command, plugin: &str, environment: &Environment, configuration: &str) -> Result<()> {
        self.delegates.run(command, plugin, environment, configuration.as_bytes())
    }
}

/// The configuration that a delegate is called with.
struct Delegate {
    plugin: String,
    document: Map<String, Value>,
}

impl Delegate {
    /// Puts together what the configuration and flanneld say.
    fn merge(config: &Config) -> Result<Self> {
        let root = config.root();
        let env = SubnetEnv::load(Path::new(&text_or(&root, "subnetFile", SUBNET_FILE)?))?;
        let mut document = root.object("delegate")?.map(|delegate| delegate.map().clone()).unwrap_or_default();
        check(&document)?;
        if let Some(runtime) = root.object("runtimeConfig")? {
            document.insert("runtimeConfig".to_owned(), Value::Object(runtime.map().clone()));
        }
        let plugin = document.entry("type").or_insert_with(|| DELEGATE.into()).as_str().unwrap_or_default().to_owned();
        document.insert("name".to_owned(), config.name().into());
        document.insert("cniVersion".to_owned(), text_or(&root, "cniVersion", DEFAULT_VERSION)?.into());
        // The opposite of Linux, where flanneld itself translates what leaves the cluster.
        document.insert("ipMasq".to_owned(), env.ip_masq.into());
        document.insert("ipMasqNetwork".to_owned(), env.all_networks().next().map(|network| network.to_string()).into());
        let more = root.object("ipam")?.map(|ipam| ipam.map().clone()).unwrap_or_default();
        document.insert("ipam".to_owned(), ipam(&env, more));
        Ok(Self { plugin, document })
    }

    fn print(&self) -> String {
        print(self.document.clone())
    }
}

/// As the reference writes it: keys in order, on one line.
fn print(document: Map<String, Value>) -> String {
    let mut value = Value::Object(document);
    value.sort_all_objects();
    print::compact(&value)
}

/// The reference writes `subnet`, and knows IPv4 only. What the configuration says under `ipam`, such as `dataDir`, is said to the delegate's
/// too, as the reference does on Linux.
fn ipam(env: &SubnetEnv, mut ipam: Map<String, Value>) -> Value {
    ipam.entry("type").or_insert_with(|| "host-local".into());
    let range = |subnet: IpNet| json!([{"subnet": subnet.to_string()}]);
    match (env.subnet, env.ipv6_subnet) {
        (Some(subnet), None) => ipam.insert("subnet".to_owned(), subnet.to_string().into()),
        (subnet, ipv6_subnet) => {
            let ranges: Vec<Value> = subnet.into_iter().chain(ipv6_subnet).map(range).collect();
            ipam.insert("ranges".to_owned(), ranges.into())
        }
    };
    Value::Object(ipam)
}

fn check(delegate: &Map<String, Value>) -> Result<()> {
    if delegate.get("type").is_some_and(|plugin| plugin.as_str().is_none_or(str::is_empty)) {
        return Err(Error::invalid_network_config("delegate.type: the name of a plugin is expected")
            .details(format!("name the plugin, or leave the key out for {DELEGATE}")));
    }
    for key in ["name", "ipam"] {
        if delegate.contains_key(key) {
            return Err(Error::invalid_network_config(format!("delegate.{key}: flannel sets it, so it must not be there"))
                .details("leave the key out"));
        }
    }
    Ok(())
}

fn text_or(root: &Object<'_>, key: &str, default: &str) -> Result<String> {
    let text = root.text(key)?;
    Ok(if text.is_empty() { default.to_owned() } else { text })
}

fn states(config: &Config) -> Result<States> {
    Ok(States::new(PathBuf::from(text_or(&config.root(), "dataDir", DATA_DIRECTORY)?)))
}

fn sandbox_id(environment: &Environment) -> String {
    environment.namespace().sandbox_id(&environment.container_id).to_owned()
}

/// What the runtime says with this call, and the version that has the command.
fn copy_of_the_call(config: &Config, document: &mut Map<String, Value>) {
    let root = config.root();
    for key in OF_THE_CALL.into_iter().chain(["cniVersion"]).filter(|key| root.has(key)) {
        document.insert(key.to_owned(), root.value(key).cloned().unwrap_or_default());
    }
}

fn del(call: &Call<'_>, states: &States, id: &str, environment: &Environment) -> Result<()> {
    let (configuration, plugin) = match states.read(id)? {
        State::Absent => return Ok(()),
        State::Whole(config, plugin) => (String::from_utf8_lossy(config.bytes()).into_owned(), plugin),
        State::Torn(torn) => {
            let delegate = Delegate::merge(&call.config).map_err(|error| error.context(torn.msg))?;
            (delegate.print(), delegate.plugin)
        }
    };
    call.run(Command::Del, &plugin, environment, &configuration)?;
    states.remove(id)
}

/// Removes a container that is not valid, if it is of this network. Several networks may share the directory; what cannot
/// be read any more tells of none, and is of use to none.
fn collect(call: &Call<'_>, states: &States, id: &str) -> Result<()> {
    if matches!(states.read(id)?, State::Whole(config, _) if config.name() != call.config.name()) {
        return Ok(());
    }
    let environment = Environment { container_id: id.to_owned(), ifname: IFNAME.to_owned(), ..call.environment.clone() };
    del(call, states, id, &environment)
}

fn gc_delegate(call: &Call<'_>) -> Result<()> {
    let mut delegate = Delegate::merge(&call.config)?;
    copy_of_the_call(&call.config, &mut delegate.document);
    call.run(Command::Gc, &delegate.plugin, &call.environment, &delegate.print())
}

/// One failure for all of them.
fn all(failures: Vec<Error>) -> Result<()> {
    let messages: Vec<&str> = failures.iter().map(|error| error.msg.as_str()).collect();
    match failures.first() {
        None => Ok(()),
        Some(first) => Err(Error { msg: messages.join("; "), ..first.clone() }),
    }
}

#[cfg(test)]
mod tests;
