//! A Linux node: the kernel's own networking, with a bridge for pods as the CNI plugin `bridge` makes it, flanneld and kube-proxy.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use host::namespace::{self, Namespace};
use host::netlink::{Address, Hop, Netlink, Route};
use host::sysctl::{Family, Key};
use ipnet::IpNet;
use serde_json::{Value, json};

use super::windows::subnet_env;
use super::{LabNode, Sandbox, strings};
use crate::cni::{Added, Attachment, CniError, Network};
use crate::daemon::{NotReady, Program};
use crate::underlay::index;

/// The bridge of the node's pods.
const BRIDGE: &str = "cni0";

/// What is Linux' on a node.
pub(super) struct Linux {
    directory: PathBuf,
    namespace: Arc<Namespace>,
}

impl Linux {
    pub(super) fn new(directory: &Path, namespace: Arc<Namespace>) -> Self {
        Self { directory: directory.to_owned(), namespace }
    }

    pub(super) async fn start(&self, node: &LabNode) -> Result<(), NotReady> {
        node.run(node.flanneld(&[])).await?;
        self.make_bridge().map_err(|error| NotReady { cause: format!("{}: {error}", node.spec.name), log: Vec::new() })?;
        node.run_kube_proxy(self.kube_proxy(node), &[]).await
    }

    fn kube_proxy(&self, node: &LabNode) -> Program {
        let mut arguments = strings(&["--os", "linux", "--hostname-override", &node.spec.name, "--kubeconfig"]);
        arguments.push(node.surroundings.kubeconfig.display().to_string());
        arguments.extend(strings(&["--healthz-bind-address", "127.0.0.1:10256", "--metrics-bind-address", "127.0.0.1:10249"]));
        arguments.extend(["--min-sync-period".to_owned(), node.sync_period()]);
        Program::role(&node.spec.name, "kube-proxy", &arguments)
    }

    /// The bridge, with the first address of every subnet of the node.
    fn make_bridge(&self) -> Result<(), CniError> {
        let netlink = Netlink::open_in(&self.namespace).map_err(failed)?;
        if netlink.link_by_name(BRIDGE).map_err(failed)?.is_none() {
            netlink.create_bridge(BRIDGE).map_err(failed)?;
        }
        let bridge = index(&netlink, BRIDGE).map_err(failed)?;
        for gateway in self.gateways() {
            netlink.add_address(bridge, &Address::new(gateway)).map_err(failed)?;
        }
        netlink.set_mtu(bridge, self.mtu()).map_err(failed)?;
        netlink.set_up(bridge).map_err(failed)
    }

    fn subnets(&self) -> Vec<IpNet> {
        subnet_env(&self.directory.join("subnet.env")).iter().filter_map(|text| text.parse().ok()).collect()
    }

    /// The bridge's own addresses.
    fn gateways(&self) -> Vec<IpNet> {
        let first = |subnet: IpNet| {
            subnet.hosts().find(|host| *host != subnet.network()).and_then(|host| IpNet::new(host, subnet.prefix_len()).ok())
        };
        self.subnets().into_iter().filter_map(first).collect()
    }

    fn mtu(&self) -> u32 {
        let text = std::fs::read_to_string(self.directory.join("subnet.env")).unwrap_or_default();
        text.lines().find_map(|line| line.strip_prefix("FLANNEL_MTU=")?.parse().ok()).unwrap_or(1450)
    }

    /// host-local, which gives out addresses.
    fn addresses(&self) -> Network {
        let ranges: Vec<Value> = self.subnets().iter().map(|subnet| json!([{"subnet": subnet}])).collect();
        let config = json!({
            "cniVersion": "1.0.0", "name": BRIDGE, "type": "host-local",
            "ipam": {"type": "host-local", "ranges": ranges, "dataDir": self.directory.join("addresses")}});
        Network { namespace: self.namespace.clone(), config, variables: Vec::new(), plugins: None }
    }

    pub(super) async fn attach(&self, id: &str, pod: (String, String)) -> Result<Sandbox, CniError> {
        let namespace = namespace::create(&self.directory.join("pods"), id)?;
        let attachment = self.attachment(id, &pod);
        let added = self.addresses().add(&attachment).await?;
        if let Err(error) = self.connect(id, &namespace, &added) {
            // The failure is the one to tell, not that of undoing.
            _ = self.addresses().del(&attachment).await;
            _ = namespace::delete(namespace.path());
            return Err(error);
        }
        Ok(Sandbox { id: id.to_owned(), pod, namespace, addresses: added.addresses, hcn: None, is_shared: false })
    }

    /// A cable from the bridge to the pod's `eth0`.
    fn connect(&self, id: &str, namespace: &Namespace, added: &Added) -> Result<(), CniError> {
        namespace.run(|| Key::interface(Family::V6, "default", "accept_dad").write("0"))??;
        let node = Netlink::open_in(&self.namespace).map_err(failed)?;
        // Fifteen characters are all that a link's name may have.
        let (near, far) = (format!("v{}", &id[..id.len().min(12)]), format!("p{}", &id[..id.len().min(12)]));
        node.create_veth(&near, &far).map_err(failed)?;
        let mtu = self.mtu();
        let (near, peer) = (index(&node, &near).map_err(failed)?, index(&node, &far).map_err(failed)?);
        node.set_mtu(near, mtu).map_err(failed)?;
        node.set_mtu(peer, mtu).map_err(failed)?;
        node.move_to(peer, namespace).map_err(failed)?;
        node.set_controller(near, index(&node, BRIDGE).map_err(failed)?).map_err(failed)?;
        node.set_hairpin(near).map_err(failed)?;
        node.set_up(near).map_err(failed)?;
        self.equip(namespace, &far, added)
    }

    fn equip(&self, namespace: &Namespace, link: &str, added: &Added) -> Result<(), CniError> {
        let pod = Netlink::open_in(namespace).map_err(failed)?;
        pod.set_up(index(&pod, "lo").map_err(failed)?).map_err(failed)?;
        let eth0 = index(&pod, link).map_err(failed)?;
        pod.set_name(eth0, "eth0").map_err(failed)?;
        pod.set_up(eth0).map_err(failed)?;
        for address in &added.addresses {
            pod.add_address(eth0, &Address::new(*address)).map_err(failed)?;
        }
        for gateway in self.gateways().iter().map(IpNet::addr) {
            let everything: IpNet = if gateway.is_ipv4() { ipnet::Ipv4Net::default().into() } else { ipnet::Ipv6Net::default().into() };
            let hop = Hop { gateway: Some(gateway), index: eth0, ..Hop::default() };
            pod.replace_route(&Route::new(everything, hop, 0)).map_err(failed)?;
        }
        Ok(())
    }

    pub(super) async fn detach(&self, sandbox: Sandbox) -> Result<(), CniError> {
        self.addresses().del(&self.attachment(&sandbox.id, &sandbox.pod)).await?;
        // The cable goes with the namespace.
        Ok(namespace::delete(sandbox.namespace.path())?)
    }

    fn attachment(&self, id: &str, pod: &(String, String)) -> Attachment {
        let netns = self.directory.join("pods").join(id).display().to_string();
        Attachment { container: id.to_owned(), netns, pod: pod.clone() }
    }
}

fn failed(error: impl std::fmt::Display) -> CniError {
    std::io::Error::other(error.to_string()).into()
}
