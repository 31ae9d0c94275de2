//! Making the volumes of a pod, however long what they are made of takes to be there.

use std::path::PathBuf;
use std::sync::PoisonError;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use tokio::time::sleep;

use super::super::report::State;
use super::super::sources::Sources;
use super::super::volume::{Ingredients, Volumes};
use super::{Keeper, sandbox_id};
use crate::api::cause;
use crate::event::Tone;
use crate::node::{Sandbox, directory};

/// How long is waited before volumes are tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// For how long a token of a service account is good where nobody says.
const TOKEN_SECONDS: i64 = 3600;

impl Keeper {
    fn volume_directory(&self) -> PathBuf {
        directory(&self.context.node.spec.name).join("volumes").join(sandbox_id(&self.pod))
    }

    /// Makes all volumes.
    pub(super) async fn make_volumes(&self, sandbox: &Sandbox) {
        if self.spec.volumes.iter().flatten().next().is_none() {
            return;
        }
        loop {
            match self.try_volumes(sandbox).await {
                Ok(volumes) => {
                    *self.volumes.lock().unwrap_or_else(PoisonError::into_inner) = volumes;
                    return;
                }
                Err(message) => {
                    // What is missing may take for ever.
                    self.end_turn();
                    self.say(None, Tone::Warning, "FailedMount", &format!("MountVolume.SetUp failed for {message}"));
                    self.tell(|report| {
                        for seen in &mut report.containers {
                            seen.state = State::Waiting { reason: "ContainerCreating", message: message.clone() };
                        }
                    });
                    sleep(PAUSE).await;
                }
            }
        }
    }

    async fn try_volumes(&self, sandbox: &Sandbox) -> Result<Volumes, String> {
        let sources = Sources::of_volumes(&self.context.client, &self.name().0, &self.spec).await?;
        let tokens = self.tokens().await?;
        let directory = self.volume_directory();
        self.with_facts(sandbox, |facts| {
            Volumes::make(&directory, &Ingredients { spec: &self.spec, facts, sources: &sources, tokens: &tokens })
        })
    }

    /// Tokens of the pod's service account, for each volume that has one.
    async fn tokens(&self) -> Result<Vec<(String, String)>, String> {
        let account = self.spec.service_account_name.as_deref().unwrap_or("default");
        let api: Api<ServiceAccount> = Api::namespaced(self.context.client.clone(), &self.name().0);
        let mut tokens = Vec::new();
        for volume in self.spec.volumes.iter().flatten() {
            let sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
            for wanted in sources.filter_map(|source| source.service_account_token.as_ref()) {
                let spec = TokenRequestSpec {
                    audiences: wanted.audience.clone().map(|audience| vec![audience]),
                    expiration_seconds: Some(wanted.expiration_seconds.unwrap_or(TOKEN_SECONDS)),
                    ..TokenRequestSpec::default()
                };
                let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
                let answer = api.create_token_request(account, &PostParams::default(), &request).await;
                let answer = answer.map_err(|error| format!("volume {}: {}", volume.name, cause(&error)))?;
                tokens.extend(answer.status.and_then(|status| Some((volume.name.clone(), status.token?))));
            }
        }
        Ok(tokens)
    }

    /// Takes the volumes away.
    pub(super) fn remove_volumes(&self) {
        // Most pods have none, and what cannot be taken away goes with the lab.
        _ = std::fs::remove_dir_all(self.volume_directory());
    }
}
