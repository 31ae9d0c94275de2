//! Every address of a Service is an object too. Who has an address is known by the claims on it, so the object only tells.

use std::net::IpAddr;

use serde_json::json;

use super::{Controller, keys_of};
use crate::server::allocation::{Ranges, family_of};
use crate::server::document::{list, text};
use crate::server::operation::create_in;
use crate::server::resource::ip_address::{ALLOCATOR, MANAGED_BY, is_managed};
use crate::server::resource::service::address_claim;
use crate::server::resource::{IP_ADDRESSES, SERVICES};
use crate::server::status::Result;
use crate::server::store::{Draft, Event, Key, State, Stored};

const FAMILY: &str = "ipaddress.kubernetes.io/ip-family";

pub(super) struct IpAddresses;

impl Controller for IpAddresses {
    fn name(&self) -> &'static str {
        "ip addresses"
    }

    fn concerned(&self, _: &State, event: &Event) -> Vec<Key> {
        let key = &event.current.key;
        match key.storage {
            storage if storage == IP_ADDRESSES.storage => vec![key.clone()],
            storage if storage == SERVICES.storage => {
                event.previous.iter().chain([&event.current]).flat_map(|service| addresses(service)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn everything(&self, state: &State) -> Vec<Key> {
        let given = state.list(&SERVICES, None, None).flat_map(|service| addresses(service));
        given.chain(keys_of(state, &IP_ADDRESSES)).collect()
    }

    fn reconcile(&self, draft: &mut Draft, ranges: &Ranges, key: &Key) -> Result<()> {
        let Ok(address) = key.name.parse::<IpAddr>() else { return Ok(()) };
        let service = draft.state.claimant(&address_claim(address)).cloned();
        let stored = draft.state.get(key).cloned();
        let is_so = match (&stored, &service) {
            (Some(stored), Some(service)) => names(stored, service),
            // What somebody else keeps an address with is left alone.
            (Some(stored), None) => !is_managed(&stored.document()),
            (None, service) => service.is_none(),
        };
        if is_so {
            return Ok(());
        }
        if let Some(stored) = stored {
            draft.remove(&IP_ADDRESSES, &stored);
        }
        let Some(service) = service else { return Ok(()) };
        let parent = json!({"resource": SERVICES.plural, "namespace": &*service.namespace, "name": &*service.name});
        let labels = json!({FAMILY: family_of(address), MANAGED_BY: ALLOCATOR});
        let document = json!({"metadata": {"name": &*key.name, "labels": labels}, "spec": {"parentRef": parent}});
        create_in(draft, ranges, &IP_ADDRESSES, document).map(drop)
    }
}

/// The objects for the addresses of a Service.
fn addresses(service: &Stored) -> Vec<Key> {
    let document = service.document();
    let addresses = list(&document, "/spec/clusterIPs").iter().filter_map(|address| address.as_str()?.parse::<IpAddr>().ok());
    addresses.map(|address| Key::new(&IP_ADDRESSES, "", &address.to_string())).collect()
}

/// Whether an object says that an address is this Service's.
fn names(stored: &Stored, service: &Key) -> bool {
    let document = stored.document();
    let is = |path: &str, value: &str| text(&document, path) == value;
    is("/spec/parentRef/resource", SERVICES.plural)
        && is("/spec/parentRef/namespace", &service.namespace)
        && is("/spec/parentRef/name", &service.name)
}
