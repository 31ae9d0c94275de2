//! Serving a text on each of many ports, which variables name: `SERVE_PORT_80=foo` answers `foo` at port 80.

use crate::Settings;

/// What such variables begin with.
const PREFIX: &str = "SERVE_PORT_";

/// What the variables of the original begin with that are not served here.
const OTHERS: [&str; 2] = ["SERVE_TLS_PORT_", "SERVE_SCTP_PORT_"];

/// A port, and what is answered there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its number.
    pub number: u16,
    /// The answer.
    pub text: String,
}

impl Port {
    /// The server of this port.
    pub fn settings(&self) -> Settings {
        let escaped: String = self.text.bytes().map(|byte| format!("%{byte:02X}")).collect();
        Settings { http_port: self.number, http_override: Some(format!("/echo?msg={escaped}")), ..Settings::default() }
    }
}

/// The ports that variables name; an error names the one that cannot be served.
pub fn ports(variables: impl Iterator<Item = (String, String)>) -> Result<Vec<Port>, String> {
    let mut found = Vec::new();
    for (name, text) in variables {
        if OTHERS.iter().any(|prefix| name.starts_with(prefix)) {
            return Err(format!("{name}: only HTTP is served, by {PREFIX}NUMBER"));
        }
        if let Some(number) = name.strip_prefix(PREFIX) {
            let number = number.parse().map_err(|_| format!("{name}: {number:?} is no port"))?;
            found.push(Port { number, text });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn variables_name_ports() {
        let of = |pairs: &[(&str, &str)]| ports(pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())));
        let found = of(&[("SERVE_PORT_80", "a b&c"), ("PATH", "/bin"), ("SERVE_PORT_81", "")]).unwrap();
        assert_eq!(found.iter().map(|port| port.number).collect::<Vec<_>>(), [80, 81]);
        assert_eq!(of(&[("SERVE_PORT_x", "")]), Err("SERVE_PORT_x: \"x\" is no port".to_owned()));
        assert!(of(&[("SERVE_TLS_PORT_443", "")]).is_err());
    }

    #[test]
    fn every_path_answers_the_text() {
        let server = crate::Server::start(&Port { number: 0, text: "a b&c%".to_owned() }.settings()).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], server.http().port()));
        assert_eq!(crate::dial::ask_http("anything", address).unwrap(), "a b&c%");
    }
}
