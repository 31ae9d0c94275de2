//! `vxlan` on HNS: an Overlay network, and a `RemoteSubnetRoute` policy for every subnet of a peer.
//!
//! Which virtual networks and UDP ports there can be is for HNS to say: Windows takes 4096 and above, and 4789 only; ours takes any.

use std::net::IpAddr;
use std::sync::Arc;

use hcn::base::{Route, SchemaVersion};
use hcn::modify::{ModifyRequest, NetworkResource, PolicySettings, RequestType};
use hcn::network::{Ipam, IpamType, Network, NetworkFlags, NetworkType, Subnet};
use hcn::policy::network::{
    DrMacAddressSettings, NetAdapterNameSettings, NetworkPolicyType, NoSettings, ProviderAddressSettings, RemoteSubnetRouteSettings,
    VxlanPortSettings,
};
use hcn::policy::subnet::{IsolationSettings, SubnetPolicyType};
use hcn::policy::{self, Policy};
use hcn::{Field, Guid, Hcn, HcnExt, Kind};
use ipnet::IpNet;
use wire::MacAddress;

use super::wait_for;
use crate::backend::{Backend, Prepared, Site, vxlan_overhead};
use crate::desired::Own;
use crate::lease::{Lease, Vtep};
use crate::net_conf::VxlanConf;
use crate::trouble::{Subject, Trouble};
use crate::{address_like, nth};

const VNI: u32 = 4096;
const PORT: u16 = 4789;

/// The backend.
pub struct Vxlan {
    hcn: Arc<dyn Hcn>,
    name: String,
    vni: u32,
    port: u16,
    mtu: Option<u32>,
    network: Option<Guid>,
}

impl Vxlan {
    /// With what the configuration says, and what flannel takes on Windows where it says nothing.
    pub fn new(hcn: Arc<dyn Hcn>, conf: &VxlanConf) -> Self {
        let vni = conf.vni.unwrap_or(VNI);
        let name = conf.name.clone().unwrap_or_else(|| format!("flannel.{vni}"));
        Self { hcn, name, vni, port: conf.port.unwrap_or(PORT), mtu: conf.mtu, network: None }
    }

    /// The network as it should be made.
    fn document(&self, own: &Own, site: &Site) -> Network {
        let mut policies = vec![Policy::new(
            &NetworkPolicyType::NetAdapterName,
            &NetAdapterNameSettings { name: site.interface.name.clone(), ..Default::default() },
        )];
        if self.port != PORT {
            policies.push(Policy::new(&NetworkPolicyType::VxlanPort, &VxlanPortSettings { port: self.port, ..Default::default() }));
        }
        if !site.v4_underlay {
            policies.extend(site.tunnel_address().map(provider));
        }
        let subnets = own.subnets.iter().map(|subnet| self.subnet(*subnet)).collect();
        Network {
            name: self.name.clone(),
            network_type: NetworkType::Overlay,
            flags: NetworkFlags::ENABLE_NON_PERSISTENT,
            schema_version: SchemaVersion::v2(),
            ipams: vec![Ipam { ipam_type: IpamType::Static, subnets, ..Default::default() }],
            policies,
            ..Default::default()
        }
    }

    fn subnet(&self, prefix: IpNet) -> Subnet {
        let everything = if prefix.addr().is_ipv4() { "0.0.0.0/0" } else { "::/0" };
        let route = Route { next_hop: nth(prefix, 1).to_string(), destination_prefix: everything.to_owned(), ..Default::default() };
        let vsid = IsolationSettings { isolation_id: self.vni, ..Default::default() };
        Subnet {
            ip_address_prefix: prefix.to_string(),
            routes: vec![route],
            policies: vec![Policy::new(&SubnetPolicyType::Vsid, &vsid)],
            ..Default::default()
        }
    }

