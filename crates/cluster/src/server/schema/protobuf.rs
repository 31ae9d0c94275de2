//! Documents in protobuf, as `kubectl create` and the agents of Kubernetes send them. They are read; answers are JSON, which
//! every client that sends protobuf takes as well.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};
use time::OffsetDateTime;

use super::{Field, Presence, Type, fields, message};

/// What such a document begins with.
const MAGIC: &[u8] = b"k8s\0";

/// How deep messages may nest.
const DEEPEST: usize = 64;

type Result<T, E = String> = std::result::Result<T, E>;

/// Reads a document in its envelope.
pub(crate) fn read(bytes: &[u8]) -> Result<Value> {
    let bytes = bytes.strip_prefix(MAGIC).ok_or("it does not begin with the mark of Kubernetes")?;
    let (mut kind, mut api_version, mut raw) = (String::new(), String::new(), &[][..]);
    for (number, value) in Wire(bytes).all()? {
        match (number, value) {
            (1, Datum::Bytes(inner)) => {
                for (number, value) in Wire(inner).all()? {
                    match (number, value) {
                        (1, Datum::Bytes(text)) => api_version = utf8(text)?,
                        (2, Datum::Bytes(text)) => kind = utf8(text)?,
                        _ => {}
                    }
                }
            }
            (2, Datum::Bytes(inner)) => raw = inner,
            _ => {}
        }
    }
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    // Options of requests are sent as if they were of the group that they are about.
    let name = if kind == "DeleteOptions" { "meta.DeleteOptions".to_owned() } else { message(group, &kind) };
    if fields(&name).is_empty() {
        return Err(format!("no kind {kind:?} is registered for version {api_version:?}"));
    }
    let mut document = Map::new();
    document.insert("kind".into(), kind.into());
    document.insert("apiVersion".into(), api_version.into());
    read_message(&name, raw, &mut document, 0)?;
    Ok(document.into())
}

fn utf8(bytes: &[u8]) -> Result<String> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| "a text is not UTF-8".into())
}

/// A value as it stands on the wire.
#[derive(Clone, Copy)]
enum Datum<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The rest of a message.
struct Wire<'a>(&'a [u8]);

