//! Annotations of a Node, by which flannels tell each other of themselves.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::Node;

/// What keys begin with unless told otherwise.
pub const DEFAULT_PREFIX: &str = "flannel.alpha.coreos.com";

/// `true`: there is a flannel on this node.
pub const MANAGED: &str = "kube-subnet-manager";
/// `vxlan` or `host-gw`.
pub const BACKEND_TYPE: &str = "backend-type";
/// What peers need to know besides the address, as JSON.
pub const BACKEND_DATA: &str = "backend-data";
/// The same for IPv6.
pub const BACKEND_V6_DATA: &str = "backend-v6-data";
/// The address that peers send to.
pub const PUBLIC_IP: &str = "public-ip";
/// The same of IPv6.
pub const PUBLIC_IPV6: &str = "public-ipv6";
/// An administrator's choice of the address that is published.
pub const PUBLIC_IP_OVERWRITE: &str = "public-ip-overwrite";
/// The same of IPv6.
pub const PUBLIC_IPV6_OVERWRITE: &str = "public-ipv6-overwrite";
/// An administrator's choice of the address, and so the interface, that is used.
pub const NODE_PUBLIC_IP: &str = "node-public-ip";
/// The same of IPv6.
pub const NODE_PUBLIC_IPV6: &str = "node-public-ipv6";

/// What all keys begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix(String);

/// The text cannot be the beginning of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixError;

impl fmt::Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an annotation has at most one slash; write a domain such as flannel.alpha.coreos.com, or one with a beginning such as example.com/flannel")
    }
}

impl std::error::Error for PrefixError {}

impl Prefix {
    /// Completes a beginning as the original does: a domain gets its slash, a beginning of a name a hyphen.
    pub fn new(text: &str) -> Result<Self, PrefixError> {
        match text.matches('/').count() {
            0 if text.is_empty() => Err(PrefixError),
            0 => Ok(Self(format!("{text}/"))),
            1 if text.ends_with(['/', '-']) => Ok(Self(text.to_owned())),
            1 => Ok(Self(format!("{text}-"))),
            _ => Err(PrefixError),
        }
    }

    /// The whole key.
    pub fn key(&self, name: &str) -> String {
        format!("{}{name}", self.0)
    }

    /// The annotations of a Node that begin so, by the rest of their keys.
    pub fn of(&self, node: &Node) -> BTreeMap<String, String> {
        let all = node.metadata.annotations.iter().flatten();
        all.filter_map(|(key, value)| Some((key.strip_prefix(&self.0)?.to_owned(), value.clone()))).collect()
    }
}

impl Default for Prefix {
    fn default() -> Self {
        Self(format!("{DEFAULT_PREFIX}/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_are_completed() {
        for (text, key) in [
            (DEFAULT_PREFIX, "flannel.alpha.coreos.com/public-ip"),
            ("example.com/", "example.com/public-ip"),
            ("example.com/net", "example.com/net-public-ip"),
            ("example.com/net-", "example.com/net-public-ip"),
        ] {
            assert_eq!(Prefix::new(text).unwrap().key(PUBLIC_IP), key);
        }
        assert!(Prefix::new("a/b/c").is_err() && Prefix::new("").is_err());
    }
}
