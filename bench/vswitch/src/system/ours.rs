//! Ourselves: hnsd and vswitchd on every node, told what to do by documents.

use std::net::Ipv4Addr;
use std::path::Path;

use hcn::client::{Address, Client};
use hcn::{Guid, Hcn, Kind};
use host::namespace::{self, Namespace};
use rig::services::Services;
use serde_json::{Value, json};

use super::{System, Topology, VNI, service, wait_for};
use crate::links;
use crate::options::Options;
use crate::sandbox::DIRECTORY;

/// Sets it up.
pub(crate) fn set_up(topology: Topology, options: &Options) -> Result<System, String> {
    match topology {
        Topology::SameNode => same_node(options),
        Topology::TwoNodes => two_nodes(options),
        Topology::Service => service(options),
    }
}

fn same_node(options: &Options) -> Result<System, String> {
    links::namespace("t-out")?;
    let node = links::namespace("t-node")?;
    links::wire([("t-node", Some("192.168.0.1/24")), ("t-out", Some("192.168.0.254/24"))])?;
    links::ip("-n t-node route add default via 192.168.0.254")?;
    let node = Node::start("t-node", &node, options)?;
    let network = node.create(Kind::Network, None, &bridge_network())?;
    let (client, _) = node.pod(network, "pod1", "10.244.1.11", "10.244.1.1")?;
    let (server, _) = node.pod(network, "pod2", "10.244.1.12", "10.244.1.1")?;
    Ok(System { client, server, address: Ipv4Addr::new(10, 244, 1, 12), nodes: Vec::new(), daemons: node.services.daemons })
}

fn service(options: &Options) -> Result<System, String> {
    links::namespace("s-out")?;
    let node = links::namespace("s-node")?;
    links::wire([("s-node", Some("192.168.0.1/24")), ("s-out", Some("192.168.0.254/24"))])?;
    links::ip("-n s-node route add default via 192.168.0.254")?;
    let node = Node::start("s-node", &node, options)?;
    let network = node.create(Kind::Network, None, &bridge_network())?;
    let (client, first) = node.pod(network, "pod1", "10.244.1.11", "10.244.1.1")?;
    let (server, second) = node.pod(network, "pod2", "10.244.1.12", "10.244.1.1")?;
    let frontends = service::frontends();
    let ports: Vec<u16> = frontends.iter().map(|front| front.port).collect();
    node.create(Kind::LoadBalancer, None, &load_balancer(service::VIP, &ports, &[second]))?;
    for number in 0..service::OTHERS {
        let front = service::other_frontend(number);
        node.create(Kind::LoadBalancer, None, &load_balancer(front.address, &[front.port], &[first, second]))?;
    }
    Ok(System { client, server, address: service::VIP, nodes: Vec::new(), daemons: node.services.daemons })
}

fn two_nodes(options: &Options) -> Result<System, String> {
    let names = ["t-node1", "t-node2"];
    let namespaces = [links::namespace(names[0])?, links::namespace(names[1])?];
    links::wire([(names[0], Some("192.168.0.1/24")), (names[1], Some("192.168.0.2/24"))])?;
    let (mut pods, mut daemons) = (Vec::new(), Vec::new());
    for (index, (name, namespace)) in names.iter().zip(&namespaces).enumerate() {
        let number = index + 1;
        let node = Node::start(name, namespace, options)?;
        let network = node.create(Kind::Network, None, &overlay_network(number, 3 - number))?;
        pods.push(node.pod(network, "pod", &format!("10.244.{number}.11"), &format!("10.244.{number}.1"))?.0);
        daemons.extend(node.services.daemons);
    }
    let [client, server] = <[_; 2]>::try_from(pods).map_err(|_| "two pods were to be made")?;
    let nodes = names.map(str::to_owned).to_vec();
    Ok(System { client, server, address: Ipv4Addr::new(10, 244, 2, 11), nodes, daemons })
}

/// A node to be programmed.
pub(crate) struct Programmed {
    node: Node,
    endpoints: Vec<Guid>,
}

/// A node with some pods on one network.
pub(crate) fn programmed(options: &Options, pods: usize) -> Result<Programmed, String> {
    links::namespace("p-out")?;
    let node = links::namespace("p-node")?;
    links::wire([("p-node", Some("192.168.0.1/24")), ("p-out", Some("192.168.0.254/24"))])?;
    links::ip("-n p-node route add default via 192.168.0.254")?;
    let node = Node::start("p-node", &node, options)?;
    let network = node.create(Kind::Network, None, &bridge_network())?;
    let pod = |number: usize| node.pod(network, &format!("pod{number}"), &format!("10.244.1.{}", 10 + number), "10.244.1.1");
    let endpoints = (0..pods).map(|number| pod(number).map(|(_, endpoint)| endpoint)).collect::<Result<Vec<_>, _>>()?;
    Ok(Programmed { node, endpoints })
}

impl Programmed {
    /// A connection of its own for somebody who asks beside others.
    pub(crate) fn client(&self) -> Client {
        Client::new(Address::Unix(self.node.services.directory.join("hnsd.sock")))
    }

    /// Makes a load balancer in front of all pods.
    pub(crate) fn load_balancer(&self, client: &Client, vip: Ipv4Addr, port: u16) -> Result<(), String> {
        let document = load_balancer(vip, &[port], &self.endpoints).to_string();
        let created = client.create(Kind::LoadBalancer, None, None, &document);
        created.map(drop).map_err(|error| format!("cannot create the load balancer {vip}: {error}"))
    }