impl<'a> Wire<'a> {
    fn all(mut self) -> Result<Vec<(u64, Datum<'a>)>> {
        let mut data = Vec::new();
        while !self.0.is_empty() {
            let tag = self.number()?;
            let datum = match tag & 7 {
                0 => Datum::Number(self.number()?),
                1 => Datum::Bytes(self.take(8)?),
                2 => {
                    let length = usize::try_from(self.number()?).map_err(|_| "a length is too large")?;
                    Datum::Bytes(self.take(length)?)
                }
                5 => Datum::Bytes(self.take(4)?),
                _ => return Err("a field has an unknown form".into()),
            };
            data.push((tag >> 3, datum));
        }
        Ok(data)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or("it ends too early")?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u64> {
        let mut number = 0u64;
        for shift in (0..70).step_by(7) {
            let [byte] = *self.take(1)? else { return Err("it ends too early".into()) };
            number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err("a number is too long".into())
    }
}

fn read_message(name: &str, bytes: &[u8], into: &mut Map<String, Value>, depth: usize) -> Result<()> {
    if depth > DEEPEST {
        return Err("messages nest too deeply".into());
    }
    let known = fields(name);
    for (number, datum) in (Wire(bytes)).all()? {
        if let Some(field) = known.iter().find(|field| field.number == number) {
            read_field(field, datum, into, depth)?;
        }
    }
    Ok(())
}

fn read_field(field: &Field, datum: Datum<'_>, into: &mut Map<String, Value>, depth: usize) -> Result<()> {
    match (&field.holds, datum) {
        (Type::Message(inner), Datum::Bytes(bytes)) if field.presence == Presence::Inline => read_message(inner, bytes, into, depth + 1),
        (Type::List(item), datum) => {
            let slot = into.entry(field.name).or_insert_with(|| Value::Array(Vec::new()));
            let value = read_value(item, datum, depth)?;
            if let Value::Array(list) = slot {
                list.push(value);
            }
            Ok(())
        }
        (Type::Map(item), Datum::Bytes(bytes)) => {
            let (key, value) = read_entry(item, bytes, depth)?;
            let slot = into.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(map) = slot {
                map.insert(key, value);
            }
            Ok(())
        }
        (holds, datum) => {
            let value = read_value(holds, datum, depth)?;
            let is_zero = value == "" || value == 0 || value == false || value.is_null();
            if value.is_null() || (is_zero && field.presence == Presence::Maybe) {
                return Ok(());
            }
            into.insert(field.name.to_owned(), value);
            Ok(())
        }
    }
}

fn read_entry(item: &Type, bytes: &[u8], depth: usize) -> Result<(String, Value)> {
    let (mut key, mut value) = (String::new(), None);
    for (number, datum) in Wire(bytes).all()? {
        match (number, datum) {
            (1, Datum::Bytes(text)) => key = utf8(text)?,
            (2, datum) => value = Some(read_value(item, datum, depth)?),
            _ => {}
        }
    }
    Ok((key, value.unwrap_or_else(|| "".into())))
}

fn read_value(holds: &Type, datum: Datum<'_>, depth: usize) -> Result<Value> {
    match (holds, datum) {
        (Type::Text, Datum::Bytes(text)) => Ok(utf8(text)?.into()),
        (Type::Integer, Datum::Number(number)) => Ok((number as i64).into()),
        (Type::Bool, Datum::Number(number)) => Ok((number != 0).into()),
        (Type::Bytes, Datum::Bytes(bytes)) => Ok(BASE64_STANDARD.encode(bytes).into()),
        (Type::Time { is_fine }, Datum::Bytes(bytes)) => read_time(bytes, *is_fine),
        (Type::Quantity, Datum::Bytes(bytes)) => Ok(first_text(bytes)?.into()),
        (Type::IntegerOrText, Datum::Bytes(bytes)) => read_integer_or_text(bytes),
        (Type::Any, Datum::Bytes(bytes)) => Ok(serde_json::from_str(&first_text(bytes)?).unwrap_or_default()),
        (Type::Message(inner), Datum::Bytes(bytes)) => {
            let mut map = Map::new();
            read_message(inner, bytes, &mut map, depth + 1)?;
            Ok(map.into())
        }
        // Protobuf has no lists in maps: there they stand in a message, and are its first field.
        (Type::List(item), Datum::Bytes(bytes)) => {
            let items = Wire(bytes).all()?.into_iter().filter(|(number, _)| *number == 1);
            items.map(|(_, datum)| read_value(item, datum, depth)).collect::<Result<Vec<_>>>().map(Value::from)
        }
        _ => Err("a field has the wrong form".into()),
    }
}

/// The text in field 1 of a message.
fn first_text(bytes: &[u8]) -> Result<String> {
    let all = Wire(bytes).all()?;
    all.into_iter()
        .find_map(|(number, datum)| match (number, datum) {
            (1, Datum::Bytes(text)) => Some(utf8(text)),
            _ => None,
        })
        .unwrap_or_else(|| Ok(String::new()))
}

/// A moment; null if none was set.
fn read_time(bytes: &[u8], is_fine: bool) -> Result<Value> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanoseconds) = (0i64, 0i64);
    for (number, datum) in Wire(bytes).all()? {
        match (number, datum) {
            (1, Datum::Number(number)) => seconds = number as i64,
            (2, Datum::Number(number)) => nanoseconds = number as i64,
            _ => {}
        }
    }
    let moment = OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| "a moment is beyond all times")?;
    let text = crate::server::document::timestamp(moment);
    Ok(match is_fine {
        true => format!("{}.{:06}Z", text.trim_end_matches('Z'), nanoseconds.clamp(0, 999_999_999) / 1000).into(),
        false => text.into(),
    })
}

fn read_integer_or_text(bytes: &[u8]) -> Result<Value> {
    let (mut is_text, mut number, mut text) = (false, 0, String::new());
    for (field, datum) in Wire(bytes).all()? {
        match (field, datum) {
            (1, Datum::Number(kind)) => is_text = kind == 1,
            (2, Datum::Number(value)) => number = value as i64,
            (3, Datum::Bytes(value)) => text = utf8(value)?,
            _ => {}
        }
    }
    Ok(if is_text { text.into() } else { number.into() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A field of bytes.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
    }

    #[test]
    fn a_document_is_read_from_its_envelope() {
        let metadata = [field(1, b"a"), field(2, b""), field(8, &[]), field(11, &[field(1, b"k"), field(2, b"v")].concat())].concat();
        let data = field(2, &[field(1, b"x"), field(2, b"y")].concat());
        let raw = [field(1, &metadata), data].concat();
        let envelope = [field(1, &[field(1, b"v1"), field(2, b"ConfigMap")].concat()), field(2, &raw)].concat();
        let document = read(&[MAGIC, &envelope].concat()).unwrap();
        let expected =
            json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "labels": {"k": "v"}}, "data": {"x": "y"}});
        assert_eq!(document, expected);
    }

    #[test]
    fn a_list_in_a_map_is_a_message_of_its_own() {
        let entry = [field(1, b"key"), field(2, &[field(1, b"a"), field(1, b"b")].concat())].concat();
        let mut spec = Map::new();
        read_message("authentication.TokenRequestSpec", &field(5, &entry), &mut spec, 0).unwrap();
        assert_eq!(Value::from(spec), json!({"attestations": {"key": ["a", "b"]}}));
    }

    #[test]
    fn broken_bytes_are_refused() {
        for bytes in [&b""[..], b"k8s", b"k8s\0\x0a\xff", b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"k8s\0\x0b", b"k8s\0"] {
            assert!(read(bytes).is_err(), "{bytes:?}");
        }
    }
}
