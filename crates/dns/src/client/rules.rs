//! Which names are asked for, in which order, and why.

use std::fmt;
use std::net::IpAddr;

use hickory_proto::rr::Name;

/// How a client turns what a program asks for into names that a server is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rules {
    /// Windows: a name with a dot is fully qualified, and to all others one suffix is added, that of the pod's Kubernetes namespace. Windows
    /// could try suffixes on names with dots too (`AppendToMultiLabelName`), but by default does not.
    Windows {
        /// The suffix, if there is one.
        suffix: Option<Name>,
    },
    /// Linux with the resolver of glibc: a list of suffixes, before or after the name itself.
    Linux {
        /// The suffixes.
        search: Vec<Name>,
        /// A name with so many dots is asked for as it is first.
        ndots: usize,
    },
}

/// A name that a server is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The name.
    pub name: Name,
    /// Whether it is what the program asked for, and nothing was added.
    pub is_as_asked: bool,
    /// Why it is asked for, and why now.
    pub reason: String,
}

/// What was asked for cannot be a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAName {
    /// What was asked for.
    pub text: String,
    /// Why it cannot.
    pub cause: String,
}

impl fmt::Display for NotAName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no name: {}", self.text, self.cause)
    }
}

impl std::error::Error for NotAName {}

impl Rules {
    /// Those of a pod on a Windows node.
    pub fn windows_pod(namespace: &str, domain: &str) -> Result<Self, NotAName> {
        Ok(Self::Windows { suffix: Some(qualified(&format!("{namespace}.svc.{domain}"))?) })
    }

    /// Those of a pod on a Linux node, as kubelet writes them.
    pub fn linux_pod(namespace: &str, domain: &str) -> Result<Self, NotAName> {
        let search = [format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.to_owned()];
        Ok(Self::Linux { search: search.iter().map(|name| qualified(name)).collect::<Result<_, _>>()?, ndots: 5 })
    }

    /// The names that a server is asked for until one is found.
    pub fn candidates(&self, text: &str) -> Result<Vec<Candidate>, NotAName> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(vec![Candidate {
                name: address.into(),
                is_as_asked: true,
                reason: "is an address: its reverse name is asked for".into(),
            }]);
        }
        let name = read(text)?;
        if name.is_fqdn() {
            return Ok(vec![Candidate { name, is_as_asked: true, reason: "ends with a dot: fully qualified, asked as it is".into() }]);
        }
        let dots = name.iter().count().saturating_sub(1);
        Ok(match self {
            Self::Windows { suffix } => vec![on_windows(&name, dots, suffix.as_ref())],
            Self::Linux { search, ndots } => on_linux(&name, dots, search, *ndots),
        })
    }
}

fn on_windows(name: &Name, dots: usize, suffix: Option<&Name>) -> Candidate {
    let joined = suffix.and_then(|suffix| name.clone().append_domain(suffix).ok());
    let is_as_asked = dots > 0 || joined.is_none();
    let (name, reason) = match (dots, joined) {
        (0, Some(joined)) => (joined, "has no dot: the pod's one suffix is added"),
        (0, None) => (as_it_is(name), "has no dot, and there is no suffix: asked as it is"),
        _ => (as_it_is(name), "has a dot: taken for fully qualified, asked as it is"),
    };
    Candidate { name, is_as_asked, reason: reason.into() }
}

fn on_linux(name: &Name, dots: usize, search: &[Name], ndots: usize) -> Vec<Candidate> {
    let is_first = dots >= ndots;
    let count = match dots {
        0 => "has no dot".to_owned(),
        1 => "has one dot".to_owned(),
        dots => format!("has {dots} dots"),
    };
    let numbered = search.iter().enumerate().filter_map(|(index, suffix)| {
        let why = if is_first { "was not found as it is".to_owned() } else { format!("{count}, and ndots is {ndots}") };
        let reason = format!("{why}: suffix {} of {}", index + 1, search.len());
        // A name that would be too long is passed over.
        Some(Candidate { name: name.clone().append_domain(suffix).ok()?, is_as_asked: false, reason })
    });
    let reason = if is_first { format!("{count}, and ndots is {ndots}: asked as it is first") } else { "at last, asked as it is".into() };
    let alone = Candidate { name: as_it_is(name), is_as_asked: true, reason };
    match is_first {
        true => std::iter::once(alone).chain(numbered).collect(),
        false => numbered.chain(std::iter::once(alone)).collect(),
    }
}

fn as_it_is(name: &Name) -> Name {
    let mut name = name.clone();
    name.set_fqdn(true);
    name
}

fn qualified(text: &str) -> Result<Name, NotAName> {
    read(text).map(|name| as_it_is(&name))
}

