//! A cluster that is there already, in the place of the embedded API: how it is reached, and whether a lab can be in it.
//!
//! This is looked at on the machine, before anything is made. The lab itself is in a network of its own: what its kubeconfig names is an
//! address of its router, from where [`crate::relay`] leads to the server.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::topology::Topology;

/// How long the server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A cluster that is there already.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Existing {
    /// A kubeconfig with one context, and with the content of all files that it named.
    pub kubeconfig: Value,
    /// The server's host, as the machine knows it.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// By what the lab's objects are told from those of others.
    pub owner: String,
}

/// What the cluster has that a lab must know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ground {
    /// The ranges of Services.
    pub service_subnets: Vec<IpNet>,
}

impl Ground {
    /// Whether Services can have these ranges: those of the cluster, or if it does not tell them, ranges around its addresses.
    pub fn fits(&self, ranges: &[IpNet]) -> Result<(), String> {
        let texts = |nets: &[IpNet]| nets.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
        let is_whole = |net: &IpNet| net.prefix_len() < net.max_prefix_len();
        let fits = |net: &IpNet| ranges.iter().any(|range| if is_whole(net) { range.trunc() == net.trunc() } else { range.contains(net) });
        match self.service_subnets.iter().all(fits) {
            true => Ok(()),
            false => Err(format!(
                "Services of the cluster have their addresses in {}, and the lab's in {}; write the cluster's ranges",
                texts(&self.service_subnets),
                texts(ranges)
            )),
        }
    }
}

/// Why a lab cannot be in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Its server does not answer.
    Silent(String),
    /// It does not do what a lab needs.
    Refused(String),
    /// Others have what the lab wants.
    Conflict(String),
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Silent(cause) | Self::Refused(cause) | Self::Conflict(cause) => f.write_str(cause),
        }
    }
}

impl Existing {
    /// Reads a kubeconfig. Whether there is a server is not asked.
    pub fn read(file: &Path, context: Option<&str>, lab: &str) -> Result<Self, String> {
        let failed = |cause: String| format!("the kubeconfig {} cannot be used: {cause}", file.display());
        let all = Kubeconfig::read_from(file).map_err(|error| failed(error.to_string()))?;
        let all = serde_json::to_value(&all).map_err(|error| failed(error.to_string()))?;
        let kubeconfig = alone(&all, context).map_err(failed)?;
        let server = server(&kubeconfig).to_owned();
        let address: Uri = server.parse().map_err(|error| failed(format!("{server:?} is no address of a server: {error}")))?;
        let host = address.host().ok_or_else(|| failed(format!("{server:?} names no host; write one such as https://10.0.0.1:6443")))?;
        let port = address.port_u16().unwrap_or(if address.scheme_str() == Some("http") { 80 } else { 443 });
        let host = host.trim_matches(['[', ']']).to_owned();
        let owner = format!("{lab}.{}", &uuid::Uuid::new_v4().simple().to_string()[..12]);
        Ok(Self { kubeconfig, host, port, owner })
    }

    /// The server, as the kubeconfig has it.
    pub fn server(&self) -> &str {
        server(&self.kubeconfig)
    }

    /// The kubeconfig for another way to the server. Its certificate is still that of the host it was made for.
    pub(crate) fn by_way_of(&self, address: std::net::SocketAddr) -> Value {
        let mut kubeconfig = self.kubeconfig.clone();
        let scheme = if self.server().starts_with("http:") { "http" } else { "https" };
        let cluster = &mut kubeconfig["clusters"][0]["cluster"];
        cluster["server"] = json!(format!("{scheme}://{address}"));
        if cluster["tls-server-name"].is_null() && scheme == "https" {
            cluster["tls-server-name"] = json!(self.host);
        }
        kubeconfig
    }

    /// Asks the server whether this lab can be there, and what it has to know.
    pub fn survey(&self, topology: &Topology) -> Result<Ground, Trouble> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Trouble::Refused(error.to_string()))?;
        runtime.block_on(async {
            let client = client(&self.kubeconfig).await.map_err(Trouble::Refused)?;
            let answered = tokio::time::timeout(PATIENCE, self.look(&client, topology)).await;
            answered.unwrap_or_else(|_| Err(self.silent("it gave no answer in 10 s")))
        })
    }

    async fn look(&self, client: &Client, topology: &Topology) -> Result<Ground, Trouble> {
        let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await.map_err(|error| self.trouble(&error))?;
        check_nodes(topology, &nodes.items).map_err(Trouble::Conflict)?;
        Ok(Ground { service_subnets: service_subnets(client).await.map_err(|error| self.trouble(&error))? })
    }

    fn silent(&self, cause: &str) -> Trouble {
        let remedy = "see whether it runs, and whether the kubeconfig means this one";
        Trouble::Silent(format!("the API server {} does not answer: {cause}; {remedy}", self.server()))
    }

    fn trouble(&self, error: &kube::Error) -> Trouble {
        let server = self.server();
        let kube::Error::Api(status) = error else { return self.silent(&root_cause(error)) };
        let said = &status.message;
        Trouble::Refused(match status.code {
            401 => format!(
                "the API server {server} does not know the user of the kubeconfig: {said}; renew the token or the certificate in it"
            ),
            403 => format!("the user of the kubeconfig may not do what a lab does: {said}; a lab needs the rights of cluster-admin"),
            _ => format!("the API server {server} refuses: {said}"),
        })
    }
}

