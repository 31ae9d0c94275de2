//! ServiceAccounts: who a pod is to the API.

use super::{Column, PLAIN, Resource, age, column, integer, name};
use crate::server::document::list;

const COLUMNS: &[Column] = &[column("Name"), integer("Secrets"), column("Age")];

pub(crate) static SERVICE_ACCOUNTS: Resource = Resource {
    storage: 8,
    kind: "ServiceAccount",
    plural: "serviceaccounts",
    singular: "serviceaccount",
    short_names: &["sa"],
    columns: COLUMNS,
    cells: |document| vec![name(document), list(document, "/secrets").len().into(), age(document)],
    ..PLAIN
};
