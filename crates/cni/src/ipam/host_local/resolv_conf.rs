//! `resolvConf`: a file in the form of resolv.conf whose settings go into the result.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::{Error, Result};
use crate::result::Dns;

/// A file larger than this is no resolv.conf.
const LIMIT: u64 = 1 << 20;

/// Reads the file.
pub(super) fn read(path: &Path) -> Result<Dns> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LIMIT).read_to_end(&mut bytes));
    read.map_err(|error| {
        Error::io_failure(format!("ipam.resolvConf: {} cannot be read: {error}", path.display()))
            .details("name a file that is there, or leave the key out")
    })?;
    Ok(parse(&String::from_utf8_lossy(&bytes)))
}

fn parse(text: &str) -> Dns {
    let mut dns = Dns::default();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        let mut words = line.split_whitespace().map(str::to_owned);
        let (Some(key), Some(first)) = (words.next(), words.next()) else { continue };
        match key.as_str() {
            "nameserver" => dns.nameservers.push(first),
            "domain" => dns.domain = first,
            "search" => dns.search.extend([first].into_iter().chain(words)),
            "options" => dns.options.extend([first].into_iter().chain(words)),
            _ => {}
        }
    }
    dns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_four_settings_are_read() {
        let dns = parse(
            "# c\n; c\nnameserver 10.0.0.1 x\n\tnameserver fd00::1\r\ndomain a.b\nsearch a b\nsearch c\noptions ndots:5 edns0\nnameserver\nsortlist 1\n",
        );
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            dns,
            Dns {
                nameservers: texts(&["10.0.0.1", "fd00::1"]),
                domain: "a.b".to_owned(),
                search: texts(&["a", "b", "c"]),
                options: texts(&["ndots:5", "edns0"]),
            }
        );
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = read("/nowhere/resolv.conf".as_ref()).unwrap_err();
        assert_eq!(error.code, 5);
        assert!(error.msg.contains("/nowhere/resolv.conf"), "{}", error.msg);
    }
}
