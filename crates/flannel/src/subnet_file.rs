//! `subnet.env`: what CNI plugins need to know of this node.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use ipnet::IpNet;

use crate::{nth, prefix_like};

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubnetFile {
    /// The networks of all pods, at most one of a family.
    pub networks: Vec<IpNet>,
    /// The subnets of this node, at most one of a family.
    pub subnets: Vec<IpNet>,
    /// The largest packet that pods may send.
    pub mtu: u32,
    /// Whether what leaves the pods' network gets the node's address.
    pub ip_masq: bool,
}

impl SubnetFile {
    /// The text, as the original writes it: the first address of the subnet stands for the subnet.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (v4, infix) in [(true, ""), (false, "IPV6_")] {
            if let (Some(network), Some(subnet)) = (prefix_like(&self.networks, v4), prefix_like(&self.subnets, v4)) {
                text += &format!("FLANNEL_{infix}NETWORK={network}\nFLANNEL_{infix}SUBNET={}/{}\n", nth(subnet, 1), subnet.prefix_len());
            }
        }
        text + &format!("FLANNEL_MTU={}\nFLANNEL_IPMASQ={}\n", self.mtu, self.ip_masq)
    }

    /// Writes the file unless it says so already. Readers see the old file or the new one, never a part.
    pub fn write(&self, path: &Path) -> io::Result<bool> {
        let text = self.text();
        if fs::read_to_string(path).is_ok_and(|old| old == text) {
            return Ok(false);
        }
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(directory)?;
        let mut name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it is no name of a file"))?.to_owned();
        name.push(".new");
        let new = directory.join(name);
        let mut file = fs::File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        drop(file);
        fs::rename(&new, path)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> SubnetFile {
        let prefixes = |texts: [&str; 2]| texts.map(|text| text.parse().unwrap()).to_vec();
        SubnetFile {
            networks: prefixes(["10.244.0.0/16", "2001:db8:42::/56"]),
            subnets: prefixes(["10.244.1.0/24", "2001:db8:42::/64"]),
            mtu: 1450,
            ip_masq: true,
        }
    }

    #[test]
    fn lines_are_those_of_the_original() {
        let expected = "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\nFLANNEL_IPV6_NETWORK=2001:db8:42::/56\n\
                        FLANNEL_IPV6_SUBNET=2001:db8:42::1/64\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n";
        assert_eq!(file().text(), expected);
    }

    #[test]
    fn it_is_written_whole_and_only_when_it_changes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run/flannel/subnet.env");
        assert!(file().write(&path).unwrap());
        assert!(!file().write(&path).unwrap());
        let other = SubnetFile { ip_masq: false, ..file() };
        assert!(other.write(&path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), other.text());
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
    }
}
