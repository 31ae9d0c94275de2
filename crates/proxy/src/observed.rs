//! What HNS has, as far as a Service proxy needs to know.
//!
//! Everything is read once. After that the events of HNS say what to read again, and from time to time the ids of all objects are compared, in
//! case an event was missed: what a sync costs grows with what has changed, not with what there is.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use hcn::api::{Hcn, HcnExt, Kind, Object};
use hcn::endpoint::{Endpoint, EndpointState};
use hcn::error::{Error, Result};
use hcn::event::{Change, Event};
use hcn::load_balancer::{LoadBalancer, LoadBalancerFlags, ProtocolType};
use hcn::network::{Network, NetworkType};
use hcn::policy::network::{NetworkPolicyType, ProviderAddressSettings, RemoteSubnetRouteSettings};
use hcn::query::Query;
use hcn::{Guid, print};
use ipnet::IpNet;

use crate::desired::Frontend;
use crate::family::Family;
use crate::identity::{balancer_id, endpoint_id};
use crate::service::Protocol;
use crate::shape::Shape;

/// The network that pods are on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenNetwork {
    /// Its id.
    pub id: Guid,
    /// Whether packets between nodes travel in others.
    pub is_overlay: bool,
    /// Its own subnets.
    pub subnets: Vec<IpNet>,
    /// Subnets of other nodes, and those nodes' addresses.
    pub remote_subnets: Vec<(IpNet, IpAddr)>,
}

/// An endpoint of that network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenEndpoint {
    /// Its name.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Whether it is on another node.
    pub is_remote: bool,
    /// Whether packets can reach it.
    pub is_usable: bool,
    /// The address of the node it is on, on an overlay.
    pub provider: Option<IpAddr>,
    /// Whether it was made by a Service proxy of ours.
    pub is_ours: bool,
}

/// A load balancer.
#[derive(Clone, Debug)]
pub struct SeenBalancer {
    /// What counts of it.
    pub shape: Shape,
    /// Where clients connect to; more than one only for those of others.
    pub frontends: Box<[Frontend]>,
    /// Whether it was made by a Service proxy of ours.
    pub is_ours: bool,
}

/// What HNS has.
#[derive(Debug, Default)]
pub struct Observed {
    /// The network, if it is there.
    pub network: Option<SeenNetwork>,
    /// The endpoints of the network.
    pub endpoints: HashMap<Guid, SeenEndpoint>,
    /// All load balancers.
    pub balancers: HashMap<Guid, SeenBalancer>,
    /// What has to be read again.
    stale: BTreeSet<(Kind, Guid)>,
    /// Changes of our own that HNS is going to tell us about.
    own_changes: BTreeMap<Guid, usize>,
    /// Whether everything has to be read again.
    is_unknown: bool,
    by_address: HashMap<IpAddr, Vec<Guid>>,
}

impl Observed {
    /// Nothing is known yet.
    pub fn new() -> Self {
        Self { is_unknown: true, ..Self::default() }
    }

    /// Forgets everything, since events may have been missed.
    pub fn forget(&mut self) {
        self.is_unknown = true;
    }

    /// Takes in what HNS said. Returns whether it is news.
    pub fn note(&mut self, event: &Event) -> bool {
        let Some(kind) = event.kind else { return false };
        let is_known = match kind {
            Kind::Network => true,
            Kind::Endpoint => self.endpoints.contains_key(&event.id),
            Kind::LoadBalancer => self.balancers.contains_key(&event.id),
            _ => return false,
        };
        match event.change {
            // What is known already was made by us, and what is not known any more was taken away by us.
            Change::Created if is_known && kind != Kind::Network => return false,
            Change::Deleted if !is_known => return false,
            Change::Deleted if kind != Kind::Network => self.drop_object(kind, event.id),
            Change::Modified if self.is_own_change(event.id) => return false,
            Change::Created | Change::Deleted | Change::Modified | Change::Attached | Change::Detached => self.mark(kind, event.id),
            Change::PreCreate | Change::PreDelete | Change::StateChanged | Change::Disconnected => return false,
        }
        true
    }

    /// Says that an object has to be read again.
    pub fn mark(&mut self, kind: Kind, id: Guid) {
        self.stale.insert((kind, id));
    }

