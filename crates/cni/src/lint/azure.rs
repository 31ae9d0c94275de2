//! What azure-vnet and its IPAM plugins refuse.

use super::located::{Located, Node};
use super::{Linter, Subject};
use crate::object::quote;

/// The text of a key, and where it stands.
fn text<'n>(node: &'n Node, key: &str) -> Option<(usize, &'n str)> {
    node.get(key).and_then(|value| Some((value.at, value.as_text()?)))
}

impl Linter<'_> {
    pub(super) fn azure_vnet(&mut self, subject: &Subject<'_>) {
        let allowed: [(&str, &[&str], &str); 3] = [
            ("mode", &["", "bridge", "l2-bridge", "tunnel", "l2-tunnel"], "write \"bridge\" or \"tunnel\""),
            ("ipv6Mode", &[""], "leave it out; for both families set ipam to host-local with a range of each"),
            ("executionMode", &["", "default"], "leave it out, and set ipam.type to \"azure-vnet-ipam\""),
        ];
        for (key, values, fix) in allowed {
            if let Some((at, text)) = text(subject.node, key).filter(|(_, text)| !values.contains(text)) {
                self.error(at, format!("{}: {} is not supported", subject.path(key), quote(text)), fix);
            }
        }
        // Any other IPAM plugin may be one that is there.
        let agent = subject.node.get("ipam").and_then(|ipam| text(ipam, "type")).filter(|(_, text)| *text == "azure-cns");
        if let Some((at, text)) = agent {
            let message = format!("{}: {} is not supported", subject.path("ipam.type"), quote(text));
            self.error(at, message, "write \"azure-vnet-ipam\", or \"host-local\" with a subnet");
        }
        if let Some(member) = subject.node.member("multiTenancy").filter(|member| member.node.value == Located::Flag(true)) {
            let message = format!("{}: true is not supported", subject.path("multiTenancy"));
            self.error(member.at, message, "leave it out; a node is of one tenant");
        }
        self.azure_names(subject);
    }

    /// Servers and domains to search, both or neither.
    fn azure_names(&mut self, subject: &Subject<'_>) {
        let Some(dns) = subject.node.get("dns") else { return };
        let has = |key: &str| dns.get(key).is_some_and(|list| !list.elements().is_empty());
        if has("nameservers") != has("search") {
            let missing = if has("search") { "dns.nameservers" } else { "dns.search" };
            self.error(dns.at, format!("{} is missing beside the other", subject.path(missing)), "give both, or neither");
        }
    }

    pub(super) fn azure_environment(&mut self, ipam: &Node, path: &str) {
        let Some(node) = ipam.get("environment") else { return };
        let known = ["", "azure", "mas", "fileIpam", "null"];
        if node.as_text().is_some_and(|text| !known.contains(&text)) {
            self.error(node.at, format!("{path}.environment: {} is not supported", node.says()), "use one of azure, mas, fileIpam, null");
        }
    }
}
