//! Who may use the server: it makes a certificate authority, a certificate for itself, one for its administrator, a
//! token, and a key for the tokens of service accounts.
//!
//! All of it is made at the first start and kept in the state directory, readable by its owner only.

mod certificates;
mod kubeconfig;
mod private_file;
mod tokens;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls;
use tokio_rustls::rustls::server::WebPkiClientVerifier;

use certificates::Certificates;
pub(super) use kubeconfig::write as write_kubeconfig;
pub(crate) use tokens::{Account, ISSUER, Tokens};

/// What the server proves itself with, and asks of others.
pub(crate) struct Access {
    pub(crate) token: String,
    pub(crate) certificates: Certificates,
    /// The tokens of service accounts.
    pub(crate) tokens: Tokens,
}

impl Access {
    /// Reads what is kept in a directory, and makes what is missing. `names` is what the server is reached as.
    pub(crate) fn open(directory: &Path, names: &[String]) -> io::Result<Self> {
        let token = private_file::load_or_make(&directory.join("token"), || Ok(new_token()))?;
        Ok(Self { token: token.trim().to_owned(), certificates: Certificates::open(directory, names)?, tokens: Tokens::open(directory)? })
    }

    /// How connections are secured. A client may show a certificate, and if it does it must be one of ours.
    pub(crate) fn tls(&self) -> io::Result<Arc<rustls::ServerConfig>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.certificates.authority_der()?).map_err(io::Error::other)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).allow_unauthenticated();
        let verifier = verifier.build().map_err(io::Error::other)?;
        let (chain, key) = self.certificates.server_der()?;
        let config =
            rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(io::Error::other)?;
        let mut config = config.with_client_cert_verifier(verifier).with_single_cert(chain, key).map_err(io::Error::other)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// Whether an `Authorization` header has the token.
    pub(crate) fn knows(&self, header: &str) -> bool {
        header.strip_prefix("Bearer ").is_some_and(|given| is_same(given.trim(), &self.token))
    }

    /// The service account whose token an `Authorization` header has.
    pub(crate) fn account(&self, header: &str) -> Option<Account> {
        self.tokens.read(header.strip_prefix("Bearer ")?.trim())
    }
}

fn new_token() -> String {
    format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple())
}

/// Whether two tokens are the same, in a time that does not tell where they differ.
fn is_same(given: &str, token: &str) -> bool {
    let difference = given.bytes().zip(token.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    given.len() == token.len() && difference == 0
}

/// The names and addresses that the server's certificate is for.
pub(crate) fn names(listen: SocketAddr, service: Option<std::net::IpAddr>) -> Vec<String> {
    let fixed = [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "127.0.0.1",
        "::1",
    ];
    let mut names: Vec<String> = fixed.map(str::to_owned).into();
    let addresses = [Some(listen.ip()).filter(|ip| !ip.is_unspecified()), service];
    names.extend(addresses.into_iter().flatten().map(|address| address.to_string()));
    names.sort();
    names.dedup();
    names
}
