//! Endpoints: a port with a NIC in a namespace, or a way to another node.

use std::collections::BTreeSet;

use hcn::Guid;
use hcn::api::Kind;
use hcn::endpoint::Endpoint;
use hns::compile::load_balancer::Place;
use hns::compile::network::Mode;
use hns::compile::{self, Site};
use vfp::PortId;

use super::Chassis;
use super::installed::Installed;
use crate::vswitchd::attachment::Attachment;
use crate::vswitchd::error::Error;

/// An endpoint that is made true.
pub(super) struct EndpointState {
    pub(super) document: Endpoint,
    rules: Installed,
    attached: Option<Attached>,
    /// The adapter and the VLAN that it is in.
    pub(super) vlan: Option<(String, u16)>,
    /// The load balancers that its port mappings are.
    pub(super) led_in: BTreeSet<Guid>,
    /// What load balancers that lead to it know of it.
    pub(super) place: Option<Place>,
}

struct Attached {
    port: PortId,
    namespace: Guid,
    nic: Attachment,
}

impl EndpointState {
    pub(super) fn is_attached(&self) -> bool {
        self.attached.is_some()
    }

    /// The links that have programs of ours, where known flows go by the kernel.
    pub(super) fn programmed(&self) -> Vec<String> {
        self.attached.as_ref().map_or_else(Vec::new, |attached| attached.nic.programmed())
    }

    pub(super) fn is_attached_to(&self, namespace: Guid) -> bool {
        self.attached.as_ref().is_some_and(|attached| attached.namespace == namespace)
    }
}

impl Chassis {
    pub(super) fn put_endpoint(&mut self, document: Endpoint) -> Result<(), Error> {
        let id = document.id;
        if !self.networks.contains_key(&document.network) {
            return Err(Error::Message(format!("the endpoint's network {} is not there", document.network)));
        }
        match self.endpoints.get_mut(&id) {
            Some(state) => state.document = document,
            None => {
                self.endpoints.insert(
                    id,
                    EndpointState {
                        document,
                        rules: Installed::default(),
                        attached: None,
                        vlan: None,
                        led_in: BTreeSet::new(),
                        place: None,
                    },
                );
            }
        }
        self.refresh_endpoint(id)
    }

    /// Compiles an endpoint anew, and puts in force what differs.
    pub(super) fn refresh_endpoint(&mut self, id: Guid) -> Result<(), Error> {
        let Some(state) = self.endpoints.get(&id) else { return Ok(()) };
        let document = state.document.clone();
        if document.is_remote() {
            return self.refresh_remote(&document);
        }
        let namespace = document.namespace;
        let elsewhere = state.attached.as_ref().is_some_and(|attached| attached.namespace != namespace);
        if elsewhere || namespace.is_nil() {
            self.detach(id);
        }
        match !namespace.is_nil() && self.namespaces.contains_key(&namespace) {
            true => self.attach(&document),
            // Not in a namespace yet, or in one that is still to come.
            false => Ok(()),
        }
    }

    fn refresh_remote(&mut self, document: &Endpoint) -> Result<(), Error> {
        let Some(network) = self.networks.get(&document.network) else { return Ok(()) };
        let rules = compile::endpoint::remote_rules(document, &network.document, &network.site)?;
        let Some(state) = self.endpoints.get_mut(&document.id) else { return Ok(()) };
        let replaced = state.rules.replace(&self.switch, &network.site, rules);
        self.refresh_balancers_of(document.id);
        replaced
    }

    /// Makes the port and the NIC of an endpoint, or changes those that are there.
    fn attach(&mut self, document: &Endpoint) -> Result<(), Error> {
        let (site, vlan) = self.site_of(document)?;
        let attached = self.attach_at(document, &site, vlan.is_some());
        self.settle_vlan(document.id, vlan);
        attached
    }

