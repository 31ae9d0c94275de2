//! Networks as people see them.

use hcn::Guid;
use hcn::network::{Network, Subnet};
use hcn::policy::network::{NetworkPolicyType, ProviderAddressSettings};
use hcn::policy::{self};

use super::object::Noun;
use crate::describe::{self, Description};
use crate::exit::Failure;
use crate::output::Cell;
use crate::world::World;

impl Noun for Network {
    const WORDS: (&'static str, &'static str) = ("network", "networks");

    fn id(&self) -> Guid {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn header(wide: bool) -> Vec<&'static str> {
        let mut header = vec!["NAME", "TYPE", "SUBNETS", "GATEWAY", "ENDPOINTS", "FLAGS"];
        if wide {
            header.extend(["MANAGEMENT", "POLICIES"]);
        }
        header
    }

    fn row(&self, world: &World<'_>, wide: bool) -> Result<Vec<Cell>, Failure> {
        let subnets: Vec<&str> = self.subnets().map(|subnet| subnet.ip_address_prefix.as_str()).collect();
        let gateways: Vec<&str> = self.subnets().filter_map(Subnet::gateway).collect();
        let mut row: Vec<Cell> = vec![
            self.name.as_str().into(),
            self.network_type.to_string().into(),
            subnets.join(",").into(),
            gateways.join(",").into(),
            world.endpoints_of(self.id)?.len().to_string().into(),
            self.flags.names().join(",").into(),
        ];
        if wide {
            row.push(management(self).into());
            row.push(self.policies.iter().map(describe::policy_type).collect::<Vec<_>>().join(",").into());
        }
        Ok(row)
    }

    fn describe(&self, world: &World<'_>) -> Result<Description, Failure> {
        let mut description = Description::default();
        description
            .line("ID", self.id.to_string())
            .line("Name", self.name.as_str())
            .line("Type", self.network_type.to_string())
            .line("Flags", self.flags.names().join(", "))
            .line_if("Management", management(self))
            .line("Endpoints", world.endpoints_of(self.id)?.len().to_string());
        let mut subnets = Description::default();
        for ipam in &self.ipams {
            for one in &ipam.subnets {
                subnets.section(&one.ip_address_prefix, subnet(one, &ipam.ipam_type.to_string()));
            }
        }
        let ranges = self.mac_pool.ranges.iter().map(|range| format!("{} to {}", range.start, range.end)).collect();
        description.section("Subnets", subnets).list("MAC addresses", ranges).dns(&self.dns).policies(&self.policies);
        description.rest(&self.owner, self.version, &self.health, &self.extra);
        Ok(description)
    }
}

fn subnet(subnet: &Subnet, ipam: &str) -> Description {
    let mut description = Description::default();
    description.line("ID", subnet.id.to_string()).line("Addresses", ipam).line("Gateway", subnet.gateway().unwrap_or_default());
    description.line_if("Flags", subnet.flags.names().join(", "));
    let others: Vec<_> = subnet.routes.iter().filter(|route| !route.is_default()).cloned().collect();
    description.routes(&others);
    if !subnet.ip_subnets.is_empty() {
        description.list("IP subnets", subnet.ip_subnets.iter().map(|part| format!("{} {}", part.ip_address_prefix, part.id)).collect());
    }
    if !subnet.policies.is_empty() {
        description.policies(&subnet.policies);
    }
    description
}

/// The address of the host on the wire below the network.
fn management(network: &Network) -> String {
    let settings: Option<ProviderAddressSettings> = policy::find(&network.policies, &NetworkPolicyType::ProviderAddress);
    settings.map(|settings| settings.provider_address).unwrap_or_default()
}
