//! Documents that people hand in: JSON or YAML, from a file or from standard input.

use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::exit::{Exit, Failure};

/// One document and where it stood, for messages.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Document {
    /// The document: always an object.
    pub(crate) value: Value,
    /// Such as `nets.yaml, document 2 of 3`.
    pub(crate) place: String,
}

/// Reads all documents of a file; `-` is standard input.
pub(crate) fn read(path: &Path) -> Result<Vec<Document>, Failure> {
    let name = if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() };
    let bytes = match path == Path::new("-") {
        true => read_stdin(),
        false => std::fs::read(path),
    };
    let bytes =
        bytes.map_err(|error| unusable(format!("cannot read {name}: {error}")).remedy("name a readable file, or - for standard input"))?;
    parse(&decode(bytes).ok_or_else(|| unusable(format!("{name} is no text")).remedy("save it as UTF-8"))?, &name)
}

fn read_stdin() -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Text from bytes. Windows PowerShell redirects into UTF-16 with a byte order mark, so that is read too.
fn decode(bytes: Vec<u8>) -> Option<String> {
    if let Some(rest) = bytes.strip_prefix(&[0xFF, 0xFE]) {
        let units: Vec<u16> = rest.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        return String::from_utf16(&units).ok();
    }
    let text = String::from_utf8(bytes).ok()?;
    Some(text.strip_prefix('\u{FEFF}').map(str::to_owned).unwrap_or(text))
}

/// Takes a text apart. An array counts as its elements, and empty documents of a YAML stream count for nothing.
pub(crate) fn parse(text: &str, name: &str) -> Result<Vec<Document>, Failure> {
    let values = match is_json(text, name) {
        true => parse_json(text, name)?,
        false => parse_yaml(text, name)?,
    };
    let values: Vec<Value> = values.into_iter().flat_map(elements).collect();
    if values.is_empty() {
        return Err(unusable(format!("{name} has no document")).remedy("write one object, or several"));
    }
    let count = values.len();
    let place = |index: usize| if count == 1 { name.to_owned() } else { format!("{name}, document {} of {count}", index + 1) };
    let document = |(index, value): (usize, Value)| match value.is_object() {
        true => Ok(Document { value, place: place(index) }),
        false => Err(unusable(format!("{}: an object is expected, not {}", place(index), kind_of(&value)))),
    };
    values.into_iter().enumerate().map(document).collect()
}

/// A file's ending decides; without one, JSON begins with a bracket.
fn is_json(text: &str, name: &str) -> bool {
    match name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).as_deref() {
        Some("json") => true,
        Some("yaml" | "yml") => false,
        _ => text.trim_start().starts_with(['{', '[']),
    }
}

fn parse_json(text: &str, name: &str) -> Result<Vec<Value>, Failure> {
    let documents: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
    documents.map_err(|error| unusable(format!("{name} is no JSON: {error}")))
}

fn parse_yaml(text: &str, name: &str) -> Result<Vec<Value>, Failure> {
    let documents: Result<Vec<Value>, _> = serde_norway::Deserializer::from_str(text).map(Value::deserialize).collect();
    documents.map_err(|error| unusable(format!("{name} is no YAML: {error}")))
}

fn elements(value: Value) -> Vec<Value> {
    match value {
        Value::Null => Vec::new(),
        Value::Array(elements) => elements,
        other => vec![other],
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn unusable(cause: String) -> Failure {
    Failure::new(Exit::Usage, cause)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn values(text: &str, name: &str) -> Vec<Value> {
        parse(text, name).unwrap().into_iter().map(|document| document.value).collect()
    }

    #[test]
    fn json_comes_alone_in_an_array_or_in_a_row() {
        assert_eq!(values(r#"{"Name":"a"}"#, "-"), [json!({"Name": "a"})]);
        assert_eq!(values(r#"[{"Name":"a"},{"Name":"b"}]"#, "-"), [json!({"Name": "a"}), json!({"Name": "b"})]);
        assert_eq!(values("{\"Name\":\"a\"}\n{\"Name\":\"b\"}\n", "-"), [json!({"Name": "a"}), json!({"Name": "b"})]);
    }

    #[test]
    fn yaml_streams_are_taken_apart_in_order() {
        let text = "---\nName: a\nFlags: 8\n---\n---\nName: b\nMacAddress: 00-15-5D-00-00-01\n";
        assert_eq!(values(text, "nets.yaml"), [json!({"Name": "a", "Flags": 8}), json!({"Name": "b", "MacAddress": "00-15-5D-00-00-01"})]);
        assert_eq!(values("- Name: a\n- Name: b\n", "-"), [json!({"Name": "a"}), json!({"Name": "b"})]);
        assert_eq!(values("{Name: a}", "flow.yml"), [json!({"Name": "a"})]);
    }

    #[test]
    fn the_place_of_a_document_is_known() {
        let documents = parse("Name: a\n---\nName: b\n", "nets.yaml").unwrap();
        assert_eq!(documents[1].place, "nets.yaml, document 2 of 2");
        assert_eq!(parse("{}", "one.json").unwrap()[0].place, "one.json");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let cause = |text: &str, name: &str| parse(text, name).unwrap_err().to_string();
        assert!(cause("{", "a.json").starts_with("error: a.json is no JSON: EOF"));
        assert!(cause("a: [", "a.yaml").starts_with("error: a.yaml is no YAML: "));
        assert!(cause("", "-").starts_with("error: - has no document"));
        assert_eq!(cause("[{}, 5]", "-"), "error: -, document 2 of 2: an object is expected, not a number");
        assert_eq!(read(Path::new("/nowhere/x")).unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn powershell_files_are_text() {
        let utf16: Vec<u8> = [0xFF, 0xFE].into_iter().chain("{}".encode_utf16().flat_map(u16::to_le_bytes)).collect();
        assert_eq!(decode(utf16).as_deref(), Some("{}"));
        assert_eq!(decode("\u{FEFF}{}".into()).as_deref(), Some("{}"));
        assert_eq!(decode(vec![0xC3]), None);
    }
}
