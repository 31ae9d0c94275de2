//! Reaching an API server: whose it is makes no difference.

use std::fmt;
use std::path::PathBuf;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Where it is said how a server is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// As `kubectl` finds it: `KUBECONFIG`, then `~/.kube/config`, then the service account of the pod.
    #[default]
    Usual,
    /// In a kubeconfig.
    File {
        /// The file.
        path: PathBuf,
        /// The context in it, unless the current one is meant.
        context: Option<String>,
    },
    /// With the service account of the pod.
    InCluster,
    /// At another address than the one that is said elsewhere.
    At {
        /// The address, as a URL.
        url: String,
        /// Where the rest is said. If that is nowhere, the address has to do.
        source: Box<Source>,
    },
}

/// Why a server cannot be reached.
#[derive(Debug)]
pub struct ConnectError(String);

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConnectError {}

/// A client for the server. Whether there is one is seen when it is asked.
pub async fn connect(source: &Source) -> Result<Client, ConnectError> {
    Client::try_from(config(source).await?).map_err(|error| ConnectError(format!("no client can be made: {error}")))
}

async fn config_at(url: &str, source: &Source) -> Result<Config, ConnectError> {
    let failed =
        |cause: &str| ConnectError(format!("{url:?} is no address of an API server: {cause}; write one such as https://10.0.0.1:6443"));
    let alone = Config::new(url.parse().map_err(|error| failed(&format!("{error}")))?);
    if alone.cluster_url.scheme().is_none() {
        return Err(failed("it does not begin with https://"));
    }
    match config(source).await {
        Ok(mut config) => {
            config.cluster_url = alone.cluster_url;
            Ok(config)
        }
        Err(_) if *source == Source::Usual => Ok(alone),
        Err(error) => Err(error),
    }
}

async fn config(source: &Source) -> Result<Config, ConnectError> {
    Ok(match source {
        Source::At { url, source } => Box::pin(config_at(url, source)).await?,
        Source::Usual => Config::infer().await.map_err(|error| {
            let remedy = "set KUBECONFIG or name a file with --kubeconfig";
            ConnectError(format!("nothing says how to reach an API server: {error}; {remedy}"))
        })?,
        Source::InCluster => Config::incluster().map_err(|error| {
            let remedy = "in a pod, see whether it has a service account; elsewhere, name a file with --kubeconfig";
            ConnectError(format!("there is no service account: {error}; {remedy}"))
        })?,
        Source::File { path, context } => {
            let failed = |error: &dyn fmt::Display| ConnectError(format!("the kubeconfig {} cannot be used: {error}", path.display()));
            let file = Kubeconfig::read_from(path).map_err(|error| failed(&error))?;
            let options = KubeConfigOptions { context: context.clone(), ..KubeConfigOptions::default() };
            Config::from_custom_kubeconfig(file, &options).await.map_err(|error| failed(&error))?
        }
    })
}
