//! `transom cni check-config`: what is wrong with a configuration, and where.

use std::fs;
use std::path::PathBuf;

use cni::flannel::SubnetEnv;
use cni::lint::{self, Build, Finding, Severity, Surroundings};
use hcn::profile::{self, Defect, Feature, Limit};
use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::output::Output;

/// What to check, and what the file does not say.
#[derive(clap::Args, Debug)]
pub(crate) struct CheckConfigArgs {
    /// The configuration, a list or a single plugin's
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Where the cluster's pods are; exceptions of OutBoundNAT must hold it
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    cluster_cidr: Vec<ipnet::IpNet>,
    /// Where its Services are
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    service_cidr: Vec<ipnet::IpNet>,
    /// Where its nodes are
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    management_cidr: Vec<ipnet::IpNet>,
    /// What flanneld wrote on the node; without it the file that the configuration names
    #[arg(long, value_name = "FILE")]
    subnet_file: Option<PathBuf>,
    /// The Windows build whose limits hold; `transom profile list` has them
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
}

/// Prints the findings. It is a failure if there is an error among them.
pub(crate) fn run(output: &Output, args: &CheckConfigArgs) -> Result<(), Failure> {
    let bytes = fs::read(&args.file).map_err(|error| Failure::new(Exit::Usage, format!("{}: {error}", args.file.display())))?;
    let surroundings = surroundings(args)?;
    let findings = lint::check(&bytes, &surroundings, &cni::registry());
    print(output, args, &findings)?;
    match findings.iter().any(|finding| finding.severity == Severity::Error) {
        true => Err(Failure::told(Exit::Failed)),
        false => Ok(()),
    }
}

fn surroundings(args: &CheckConfigArgs) -> Result<Surroundings, Failure> {
    let subnet_env = args.subnet_file.as_deref().map(SubnetEnv::load).transpose();
    Ok(Surroundings {
        build: build(args)?,
        cluster: args.cluster_cidr.clone(),
        service: args.service_cidr.clone(),
        management: args.management_cidr.clone(),
        subnet_env: subnet_env.map_err(|error| Failure::new(Exit::Usage, error.msg).remedy(error.details))?,
    })
}

fn build(args: &CheckConfigArgs) -> Result<Build, Failure> {
    let Some(name) = &args.profile else { return Ok(Build::default()) };
    let profile = profile::find(name).ok_or_else(|| {
        let known: Vec<&str> = profile::ALL.iter().map(|profile| profile.name).collect();
        Failure::new(Exit::NotFound, format!("there is no profile {name:?}")).remedy(format!("use one of {}", known.join(", ")))
    })?;
    let has = |feature| profile.features().any(|found| found == feature);
    Ok(Build {
        name: profile.windows.to_owned(),
        lowest_vni: if profile.limits.contains(&Limit::VsidFrom4096) { 4096 } else { 1 },
        vxlan_port: has(Feature::VxlanPort),
        dsr: has(Feature::Dsr),
        overlay_ipv6: !profile.limits.contains(&Limit::OverlayNoIpv6),
        ipv6_only: !profile.limits.contains(&Limit::NoIpv6Only),
        dual_stack: has(Feature::Ipv6DualStack),
        overlay_exceptions: !profile.defects.contains(&Defect::OverlayOutBoundNatExceptions),
    })
}

/// For people as a compiler prints them, so that editors find the place.
fn print(output: &Output, args: &CheckConfigArgs, findings: &[Finding]) -> Result<(), Failure> {
    let file = args.file.display();
    if output.is_for_people() {
        let lines: Vec<String> = findings.iter().map(|finding| format!("{file}:{finding}\n")).collect();
        return output.text(&lines.concat());
    }
    let to_json = |finding: &Finding| {
        json!({
            "File": file.to_string(),
            "Line": finding.line,
            "Column": finding.column,
            "Severity": finding.severity.text(),
            "Message": finding.message,
            "Fix": finding.fix,
        })
    };
    output.value(&findings.iter().map(to_json).collect())
}
