//! Checks that many documents share. Each objects to one field, and says nothing if all is well.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;

use super::Errors;
use crate::server::document::texts;
use crate::server::name::{NameRule, label_value, port_name_causes, qualified_causes};

/// The transports that ports are of.
pub(crate) const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

impl Errors {
    /// Something that is called by a rule.
    pub(crate) fn name(&mut self, field: impl Into<String>, name: &str, rule: NameRule) {
        if let Some(cause) = rule(name) {
            self.invalid(field, name, cause);
        }
    }

    /// The same for what may have no name.
    pub(crate) fn name_if_any(&mut self, field: impl Into<String>, name: &str, rule: NameRule) {
        if !name.is_empty() {
            self.name(field, name, rule);
        }
    }

    fn all(&mut self, field: impl Into<String>, value: &str, causes: Vec<String>) {
        let field = field.into();
        for cause in causes {
            self.invalid(field.clone(), value, cause);
        }
    }

    /// A name that may have a domain before it.
    pub(crate) fn qualified(&mut self, field: impl Into<String>, name: &str) {
        self.all(field, name, qualified_causes(name));
    }

    /// The same for what may be missing.
    pub(crate) fn qualified_if_any(&mut self, field: impl Into<String>, name: &Value) {
        if let Some(name) = name.as_str() {
            self.qualified(field, name);
        }
    }

    pub(crate) fn port_name(&mut self, field: impl Into<String>, name: &str) {
        self.all(field, name, port_name_causes(name));
    }

    /// Labels at a path, wherever they stand.
    pub(crate) fn labels(&mut self, field: &str, document: &Value, path: &str) {
        for (key, value) in texts(document, path) {
            self.qualified(field, key);
            self.name(field, value, label_value);
        }
    }

    pub(crate) fn between(&mut self, field: impl Into<String>, value: &Value, least: i64, most: i64) {
        if let Some(number) = value.as_i64().filter(|number| !(least..=most).contains(number)) {
            self.invalid(field, number, format!("must be between {least} and {most}, inclusive"));
        }
    }

    pub(crate) fn not_negative(&mut self, field: impl Into<String>, value: &Value) {
        if let Some(number) = value.as_i64().filter(|number| *number < 0) {
            self.invalid(field, number, "must be greater than or equal to 0");
        }
    }

    /// A number of a port.
    pub(crate) fn port(&mut self, field: impl Into<String>, value: &Value) {
        self.between(field, &value.as_i64().unwrap_or(0).into(), 1, 65_535);
    }

    /// A port by its number or by its name.
    pub(crate) fn port_or_name(&mut self, field: impl Into<String>, value: &Value) {
        match value.as_str() {
            Some(name) => self.port_name(field, name),
            None => self.port(field, value),
        }
    }

    pub(crate) fn address(&mut self, field: impl Into<String>, text: &str) {
        match text.parse::<IpAddr>() {
            Err(_) => self.invalid(field, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
            Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
                self.invalid(field, text, "must not be an IPv4-mapped IPv6 address");
            }
            Ok(_) => {}
        }
    }

    /// An address of something elsewhere: none of the machine's own, of its link, or of a group on it.
    pub(crate) fn endpoint_address(&mut self, field: impl Into<String>, text: &str) {
        let Ok(address) = text.parse::<IpAddr>() else { return self.invalid(field, text, "must be a valid IP address") };
        let (is_link_local, is_link_group) = match address {
            IpAddr::V4(four) => (four.is_link_local(), four.octets()[..3] == [224, 0, 0]),
            IpAddr::V6(six) => (six.is_unicast_link_local(), six.segments()[0] & 0xff0f == 0xff02),
        };
        let rules = [
            (address.is_unspecified(), format!("may not be unspecified ({text})")),
            (address.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)".into()),
            (is_link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)".into()),
            (is_link_group, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".into()),
        ];
        self.all(field, text, rules.into_iter().filter(|(is_broken, _)| *is_broken).map(|(_, cause)| cause).collect());
    }

    /// A range of addresses.
    pub(crate) fn range(&mut self, field: impl Into<String>, text: &str) {
        match text.parse::<IpNet>() {
            Err(_) => self.invalid(field, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
            Ok(range) if range.addr() != range.network() => {
                self.invalid(field, text, "must not have bits set beyond the prefix length");
            }
            Ok(_) => {}
        }
    }
}
