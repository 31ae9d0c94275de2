//! Namespaces: HCN's are network namespaces of this machine, by the same name.

use std::io;
use std::path::PathBuf;

use hcn::Guid;
use hcn::namespace::Namespace;
use hns::compile;
use host::namespace;

use super::Chassis;
use super::endpoint::EndpointState;
use crate::vswitchd::error::Error;

/// A namespace that is there.
pub(super) struct NamespaceState {
    pub(super) document: Namespace,
    /// Its file; none for the node's own.
    pub(super) path: Option<PathBuf>,
    /// Whether it was there before, and so stays.
    existed: bool,
}

impl NamespaceState {
    /// The namespace itself.
    pub(super) fn open(&self) -> Result<namespace::Namespace, Error> {
        let opened = match &self.path {
            Some(path) => namespace::open(path),
            None => namespace::current(),
        };
        opened.map_err(|error| Error::io(format!("enter the namespace {}", self.document.id), error))
    }
}

impl Chassis {
    pub(super) fn put_namespace(&mut self, document: Namespace) -> Result<(), Error> {
        let id = document.id;
        let existing = compile::namespace::existing(&document)?;
        let (existed, path) = match existing {
            Some(path) => (true, Some(path)),
            None => (false, (!document.namespace_type.is_default()).then(|| self.options.namespace_dir.join(id.to_string()))),
        };
        if let Some(path) = &path {
            let namespace = match existed {
                true => namespace::open(path),
                false => namespace::create(&self.options.namespace_dir, &id.to_string()),
            };
            let namespace = namespace.map_err(|error| Error::io(format!("make the namespace {id}"), error))?;
            // One that was there before is somebody else's until a NIC of ours comes.
            if !existed && !self.namespaces.contains_key(&id) {
                loopback_up(&namespace)?;
            }
        }
        self.namespaces.insert(id, NamespaceState { document, path, existed });
        let is_waiting = |endpoint: &&EndpointState| endpoint.document.namespace == id && !endpoint.is_attached_to(id);
        let waiting: Vec<Guid> = self.endpoints.values().filter(is_waiting).map(|endpoint| endpoint.document.id).collect();
        waiting.into_iter().try_for_each(|endpoint| self.refresh_endpoint(endpoint))
    }

    pub(super) fn remove_namespace(&mut self, id: Guid) -> Result<(), Error> {
        let inside: Vec<Guid> =
            self.endpoints.values().filter(|endpoint| endpoint.is_attached_to(id)).map(|endpoint| endpoint.document.id).collect();
        inside.into_iter().for_each(|endpoint| self.detach(endpoint));
        let Some(state) = self.namespaces.remove(&id) else { return Ok(()) };
        let Some(path) = state.path.filter(|_| !state.existed) else { return Ok(()) };
        match namespace::delete(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(format!("delete the namespace {id}"), error)),
            _ => Ok(()),
        }
    }
}

fn loopback_up(namespace: &namespace::Namespace) -> Result<(), Error> {
    let netlink = host::netlink::Netlink::open_in(namespace)?;
    match netlink.link_by_name("lo")? {
        Some(loopback) if !loopback.up => Ok(netlink.set_up(loopback.index)?),
        _ => Ok(()),
    }
}
