//! A node that is programmed with many things: load balancers by many clients at once, policies in one request.

use std::net::Ipv4Addr;
use std::thread;

use hcn::client::{Address, Client};
use hcn::{Guid, Hcn, Kind};
use serde_json::{Value, json};

use super::document;
use super::node::Bridged;

impl Bridged {
    /// Makes load balancers in front of all pods, with addresses from `first` on, by several clients, each of which asks one after the other.
    pub(crate) fn load_balancers(&self, first: Ipv4Addr, count: u32, clients: u32) -> Result<(), String> {
        let backends: Vec<Guid> = self.pods.iter().map(|pod| pod.endpoint).collect();
        let ask = |client: u32| {
            let connection = self.client("hnsd.sock");
            let address = |number: u32| Ipv4Addr::from_bits(first.to_bits() + number);
            (client..count).step_by(clients as usize).try_for_each(|number| load_balancer(&connection, address(number), &backends))
        };
        thread::scope(|scope| {
            let ask = &ask;
            let asking: Vec<_> = (0..clients).map(|client| scope.spawn(move || ask(client))).collect();
            asking.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| Err("a client failed".to_owned())))
        })
    }

    /// Adds policies to the first pod's endpoint, in one request.
    pub(crate) fn add_policies(&self, policies: &[Value]) -> Result<(), String> {
        let endpoint = self.pods.first().ok_or("there is no pod")?.endpoint;
        let request = json!({"ResourceType": "Policy", "RequestType": "Add", "Settings": {"Policies": policies}});
        self.node.services.client.modify(Kind::Endpoint, endpoint, &request.to_string()).map_err(|error| error.to_string())
    }

    /// Objects unless the switch holds so many load balancers: it must, when their requests are answered.
    pub(crate) fn check_load_balancers(&self, count: usize) -> Result<(), String> {
        let rules = self.rules(|rule| rule["Layer"] == "service")?;
        // Each is there for pods, for the node and for others.
        if rules == 3 * count { Ok(()) } else { Err(format!("the switch has {rules} rules for {count} load balancers")) }
    }

    /// How many rules of a kind the switch has.
    pub(crate) fn rules(&self, is_wanted: impl Fn(&Value) -> bool) -> Result<usize, String> {
        let rules = self.switch().request("GET", "/rules", "").map_err(|error| error.to_string())?;
        Ok(rules.as_array().map_or(0, |rules| rules.iter().filter(|rule| is_wanted(rule)).count()))
    }

    /// A client of its vswitchd.
    pub(crate) fn switch(&self) -> Client {
        self.client("vswitchd.sock")
    }

    /// A connection of its own for somebody who asks beside others.
    fn client(&self, socket: &str) -> Client {
        Client::new(Address::Unix(self.node.services.directory.join(socket)))
    }
}

fn load_balancer(client: &Client, vip: Ipv4Addr, backends: &[Guid]) -> Result<(), String> {
    let document = document::load_balancer(vip, &[80], backends).to_string();
    let created = client.create(Kind::LoadBalancer, None, None, &document);
    created.map(drop).map_err(|error| format!("cannot create the load balancer {vip}: {error}"))
}
