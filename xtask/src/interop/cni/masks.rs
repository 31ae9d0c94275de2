//! What differs from one run to the next and means nothing: ids, times, and hardware addresses that HNS chose.

use std::collections::BTreeMap;

use serde_json::Value;

/// What the hardware addresses begin with that HNS chooses, for endpoints and for routers.
const CHOSEN: [&str; 2] = ["00-15-5D-", "02-15-5D-"];
/// The keys of the times of changes, in HNS and in azure-vnet-ipam.
const TIMES: [&str; 2] = ["LastUpdateTime", "TimeStamp"];
const MAC: usize = 17;
const GUID: usize = 36;

/// Names for ids.
#[derive(Default)]
pub(super) struct Masks(BTreeMap<String, String>);

impl Masks {
    /// Remembers the ids of objects by what they are and how they are called.
    pub(super) fn learn(&mut self, kind: &str, objects: &Value) {
        for object in objects.as_array().into_iter().flatten() {
            let name = object["Name"].as_str().unwrap_or_default();
            if let Some(id) = object["ID"].as_str() {
                self.0.insert(id.to_ascii_lowercase(), format!("<{kind} {name}>"));
            }
        }
    }

    /// A document in which only names are left.
    pub(super) fn document(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(elements) => elements.into_iter().map(|element| self.document(element)).collect(),
            Value::Object(entries) => entries
                .into_iter()
                .filter(|(key, _)| !TIMES.contains(&key.as_str()))
                .map(|(key, value)| (key, self.document(value)))
                .collect(),
            other => other,
        }
    }

    /// A text in which only names are left.
    pub(super) fn text(&self, text: &str) -> String {
        let mut masked = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let length = if let Some(id) = rest.get(..GUID).filter(|id| is_guid(id)) {
                masked += self.0.get(&id.to_ascii_lowercase()).map_or("<id>", String::as_str);
                GUID
            } else if rest.get(..MAC).is_some_and(is_chosen_mac) {
                masked += "<mac>";
                MAC
            } else {
                masked.push(first);
                first.len_utf8()
            };
            rest = &rest[length..];
        }
        masked
    }
}

fn is_guid(text: &str) -> bool {
    text.bytes().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

fn is_chosen_mac(text: &str) -> bool {
    let text = text.replace(':', "-").to_ascii_uppercase();
    CHOSEN.iter().any(|prefix| text.starts_with(prefix))
        && text.split('-').all(|byte| byte.len() == 2 && byte.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_become_names_and_chosen_addresses_nothing() {
        let id = "5f0b1190-63be-4e0c-b974-bd0f55675a42";
        let mut masks = Masks::default();
        masks.learn("network", &json!([{"ID": id, "Name": "pods"}]));
        let document =
            json!({"Network": id.to_uppercase(), "Mac": ["00-15-5d-01-02-03", "0E-2A-0a-f4-01-0a"], "Mtu": 1, "LastUpdateTime": 7});
        let masked = json!({"Network": "<network pods>", "Mac": ["<mac>", "0E-2A-0a-f4-01-0a"], "Mtu": 1});
        assert_eq!(masks.document(document), masked);
        assert_eq!(masks.text("ä 00000000-0000-0000-0000-000000000000."), "ä <id>.");
    }
}
