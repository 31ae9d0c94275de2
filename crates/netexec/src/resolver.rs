//! How names are found here, for tests that compare it with what they have asked for.

use std::fs;
use std::io;

/// The file that says so.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// The suffixes, with commas between them.
pub fn suffixes() -> io::Result<String> {
    fs::read_to_string(RESOLV_CONF).map(|text| words(&text, "search").join(","))
}

/// The servers, with commas between them.
pub fn servers() -> io::Result<String> {
    fs::read_to_string(RESOLV_CONF).map(|text| words(&text, "nameserver").join(","))
}

/// The names that are known without asking.
pub fn hosts() -> io::Result<String> {
    fs::read_to_string("/etc/hosts")
}

/// What follows a word at the beginning of lines.
fn words<'a>(text: &'a str, keyword: &str) -> Vec<&'a str> {
    let of_line = |line: &'a str| {
        let mut words = line.split_whitespace();
        (words.next() == Some(keyword)).then_some(words)
    };
    text.lines().filter_map(of_line).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_file() {
        let text = "# search no\nsearch a.local b.local\nnameserver 10.0.0.1\nnameserver fd00::1\noptions ndots:1\n";
        assert_eq!(words(text, "search"), ["a.local", "b.local"]);
        assert_eq!(words(text, "nameserver"), ["10.0.0.1", "fd00::1"]);
    }
}
