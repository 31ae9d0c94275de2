//! A VLAN of the wire that an adapter is on: a domain of its own, with an uplink of its own.

use std::collections::BTreeMap;

use hcn::Guid;
use hcn::network::Network;
use hns::compile::network::Mode;
use hns::compile::{self, AdapterSite, Site};
use host::nic::packet_socket::{PacketSocket, PacketSocketOptions, Share};
use vfp::{DomainSpec, Flood, PortKind, PortSpec, ProgramSpec, Switch};

use super::chassis::installed::Installed;
use super::error::Error;
use super::worker::Workers;

/// A VLAN that endpoints are in.
pub(super) struct Vlan {
    pub(super) site: AdapterSite,
    name: String,
    rules: Installed,
    /// The networks that have endpoints in it.
    networks: BTreeMap<Guid, Member>,
}

/// A network in a VLAN.
struct Member {
    transparent: bool,
    rules: Installed,
    endpoints: Vec<Guid>,
}

impl Vlan {
    pub(super) fn open(
        id: u16,
        adapter: &str,
        index: u32,
        untagged: &AdapterSite,
        switch: &Switch,
        workers: &mut Workers,
    ) -> Result<Self, Error> {
        // Hardware that knows VLANs gives no frame away of one that nobody has told it of, unless it is asked for all.
        let options = PacketSocketOptions { share: Share::Vlan(id), promiscuous: true, ..PacketSocketOptions::default() };
        let socket = PacketSocket::open(adapter, index, &options)?;
        let name = format!("{adapter} VLAN {id}");
        let domain = switch.add_domain(DomainSpec { name: name.clone(), flood: Flood::Listed, other_protocols: false });
        let spec = PortSpec {
            name: name.clone(),
            kind: PortKind::Uplink,
            mac: untagged.mac,
            addresses: Vec::new(),
            domain,
            mtu: untagged.mtu,
            hidden_behind: None,
            hairpin: false,
            router_guard: false,
            program: ProgramSpec::default(),
        };
        let uplink = switch.add_port(spec).inspect_err(|_| _ = switch.remove_domain(domain))?;
        workers.attach(uplink, socket.nic());
        // The node has no address there.
        let site = AdapterSite { uplink, wire_domain: domain, addresses: Vec::new(), ..untagged.clone() };
        let mut vlan = Self { site, name, rules: Installed::default(), networks: BTreeMap::new() };
        vlan.rules.replace_at(switch, compile::vlan::adapter_rules(uplink), |_| Some(domain))?;
        tracing::info!(adapter, vlan = id, "endpoints are in a VLAN of the adapter's wire");
        Ok(vlan)
    }

    /// Puts an endpoint of a network into it, and answers where it is to be true then.
    pub(super) fn join(&mut self, endpoint: Guid, network: &Network, site: &Site, switch: &Switch) -> Result<Site, Error> {
        let site = compile::vlan::site(site, self.site.clone());
        let transparent = Mode::of(network)? == Mode::Transparent;
        let member =
            self.networks.entry(network.id).or_insert_with(|| Member { transparent, rules: Installed::default(), endpoints: Vec::new() });
        if !member.endpoints.contains(&endpoint) {
            member.endpoints.push(endpoint);
        }
        member.rules.replace(switch, &site, compile::vlan::network_rules(network, &site)?)?;
        self.flood(switch)?;
        Ok(site)
    }

    /// Takes an endpoint out of it. `true` if it was the last.
    pub(super) fn leave(&mut self, endpoint: Guid, switch: &Switch) -> bool {
        for member in self.networks.values_mut() {
            member.endpoints.retain(|other| *other != endpoint);
            if member.endpoints.is_empty() {
                member.rules.remove(switch);
            }
        }
        self.networks.retain(|_, member| !member.endpoints.is_empty());
        if let Err(error) = self.flood(switch) {
            tracing::warn!(%error, vlan = self.name, "the VLAN could not be changed");
        }
        self.networks.is_empty()
    }

    /// While a transparent network is in it, groups reach everybody.
    fn flood(&self, switch: &Switch) -> Result<(), Error> {
        let any = self.networks.values().any(|member| member.transparent);
        let flood = if any { Flood::Everybody } else { Flood::Listed };
        Ok(switch.change_domain(self.site.wire_domain, DomainSpec { name: self.name.clone(), flood, other_protocols: any })?)
    }

    pub(super) fn close(self, switch: &Switch, workers: &mut Workers) {
        workers.detach(self.site.uplink);
        _ = switch.remove_port(self.site.uplink);
        _ = switch.remove_domain(self.site.wire_domain);
    }
}
