//! A place in the network: a namespace where programs run.

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use host::namespace::{self, Namespace};
use host::netlink::{Link, Netlink};
use host::sysctl::{Family, Key};

use super::sandbox;

/// A namespace with a name for people, in which echo services answer.
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) namespace: Namespace,
}

impl Place {
    /// Makes a namespace whose links have working addresses at once.
    pub(crate) fn make(directory: &Path, name: &str) -> Self {
        let place = Self::at(name, namespace::create(directory, name).expect("a namespace"));
        place.run(|| {
            for (key, value) in [("accept_dad", "0"), ("router_solicitations", "0")] {
                Key::interface(Family::V6, "default", key).write(value).expect("a setting of IPv6");
            }
        });
        place.ip("link set lo up");
        place
    }

    /// A namespace that is there.
    pub(crate) fn at(name: &str, namespace: Namespace) -> Self {
        Self { name: name.to_owned(), namespace }
    }

    /// The same place once more, for somebody else to hold.
    pub(crate) fn hold(&self) -> Self {
        Self::at(&self.name, self.namespace.try_clone().expect("the namespace is open"))
    }

    /// Runs something inside.
    pub(crate) fn run<T: Send>(&self, task: impl FnOnce() -> T + Send) -> T {
        self.namespace.run(task).unwrap_or_else(|error| panic!("{} cannot be entered: {error}", self.name))
    }

    /// Runs `ip` inside with these words as arguments, and answers what it prints.
    pub(crate) fn ip(&self, arguments: &str) -> String {
        let (succeeded, text) = self.command("ip", arguments);
        assert!(succeeded, "{}: ip {arguments}: {text}", self.name);
        text
    }

    /// Runs a command inside, and answers whether it succeeded and what it prints.
    pub(crate) fn command(&self, program: &str, arguments: &str) -> (bool, String) {
        let run = || Command::new(program).args(arguments.split_whitespace()).env("PATH", sandbox::path()).env("HOME", "/run").output();
        let output = self.run(run).unwrap_or_else(|error| panic!("{program} does not start: {error}"));
        (output.status.success(), format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)))
    }

    /// The links inside, by netlink.
    pub(crate) fn netlink(&self) -> Netlink {
        Netlink::open_in(&self.namespace).expect("netlink")
    }

    /// A link that is there.
    pub(crate) fn link(&self, name: &str) -> Link {
        self.find_link(name).unwrap_or_else(|| panic!("{} has no link {name}", self.name))
    }

    /// A link, if it is there.
    pub(crate) fn find_link(&self, name: &str) -> Option<Link> {
        self.netlink().link_by_name(name).expect("the links")
    }

    /// The addresses of a link.
    pub(crate) fn addresses(&self, link: &str) -> Vec<IpAddr> {
        let addresses = self.netlink().addresses(self.link(link).index).expect("the addresses");
        addresses.iter().map(|address| address.network.addr()).collect()
    }
}
