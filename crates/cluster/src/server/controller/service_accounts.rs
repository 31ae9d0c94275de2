//! Every Kubernetes namespace has a ServiceAccount for pods that name none.

use serde_json::json;

use super::{Controller, keys_of};
use crate::server::allocation::Ranges;
use crate::server::operation::create_in;
use crate::server::resource::{NAMESPACES, SERVICE_ACCOUNTS};
use crate::server::status::Result;
use crate::server::store::{Draft, Event, Key, State};

pub(super) struct ServiceAccounts;

impl Controller for ServiceAccounts {
    fn name(&self) -> &'static str {
        "service accounts"
    }

    fn concerned(&self, _: &State, event: &Event) -> Vec<Key> {
        let key = &event.current.key;
        match key.storage {
            storage if storage == NAMESPACES.storage => vec![key.clone()],
            storage if storage == SERVICE_ACCOUNTS.storage && event.is_removal() => vec![Key::new(&NAMESPACES, "", &key.namespace)],
            _ => Vec::new(),
        }
    }

    fn everything(&self, state: &State) -> Vec<Key> {
        keys_of(state, &NAMESPACES)
    }

    fn reconcile(&self, draft: &mut Draft, ranges: &Ranges, key: &Key) -> Result<()> {
        let is_wanted = draft.state.get(key).is_some_and(|namespace| !namespace.is_deleting);
        if !is_wanted || draft.state.get(&Key::new(&SERVICE_ACCOUNTS, &key.name, "default")).is_some() {
            return Ok(());
        }
        let account = json!({"metadata": {"name": "default", "namespace": &*key.name}});
        create_in(draft, ranges, &SERVICE_ACCOUNTS, account).map(drop)
    }
}
