//! Load balancers: frontends, port mappings and what the build allows.

use hcn::error::{Error, Result, detail};
use hcn::load_balancer::{DistributionType, LoadBalancer, LoadBalancerFlags, LoadBalancerPortMapping, ProtocolType};

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
    for (index, mapping) in balancer.port_mappings.iter().enumerate() {
        port_mapping(mapping, build).map_err(|error| error.within(&format!("PortMappings[{index}]")))?;
    }
    if balancer.flags.has(LoadBalancerFlags::DSR) && !build.has(Feature::Dsr) {
        return Err(unsupported("Flags", Feature::Dsr, build));
    }
    backends(balancer, build)
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
    if mapping.distribution_type != DistributionType::None && !build.has(Feature::SessionAffinity) {
        return Err(unsupported("DistributionType", Feature::SessionAffinity, build));
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