    fn attach_at(&mut self, document: &Endpoint, site: &Site, in_vlan: bool) -> Result<(), Error> {
        let Some(network) = self.networks.get(&document.network) else { return Ok(()) };
        let spec = compile::endpoint::port(document, &network.document, site)?;
        let plan = compile::endpoint::nic(document, &network.document, site)?;
        let proxied = compile::l4_wfp_proxy::interceptions(document)?;
        let Some(state) = self.endpoints.get_mut(&document.id) else { return Ok(()) };
        let Some(namespace) = self.namespaces.get(&document.namespace) else { return Ok(()) };
        let port = match &mut state.attached {
            Some(attached) => {
                self.switch.change_port(attached.port, spec)?;
                attached.nic.configure(&plan)?;
                attached.nic.intercept(&proxied)?;
                attached.port
            }
            None => {
                let opened = namespace.open();
                if opened.is_err() {
                    // A namespace whose file is gone is asked for again, and made anew.
                    self.held.remove(&(Kind::Namespace, document.namespace));
                    self.losses += 1;
                }
                let mut nic = Attachment::open(document, &opened?, &plan, self.kernel.as_ref())?;
                nic.intercept(&proxied).inspect_err(|_| nic.retire())?;
                let port = self.switch.add_port(spec).inspect_err(|_| nic.retire())?;
                if let (Some(kernel), Some(end)) = (&self.kernel, nic.kernel_end()) {
                    kernel.add(port, end);
                }
                self.workers.attach(port, nic.nic());
                state.attached = Some(Attached { port, namespace: document.namespace, nic });
                port
            }
        };
        let rate = compile::qos::rate(document)?;
        self.workers.limit(port, rate);
        if self.kernel.as_ref().is_some_and(|kernel| kernel.limit(port, rate.is_some())) {
            self.switch.refresh_port(port);
        }
        if let (Mode::Transparent, Some(adapter)) = (network.mode, &site.adapter) {
            // What the node sends to groups reaches endpoints that are on the wire as they are.
            self.switch.list_port(adapter.host_domain, port, !in_vlan)?;
        }
        let rules = match in_vlan {
            true => compile::vlan::endpoint_rules(document, &network.document, site, port)?,
            false => compile::endpoint::rules(document, &network.document, site, port)?,
        };
        let Some(state) = self.endpoints.get_mut(&document.id) else { return Ok(()) };
        state.rules.replace(&self.switch, site, rules)?;
        self.refresh_balancers_of(document.id);
        match in_vlan {
            // The node's ports are not there.
            true => self.lead_nothing_in(document.id),
            false => self.lead_in(document)?,
        }
        self.refresh_mappings(document.network)
    }

    /// Takes the NIC of an endpoint away, and its port.
    pub(super) fn detach(&mut self, id: Guid) {
        if let Some(nic) = self.release(id) {
            nic.retire();
            self.closer.close(nic);
        }
    }

    /// Takes the port of an endpoint away. Its namespace keeps the NIC, to be taken up again.
    pub(super) fn let_go(&mut self, id: Guid) {
        drop(self.release(id));
    }

    /// Takes the port of an endpoint away from its NIC.
    fn release(&mut self, id: Guid) -> Option<Attachment> {
        let state = self.endpoints.get_mut(&id)?;
        state.rules.remove(&self.switch);
        let attached = state.attached.take()?;
        let network = state.document.network;
        self.workers.detach(attached.port);
        _ = self.switch.remove_port(attached.port);
        if let Some(kernel) = &self.kernel {
            kernel.remove_port(attached.port);
        }
        self.settle_vlan(id, None);
        self.lead_nothing_in(id);
        self.refresh_balancers_of(id);
        if let Err(error) = self.refresh_mappings(network) {
            tracing::warn!(%id, %error, "port mappings could not be changed");
        }
        Some(attached.nic)
    }

    pub(super) fn remove_endpoint(&mut self, id: Guid) -> Result<(), Error> {
        self.detach(id);
        if let Some(mut state) = self.endpoints.remove(&id) {
            state.rules.remove(&self.switch);
        }
        self.refresh_balancers_of(id);
        Ok(())
    }

    /// The endpoint that a port belongs to.
    pub(super) fn endpoint_at(&self, port: PortId) -> Option<Guid> {
        let is_there = |state: &&EndpointState| state.attached.as_ref().is_some_and(|attached| attached.port == port);
        self.endpoints.values().find(is_there).map(|state| state.document.id)
    }

    /// The port whose NIC has a link as its end at the switch.
    pub(super) fn port_behind(&self, link: u32) -> Option<PortId> {
        let attached = self.endpoints.values().filter_map(|state| state.attached.as_ref());
        attached.filter(|attached| attached.nic.kernel_end() == Some(link)).map(|attached| attached.port).next()
    }

    /// The port of an endpoint, while it is attached.
    pub(in crate::vswitchd) fn port_of(&self, id: Guid) -> Option<PortId> {
        self.endpoints.get(&id)?.attached.as_ref().map(|attached| attached.port)
    }
}
