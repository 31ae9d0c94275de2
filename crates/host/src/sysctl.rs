//! Settings of the network stack under `/proc/sys/net`, as the calling thread's namespace has them.

use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;

/// The family of protocols that an interface's setting is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// The name of one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    path: PathBuf,
}

impl Key {
    /// A setting of the whole stack by its name after `net.`, such as `ipv4.ip_forward`.
    pub fn global(name: &str) -> Self {
        let mut path = PathBuf::from("/proc/sys/net");
        path.extend(name.split('.'));
        Self { path }
    }

    /// A setting of one interface, such as `rp_filter`. The interface's name may contain dots.
    ///
    /// `all` and `default` are no interfaces, but have such settings too.
    pub fn interface(family: Family, interface: &str, name: &str) -> Self {
        let family = match family {
            Family::V4 => "ipv4",
            Family::V6 => "ipv6",
        };
        Self { path: ["/proc/sys/net", family, "conf", interface, name].iter().collect() }
    }

    /// The setting's value, without the end of line.
    pub fn read(&self) -> io::Result<String> {
        fs::read_to_string(&self.path).map(|text| text.trim_end().to_owned()).map_err(|error| self.explained("read", &error))
    }

    /// Gives the setting a value.
    pub fn write(&self, value: &str) -> io::Result<()> {
        fs::write(&self.path, value).map_err(|error| self.explained(&format!("write {value} to"), &error))
    }

    /// Gives the setting a value unless it has it. What it was before, if it changed.
    pub fn set(&self, value: &str) -> io::Result<Option<String>> {
        let before = self.read()?;
        if before == value {
            return Ok(None);
        }
        self.write(value)?;
        Ok(Some(before))
    }

    fn explained(&self, operation: &str, error: &io::Error) -> io::Error {
        let remedy = match error.kind() {
            io::ErrorKind::NotFound => "; the interface is gone, or the kernel is without this protocol",
            io::ErrorKind::ReadOnlyFilesystem => "; /proc/sys is read-only here: mount it writable, as for a privileged container",
            io::ErrorKind::PermissionDenied => "; it takes root in the namespace that the network namespace belongs to",
            _ => "",
        };
        io::Error::new(error.kind(), format!("could not {operation} {self}: {error}{remedy}"))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_belong_to_the_interface() {
        assert_eq!(Key::global("ipv4.ip_forward").to_string(), "/proc/sys/net/ipv4/ip_forward");
        let key = Key::interface(Family::V6, "eth0.100", "accept_dad");
        assert_eq!(key.to_string(), "/proc/sys/net/ipv6/conf/eth0.100/accept_dad");
    }

    #[test]
    fn a_setting_of_no_interface_says_what_to_do() {
        let error = Key::interface(Family::V4, "no-such-link", "rp_filter").read().unwrap_err();
        assert!(error.to_string().contains("the interface is gone"), "{error}");
    }
}
