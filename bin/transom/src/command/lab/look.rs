//! Looking at labs.

use std::net::IpAddr;

use lab::control::{Reply, Request};
use lab::home::{self, Home};
use lab::status::{NodeStatus, PodStatus, ServiceStatus, Status};

use super::{ask, failure, talk_failure};
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Output, Table, Tone};

/// What a lab says of itself.
pub(crate) fn ask_status(home: &Home) -> Result<Status, Failure> {
    match ask(home, &Request::Status)?.hear().map_err(talk_failure)? {
        Reply::Status(status) => Ok(*status),
        other => Err(failure(other)),
    }
}

/// The labs that run.
pub(super) fn list(output: &Output) -> Result<(), Failure> {
    let homes = home::list().map_err(|error| Failure::new(Exit::Failed, format!("labs cannot be listed: {error}")))?;
    let mut table = Table::new(vec!["NAME", "NODES", "PODS", "API", "KUBECONFIG"]);
    let mut values = Vec::new();
    for home in homes.into_iter().filter(Home::is_running) {
        // One that is being made or ended has nothing to say.
        let Ok(status) = ask_status(&home) else { continue };
        let kubeconfig = home.kubeconfig().display().to_string();
        values.push(serde_json::json!({"name": status.name, "nodes": status.nodes.len(), "pods": status.pods.len(), "api": status.api, "kubeconfig": kubeconfig}));
        table.row(vec![
            status.name.into(),
            status.nodes.len().to_string().into(),
            status.pods.len().to_string().into(),
            status.api.into(),
            kubeconfig.into(),
        ]);
    }
    if output.is_for_people() { output.table(&table) } else { output.value(&values.into()) }
}

/// Nodes, pods and Services.
pub(super) fn status(output: &Output, home: &Home) -> Result<(), Failure> {
    let status = ask_status(home)?;
    if !output.is_for_people() {
        let value = serde_json::to_value(&status).map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        return output.value(&value);
    }
    output.line(&format!("lab {}, API {}, kubeconfig {}\n", status.name, status.api, home.kubeconfig().display()))?;
    output.table(&nodes(&status))?;
    output.line("")?;
    output.table(&pods(&status.pods))?;
    output.line("")?;
    output.table(&services(&status.services))
}

fn nodes(status: &Status) -> Table {
    let mut table = Table::new(vec!["NODE", "OS", "BUILD", "NETWORK", "DATA PATH", "ADDRESSES", "POD SUBNETS", "HEALTH"]);
    for node in &status.nodes {
        let row = [&node.name, &node.os, &node.build, &node.network, &node.data_path, &list_of(&node.addresses), &node.subnets.join(" ")];
        let mut cells: Vec<Cell> = row.map(|text| text.as_str().into()).to_vec();
        cells.push(health(node));
        table.row(cells);
    }
    let outside: [&str; 5] = ["outside", "", "", "", ""];
    let mut cells: Vec<Cell> = outside.map(Cell::from).to_vec();
    cells.extend([list_of(&status.outside).into(), "".into(), "".into()]);
    table.row(cells);
    table
}

fn health(node: &NodeStatus) -> Cell {
    let bad: Vec<String> =
        node.daemons.iter().filter(|daemon| !daemon.is_ready).map(|daemon| format!("{}: {}", daemon.name, daemon.trouble)).collect();
    match bad.is_empty() {
        true => Cell::toned("ready", Tone::Good),
        false => Cell::toned(bad.join("; "), Tone::Bad),
    }
}

fn pods(pods: &[PodStatus]) -> Table {
    let mut table = Table::new(vec!["NAMESPACE", "POD", "NODE", "PHASE", "READY", "RESTARTS", "ADDRESSES", "TROUBLE"]);
    for pod in pods {
        let ready = if pod.is_ready { Cell::toned("yes", Tone::Good) } else { Cell::toned("no", Tone::Bad) };
        let mut cells: Vec<Cell> = [&pod.namespace, &pod.name, &pod.node, &pod.phase].map(|text| text.as_str().into()).to_vec();
        cells.extend([ready, pod.restarts.to_string().into(), list_of(&pod.addresses).into(), pod.trouble.as_str().into()]);
        table.row(cells);
    }
    table
}

fn services(services: &[ServiceStatus]) -> Table {
    let mut table = Table::new(vec!["NAMESPACE", "SERVICE", "TYPE", "CLUSTER IPS", "OUTSIDE", "PORTS", "PODS"]);
    for service in services {
        let outside = if service.external_name.is_empty() { list_of(&service.outside) } else { service.external_name.clone() };
        let ports: Vec<String> = service.ports.iter().map(ToString::to_string).collect();
        let mut cells: Vec<Cell> = [&service.namespace, &service.name, &service.kind].map(|text| text.as_str().into()).to_vec();
        cells.extend([list_of(&service.addresses), outside, ports.join(", "), service.backends.join(" ")].map(Cell::from));
        table.row(cells);
    }
    table
}

fn list_of(addresses: &[IpAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// Where the kubeconfig is, or what is in it.
pub(super) fn kubeconfig(output: &Output, home: &Home, raw: bool) -> Result<(), Failure> {
    if !home.is_running() {
        return Err(talk_failure(lab::control::TalkError::NoLab(home.name().to_owned())));
    }
    let path = home.kubeconfig();
    match raw {
        false => output.line(&path.display().to_string()),
        true => {
            let text =
                std::fs::read_to_string(&path).map_err(|error| Failure::new(Exit::Failed, format!("{}: {error}", path.display())))?;
            output.text(&text)
        }
    }
}