    /// Whether a network is the one that is wanted: type, subnets, virtual network and port.
    fn is_ours(&self, network: &Network, own: &Own) -> bool {
        let mut prefixes: Vec<IpNet> = network.subnets().filter_map(|subnet| subnet.ip_address_prefix.parse().ok()).collect();
        prefixes.sort_by_key(|prefix| prefix.addr().is_ipv6());
        let vsid =
            |subnet: &Subnet| policy::find::<_, IsolationSettings>(&subnet.policies, &SubnetPolicyType::Vsid).map(|vsid| vsid.isolation_id);
        let port: Option<VxlanPortSettings> = policy::find(&network.policies, &NetworkPolicyType::VxlanPort);
        network.network_type == NetworkType::Overlay
            && prefixes == own.subnets
            && network.subnets().all(|subnet| vsid(subnet) == Some(self.vni))
            && port.map_or(PORT, |port| port.port) == self.port
    }

    /// The network: the one that is there if it is right, else a new one in its place.
    fn ensure(&self, own: &Own, site: &Site) -> Result<Network, Trouble> {
        let failed = |doing: &str| {
            let doing = format!("{doing} the network {}", self.name);
            move |error: hcn::Error| Trouble::of_hns(&doing, &error)
        };
        let named: Vec<Network> = self.hcn.objects(&[("Name", &self.name)]).map_err(failed("looking up"))?;
        let (ours, others): (Vec<Network>, Vec<Network>) = named.into_iter().partition(|network| self.is_ours(network, own));
        if let Some(network) = ours.into_iter().next() {
            return Ok(network);
        }
        for other in others {
            tracing::info!(network = %self.name, id = %other.id, "the network is for another subnet or another virtual network; it goes");
            self.hcn.delete(Kind::Network, other.id).map_err(failed("replacing"))?;
        }
        let made = self.hcn.create_object(&self.document(own, site)).map_err(failed("making"))?;
        tracing::info!(network = %self.name, id = %made.id, "made the network");
        Ok(made)
    }

    /// Changes policies of the network.
    fn modify(&self, network: Guid, request_type: RequestType, policies: &[Policy]) -> hcn::Result<()> {
        let settings = PolicySettings { policies: policies.to_vec(), ..Default::default() };
        let request = ModifyRequest {
            resource_type: NetworkResource::Policy.write(),
            request_type: Some(request_type),
            settings: settings.write(),
            ..Default::default()
        };
        self.hcn.modify(Kind::Network, network, &hcn::print(&request))
    }

    /// Waits until the network has the node's address, and gives it the one that the node has now.
    fn check_provider(&self, network: &Network, site: &Site) -> Result<(), Trouble> {
        let failed = |error: hcn::Error| Trouble::of_hns(&format!("looking at the network {}", self.name), &error);
        let ask = || self.hcn.object::<Network>(network.id).map(|network| provider_of(&network));
        let found = match provider_of(network) {
            Some(address) => Some(address),
            None => wait_for(ask).map_err(failed)?,
        };
        let Some(found) = found else {
            return Err(Trouble::new(
                Subject::Hns,
                format!("the network {} got no provider address; see whether its adapter has one", self.name),
            ));
        };
        let is_there = site.interface.addresses.iter().any(|address| address.addr() == found);
        match site.tunnel_address() {
            Some(address) if !is_there => {
                tracing::info!(from = %found, to = %address, "the node has another address now");
                self.modify(network.id, RequestType::Update, &[provider(address)])
                    .map_err(|error| Trouble::of_hns(&format!("giving the network {} the address {address}", self.name), &error))
            }
            _ => Ok(()),
        }
    }

    /// Lets the node itself reach pods. The original only logs it if HNS does not want to, and so do we.
    fn check_host_route(&self, network: &Network) {
        let has = network.policies.iter().any(|policy| policy.is(&NetworkPolicyType::HostRoute));
        if !has
            && let Err(error) =
                self.modify(network.id, RequestType::Add, &[Policy::new(&NetworkPolicyType::HostRoute, &NoSettings::default())])
        {
            tracing::warn!(%error, "the network has no HostRoute policy");
        }
    }