/// What the system said, below all that libraries say of it.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// A client for a kubeconfig without files.
pub(crate) async fn client(kubeconfig: &Value) -> Result<Client, String> {
    let failed = |error: &dyn std::fmt::Display| format!("the kubeconfig cannot be used: {error}");
    let kubeconfig: Kubeconfig = serde_json::from_value(kubeconfig.clone()).map_err(|error| failed(&error))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(|error| failed(&error))?;
    Client::try_from(config).map_err(|error| failed(&error))
}

fn server(kubeconfig: &Value) -> &str {
    kubeconfig["clusters"][0]["cluster"]["server"].as_str().unwrap_or_default()
}

/// One context of a kubeconfig, with the content of the files that it names: the lab does not see all files of the machine.
fn alone(all: &Value, context: Option<&str>) -> Result<Value, String> {
    let named = |list: &str, name: &str| {
        let items = all[list].as_array().into_iter().flatten();
        items.into_iter().find(|item| item["name"] == name).cloned()
    };
    let Some(name) = context.or_else(|| all["current-context"].as_str()).filter(|name| !name.is_empty()) else {
        return Err("it has no current context; choose one with --context".to_owned());
    };
    let context = named("contexts", name).ok_or_else(|| format!("it has no context {name:?}; see `kubectl config get-contexts`"))?;
    let text = |key: &str| context["context"][key].as_str().unwrap_or_default().to_owned();
    let mut cluster = named("clusters", &text("cluster")).ok_or_else(|| format!("its context {name:?} names no cluster that it has"))?;
    let mut user = named("users", &text("user")).unwrap_or_else(|| json!({"name": text("user"), "user": {}}));
    for (key, remedy) in [("exec", "a token or a client certificate"), ("auth-provider", "a token or a client certificate")] {
        if !user["user"][key].is_null() {
            return Err(format!("users[].user.{key}: a lab cannot log in by running programs of the machine; use {remedy}"));
        }
    }
    if !cluster["cluster"]["proxy-url"].is_null() {
        return Err("clusters[].cluster.proxy-url: a lab does not go through a proxy; use the server's own address".to_owned());
    }
    embed(&mut cluster["cluster"], "certificate-authority", "certificate-authority-data")?;
    embed(&mut user["user"], "client-certificate", "client-certificate-data")?;
    embed(&mut user["user"], "client-key", "client-key-data")?;
    if let Some(file) = user["user"]["tokenFile"].take().as_str() {
        let token = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        user["user"]["token"] = json!(token.trim());
    }
    if let Some(fields) = user["user"].as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    Ok(json!({
        "apiVersion": "v1", "kind": "Config", "current-context": name, "clusters": [cluster], "users": [user], "contexts": [context]}))
}

/// Puts the content of a file in the place of its path.
fn embed(holder: &mut Value, path: &str, data: &str) -> Result<(), String> {
    let Some(fields) = holder.as_object_mut() else { return Ok(()) };
    let Some(file) = fields.remove(path).and_then(|value| value.as_str().map(str::to_owned)) else { return Ok(()) };
    if fields.get(data).is_none_or(Value::is_null) {
        let bytes = std::fs::read(&file).map_err(|error| format!("{path}: {file}: {error}"))?;
        fields.insert(data.to_owned(), json!(STANDARD.encode(bytes)));
    }
    Ok(())
}

/// Nodes of others keep their names and the addresses of their pods.
fn check_nodes(topology: &Topology, nodes: &[Node]) -> Result<(), String> {
    for node in nodes {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        if topology.nodes.iter().any(|own| own.name == name) {
            return Err(format!(
                "the cluster has a Node {name} already, and it is not of this lab; give the lab's node another name, \
                 or take that one away with `kubectl delete node {name}`"
            ));
        }
        let theirs = node.spec.iter().flat_map(|spec| spec.pod_cidrs.iter().flatten()).filter_map(|text| text.parse::<IpNet>().ok());
        for range in theirs {
            let clash = (0..topology.nodes.len())
                .flat_map(|position| topology.node_subnets(position))
                .find(|own| own.contains(&range.network()) || range.contains(&own.network()));
            if let Some(own) = clash {
                return Err(format!("cluster.podSubnets: {own} of the lab is {range} of the Node {name}; choose other ranges"));
            }
        }
    }
    Ok(())
}

/// The ranges of Services: as the cluster says, or if it is too old for that, around the address of its own Service.
async fn service_subnets(client: &Client) -> kube::Result<Vec<IpNet>> {
    match Api::<ServiceCIDR>::all(client.clone()).list(&ListParams::default()).await {
        Ok(listed) => {
            let usual = listed.items.into_iter().find(|range| range.metadata.name.as_deref() == Some("kubernetes"));
            let texts = usual.and_then(|range| range.spec?.cidrs).unwrap_or_default();
            Ok(texts.iter().filter_map(|text| text.parse().ok()).collect())
        }
        Err(kube::Error::Api(status)) if status.code == 404 => {
            let service: Option<Service> = Api::namespaced(client.clone(), "default").get_opt("kubernetes").await?;
            let texts = service.and_then(|service| service.spec?.cluster_ips).unwrap_or_default();
            // One address alone: what a file says has to contain it.
            Ok(texts.iter().filter_map(|text| text.parse().ok().map(|address: std::net::IpAddr| IpNet::from(address))).collect())
        }
        Err(error) => Err(error),
    }
}
