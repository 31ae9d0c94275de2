//! Calling CNI plugins as a container runtime does: a process for every call, in the node's network namespace.

use std::fmt;
use std::io;
use std::process::Stdio;
use std::sync::Arc;

use host::namespace::Namespace;
use ipnet::IpNet;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::runtime::Handle;

use crate::daemon::own_program;
use crate::foreign::{Kept, Plugins};

/// What a plugin is called for.
#[derive(Clone, Debug)]
pub(crate) struct Attachment {
    /// The sandbox's id.
    pub(crate) container: String,
    /// Its network namespace: a path, or the id of an HCN namespace.
    pub(crate) netns: String,
    /// Who the pod is, as `CNI_ARGS` say it.
    pub(crate) pod: (String, String),
}

/// A network of a node: its configuration, and where plugins run.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    /// Where plugins run.
    pub(crate) namespace: Arc<Namespace>,
    /// The configuration.
    pub(crate) config: Value,
    /// Variables that plugins are told, such as where HNS is.
    pub(crate) variables: Vec<(String, String)>,
    /// Plugins of others in the place of ours.
    pub(crate) plugins: Option<Arc<Plugins>>,
}

/// A plugin's refusal.
#[derive(Clone, Debug)]
pub(crate) struct CniError(String);

impl CniError {
    /// A refusal by whoever stands in front of the plugin.
    pub(crate) fn new(cause: impl Into<String>) -> Self {
        Self(cause.into())
    }
}

impl fmt::Display for CniError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<io::Error> for CniError {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

/// What ADD made.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Added {
    /// The addresses, with the length of their subnet.
    pub(crate) addresses: Vec<IpNet>,
    /// All of what the plugin said.
    pub(crate) result: Value,
}

impl Network {
    /// Adds a sandbox.
    pub(crate) async fn add(&self, attachment: &Attachment) -> Result<Added, CniError> {
        let text = self.call("ADD", attachment).await?;
        let result: Value = serde_json::from_str(&text).map_err(|error| CniError(format!("the plugin's result is no JSON: {error}")))?;
        let ips = || result["ips"].as_array().into_iter().flatten();
        Ok(Added { addresses: ips().filter_map(|ip| ip["address"].as_str()?.parse().ok()).collect(), result: result.clone() })
    }

    /// Asks whether a sandbox is as ADD promised.
    pub(crate) async fn check(&self, attachment: &Attachment, added: &Added) -> Result<(), CniError> {
        let mut network = self.clone();
        network.config["prevResult"] = added.result.clone();
        network.call("CHECK", attachment).await.map(drop)
    }

    /// Takes a sandbox away. One that is gone is no error.
    pub(crate) async fn del(&self, attachment: &Attachment) -> Result<(), CniError> {
        self.call("DEL", attachment).await.map(drop)
    }

    async fn call(&self, verb: &str, attachment: &Attachment) -> Result<String, CniError> {
        let plugin = self.config["type"].as_str().unwrap_or_default();
        let (namespace, name) = &attachment.pod;
        let mut command = self.program(plugin);
        command.env("CNI_COMMAND", verb).env("CNI_CONTAINERID", &attachment.container).env("CNI_NETNS", &attachment.netns);
        command.env("CNI_IFNAME", "eth0");
        command.env("CNI_ARGS", format!("IgnoreUnknown=1;K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={name}"));
        let kept = self.plugins.as_ref().map(|plugins| plugins.keep_output(&attachment.container)).transpose()?;
        let (output, errors) = kept.as_ref().map_or_else(|| (Stdio::piped(), Stdio::piped()), Kept::outputs);
        command.stdin(Stdio::piped()).stdout(output).stderr(errors).kill_on_drop(true);
        let runtime = Handle::current();
        let mut child = self.namespace.run(move || {
            let _guard = runtime.enter();
            command.spawn()
        })??;
        if let Some(mut input) = child.stdin.take() {
            // A plugin that does not read its configuration says why.
            _ = input.write_all(self.config.to_string().as_bytes()).await;
        }
        let mut output = child.wait_with_output().await?;
        if let Some(kept) = kept {
            (output.stdout, output.stderr) = kept.read()?;
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        match output.status.success() {
            true => Ok(text),
            false => Err(CniError(refusal(plugin, verb, &text, &String::from_utf8_lossy(&output.stderr)))),
        }
    }

    /// The program of a plugin.
    fn program(&self, plugin: &str) -> Command {
        match &self.plugins {
            Some(plugins) => plugins.program(),
            None => {
                let mut command = Command::new(own_program());
                command.arg0(plugin).env_clear().envs(self.variables.iter().map(|(name, value)| (name, value)));
                command.env("CNI_PATH", "/opt/cni/bin");
                command
            }
        }
    }
}

/// What a plugin says on failure, in one line.
fn refusal(plugin: &str, verb: &str, output: &str, error: &str) -> String {
    let document: Value = serde_json::from_str(output).unwrap_or_default();
    let text = |key: &str| document[key].as_str().filter(|text| !text.is_empty());
    match (text("msg"), text("details")) {
        (Some(message), Some(details)) => format!("{plugin} {verb}: {message}; {details}"),
        (Some(message), None) => format!("{plugin} {verb}: {message}"),
        _ => format!("{plugin} {verb} failed: {}", error.trim()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_with_their_remedy() {
        let told = refusal("flannel", "ADD", r#"{"code": 7, "msg": "no subnet", "details": "start flanneld"}"#, "");
        assert_eq!(told, "flannel ADD: no subnet; start flanneld");
        assert_eq!(refusal("flannel", "ADD", "", "killed\n"), "flannel ADD failed: killed");
    }
}
