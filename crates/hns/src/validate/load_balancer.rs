//! Load balancers: frontends, port mappings and what the build allows.

use std::collections::BTreeSet;

use hcn::error::{Error, Result, detail};
use hcn::load_balancer::{DistributionType, LoadBalancer, LoadBalancerFlags, LoadBalancerPortMapping, PortMappingFlags, ProtocolType};

use crate::build::Build;
use crate::profile::Feature;
use crate::validate::text;

/// Checks a load balancer by itself and brings its addresses into canonical form.
pub(crate) fn check(balancer: &mut LoadBalancer, build: &Build) -> Result<()> {
    text::optional_ip(&mut balancer.source_vip, "SourceVIP", Error::InvalidIp)?;
    for (index, vip) in balancer.frontend_vips.iter_mut().enumerate() {
        *vip = text::ip(vip, &format!("FrontendVIPs[{index}]"), Error::InvalidIp)?.to_string();
    }
    if balancer.port_mappings.is_empty() {
        let remedy = r#"give at least one, such as {"Protocol":6,"InternalPort":8080,"ExternalPort":80}"#;
        return Err(Error::InvalidPolicy(detail("the load balancer has no port mapping").field("PortMappings").remedy(remedy)));
    }
    check_frontends(balancer)?;
    for (index, mapping) in balancer.port_mappings.iter().enumerate() {
        port_mapping(mapping, build).map_err(|error| error.within(&format!("PortMappings[{index}]")))?;
    }
    if balancer.flags.has(LoadBalancerFlags::DSR) && !build.has(Feature::Dsr) {
        return Err(unsupported("Flags", Feature::Dsr, build));
    }
    backends(balancer, build)
}

/// More frontends than this in one load balancer are a mistake.
const MOST_FRONTENDS: usize = 1 << 16;

/// Each frontend once, and not too many of them.
fn check_frontends(balancer: &LoadBalancer) -> Result<()> {
    let twice = |what: String, field: String| {
        Err(Error::PortAlreadyExists(detail(format!("{what} is there twice")).field(field).remedy("name it once")))
    };
    let mut vips = BTreeSet::new();
    for (index, vip) in balancer.frontend_vips.iter().enumerate() {
        if !vips.insert(vip) {
            return twice(vip.clone(), format!("FrontendVIPs[{index}]"));
        }
    }
    let mut ports = BTreeSet::new();
    for (index, mapping) in balancer.port_mappings.iter().enumerate() {
        if !ports.insert((mapping.protocol.number(), mapping.external_port)) {
            return twice(format!("{} port {}", mapping.protocol, mapping.external_port), format!("PortMappings[{index}]"));
        }
    }
    match vips.len().max(1).saturating_mul(ports.len()) {
        0..=MOST_FRONTENDS => Ok(()),
        count => {
            let cause = format!("{count} frontends are more than the {MOST_FRONTENDS} that one load balancer may have");
            Err(Error::InvalidParameter(detail(cause).field("FrontendVIPs").remedy("use several load balancers")))
        }
    }
}

fn port_mapping(mapping: &LoadBalancerPortMapping, build: &Build) -> Result<()> {
    if !matches!(mapping.protocol, ProtocolType::Tcp | ProtocolType::Udp | ProtocolType::Sctp) {
        let cause = format!("{} has no ports", mapping.protocol);
        return Err(Error::InvalidPolicy(detail(cause).field("Protocol").remedy("write 6 for TCP, 17 for UDP or 132 for SCTP")));
    }
    if mapping.internal_port == 0 {
        let cause = "the port of the backends is missing or zero";
        return Err(Error::InvalidInternalPort(detail(cause).field("InternalPort").remedy("write a port from 1 to 65535")));
    }
    if mapping.external_port == 0 {
        let cause = "the port of the frontend is missing or zero";
        return Err(Error::InvalidPolicy(detail(cause).field("ExternalPort").remedy("write a port from 1 to 65535")));
    }
    if !mapping.distribution_type.is_known() {
        let cause = format!("{} is no way to distribute", mapping.distribution_type);
        return Err(Error::InvalidPolicy(detail(cause).field("DistributionType").remedy("write 0, 1 or 2")));
    }
    if mapping.distribution_type != DistributionType::None && !build.has(Feature::SessionAffinity) {
        return Err(unsupported("DistributionType", Feature::SessionAffinity, build));
    }
    if mapping.flags.has(PortMappingFlags::PRESERVE_DIP) && !build.has(Feature::PreserveDip) {
        return Err(unsupported("Flags", Feature::PreserveDip, build));
    }
    Ok(())
}

fn backends(balancer: &LoadBalancer, build: &Build) -> Result<()> {
    let count = balancer.endpoints.len();
    if let Some(most) = build.max_backends().filter(|most| count > *most) {
        let cause = format!("{count} backends are more than the {most} that {} allows", build.profile.windows);
        let remedy = "use fewer backends, or lift the limit with --without backends-64 or backends-1024";
        return Err(Error::InvalidParameter(detail(cause).field("HostComputeEndpoints").remedy(remedy)));
    }
    Ok(())
}

fn unsupported(field: &str, feature: Feature, build: &Build) -> Error {
    let cause = format!("{} is not supported by {}", feature.says(), build.profile.windows);
    Error::RequestUnsupported(detail(cause).field(field).remedy(format!("use a newer --profile, or --with {feature}")))
}
