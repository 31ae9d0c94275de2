//! Descriptions: one object on many lines, labels aligned, for reading.

use serde_json::{Map, Value};

use hcn::base::{Dns, Health, Route};
use hcn::policy::Policy;

/// A description under construction.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Description {
    entries: Vec<(String, Content)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Content {
    Line(String),
    List(Vec<String>),
    Section(Description),
}

impl Description {
    /// Adds a line; an empty value shows as `<none>`.
    pub(crate) fn line(&mut self, label: &str, value: impl Into<String>) -> &mut Self {
        let value = value.into();
        let value = if value.is_empty() { "<none>".to_owned() } else { value };
        self.entries.push((label.to_owned(), Content::Line(value)));
        self
    }

    /// Adds a line, unless the value is empty.
    pub(crate) fn line_if(&mut self, label: &str, value: impl Into<String>) -> &mut Self {
        let value = value.into();
        if !value.is_empty() {
            self.line(label, value);
        }
        self
    }

    /// Adds several lines under a label; none show as `<none>`.
    pub(crate) fn list(&mut self, label: &str, lines: Vec<String>) -> &mut Self {
        match lines.is_empty() {
            true => self.line(label, ""),
            false => {
                self.entries.push((label.to_owned(), Content::List(lines)));
                self
            }
        }
    }

    /// Adds an indented part, unless it is empty.
    pub(crate) fn section(&mut self, label: &str, section: Description) -> &mut Self {
        if !section.entries.is_empty() {
            self.entries.push((label.to_owned(), Content::Section(section)));
        }
        self
    }

    /// Adds policies, one a line.
    pub(crate) fn policies(&mut self, policies: &[Policy]) -> &mut Self {
        let width = policies.iter().map(|policy| policy_type(policy).chars().count()).max().unwrap_or(0);
        let line = |policy: &Policy| format!("{:width$}  {}", policy_type(policy), settings(&policy.settings));
        self.list("Policies", policies.iter().map(line).collect())
    }

    /// Adds name resolution settings.
    pub(crate) fn dns(&mut self, dns: &Dns) -> &mut Self {
        let mut section = Description::default();
        section.line_if("Servers", dns.server_list.join(", ")).line_if("Domain", dns.domain.as_str());
        section.line_if("Search", dns.search.join(", ")).line_if("Options", dns.options.join(", "));
        self.section("DNS", section)
    }

    /// Adds routes, one a line.
    pub(crate) fn routes(&mut self, routes: &[Route]) -> &mut Self {
        if routes.is_empty() {
            return self;
        }
        self.list("Routes", routes.iter().map(route).collect())
    }

    /// Adds what every object ends with: health, version, and the fields this version does not know.
    pub(crate) fn rest(&mut self, owner: &str, version: u64, health: &Health, extra: &Map<String, Value>) -> &mut Self {
        self.line_if("Owner", owner);
        if version != 0 {
            self.line("Made by", format!("HNS {}.{}", version >> 32, version & 0xFFFF_FFFF));
        }
        if let Some(data) = &health.data {
            self.line("Health", health_text(data));
        }
        self.section("Other", other(extra))
    }

    /// The description as text.
    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        self.render_into(&mut text, 0);
        text
    }

    fn render_into(&self, text: &mut String, indent: usize) {
        let is_line = |content: &Content| matches!(content, Content::Line(_));
        let width = self.entries.iter().filter(|(_, content)| is_line(content)).map(|(label, _)| label.chars().count() + 1).max();
        for (label, content) in &self.entries {
            let label = format!("{label}:");
            match content {
                Content::Line(value) => push_line(text, indent, &format!("{label:width$}  {value}", width = width.unwrap_or(0))),
                Content::List(lines) => {
                    push_line(text, indent, &label);
                    lines.iter().for_each(|line| push_line(text, indent + 2, line));
                }
                Content::Section(section) => {
                    push_line(text, indent, &label);
                    section.render_into(text, indent + 2);
                }
            }
        }
    }
}

fn push_line(text: &mut String, indent: usize, line: &str) {
    text.push_str(&" ".repeat(indent));
    text.push_str(line.trim_end());
    text.push('\n');
}

fn other(extra: &Map<String, Value>) -> Description {
    let mut section = Description::default();
    for (key, value) in extra {
        section.line(key, compact(value));
    }
    section
}

/// The type of a policy: its name, or the number somebody wrote instead.
pub(crate) fn policy_type(policy: &Policy) -> String {
    match &policy.policy_type {
        Value::String(name) => name.clone(),
        Value::Null => "<no type>".to_owned(),
        other => other.to_string(),
    }
}

/// A policy on one line.
pub(crate) fn policy(policy: &Policy) -> String {
    format!("{}  {}", policy_type(policy), settings(&policy.settings))
}

/// Settings on one line, as `Key=value Key=value`.
pub(crate) fn settings(settings: &Value) -> String {
    match settings {
        Value::Object(map) => map.iter().map(|(key, value)| format!("{key}={}", compact(value))).collect::<Vec<_>>().join(" "),
        Value::Null => String::new(),
        other => compact(other),
    }
}

/// A value on one line: text without quotation marks, lists with commas, anything deeper as JSON.
pub(crate) fn compact(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) if values.iter().all(|value| !value.is_array() && !value.is_object()) => {
            values.iter().map(compact).collect::<Vec<_>>().join(",")
        }
        other => other.to_string(),
    }
}

/// Health in a word where all is well, else everything there is to know.
fn health_text(data: &Value) -> String {
    match data.get("LastErrorCode").and_then(Value::as_u64) {
        Some(0) => "ok".to_owned(),
        Some(code) => format!("0x{code:08X} {}", compact(data)),
        None => compact(data),
    }
}

fn route(route: &Route) -> String {
    let metric = if route.metric == 0 { String::new() } else { format!(" metric {}", route.metric) };
    format!("{} via {}{metric}", route.destination_prefix, route.next_hop)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_are_aligned_on_each_level() {
        let mut inner = Description::default();
        inner.line("Gateway", "10.0.0.1").line("VSID", "4096");
        let mut description = Description::default();
        description.line("ID", "5").line("Name", "").section("10.0.0.0/24", inner).list("Policies", vec!["ACL".into()]);
        let expected = "\
ID:    5
Name:  <none>
10.0.0.0/24:
  Gateway:  10.0.0.1
  VSID:     4096
Policies:
  ACL
";
        assert_eq!(description.render(), expected);
    }

    #[test]
    fn health_is_a_word_unless_it_is_bad() {
        assert_eq!(health_text(&json!({"LastErrorCode": 0, "LastUpdateTime": 5})), "ok");
        assert_eq!(health_text(&json!({"LastErrorCode": 0x803B_0007u32})), "0x803B0007 {\"LastErrorCode\":2151350279}");
    }

    #[test]
    fn policies_fit_a_line() {
        let acl = Policy {
            policy_type: json!("ACL"),
            settings: json!({"Action": "Allow", "Ports": ["80", 443], "X": {"a": 1}}),
            ..Policy::default()
        };
        assert_eq!(policy(&acl), r#"ACL  Action=Allow Ports=80,443 X={"a":1}"#);
    }
}
