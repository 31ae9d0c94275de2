//! How the machine resolves names, by its `/etc/resolv.conf`.

use std::net::IpAddr;

/// The DNS servers and the search list, as they stand in the file; empty where there is none.
pub fn settings() -> (Vec<String>, Vec<String>) {
    parse(&std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default())
}

fn parse(text: &str) -> (Vec<String>, Vec<String>) {
    let (mut servers, mut search) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => servers.extend(words.next().filter(|word| word.parse::<IpAddr>().is_ok()).map(str::to_owned)),
            // The last of several lines counts, as for the resolver itself.
            Some("search" | "domain") => search = words.map(str::to_owned).collect(),
            _ => {}
        }
    }
    (servers, search)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_files_say() {
        let text = "# a comment\nsearch old.test\nnameserver 192.0.2.53\nnameserver fd00::53\nnameserver nonsense\nsearch a.test b.test\noptions ndots:2\n";
        let (servers, search) = parse(text);
        assert_eq!((servers, search), (vec!["192.0.2.53".into(), "fd00::53".into()], vec!["a.test".into(), "b.test".into()]));
        assert_eq!(parse(""), (vec![], vec![]));
    }
}
