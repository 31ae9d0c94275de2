//! The file with which `kubectl` and other clients find the server.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use super::{Access, private_file};

/// Writes a kubeconfig for the administrator.
pub(in crate::server) fn write(path: &Path, access: &Access, address: SocketAddr) -> io::Result<()> {
    let encoded = |text: &str| BASE64_STANDARD.encode(text);
    let certificates = &access.certificates;
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "transom", "cluster": {
            "server": format!("https://{}", reachable(address)),
            "certificate-authority-data": encoded(&certificates.authority),
        }}],
        "users": [{"name": "admin", "user": {
            "client-certificate-data": encoded(&certificates.admin),
            "client-key-data": encoded(&certificates.admin_key),
        }}],
        "contexts": [{"name": "transom", "context": {"cluster": "transom", "user": "admin"}}],
        "current-context": "transom",
    });
    let text = serde_norway::to_string(&config).map_err(io::Error::other)?;
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        std::fs::create_dir_all(directory)?;
    }
    private_file::write(path, &text)
}

/// An address to connect to: a server that listens everywhere is reached here.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => SocketAddr::from(([127, 0, 0, 1], v4.port())),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], v6.port())),
        other => other,
    }
}
