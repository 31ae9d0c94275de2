//! What objects, labels and keys may be called.

/// Says what is wrong with a name, or nothing.
pub(crate) type NameRule = fn(&str) -> Option<String>;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and \
     end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an \
     alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, \
     and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

const DOTS: &str = "must not contain dots";

const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
     character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and \
     end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
     '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

const DATA_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or \
     'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

fn too_long(length: usize) -> String {
    format!("must be no more than {length} characters")
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Whether a text would be a name if names had dots.
fn is_dotted(text: &str) -> bool {
    text.contains('.') && text.split('.').all(is_label)
}

fn rule(text: &str, longest: usize, holds: bool, cause: &str) -> Option<String> {
    match text.len() > longest {
        true => Some(too_long(longest)),
        false => (!holds).then(|| cause.to_owned()),
    }
}

/// Labels with dots between them, as most names are.
pub(crate) fn subdomain(text: &str) -> Option<String> {
    rule(text, 253, text.split('.').all(is_label), SUBDOMAIN)
}

/// One label.
pub(crate) fn label(text: &str) -> Option<String> {
    let cause = if is_dotted(text) { DOTS } else { LABEL };
    rule(text, 63, is_label(text), cause)
}

/// One label that begins with a letter, as names of Services are.
pub(crate) fn label_1035(text: &str) -> Option<String> {
    let cause = if is_dotted(text) { DOTS } else { LABEL_1035 };
    rule(text, 63, is_label(text) && text.starts_with(|first: char| first.is_ascii_lowercase()), cause)
}

fn is_word(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.bytes().all(inner) && edge(text.bytes().next()) && edge(text.bytes().last())
}

/// The key of a label or annotation: a name, perhaps with a domain before it.
pub(crate) fn qualified(text: &str) -> Option<String> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    if name.is_empty() {
        return Some(format!("name part must be non-empty; {QUALIFIED}"));
    }
    if name.len() > 63 {
        return Some(format!("name part {}", too_long(63)));
    }
    match prefix {
        Some("") => Some("prefix part must be non-empty".into()),
        Some(prefix) if subdomain(prefix).is_some() => subdomain(prefix).map(|cause| format!("prefix part {cause}")),
        _ => (!is_word(name)).then(|| QUALIFIED.to_owned()),
    }
}

/// The value of a label.
pub(crate) fn label_value(text: &str) -> Option<String> {
    rule(text, 63, text.is_empty() || is_word(text), LABEL_VALUE)
}

/// A key of a ConfigMap or Secret.
pub(crate) fn data_key(text: &str) -> Option<String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if text == "." || text == ".." || text.starts_with("..") {
        return Some(format!("must not be '{text}'"));
    }
    rule(text, 253, !text.is_empty() && text.bytes().all(allowed), DATA_KEY)
}

/// The name of a port: short, lower case, with a letter in it.
pub(crate) fn port_name(text: &str) -> Option<&'static str> {
    if text.len() > 15 {
        return Some("must be no more than 15 characters");
    }
    if !is_label(text) {
        return Some("must contain only alphanumeric characters (a-z, 0-9), and hyphens (-)");
    }
    if text.contains("--") {
        return Some("must not contain consecutive hyphens");
    }
    (!text.bytes().any(|byte| byte.is_ascii_lowercase())).then_some("must contain at least one letter (a-z)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_their_rules() {
        assert!(subdomain("a.b-c.1").is_none() && subdomain("a..b").is_some() && subdomain("A").is_some() && subdomain("").is_some());
        assert!(label("a-1").is_none() && label("a.b").is_some() && label(&"a".repeat(64)).is_some());
        assert!(label_1035("a1").is_none() && label_1035("1a").is_some());
        assert!(qualified("a.b/c_d").is_none() && qualified("/c").is_some() && qualified("a/").is_some() && qualified("é").is_some());
        assert!(label_value("").is_none() && label_value("a_b").is_none() && label_value("-a").is_some());
        assert!(data_key("..").is_some() && data_key("a.b").is_none() && data_key("a b").is_some());
        assert!(port_name("http").is_none() && port_name("80").is_some() && port_name("a--b").is_some());
    }
}
