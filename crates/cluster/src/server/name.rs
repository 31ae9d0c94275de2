//! What objects, labels and keys may be called.

/// Says what is wrong with a name, or nothing.
pub(crate) type NameRule = fn(&str) -> Option<String>;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and \
     end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

const UNDERSCORED: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and \
     end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";

const VARIABLE: &str = "a valid environment variable name must consist only of printable ASCII characters other than '='";

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an \
     alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

const DOTS: &str = "must not contain dots";

const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
     character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

const QUALIFIED_WHOLE: &str = "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
     character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";

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

/// Whatever can be a part of a path.
pub(crate) fn path_segment(text: &str) -> Option<String> {
    match text {
        "." | ".." => Some(format!("may not be '{text}'")),
        _ => ['/', '%'].into_iter().find(|banned| text.contains(*banned)).map(|banned| format!("may not contain '{banned}'")),
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

fn is_word(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.bytes().all(inner) && edge(text.bytes().next()) && edge(text.bytes().last())
}

/// The key of a label or annotation: a name, perhaps with a domain before it. All that is wrong with it.
pub(crate) fn qualified_causes(text: &str) -> Vec<String> {
    let mut causes = Vec::new();
    let name = match *text.split('/').collect::<Vec<_>>() {
        [name] => name,
        [prefix, name] => {
            match subdomain(prefix) {
                _ if prefix.is_empty() => causes.push("prefix part must be non-empty".into()),
                Some(cause) => causes.push(format!("prefix part {cause}")),
                None => {}
            }
            name
        }
        _ => return vec![QUALIFIED_WHOLE.into()],
    };
    if name.is_empty() {
        causes.push("name part must be non-empty".into());
    } else if name.len() > 63 {
        causes.push(format!("name part {}", too_long(63)));
    }
    if !is_word(name) {
        causes.push(QUALIFIED.into());
    }
    causes
}

/// The same in one sentence.
pub(crate) fn qualified(text: &str) -> Option<String> {
    let causes = qualified_causes(text);
    (!causes.is_empty()).then(|| causes.join("; "))
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

/// All that is wrong with the name of a port, which is short and lower case and has a letter in it.
pub(crate) fn port_name_causes(text: &str) -> Vec<String> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let rules = [
        (text.len() <= 15, "must be no more than 15 characters"),
        (!text.is_empty() && text.bytes().all(allowed), "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
        (text.bytes().any(|byte| byte.is_ascii_lowercase()), "must contain at least one letter (a-z)"),
        (!text.contains("--"), "must not contain consecutive hyphens"),
        (!text.starts_with('-') && !text.ends_with('-'), "must not begin or end with a hyphen"),
    ];
    rules.into_iter().filter(|(holds, _)| !holds).map(|(_, cause)| cause.to_owned()).collect()
}

/// A domain in which services are looked up; labels of services may have underscores.
pub(crate) fn underscored_subdomain(text: &str) -> Option<String> {
    let is_underscored = |part: &str| is_label(&part.strip_prefix('_').unwrap_or(part).replace('_', "-"));
    rule(text, 253, text.split('.').all(is_underscored), UNDERSCORED)
}

/// The name of a variable in a process's environment.
pub(crate) fn variable(text: &str) -> Option<String> {
    let allowed = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=';
    (text.is_empty() || !text.bytes().all(allowed)).then(|| VARIABLE.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_their_rules() {
        assert!(subdomain("a.b-c.1").is_none() && subdomain("a..b").is_some() && subdomain("A").is_some() && subdomain("").is_some());
        assert!(label("a-1").is_none() && label("a.b").is_some() && label(&"a".repeat(64)).is_some());
        assert!(qualified("a.b/c_d").is_none() && qualified("/c").is_some() && qualified("a/").is_some() && qualified("é").is_some());
        assert!(label_value("").is_none() && label_value("a_b").is_none() && label_value("-a").is_some());
        assert!(data_key("..").is_some() && data_key("a.b").is_none() && data_key("a b").is_some());
        assert!(port_name_causes("http").is_empty() && port_name_causes("80").len() == 1 && port_name_causes("a--b").len() == 1);
        assert!(underscored_subdomain("_tcp.a").is_none() && underscored_subdomain("A_b").is_some());
        assert!(variable("A.b c").is_none() && variable("a=b").is_some());
    }
}