/// Reads a name as it is written; one in other letters than ASCII becomes what servers know it by.
fn read(text: &str) -> Result<Name, NotAName> {
    let failed = |cause: String| NotAName { text: text.to_owned(), cause };
    if text.is_empty() {
        return Err(failed("it is empty".into()));
    }
    Name::from_ascii(text).or_else(|_| Name::from_utf8(text)).map_err(|error| failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(rules: &Rules, text: &str) -> Vec<String> {
        rules.candidates(text).expect("a name").iter().map(|candidate| candidate.name.to_string()).collect()
    }

    #[test]
    fn windows_adds_one_suffix_and_only_to_names_without_a_dot() {
        let rules = Rules::windows_pod("default", "cluster.local").expect("a name");
        let table = [
            ("kubernetes", "kubernetes.default.svc.cluster.local.", "has no dot: the pod's one suffix is added"),
            ("kubernetes.default", "kubernetes.default.", "has a dot: taken for fully qualified, asked as it is"),
            ("kubernetes.default.svc", "kubernetes.default.svc.", "has a dot: taken for fully qualified, asked as it is"),
            (
                "kubernetes.default.svc.cluster.local",
                "kubernetes.default.svc.cluster.local.",
                "has a dot: taken for fully qualified, asked as it is",
            ),
            ("kubernetes.", "kubernetes.", "ends with a dot: fully qualified, asked as it is"),
            ("www.example.com", "www.example.com.", "has a dot: taken for fully qualified, asked as it is"),
            ("10.96.0.1", "1.0.96.10.in-addr.arpa.", "is an address: its reverse name is asked for"),
        ];
        for (text, name, reason) in table {
            let expected =
                Candidate { name: Name::from_ascii(name).expect("a name"), is_as_asked: text != "kubernetes", reason: reason.into() };
            assert_eq!(rules.candidates(text), Ok(vec![expected]), "{text}");
        }
    }

    #[test]
    fn windows_without_a_suffix_asks_for_the_name_alone() {
        assert_eq!(names(&Rules::Windows { suffix: None }, "web"), ["web."]);
    }

    #[test]
    fn linux_asks_by_the_list_and_at_last_as_it_is() {
        let rules = Rules::linux_pod("shop", "cluster.local").expect("a name");
        let table: [(&str, &[&str]); 6] = [
            ("web", &["web.shop.svc.cluster.local.", "web.svc.cluster.local.", "web.cluster.local.", "web."]),
            ("web.shop", &["web.shop.shop.svc.cluster.local.", "web.shop.svc.cluster.local.", "web.shop.cluster.local.", "web.shop."]),
            (
                "web.shop.svc",
                &[
                    "web.shop.svc.shop.svc.cluster.local.",
                    "web.shop.svc.svc.cluster.local.",
                    "web.shop.svc.cluster.local.",
                    "web.shop.svc.",
                ],
            ),
            ("web.", &["web."]),
            (
                "a.b.c.d.e.f",
                &["a.b.c.d.e.f.", "a.b.c.d.e.f.shop.svc.cluster.local.", "a.b.c.d.e.f.svc.cluster.local.", "a.b.c.d.e.f.cluster.local."],
            ),
            ("::1", &["1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa."]),
        ];
        for (text, expected) in table {
            assert_eq!(names(&rules, text), expected, "{text}");
        }
    }

    #[test]
    fn linux_says_why() {
        let rules = Rules::Linux { search: vec![qualified("a.b").expect("a name"), qualified("b").expect("a name")], ndots: 2 };
        let reasons = |text: &str| rules.candidates(text).expect("a name").into_iter().map(|it| it.reason).collect::<Vec<_>>();
        assert_eq!(
            reasons("x.y"),
            ["has one dot, and ndots is 2: suffix 1 of 2", "has one dot, and ndots is 2: suffix 2 of 2", "at last, asked as it is"]
        );
        assert_eq!(
            reasons("x.y.z"),
            [
                "has 2 dots, and ndots is 2: asked as it is first",
                "was not found as it is: suffix 1 of 2",
                "was not found as it is: suffix 2 of 2"
            ]
        );
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let rules = Rules::Windows { suffix: None };
        for text in ["", "a..b", "..", &"x".repeat(64), &"x.".repeat(200)] {
            assert!(rules.candidates(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn names_too_long_with_a_suffix_are_passed_over() {
        let long = vec!["x".repeat(60); 4].join(".");
        let rules = Rules::linux_pod("default", "cluster.local").expect("a name");
        assert_eq!(names(&rules, &long), [format!("{long}.")]);
    }
}
