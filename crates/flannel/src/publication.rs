//! What this node tells the others about itself.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Value, json};

use crate::address_like;
use crate::annotation::{self, Prefix};
use crate::lease::Vtep;

/// What is to be known of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// The name of the backend.
    pub backend: &'static str,
    /// The node's addresses on the underlay, at most one of a family.
    pub addresses: Vec<IpAddr>,
    /// The node's end of the tunnels, if there are any.
    pub vtep: Option<Vtep>,
    /// Whether pods have IPv4 and IPv6.
    pub families: [bool; 2],
}

impl Publication {
    /// What should stand at the Node, by names without the prefix. An administrator's choice of an address counts.
    fn annotations(&self, own: &BTreeMap<String, String>) -> BTreeMap<&'static str, String> {
        let mut wanted = BTreeMap::from([(annotation::MANAGED, "true".to_owned()), (annotation::BACKEND_TYPE, self.backend.to_owned())]);
        let data = self.vtep.map_or("null".to_owned(), |vtep| {
            let mac = vtep.mac.to_string().replace('-', ":").to_ascii_lowercase();
            format!(r#"{{"VNI":{},"VtepMAC":"{mac}"}}"#, vtep.vni)
        });
        let [v4, v6] = self.families;
        wanted.insert(annotation::BACKEND_DATA, if v4 { data.clone() } else { "null".to_owned() });
        if v6 {
            wanted.insert(annotation::BACKEND_V6_DATA, data);
        }
        let keys = [
            (true, annotation::PUBLIC_IP, annotation::PUBLIC_IP_OVERWRITE),
            (false, annotation::PUBLIC_IPV6, annotation::PUBLIC_IPV6_OVERWRITE),
        ];
        for (family, key, overwrite) in keys {
            let chosen = own.get(overwrite).filter(|text| text.parse::<IpAddr>().is_ok_and(|address| address.is_ipv4() == family));
            let address = chosen.cloned().or_else(|| address_like(&self.addresses, family).map(|address| address.to_string()));
            if let Some(address) = address {
                wanted.insert(key, address);
            }
        }
        wanted
    }

    /// The patch that makes the Node say so; none, if it does.
    pub fn patch(&self, own: &BTreeMap<String, String>, prefix: &Prefix) -> Option<Value> {
        let wanted = self.annotations(own);
        let differs = |(key, value): &(&&str, &String)| own.get(**key) != Some(*value);
        let changed: serde_json::Map<String, Value> =
            wanted.iter().filter(differs).map(|(key, value)| (prefix.key(key), json!(value))).collect();
        (!changed.is_empty()).then(|| json!({ "metadata": { "annotations": changed } }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_told() {
        let mac = "02-15-5D-AA-00-01".parse().unwrap();
        let vtep = Some(Vtep { vni: 70_000, mac });
        let publication = Publication { backend: "vxlan", addresses: vec!["192.168.0.1".parse().unwrap()], vtep, families: [true, false] };
        let patch = publication.patch(&BTreeMap::new(), &Prefix::default()).unwrap();
        let told: BTreeMap<String, String> = serde_json::from_value(patch["metadata"]["annotations"].clone()).unwrap();
        assert_eq!(told["flannel.alpha.coreos.com/backend-data"], r#"{"VNI":70000,"VtepMAC":"02:15:5d:aa:00:01"}"#);
        assert_eq!(told["flannel.alpha.coreos.com/public-ip"], "192.168.0.1");
        let mut own: BTreeMap<String, String> =
            told.iter().map(|(key, value)| (key.rsplit('/').next().unwrap().to_owned(), value.clone())).collect();
        assert_eq!(publication.patch(&own, &Prefix::default()), None);
        own.insert(annotation::PUBLIC_IP_OVERWRITE.to_owned(), "203.0.113.7".to_owned());
        let patch = publication.patch(&own, &Prefix::default()).unwrap();
        assert_eq!(patch, json!({ "metadata": { "annotations": { "flannel.alpha.coreos.com/public-ip": "203.0.113.7" } } }));
    }
}
