//! A tunnel over the underlay, shared by all overlay networks with the same provider address and port.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use hns::compile::AdapterSite;
use hns::compile::endpoint::vxlan_overhead;
use host::nic::Nic;
use host::nic::udp_tunnel::{MalformedCounter, UdpTunnel, UdpTunnelOptions};
use vfp::{Action, Conditions, DomainId, DropReason, GroupSpec, LayerSpec, PortId, PortKind, PortSpec, ProgramSpec, RuleSpec, Switch};
use wire::TunnelKind;

use super::error::Error;
use super::offload::KernelOffload;
use super::vtep::Vtep;
use super::worker::Workers;

/// An open tunnel.
pub(super) struct Tunnel {
    pub(super) port: PortId,
    spec: PortSpec,
    networks: BTreeMap<u32, (String, DomainId)>,
    /// The device that receives, if known flows go by the kernel.
    vtep: Option<Vtep>,
}

impl Tunnel {
    pub(super) fn open(
        (address, port): (IpAddr, u16),
        (adapter, index): (&str, u32),
        site: &AdapterSite,
        switch: &Switch,
        workers: &mut Workers,
    ) -> Result<Self, Error> {
        let options = UdpTunnelOptions { adapter: Some(adapter.to_owned()), ..UdpTunnelOptions::new(TunnelKind::Vxlan, address, port) };
        let vtep = workers.shared.kernel.clone().and_then(|kernel| vtep((address, port), &kernel));
        let (nic, malformed) = nic(&options, vtep.as_ref())?;
        let spec = PortSpec {
            name: format!("VXLAN {}", std::net::SocketAddr::new(address, port)),
            kind: PortKind::Tunnel,
            mac: site.mac,
            addresses: Vec::new(),
            domain: site.wire_domain,
            mtu: site.mtu.saturating_sub(vxlan_overhead(address.is_ipv4())),
            hidden_behind: None,
            hairpin: false,
            router_guard: false,
            program: program(&BTreeMap::new()),
        };
        let id = switch.add_port(spec.clone())?;
        if let (Some(kernel), Some(vtep)) = (&workers.shared.kernel, &vtep) {
            kernel.add_tunnel(id, vtep.link(), index, (address, port));
        }
        workers.shared.malformed.put(id, malformed);
        workers.attach(id, nic);
        Ok(Self { port: id, spec, networks: BTreeMap::new(), vtep })
    }

    /// The device that receives, if it is one of the kernel.
    pub(super) fn device(&self) -> Option<&str> {
        self.vtep.as_ref().map(Vtep::device)
    }

    /// Leads what arrives of a virtual network to a domain.
    pub(super) fn lead(&mut self, vni: u32, name: &str, domain: DomainId, switch: &Switch) -> Result<(), Error> {
        match self.networks.get(&vni) {
            Some((_, other)) if *other == domain => return Ok(()),
            Some((other, _)) => {
                let cause = format!("virtual network {vni} is the network {other:?} on this tunnel already; give one of them another VSID");
                return Err(Error::Message(cause));
            }
            None => {}
        }
        self.networks.insert(vni, (name.to_owned(), domain));
        self.program(switch)
    }

    /// Leads nothing to a domain any more. `true` if no network is left.
    pub(super) fn leave(&mut self, domain: DomainId, switch: &Switch) -> Result<bool, Error> {
        self.networks.retain(|_, (_, other)| *other != domain);
        self.program(switch)?;
        Ok(self.networks.is_empty())
    }

    fn program(&mut self, switch: &Switch) -> Result<(), Error> {
        self.spec.program = program(&self.networks);
        Ok(switch.change_port(self.port, self.spec.clone())?)
    }

    /// Closes it. The device that receives goes with the last tunnel that it has.
    pub(super) fn close(self, switch: &Switch, workers: &mut Workers, is_last: bool) {
        workers.shared.malformed.remove(self.port);
        workers.detach(self.port);
        _ = switch.remove_port(self.port);
        if let Some(kernel) = &workers.shared.kernel {
            kernel.remove_port(self.port);
        }
        if let Some(vtep) = self.vtep {
            vtep.close(is_last);
        }
    }
}

/// The device that is to receive. Without one, sockets of ours do.
fn vtep(at: (IpAddr, u16), kernel: &Arc<KernelOffload>) -> Option<Vtep> {
    let opened = Vtep::open(at, kernel);
    opened.inspect_err(|error| tracing::warn!(%error, "what comes by the tunnel all goes by this process")).ok()
}

/// What the engine reads and writes: sockets, of which those that receive have no place where a device does.
fn nic(options: &UdpTunnelOptions, vtep: Option<&Vtep>) -> Result<(Nic, MalformedCounter), Error> {
    Ok(match vtep {
        Some(vtep) => (Nic { receiver: vtep.receiver(), sender: UdpTunnel::open_sender(options)? }, MalformedCounter::default()),
        None => {
            let tunnel = UdpTunnel::open(options)?;
            let malformed = tunnel.malformed();
            (tunnel.into_nic(), malformed)
        }
    })
}

/// Frames of a virtual network are popped into its domain; those of any other are dropped.
fn program(networks: &BTreeMap<u32, (String, DomainId)>) -> ProgramSpec {
    let pop = |(vni, (name, domain)): (&u32, &(String, DomainId))| {
        RuleSpec::new(format!("{name} {vni}"), 10, Conditions::of_vni(*vni), Action::Pop { domain: *domain })
    };
    let mut rules: Vec<RuleSpec> = networks.iter().map(pop).collect();
    rules.push(RuleSpec::new("unknown", 1000, Conditions::any(), Action::Block(DropReason::UnknownVni)));
    let outward = vec![GroupSpec { name: "vni".into(), rules }];
    ProgramSpec { layers: vec![LayerSpec { name: "encapsulation".into(), stateful: false, outward, ..LayerSpec::default() }] }
}
