//! Modes of files in manifests. Kubernetes reads `defaultMode: 0400` as older YAML did, where it is a number with the base eight; the YAML of
//! today makes a text of it.

use serde_json::Value;

/// The keys whose values are modes.
const KEYS: [&str; 2] = ["defaultMode", "mode"];

/// Makes numbers of all modes in a document that are written with a leading zero.
pub(super) fn settle(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(settle),
        Value::Object(map) => {
            for (key, value) in map {
                match value.as_str().filter(|_| KEYS.contains(&key.as_str())).and_then(number) {
                    Some(mode) => *value = mode.into(),
                    None => settle(value),
                }
            }
        }
        _ => {}
    }
}

fn number(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("0o").or_else(|| text.strip_prefix('0'))?;
    u32::from_str_radix(digits, 8).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn modes_are_read_as_kubernetes_does() {
        let mut document = json!({"spec": {"volumes": [
            {"secret": {"defaultMode": "0400"}}, {"configMap": {"items": [{"mode": "0644", "path": "0400"}], "defaultMode": 256}}]}});
        settle(&mut document);
        let expected = json!({"spec": {"volumes": [
            {"secret": {"defaultMode": 256}}, {"configMap": {"items": [{"mode": 420, "path": "0400"}], "defaultMode": 256}}]}});
        assert_eq!(document, expected);
    }
}
