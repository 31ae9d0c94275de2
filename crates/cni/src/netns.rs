//! CNI_NETNS: which namespace a container's interface belongs into, in the four ways that runtimes say it.

use std::path::PathBuf;

use hcn::Guid;

/// What CNI_NETNS says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Netns {
    /// Nothing, as on a DEL whose namespace is gone.
    Empty,
    /// `none`: the sandbox container of a runtime from before HCN namespaces.
    None,
    /// `container:ID`: a container that shares the network of that sandbox.
    Container(String),
    /// The GUID of an HCN namespace, as containerd on Windows says it.
    Namespace(Guid),
    /// The path of a Linux network namespace.
    Path(PathBuf),
}

impl Netns {
    /// Reads the variable. Every text is one of them, since a path can be anything.
    pub fn read(text: &str) -> Self {
        match text {
            "" => Self::Empty,
            "none" => Self::None,
            text => match (text.strip_prefix("container:"), hcn::parse_guid(text)) {
                (Some(id), _) => Self::Container(id.to_owned()),
                (None, Some(id)) => Self::Namespace(id),
                (None, None) => Self::Path(PathBuf::from(text)),
            },
        }
    }

    /// The id of the sandbox that a container is in: the one named, else the container's own.
    pub fn sandbox_id<'a>(&'a self, container_id: &'a str) -> &'a str {
        match self {
            Self::Container(id) => id,
            _ => container_id,
        }
    }

    /// Whether it is the very namespace that this process runs in, where no container's interface belongs.
    ///
    /// What cannot be looked at is not: a namespace may be gone by the time of a DEL.
    #[cfg(target_os = "linux")]
    pub fn is_own(&self) -> bool {
        use std::os::linux::fs::MetadataExt;
        let Self::Path(path) = self else { return false };
        let identity = |metadata: std::fs::Metadata| (metadata.st_dev(), metadata.st_ino());
        match (std::fs::metadata(path), std::fs::metadata("/proc/self/ns/net")) {
            (Ok(theirs), Ok(ours)) => identity(theirs) == identity(ours),
            _ => false,
        }
    }

    /// Whether it is the very namespace that this process runs in. Elsewhere than on Linux nobody can tell.
    #[cfg(not(target_os = "linux"))]
    pub fn is_own(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_is_recognised() {
        let guid = "5f0b1190-63be-4e0c-b974-bd0f55675a42";
        assert_eq!(Netns::read(""), Netns::Empty);
        assert_eq!(Netns::read("none"), Netns::None);
        assert_eq!(Netns::read("container:abc"), Netns::Container("abc".to_owned()));
        assert_eq!(Netns::read(guid), Netns::Namespace(guid.parse().unwrap()));
        assert_eq!(Netns::read(&format!("{{{}}}", guid.to_uppercase())), Netns::Namespace(guid.parse().unwrap()));
        assert_eq!(Netns::read("/run/netns/x"), Netns::Path(PathBuf::from("/run/netns/x")));
    }

    #[test]
    fn the_sandbox_is_the_one_named() {
        assert_eq!(Netns::read("container:pause").sandbox_id("c1"), "pause");
        assert_eq!(Netns::read("none").sandbox_id("c1"), "c1");
        assert_eq!(Netns::read("5f0b1190-63be-4e0c-b974-bd0f55675a42").sandbox_id("c1"), "c1");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn ones_own_namespace_is_recognised() {
        assert!(Netns::read("/proc/self/ns/net").is_own());
        assert!(!Netns::read("/proc/self/ns/uts").is_own());
        assert!(!Netns::read("/nowhere").is_own());
        assert!(!Netns::read("none").is_own());
    }
}
