//! How flanneld goes: kept for `/readyz`, and logged when it changes.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use flannel::trouble::Trouble;

use super::Error;

/// A round that takes longer hangs.
pub(super) const ROUND_LIMIT: Duration = Duration::from_secs(30);

/// What there is to tell.
#[derive(Default)]
pub(super) struct Report(Mutex<State>);

#[derive(Default)]
struct State {
    has_file: bool,
    troubles: Vec<Trouble>,
    complaints: Vec<String>,
    round_began: Option<Instant>,
    is_told: bool,
}

impl Report {
    /// Takes in how it goes, and logs what is new.
    pub(super) fn set(&self, has_file: bool, troubles: Vec<Trouble>, complaints: Vec<String>) {
        let mut state = self.lock();
        for trouble in troubles.iter().filter(|trouble| !state.troubles.contains(trouble)) {
            // At the start it is no trouble yet that nobody has answered.
            if state.is_told { tracing::warn!("{trouble}") } else { tracing::info!("{trouble}") }
        }
        if !state.troubles.is_empty() && troubles.is_empty() {
            tracing::info!("all is well");
        }
        complaints.iter().filter(|complaint| !state.complaints.contains(complaint)).for_each(|complaint| tracing::warn!("{complaint}"));
        (state.has_file, state.troubles, state.complaints, state.is_told) = (has_file, troubles, complaints, true);
    }

    /// Whether CNI plugins had what they need when that was looked at last.
    pub(super) fn has_file(&self) -> bool {
        self.lock().has_file
    }

    /// A round begins.
    pub(super) fn begin(&self) {
        self.lock().round_began = Some(Instant::now());
    }

    /// It has ended.
    pub(super) fn end(&self) {
        self.lock().round_began = None;
    }

    /// Whether the node has its network, and what there is to say.
    fn readiness(&self) -> (bool, String) {
        let state = self.lock();
        let mut lines: Vec<String> = state.troubles.iter().map(Trouble::to_string).collect();
        if let Some(began) = state.round_began.filter(|began| began.elapsed() > ROUND_LIMIT) {
            lines.push(format!("hns: it has not answered for {} s", began.elapsed().as_secs()));
        }
        if !state.is_told {
            lines.push("api: nothing was asked yet".to_owned());
        } else if !state.has_file && lines.is_empty() {
            lines.push("file: subnet.env is not written yet".to_owned());
        }
        let is_ready = lines.is_empty();
        if is_ready {
            lines.push("ok".to_owned());
        }
        lines.extend(state.complaints.iter().map(|complaint| format!("note: {complaint}")));
        (is_ready, lines.join("\n") + "\n")
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Serves `/healthz`, which is always well, and `/readyz`.
pub(super) async fn serve(address: SocketAddr, report: Arc<Report>) -> Result<(), Error> {
    let failed = |error| Error::Io(format!("listen on {address}"), error);
    let listener = tokio::net::TcpListener::bind(address).await.map_err(failed)?;
    let ready = move || {
        let (is_ready, text) = report.readiness();
        std::future::ready((if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, text))
    };
    let routes = Router::new().route("/healthz", get(|| std::future::ready("ok\n"))).route("/readyz", get(ready));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    Ok(())
}

#[cfg(test)]
mod tests {
    use flannel::trouble::Subject;

    use super::*;

    #[test]
    fn readiness_says_why_not() {
        let report = Report::default();
        assert_eq!(report.readiness(), (false, "api: nothing was asked yet\n".to_owned()));
        report.set(false, Vec::new(), Vec::new());
        assert_eq!(report.readiness(), (false, "file: subnet.env is not written yet\n".to_owned()));
        report.set(true, vec![Trouble::new(Subject::Hns, "it is away")], Vec::new());
        assert_eq!(report.readiness(), (false, "hns: it is away\n".to_owned()));
        report.set(true, Vec::new(), vec!["node two: it has no podCIDR".to_owned()]);
        assert_eq!(report.readiness(), (true, "ok\nnote: node two: it has no podCIDR\n".to_owned()));
    }
}