    /// Adds policies to the first pod's endpoint, in one request.
    pub(crate) fn add_policies(&self, policies: &[Value]) -> Result<(), String> {
        let endpoint = *self.endpoints.first().ok_or("there is no pod")?;
        let request = json!({"ResourceType": "Policy", "RequestType": "Add", "Settings": {"Policies": policies}});
        self.node.services.client.modify(Kind::Endpoint, endpoint, &request.to_string()).map_err(|error| error.to_string())
    }

    /// Objects unless the switch holds so many load balancers: it must, when their requests are answered.
    pub(crate) fn check_held(&self, balancers: usize) -> Result<(), String> {
        let switch = Client::new(Address::Unix(self.node.services.directory.join("vswitchd.sock")));
        let held = || {
            let rules = switch.request("GET", "/rules", "").map_err(|error| error.to_string())?;
            Ok::<_, String>(rules.as_array().map_or(0, |rules| rules.iter().filter(|rule| rule["Layer"] == "service").count()))
        };
        let count = held()?;
        // Each is there for pods, for the node and for others.
        if count == 3 * balancers { Ok(()) } else { Err(format!("the switch has {count} rules for {balancers} load balancers")) }
    }
}

/// Both services on a node, with as many pods as are wanted.
struct Node {
    services: Services,
}

impl Node {
    fn start(name: &str, namespace: &Namespace, options: &Options) -> Result<Self, String> {
        let transom = options.transom.as_deref().ok_or("name the program to measure with --transom; `cargo xtask bench vswitch` does")?;
        Services::start(transom, &Path::new(DIRECTORY).join(name), namespace, &options.vswitchd()).map(|services| Self { services })
    }

    fn create(&self, kind: Kind, network: Option<Guid>, document: &Value) -> Result<Guid, String> {
        self.services.create(kind, network, document)
    }

    /// Makes an endpoint in a namespace of its own.
    fn pod(&self, network: Guid, name: &str, address: &str, gateway: &str) -> Result<(Namespace, Guid), String> {
        let endpoint = self.create(Kind::Endpoint, Some(network), &endpoint(name, address, gateway))?;
        let id = self.create(Kind::Namespace, None, &json!({"Type": "Host", "Name": name, "SchemaVersion": {"Major": 2, "Minor": 0}}))?;
        let attach = json!({"ResourceType": "Endpoint", "RequestType": "Add", "Settings": {"EndpointId": endpoint.to_string()}});
        let attached = self.services.client.modify(Kind::Namespace, id, &attach.to_string());
        attached.map_err(|error| self.services.explained(&format!("cannot attach the endpoint: {error}")))?;
        let path = self.services.directory.join("ns").join(id.to_string());
        wait_for("the pod's namespace", || namespace::open(&path).is_ok()).map_err(|error| self.services.explained(&error))?;
        let pod = namespace::open(&path).map_err(|error| error.to_string())?;
        links::prepare(&pod)?;
        Ok((pod, endpoint))
    }
}

fn bridge_network() -> Value {
    json!({
        "Name": "bridge",
        "Type": "L2Bridge",
        "Ipams": [{"Type": "Static", "Subnets": [{
            "IpAddressPrefix": "10.244.1.0/24",
            "Routes": [{"NextHop": "10.244.1.1", "DestinationPrefix": "0.0.0.0/0"}],
        }]}],
        "SchemaVersion": {"Major": 2, "Minor": 0},
    })
}

/// A Service at some ports of an address, with the same ports at its backends.
fn load_balancer(vip: Ipv4Addr, ports: &[u16], backends: &[Guid]) -> Value {
    let mapping = |port: &u16| json!({"Protocol": 6, "InternalPort": port, "ExternalPort": port});
    json!({
        "HostComputeEndpoints": backends.iter().map(Guid::to_string).collect::<Vec<_>>(),
        "FrontendVIPs": [vip.to_string()],
        "PortMappings": ports.iter().map(mapping).collect::<Vec<_>>(),
        "Flags": 1,
        "SchemaVersion": {"Major": 2, "Minor": 0},
    })
}

fn overlay_network(own: usize, other: usize) -> Value {
    json!({
        "Name": "overlay",
        "Type": "Overlay",
        "Ipams": [{"Type": "Static", "Subnets": [{
            "IpAddressPrefix": format!("10.244.{own}.0/24"),
            "Policies": [{"Type": "VSID", "Settings": {"IsolationId": VNI}}],
            "Routes": [{"NextHop": format!("10.244.{own}.1"), "DestinationPrefix": "0.0.0.0/0"}],
        }]}],
        "Policies": [
            {"Type": "DrMacAddress", "Settings": {"Address": format!("00-15-5D-AA-00-0{own}")}},
            {"Type": "RemoteSubnetRoute", "Settings": {
                "DestinationPrefix": format!("10.244.{other}.0/24"),
                "IsolationId": VNI,
                "ProviderAddress": format!("192.168.0.{other}"),
                "DistributedRouterMacAddress": format!("00-15-5D-AA-00-0{other}"),
            }},
        ],
        "SchemaVersion": {"Major": 2, "Minor": 0},
    })
}

/// An endpoint with the policies that CNI plugins give it.
fn endpoint(name: &str, address: &str, gateway: &str) -> Value {
    json!({
        "Name": name,
        "IpConfigurations": [{"IpAddress": address, "PrefixLength": 24}],
        "Routes": [{"NextHop": gateway, "DestinationPrefix": "0.0.0.0/0"}],
        "Policies": [{"Type": "OutBoundNAT", "Settings": {"Exceptions": ["10.244.0.0/16"]}}],
        "SchemaVersion": {"Major": 2, "Minor": 0},
    })
}