    /// Changes policies together, and one by one if that fails, so that only what is wrong fails.
    fn change(&self, network: Guid, request_type: &RequestType, policies: &[Policy]) -> Vec<Trouble> {
        if policies.is_empty() || self.modify(network, request_type.clone(), policies).is_ok() {
            return Vec::new();
        }
        let change = |policy: &Policy| {
            let prefix = remote(policy).map(|settings| settings.destination_prefix).unwrap_or_default();
            let failed = |error: hcn::Error| Trouble::of_hns(&format!("{request_type} of the route to {prefix}"), &error);
            self.modify(network, request_type.clone(), std::slice::from_ref(policy)).map_err(failed).err()
        };
        policies.iter().filter_map(change).collect()
    }
}

impl Backend for Vxlan {
    fn kind(&self) -> &'static str {
        "vxlan"
    }

    fn vni(&self) -> Option<u32> {
        Some(self.vni)
    }

    fn prepare(&mut self, own: &Own, site: &Site) -> Result<Prepared, Trouble> {
        self.network = None;
        let network = self.ensure(own, site)?;
        self.check_provider(&network, site)?;
        self.check_host_route(&network);
        let router: Option<DrMacAddressSettings> = policy::find(&network.policies, &NetworkPolicyType::DrMacAddress);
        let text = router.map(|router| router.address).unwrap_or_default();
        let mac: MacAddress = text.parse().map_err(|_| {
            Trouble::new(
                Subject::Hns,
                format!("the network {} has no DrMacAddress policy with a hardware address, but {text:?}", self.name),
            )
        })?;
        self.network = Some(network.id);
        let mtu = self.mtu.unwrap_or(site.interface.mtu).saturating_sub(vxlan_overhead(site.v4_underlay));
        Ok(Prepared { vtep: Some(Vtep { vni: self.vni, mac }), mtu })
    }

    fn apply(&mut self, _own: &Own, site: &Site, peers: &[Lease]) -> Vec<Trouble> {
        let Some(id) = self.network else { return Vec::new() };
        let network: Network = match self.hcn.object(id) {
            Ok(network) => network,
            Err(error) => return vec![Trouble::of_hns(&format!("looking at the network {}", self.name), &error)],
        };
        let (stale, missing) = difference(&network.policies, &routes(peers, site.v4_underlay));
        if !stale.is_empty() || !missing.is_empty() {
            tracing::info!(removed = stale.len(), added = missing.len(), "routes to other nodes");
        }
        // A prefix has one way; the old one goes before the new one comes.
        let mut troubles = self.change(id, &RequestType::Remove, &stale);
        troubles.extend(self.change(id, &RequestType::Add, &missing));
        troubles
    }
}

fn provider(address: IpAddr) -> Policy {
    let settings = ProviderAddressSettings { provider_address: address.to_string(), ..Default::default() };
    Policy::new(&NetworkPolicyType::ProviderAddress, &settings)
}

fn provider_of(network: &Network) -> Option<IpAddr> {
    let found: Option<ProviderAddressSettings> = policy::find(&network.policies, &NetworkPolicyType::ProviderAddress);
    found?.provider_address.parse().ok()
}

fn remote(policy: &Policy) -> Option<RemoteSubnetRouteSettings> {
    policy.is(&NetworkPolicyType::RemoteSubnetRoute).then(|| policy.settings().ok()).flatten()
}

