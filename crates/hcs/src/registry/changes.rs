//! What the document of a container changes in its registry.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::hive::{Hive, Value};
use crate::compute_system::{RegistryChanges, RegistryHive, RegistryKey, RegistryValue, RegistryValueType};
use crate::error::{Error, Result, detail};

/// Takes away the keys that the document deletes, and sets its values.
pub fn apply(changes: &RegistryChanges, hive: &mut Hive) -> Result<()> {
    for key in &changes.delete_keys {
        hive.delete(&path(key)?);
    }
    for (position, value) in changes.add_values.iter().enumerate() {
        let data = data(value)
            .map_err(|cause| Error::InvalidJson(detail(cause).field(format!("Container.RegistryChanges.AddValues[{position}]"))))?;
        hive.make(&path(&value.key)?).set(&value.name, data);
    }
    Ok(())
}

fn path(key: &RegistryKey) -> Result<String> {
    let root = match &key.hive {
        RegistryHive::System => r"HKLM\SYSTEM",
        RegistryHive::Software => r"HKLM\SOFTWARE",
        RegistryHive::Security => r"HKLM\SECURITY",
        RegistryHive::Sam => r"HKLM\SAM",
        other => return Err(Error::InvalidJson(detail(format!("{other} is no hive")).remedy("write System, Software, Security or Sam"))),
    };
    let name = key.name.trim_matches('\\');
    if name.is_empty() {
        return Err(Error::InvalidJson(detail("a key has a name").field("Container.RegistryChanges")));
    }
    Ok(format!(r"{root}\{}", current(name)))
}

/// What a hive on disk calls its first set of settings is the current one in a system that runs.
fn current(name: &str) -> String {
    match name.get(..13).filter(|first| first.eq_ignore_ascii_case("ControlSet001")) {
        Some(_) => format!("CurrentControlSet{}", &name[13..]),
        None => name.to_owned(),
    }
}

fn data(value: &RegistryValue) -> Result<Value, String> {
    Ok(match &value.value_type {
        RegistryValueType::String => Value::Text(value.string_value.clone()),
        RegistryValueType::ExpandedString => Value::Expandable(value.string_value.clone()),
        // Texts of a list have a zero between them.
        RegistryValueType::MultiString => {
            Value::List(value.string_value.split('\0').filter(|text| !text.is_empty()).map(str::to_owned).collect())
        }
        RegistryValueType::DWord => Value::Number(value.dword_value),
        RegistryValueType::QWord => Value::LongNumber(value.qword_value),
        RegistryValueType::Binary | RegistryValueType::None | RegistryValueType::CustomType => {
            Value::Bytes(STANDARD.decode(&value.binary_value).map_err(|error| format!("BinaryValue is no Base64: {error}"))?)
        }
        other => return Err(format!("{other} is no type of value")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICE: &str = r"HKLM\SYSTEM\CurrentControlSet\Services\X";

    fn changes(text: &str) -> RegistryChanges {
        hcn::parse(text).unwrap()
    }

    #[test]
    fn values_are_set_and_keys_deleted() {
        let mut hive = Hive::default();
        hive.make(r"HKLM\SOFTWARE\Old\Below").set("x", 1);
        let changes = changes(
            r#"{"DeleteKeys": [{"Hive": "Software", "Name": "Old"}], "AddValues": [
                {"Key": {"Hive": "System", "Name": "ControlSet001\\Services\\X"}, "Name": "a", "Type": "String", "StringValue": "text"},
                {"Key": {"Hive": "System", "Name": "CurrentControlSet\\Services\\X"}, "Name": "b", "Type": "DWord", "DWordValue": 7},
                {"Key": {"Hive": "System", "Name": "CurrentControlSet\\Services\\X"}, "Name": "c", "Type": "Binary", "BinaryValue": "AQI="}]}"#,
        );
        apply(&changes, &mut hive).unwrap();
        assert!(hive.key(r"HKLM\SOFTWARE\Old").is_none());
        assert_eq!(hive.value(SERVICE, "a"), Some(&Value::Text("text".into())));
        assert_eq!(hive.value(SERVICE, "b"), Some(&Value::Number(7)));
        assert_eq!(hive.value(SERVICE, "c"), Some(&Value::Bytes(vec![1, 2])));
    }

    #[test]
    fn a_change_that_makes_no_sense_is_refused() {
        let bad = changes(r#"{"AddValues": [{"Key": {"Hive": "System", "Name": "X"}, "Type": "Binary", "BinaryValue": "?"}]}"#);
        let error = apply(&bad, &mut Hive::default()).unwrap_err();
        assert_eq!(error.detail().field.as_deref(), Some("Container.RegistryChanges.AddValues[0]"));
        assert!(apply(&changes(r#"{"DeleteKeys": [{"Hive": "Other", "Name": "X"}]}"#), &mut Hive::default()).is_err());
        assert!(apply(&changes(r#"{"DeleteKeys": [{"Hive": "System", "Name": ""}]}"#), &mut Hive::default()).is_err());
    }
}
