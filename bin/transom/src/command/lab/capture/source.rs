//! Where packets come from: the switch of a Windows node, or a process that watches links in a network namespace of the lab.

use std::io::Read;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use lab::capture::ARGUMENT;
use lab::enter::{self, Place};
use lab::home::Home;
use lab::launch::COMMAND;
use lab::status::{NodeStatus, Status};

use super::super::run::{find_node, find_pod, running_container};
use crate::command::vfp;
use crate::exit::{Exit, Failure};

/// The link of a pod, of the host outside and of a Linux node.
const LINK: &str = "eth0";

/// The router's links: to the nodes, and to the outside.
const ROUTER_LINKS: [&str; 2] = ["nodes", "far"];

/// Whose packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Those of a Windows node's switch: of the port with one of these addresses, or of all ports.
    Switch {
        /// The node.
        node: String,
        /// The addresses.
        addresses: Option<Vec<IpAddr>>,
    },
    /// Those of links somewhere in the lab.
    Links(Place, Vec<String>),
}

impl Target {
    /// What a place of the command line is.
    pub(super) fn find(status: &Status, namespace: &str, place: &str) -> Result<Self, Failure> {
        let links = |place: Place, names: &[&str]| Self::Links(place, names.iter().map(|&name| name.to_owned()).collect());
        match place {
            "outside" => return Ok(links(Place::outside(), &[LINK])),
            "router" => return Ok(links(Place::router(), &ROUTER_LINKS)),
            _ => {}
        }
        if let Some(name) = place.strip_prefix("node/") {
            let node = find_node(status, name)?;
            return Ok(match is_windows(node) {
                true => Self::Switch { node: node.name.clone(), addresses: None },
                false => links(Place::Network(node.namespace.clone()), &[LINK]),
            });
        }
        let pod = find_pod(status, namespace, place.strip_prefix("pod/").unwrap_or(place))?;
        match is_windows(find_node(status, &pod.node)?) {
            true => Ok(Self::Switch { node: pod.node.clone(), addresses: Some(pod.addresses.clone()) }),
            false => Ok(links(Place::network_of(running_container(pod, None)?), &[LINK])),
        }
    }

    /// Whether it is one port of a switch.
    pub(super) fn is_one_port(&self) -> bool {
        matches!(self, Self::Switch { addresses: Some(_), .. })
    }
}

fn is_windows(node: &NodeStatus) -> bool {
    node.os == "windows"
}

/// A stream of packets. It ends when this is dropped.
pub(super) struct Source {
    /// The packets, as pcapng.
    pub(super) packets: Option<Box<dyn Read + Send>>,
    watcher: Option<Child>,
}

impl Source {
    /// Begins to capture.
    pub(super) fn open(home: &Home, target: &Target) -> Result<Self, Failure> {
        match target {
            Target::Switch { node, addresses } => {
                let socket = switch(home, node)?;
                let port = addresses.as_ref().map(|addresses| vfp::port_of(&socket, addresses)).transpose()?;
                let packets = vfp::open_capture(&socket, port.as_deref())?;
                Ok(Self { packets: Some(Box::new(packets)), watcher: None })
            }
            Target::Links(place, links) => watch(home, place, links),
        }
    }

    /// Waits for the watcher, and says whether it failed. What went wrong it has told by itself.
    pub(super) fn conclude(mut self) -> Result<(), Failure> {
        let Some(mut watcher) = self.watcher.take() else { return Ok(()) };
        drop(watcher.stdin.take());
        match watcher.wait() {
            // Ctrl-C on a terminal is for both, and no failure.
            Ok(status) if status.success() || status.code().is_none() => Ok(()),
            Ok(_) => Err(Failure::told(Exit::Failed)),
            Err(error) => Err(Failure::new(Exit::Failed, format!("the capture did not end: {error}"))),
        }
    }
}

fn switch(home: &Home, node: &str) -> Result<PathBuf, Failure> {
    home.switch_of(node).ok_or_else(|| Failure::new(Exit::Unavailable, "the lab has no process"))
}

fn watch(home: &Home, place: &Place, links: &[String]) -> Result<Source, Failure> {
    let mut arguments: Vec<String> = COMMAND.map(str::to_owned).to_vec();
    arguments.extend([ARGUMENT.to_owned(), home.name().to_owned()]);
    arguments.extend_from_slice(links);
    // It ends when its standard input does, whatever becomes of this process.
    let started = enter::command(home, place, &arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut watcher = started.map_err(|error| Failure::new(Exit::Failed, format!("the lab cannot be entered: {error}")))?;
    let packets = watcher.stdout.take().map(|stdout| Box::new(stdout) as Box<dyn Read + Send>);
    Ok(Source { packets, watcher: Some(watcher) })
}