/// The routes that are wanted: one for each subnet of a peer.
fn routes(peers: &[Lease], v4_underlay: bool) -> Vec<RemoteSubnetRouteSettings> {
    let of_peer = |peer: &Lease| {
        let (address, vtep) = (address_like(&peer.addresses, v4_underlay), peer.vtep);
        let route = move |subnet: &IpNet| {
            Some(RemoteSubnetRouteSettings {
                destination_prefix: subnet.to_string(),
                isolation_id: vtep?.vni,
                provider_address: address?.to_string(),
                distributed_router_mac_address: vtep?.mac.to_string(),
                ..Default::default()
            })
        };
        peer.subnets.iter().filter_map(route).collect::<Vec<_>>()
    };
    peers.iter().flat_map(of_peer).collect()
}

/// The policies that are there and should not be, and those that should be and are not. What means the same is the same, however it is
/// spelled.
fn difference(policies: &[Policy], wanted: &[RemoteSubnetRouteSettings]) -> (Vec<Policy>, Vec<Policy>) {
    let is_same = |one: &RemoteSubnetRouteSettings, other: &RemoteSubnetRouteSettings| {
        let mac = |route: &RemoteSubnetRouteSettings| route.distributed_router_mac_address.parse::<MacAddress>().ok();
        let prefix = |route: &RemoteSubnetRouteSettings| route.destination_prefix.parse::<IpNet>().ok();
        let address = |route: &RemoteSubnetRouteSettings| route.provider_address.parse::<IpAddr>().ok();
        one.isolation_id == other.isolation_id && mac(one) == mac(other) && prefix(one) == prefix(other) && address(one) == address(other)
    };
    let present: Vec<(&Policy, RemoteSubnetRouteSettings)> = policies.iter().filter_map(|policy| Some((policy, remote(policy)?))).collect();
    let stale = present.iter().filter(|(_, route)| !wanted.iter().any(|other| is_same(route, other)));
    let missing = wanted.iter().filter(|route| !present.iter().any(|(_, other)| is_same(route, other)));
    let policy = |route: &RemoteSubnetRouteSettings| Policy::new(&NetworkPolicyType::RemoteSubnetRoute, route);
    (stale.map(|(policy, _)| (*policy).clone()).collect(), missing.map(policy).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(number: u8, mac: &str) -> Lease {
        Lease {
            node: format!("node{number}"),
            subnets: vec![format!("10.244.{number}.0/24").parse().unwrap()],
            addresses: vec![format!("192.168.0.{number}").parse().unwrap()],
            vtep: Some(Vtep { vni: 4096, mac: mac.parse().unwrap() }),
        }
    }

    fn shown(policies: &[Policy]) -> Vec<String> {
        policies.iter().filter_map(remote).map(|route| format!("{} {}", route.destination_prefix, route.provider_address)).collect()
    }

    #[test]
    fn only_what_differs_changes() {
        let (two, three) = (lease(2, "02-15-5D-00-00-02"), lease(3, "02-15-5D-00-00-03"));
        let (stale, missing) = difference(&[], &routes(&[two.clone(), three.clone()], true));
        assert_eq!(
            (shown(&stale), shown(&missing)),
            (vec![], vec!["10.244.2.0/24 192.168.0.2".to_owned(), "10.244.3.0/24 192.168.0.3".to_owned()])
        );
        let mut there = missing;
        there.push(provider("192.168.0.1".parse().unwrap()));
        assert_eq!(difference(&there, &routes(&[two.clone(), three.clone()], true)), (vec![], vec![]));
        there[0].settings["DistributedRouterMacAddress"] = "02:15:5d:00:00:02".into();
        assert_eq!(
            difference(&there, &routes(&[two.clone(), three.clone()], true)),
            (vec![], vec![]),
            "the same address in another spelling"
        );
        let moved = Lease { addresses: vec!["192.168.0.20".parse().unwrap()], ..two };
        let (stale, missing) = difference(&there, &routes(&[moved], true));
        assert_eq!(shown(&stale), ["10.244.2.0/24 192.168.0.2", "10.244.3.0/24 192.168.0.3"]);
        assert_eq!(shown(&missing), ["10.244.2.0/24 192.168.0.20"]);
    }
}
