//! ServiceAccounts: who a pod is to the API.

use super::{PLAIN, Resource};

pub(crate) static SERVICE_ACCOUNTS: Resource =
    Resource { storage: 8, kind: "ServiceAccount", plural: "serviceaccounts", singular: "serviceaccount", short_names: &["sa"], ..PLAIN };
