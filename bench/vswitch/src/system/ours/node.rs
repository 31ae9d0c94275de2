//! A node with both services, and pods on it.

use std::net::Ipv4Addr;
use std::path::Path;

use hcn::{Guid, Hcn, Kind};
use host::namespace::{self, Namespace};
use rig::services::Services;
use serde_json::{Value, json};

use super::document;
use crate::links;
use crate::options::Options;
use crate::sandbox::DIRECTORY;
use crate::system::{System, wait_for};

/// Both services on a node, with as many pods as are wanted.
pub(super) struct Node {
    pub(super) services: Services,
}

/// An endpoint in a namespace of its own.
pub(super) struct Pod {
    pub(super) namespace: Namespace,
    pub(super) endpoint: Guid,
}

impl Node {
    pub(super) fn start(name: &str, namespace: &Namespace, options: &Options) -> Result<Self, String> {
        let transom = options.transom.as_deref().ok_or("name the program to measure with --transom; `cargo xtask bench vswitch` does")?;
        Services::start(transom, &Path::new(DIRECTORY).join(name), namespace, &options.vswitchd()).map(|services| Self { services })
    }

    pub(super) fn create(&self, kind: Kind, network: Option<Guid>, document: &Value) -> Result<Guid, String> {
        self.services.create(kind, network, document)
    }

    /// Makes a pod.
    pub(super) fn pod(&self, network: Guid, name: &str, address: &str, gateway: &str) -> Result<Pod, String> {
        let endpoint = self.create(Kind::Endpoint, Some(network), &document::endpoint(name, address, gateway))?;
        let id = self.create(Kind::Namespace, None, &document::namespace(name))?;
        let attach = json!({"ResourceType": "Endpoint", "RequestType": "Add", "Settings": {"EndpointId": endpoint.to_string()}});
        let attached = self.services.client.modify(Kind::Namespace, id, &attach.to_string());
        attached.map_err(|error| self.services.explained(&format!("cannot attach the endpoint: {error}")))?;
        let path = self.services.directory.join("ns").join(id.to_string());
        wait_for("the pod's namespace", || namespace::open(&path).is_ok()).map_err(|error| self.services.explained(&error))?;
        let namespace = namespace::open(&path).map_err(|error| error.to_string())?;
        links::prepare(&namespace)?;
        Ok(Pod { namespace, endpoint })
    }
}

/// A node with pods on one network, the usual case.
pub(crate) struct Bridged {
    pub(super) node: Node,
    pub(super) pods: Vec<Pod>,
}

/// The address of the first pod of a [`Bridged`] node; the others follow.
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 244, 1, 11);

impl Bridged {
    /// Starts a node whose namespaces begin with a name, with a wire to the outside and so many pods.
    pub(crate) fn start(name: &str, pods: usize, options: &Options) -> Result<Self, String> {
        let (inside, outside) = (format!("{name}-node"), format!("{name}-out"));
        links::namespace(&outside)?;
        let namespace = links::namespace(&inside)?;
        links::wire([(&inside, Some("192.168.0.1/24")), (&outside, Some("192.168.0.254/24"))])?;
        links::ip(&format!("-n {inside} route add default via 192.168.0.254"))?;
        let node = Node::start(&inside, &namespace, options)?;
        let network = node.create(Kind::Network, None, &document::bridge_network())?;
        let pod = |number: u32| {
            let address = Ipv4Addr::from_bits(FIRST.to_bits() + number).to_string();
            node.pod(network, &format!("pod{}", number + 1), &address, "10.244.1.1")
        };
        let pods = (0..).take(pods).map(pod).collect::<Result<_, _>>()?;
        Ok(Self { node, pods })
    }

    /// Its first pod as the client and its second as the server, which is reached at its own address or at another one.
    pub(crate) fn into_system(self, address: Option<Ipv4Addr>) -> Result<System, String> {
        let mut pods = self.pods.into_iter().map(|pod| pod.namespace);
        let (Some(client), Some(server)) = (pods.next(), pods.next()) else { return Err("two pods were to be made".to_owned()) };
        let address = address.unwrap_or(Ipv4Addr::from_bits(FIRST.to_bits() + 1));
        Ok(System { client, server, address, nodes: Vec::new(), daemons: self.node.services.daemons })
    }
}
