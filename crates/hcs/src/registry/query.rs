//! A hive printed as `reg query KEY /s` prints it.

use std::fmt::Write;

use super::hive::{Hive, Value};

/// Every key with values at a path and below it, with its values.
pub fn print(hive: &Hive, path: &str) -> String {
    let mut text = String::new();
    let Some(top) = hive.key(path) else {
        return text;
    };
    // Keys are compared by where they are: two of one name may be in different places.
    let from = hive.walk().into_iter().skip_while(|(_, key)| !std::ptr::eq(*key, top));
    let mut from = from.peekable();
    let above = from.peek().map(|(path, _)| path.clone()).unwrap_or_default();
    for (path, key) in from.take_while(|(path, _)| is_below(path, &above)) {
        if key.values().next().is_some() {
            let _ = writeln!(text, "\n{path}");
            key.values().for_each(|(name, value)| write_value(&mut text, name, value));
        }
    }
    text.push('\n');
    text
}

fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('\\'))
}

fn write_value(text: &mut String, name: &str, value: &Value) {
    let name = if name.is_empty() { "(Default)" } else { name };
    let _ = writeln!(text, "    {name}    {}    {}", value.type_name(), shown(value));
}

/// The value as people read it.
fn shown(value: &Value) -> String {
    match value {
        Value::Text(text) | Value::Expandable(text) => text.clone(),
        Value::List(list) => list.join("\\0"),
        Value::Number(number) => format!("0x{number:x}"),
        Value::LongNumber(number) => format!("0x{number:x}"),
        Value::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02X}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_below_the_path() {
        let mut hive = Hive::default();
        hive.make(r"HKLM\A\B")
            .set("", "default")
            .set("list", Value::List(vec!["x".into(), "y".into()]))
            .set("bytes", Value::Bytes(vec![1, 171]));
        hive.make(r"HKLM\A\BB").set("other", 1);
        hive.make(r"HKLM\A\B\C").set("long", Value::LongNumber(16));
        let expected = "\nHKEY_LOCAL_MACHINE\\A\\B\n    (Default)    REG_SZ    default\n    list    REG_MULTI_SZ    x\\0y\n    \
                        bytes    REG_BINARY    01AB\n\nHKEY_LOCAL_MACHINE\\A\\B\\C\n    long    REG_QWORD    0x10\n\n";
        assert_eq!(print(&hive, r"hklm\a\b"), expected);
        assert_eq!(print(&hive, r"HKLM\Nowhere"), "");
    }
}
