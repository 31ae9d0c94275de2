//! Configurations that work, to begin with. What their keys mean stands in the reference, since JSON has no comments.

/// Every sample: the name it is asked for by, and its text.
pub const ALL: [(&str, &str); 5] = [
    ("win-overlay", include_str!("../samples/win-overlay.conflist")),
    ("win-bridge", include_str!("../samples/win-bridge.conflist")),
    ("flannel", include_str!("../samples/flannel.conflist")),
    ("nat", include_str!("../samples/nat.conflist")),
    ("azure", include_str!("../samples/azure.conflist")),
];

/// The sample with a name.
pub fn find(name: &str) -> Option<&'static str> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::{self, Build, Surroundings};

    #[test]
    fn nothing_is_wrong_with_samples() {
        let prefix = |text: &str| vec![text.parse().unwrap()];
        let surroundings = |name: &str| match name {
            "azure" => Surroundings { cluster: prefix("10.240.0.0/16"), service: prefix("10.0.0.0/16"), ..Surroundings::default() },
            _ => Surroundings {
                build: Build::default(),
                cluster: prefix("10.244.0.0/16"),
                service: prefix("10.96.0.0/12"),
                management: prefix("192.168.1.0/24"),
                subnet_env: None,
            },
        };
        for (name, text) in ALL {
            assert_eq!(lint::check(text.as_bytes(), &surroundings(name), &crate::registry()), [], "{name}");
            assert_eq!(find(name), Some(text));
        }
        assert_eq!(find("bridge"), None);
    }
}