    /// Brings everything up to date.
    pub fn refresh(&mut self, hcn: &dyn Hcn, network_name: &str) -> Result<()> {
        let network = find_network(hcn, network_name, self.network.as_ref(), &self.stale, self.is_unknown)?;
        let is_same = network.as_ref().map(|network| network.id) == self.network.as_ref().map(|network| network.id);
        self.network = network;
        if self.is_unknown || !is_same {
            return self.read_all(hcn);
        }
        for (kind, id) in std::mem::take(&mut self.stale) {
            if let Err(error) = self.read_one(hcn, kind, id) {
                self.mark(kind, id);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Compares the ids of all objects with those that are known. Returns whether something was not as expected.
    pub fn compare(&mut self, hcn: &dyn Hcn) -> Result<bool> {
        let Some(network) = self.network.as_ref().map(|network| network.id) else { return Ok(false) };
        let of_network = print(&Query::v2(&[("HostComputeNetwork", &network.to_string())]));
        let endpoints: BTreeSet<Guid> = hcn.enumerate(Kind::Endpoint, &of_network)?.into_iter().collect();
        let balancers: BTreeSet<Guid> = hcn.enumerate(Kind::LoadBalancer, &print(&Query::v2(&[])))?.into_iter().collect();
        let known: BTreeSet<Guid> = self.endpoints.keys().copied().collect();
        let differing: Vec<Guid> = endpoints.symmetric_difference(&known).copied().collect();
        let known: BTreeSet<Guid> = self.balancers.keys().copied().collect();
        let others: Vec<Guid> = balancers.symmetric_difference(&known).copied().collect();
        let is_different = !differing.is_empty() || !others.is_empty();
        self.stale.extend(differing.into_iter().map(|id| (Kind::Endpoint, id)));
        self.stale.extend(others.into_iter().map(|id| (Kind::LoadBalancer, id)));
        Ok(is_different)
    }

    fn read_all(&mut self, hcn: &dyn Hcn) -> Result<()> {
        self.is_unknown = true;
        self.stale.clear();
        self.own_changes.clear();
        self.endpoints.clear();
        self.by_address.clear();
        self.balancers.clear();
        if let Some(network) = self.network.clone() {
            for endpoint in hcn.objects::<Endpoint>(&[("HostComputeNetwork", &network.id.to_string())])? {
                self.put_endpoint(&endpoint);
            }
        }
        for balancer in hcn.objects::<LoadBalancer>(&[])? {
            self.put_balancer(&balancer);
        }
        self.is_unknown = false;
        Ok(())
    }

    fn read_one(&mut self, hcn: &dyn Hcn, kind: Kind, id: Guid) -> Result<()> {
        match kind {
            Kind::Endpoint => match present(hcn.object::<Endpoint>(id))? {
                Some(endpoint) => self.put_endpoint(&endpoint),
                None => self.drop_object(kind, id),
            },
            Kind::LoadBalancer => match present(hcn.object::<LoadBalancer>(id))? {
                Some(balancer) => self.put_balancer(&balancer),
                None => self.drop_object(kind, id),
            },
            _ => {}
        }
        Ok(())
    }

    /// An endpoint as it is now.
    pub fn put_endpoint(&mut self, endpoint: &Endpoint) {
        self.drop_object(Kind::Endpoint, endpoint.id);
        let Some(network) = self.network.as_ref().map(|network| network.id).filter(|id| *id == endpoint.network) else { return };
        let seen = see_endpoint(endpoint, network);
        for address in &seen.addresses {
            self.by_address.entry(*address).or_default().push(endpoint.id);
        }
        self.endpoints.insert(endpoint.id, seen);
    }

    /// A load balancer as it is now.
    pub fn put_balancer(&mut self, document: &LoadBalancer) {
        let frontends = frontends(document);
        let is_ours = matches!(frontends[..], [only] if balancer_id(&only) == document.id);
        self.balancers.insert(document.id, SeenBalancer { shape: Shape::of(document), frontends, is_ours });
    }

    /// An object that is gone.
    pub fn drop_object(&mut self, kind: Kind, id: Guid) {
        self.own_changes.remove(&id);
        if kind == Kind::LoadBalancer {
            self.balancers.remove(&id);
        }
        let Some(endpoint) = self.endpoints.remove(&id).filter(|_| kind == Kind::Endpoint) else { return };
        for address in endpoint.addresses {
            if let Some(ids) = self.by_address.get_mut(&address) {
                ids.retain(|known| *known != id);
                if ids.is_empty() {
                    self.by_address.remove(&address);
                }
            }
        }
    }

    /// Says that a change of an object is our own, so that hearing of it tells nothing new.
    pub fn expect_change(&mut self, id: Guid) {
        *self.own_changes.entry(id).or_default() += 1;
    }

    fn is_own_change(&mut self, id: Guid) -> bool {
        let Some(count) = self.own_changes.get_mut(&id) else { return false };
        *count -= 1;
        if *count == 0 {
            self.own_changes.remove(&id);
        }
        true
    }

    /// The endpoints with an address.
    pub fn at(&self, address: IpAddr) -> impl Iterator<Item = (Guid, &SeenEndpoint)> {
        let ids = self.by_address.get(&address).into_iter().flatten();
        ids.filter_map(|id| self.endpoints.get(id).map(|endpoint| (*id, endpoint)))
    }
}

/// What a call answers, where the object may be gone.
fn present<T>(answer: Result<T>) -> Result<Option<T>> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether an error says that an object is not there.
pub(crate) fn is_gone(error: &Error) -> bool {
    matches!(error, Error::NotFound(_) | Error::NetworkNotFound(_) | Error::EndpointNotFound(_))
}

/// The network, read again if there is reason to.
fn find_network(
    hcn: &dyn Hcn,
    name: &str,
    known: Option<&SeenNetwork>,
    stale: &BTreeSet<(Kind, Guid)>,
    is_unknown: bool,
) -> Result<Option<SeenNetwork>> {
    let is_stale = stale.iter().any(|(kind, _)| *kind == Kind::Network);
    if let Some(known) = known.filter(|_| !is_stale && !is_unknown) {
        return Ok(Some(known.clone()));
    }
    let named = hcn.enumerate(Network::KIND, &print(&Query::v2(&[("Name", name)])))?;
    let Some(id) = named.first() else { return Ok(None) };
    Ok(present(hcn.object::<Network>(*id))?.map(|network| see_network(&network)))
}

fn see_network(network: &Network) -> SeenNetwork {
    let routes = network.policies.iter().filter(|policy| policy.is(&NetworkPolicyType::RemoteSubnetRoute));
    let remote_subnets = routes.filter_map(|policy| {
        let settings: RemoteSubnetRouteSettings = policy.settings().ok()?;
        Some((settings.destination_prefix.parse().ok()?, settings.provider_address.parse().ok()?))
    });
    let subnets = network.ipams.iter().flat_map(|ipam| &ipam.subnets);
    SeenNetwork {
        id: network.id,
        is_overlay: network.network_type == NetworkType::Overlay,
        subnets: subnets.filter_map(|subnet| subnet.ip_address_prefix.parse().ok()).collect(),
        remote_subnets: remote_subnets.collect(),
    }
}

fn see_endpoint(endpoint: &Endpoint, network: Guid) -> SeenEndpoint {
    let addresses: Vec<IpAddr> = endpoint.ip_configurations.iter().filter_map(|ip| ip.ip_address.parse().ok()).collect();
    let provider: Option<ProviderAddressSettings> =
        endpoint.policies.iter().find(|policy| policy.policy_type == "ProviderAddress").and_then(|policy| policy.settings().ok());
    let provider = provider.and_then(|settings| settings.provider_address.parse().ok());
    let is_ours = addresses.iter().any(|address| endpoint_id(network, *address, provider) == endpoint.id);
    let is_usable = endpoint.is_remote() || matches!(endpoint.state, EndpointState::Attached | EndpointState::AttachedSharing);
    SeenEndpoint { name: endpoint.name.clone(), addresses, is_remote: endpoint.is_remote(), is_usable, provider, is_ours }
}

/// The frontends of a load balancer, as far as a Service can have them.
fn frontends(balancer: &LoadBalancer) -> Box<[Frontend]> {
    let family = if balancer.flags.has(LoadBalancerFlags::IPV6) { Family::V6 } else { Family::V4 };
    let vips: Vec<Option<IpAddr>> = match balancer.frontend_vips.is_empty() {
        true => vec![None],
        false => balancer.frontend_vips.iter().filter_map(|vip| vip.parse().ok()).map(Some).collect(),
    };
    let mut found = Vec::new();
    for mapping in &balancer.port_mappings {
        let protocol = match mapping.protocol {
            ProtocolType::Tcp => Protocol::Tcp,
            ProtocolType::Udp => Protocol::Udp,
            ProtocolType::Sctp => Protocol::Sctp,
            _ => continue,
        };
        found.extend(vips.iter().map(|vip| Frontend {
            vip: *vip,
            family: vip.map_or(family, Family::of),
            protocol,
            port: mapping.external_port,
        }));
    }
    found.into()
}
