//! A hive as a `.reg` file, version 5, which `reg import` and the editor of Windows read.
//!
//! The file is text in UTF-8 with the line ends of Windows. Windows itself writes UTF-16 and reads both.

use std::fmt;

use super::hive::{Hive, Key, Value};

const HEADER: &str = "Windows Registry Editor Version 5.00";

/// Lines are broken before they are longer than this.
const WIDTH: usize = 80;

/// The numbers of the types that are written as bytes.
const TEXT: u32 = 1;
const EXPANDABLE: u32 = 2;
const BYTES: u32 = 3;
const LIST: u32 = 7;
const LONG_NUMBER: u32 = 11;

/// The whole hive as a file.
pub fn export(hive: &Hive) -> String {
    let mut text = format!("{HEADER}\r\n");
    for (path, key) in hive.walk() {
        text.push_str(&format!("\r\n[{path}]\r\n"));
        key.values().for_each(|(name, value)| text.push_str(&entry(name, value)));
    }
    text
}

fn entry(name: &str, value: &Value) -> String {
    let name = if name.is_empty() { "@".to_owned() } else { quoted(name) };
    match value {
        Value::Text(text) if is_plain(text) => format!("{name}={}\r\n", quoted(text)),
        Value::Text(text) => hex(&name, TEXT, &terminated([text])),
        Value::Expandable(text) => hex(&name, EXPANDABLE, &terminated([text])),
        Value::List(list) => hex(&name, LIST, &terminated(list.iter().chain([&String::new()]))),
        Value::Number(number) => format!("{name}=dword:{number:08x}\r\n"),
        Value::LongNumber(number) => hex(&name, LONG_NUMBER, &number.to_le_bytes()),
        Value::Bytes(bytes) => hex(&name, BYTES, bytes),
    }
}

/// Whether a text can stand between quotes on a line.
fn is_plain(text: &str) -> bool {
    !text.contains(char::is_control)
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Texts as Windows stores them: in UTF-16, each with a zero behind it.
fn terminated<'a>(texts: impl IntoIterator<Item = &'a String>) -> Vec<u8> {
    texts.into_iter().flat_map(|text| text.encode_utf16().chain([0])).flat_map(u16::to_le_bytes).collect()
}

fn hex(name: &str, number: u32, bytes: &[u8]) -> String {
    let mut line = match number {
        BYTES => format!("{name}=hex:"),
        _ => format!("{name}=hex({number:x}):"),
    };
    let mut text = String::new();
    for (position, byte) in bytes.iter().enumerate() {
        let last = position + 1 == bytes.len();
        line.push_str(&format!("{byte:02x}{}", if last { "" } else { "," }));
        if !last && line.len() > WIDTH - 5 {
            text.push_str(&format!("{line}\\\r\n"));
            line = "  ".to_owned();
        }
    }
    format!("{text}{line}\r\n")
}

/// Why a file could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The line, from one.
    pub line: usize,
    /// What is wrong with it.
    pub cause: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.cause)
    }
}

impl std::error::Error for FileError {}

/// Reads a file into a hive: what it has is set, what it takes away is deleted.
pub fn import(text: &str, hive: &mut Hive) -> Result<(), FileError> {
    let mut lines = joined(text.trim_start_matches('\u{feff}')).into_iter();
    let header = lines.next();
    if header.as_ref().is_none_or(|(_, line)| line != HEADER) {
        return Err(FileError { line: 1, cause: format!("the file does not begin with {HEADER:?}") });
    }
    let mut path = None;
    for (line, text) in lines {
        let fail = |cause: String| FileError { line, cause };
        match text.strip_prefix('[').map(|rest| rest.strip_suffix(']').ok_or("a key ends with ]")) {
            Some(name) => path = open(name.map_err(|cause| fail(cause.into()))?, hive),
            None => match &path {
                Some(path) => read_entry(&text, hive.make(path)).map_err(fail)?,
                None => return Err(fail("a value stands below a key".into())),
            },
        }
    }
    Ok(())
}

/// Makes a key, or takes one away. Values can follow only in the first case.
fn open(name: &str, hive: &mut Hive) -> Option<String> {
    match name.strip_prefix('-') {
        Some(name) => {
            hive.delete(name);
            None
        }
        None => {
            hive.make(name);
            Some(name.to_owned())
        }
    }
}

/// The lines that say something, with their numbers; those that go on are one.
fn joined(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (position, line) in text.split('\n').enumerate() {
        let line = line.trim_end_matches('\r');
        let line = if goes_on || !line.starts_with('"') { line.trim() } else { line };
        let (content, more) = match line.strip_suffix('\\').filter(|_| goes_on || line.contains("=hex")) {
            Some(content) => (content, true),
            None => (line, false),
        };
        match lines.last_mut() {
            Some((_, last)) if goes_on => last.push_str(content),
            _ if content.is_empty() || content.starts_with(';') => {}
            _ => lines.push((position + 1, content.to_owned())),
        }
        goes_on = more;
    }
    lines
}

fn read_entry(text: &str, key: &mut Key) -> Result<(), String> {
    let (name, data) = match text.strip_prefix('@') {
        Some(rest) => (String::new(), rest),
        None => read_quoted(text)?,
    };
    let data = data.trim_start().strip_prefix('=').ok_or("a value has a name, = and data")?.trim_start();
    if data == "-" {
        key.unset(&name);
        return Ok(());
    }
    key.set(&name, read_value(data)?);
    Ok(())
}

fn read_value(data: &str) -> Result<Value, String> {
    if data.starts_with('"') {
        return read_quoted(data).map(|(text, _)| Value::Text(text));
    }
    let (kind, data) = data.split_once(':').ok_or("data is text in quotes, dword: or hex:")?;
    if kind == "dword" {
        return u32::from_str_radix(data.trim(), 16).map(Value::Number).map_err(|error| format!("{data:?} is no dword: {error}"));
    }
    let number = match kind.strip_prefix("hex").ok_or_else(|| format!("{kind:?} is no type of data"))? {
        "" => BYTES,
        number => number
            .strip_prefix('(')
            .and_then(|number| number.strip_suffix(')'))
            .and_then(|number| u32::from_str_radix(number, 16).ok())
            .ok_or_else(|| format!("{number:?} is no type of data"))?,
    };
    typed(number, read_bytes(data)?)
}

fn typed(number: u32, bytes: Vec<u8>) -> Result<Value, String> {
    Ok(match number {
        TEXT => Value::Text(texts(&bytes).into_iter().next().unwrap_or_default()),
        EXPANDABLE => Value::Expandable(texts(&bytes).into_iter().next().unwrap_or_default()),
        LIST => Value::List(texts(&bytes).into_iter().filter(|text| !text.is_empty()).collect()),
        LONG_NUMBER => Value::LongNumber(u64::from_le_bytes(bytes.try_into().map_err(|_| "a qword has eight bytes")?)),
        4 => Value::Number(u32::from_le_bytes(bytes.try_into().map_err(|_| "a dword has four bytes")?)),
        _ => Value::Bytes(bytes),
    })
}

fn read_bytes(data: &str) -> Result<Vec<u8>, String> {
    let digits = data.split(',').map(str::trim).filter(|digits| !digits.is_empty());
    digits.map(|digits| u8::from_str_radix(digits, 16).map_err(|error| format!("{digits:?} is no byte: {error}"))).collect()
}

/// The texts that end with a zero each; the last may lack it.
fn texts(bytes: &[u8]) -> Vec<String> {
    let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
    let units = units.strip_suffix(&[0]).unwrap_or(&units);
    units.split(|unit| *unit == 0).map(String::from_utf16_lossy).collect()
}

/// A text in quotes, and what comes after it.
fn read_quoted(text: &str) -> Result<(String, &str), String> {
    let mut rest = text.strip_prefix('"').ok_or_else(|| format!("{text:?} does not begin with a quote"))?.chars();
    let mut content = String::new();
    loop {
        match rest.next() {
            Some('"') => return Ok((content, rest.as_str())),
            Some('\\') => content.extend(rest.next()),
            Some(character) => content.push(character),
            None => return Err(format!("{text:?} does not end with a quote")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_file_looks_as_windows_writes_it() {
        let mut hive = Hive::default();
        hive.make(r"HKLM\A")
            .set("", "default")
            .set("Path", r#"C:\x "y""#)
            .set("Number", 10)
            .set("List", Value::List(vec!["a".into()]))
            .set("Long", Value::Bytes((0..30).collect()));
        let expected = [
            "Windows Registry Editor Version 5.00",
            "",
            "[HKEY_LOCAL_MACHINE]",
            "",
            r"[HKEY_LOCAL_MACHINE\A]",
            r#"@="default""#,
            r#""Path"="C:\\x \"y\"""#,
            r#""Number"=dword:0000000a"#,
            r#""List"=hex(7):61,00,00,00,00,00"#,
            r#""Long"=hex:00,01,02,03,04,05,06,07,08,09,0a,0b,0c,0d,0e,0f,10,11,12,13,14,15,\"#,
            "  16,17,18,19,1a,1b,1c,1d",
            "",
        ];
        assert_eq!(export(&hive), expected.join("\r\n"));
    }

    #[test]
    fn a_file_can_take_things_away() {
        let mut hive = Hive::default();
        hive.make(r"HKLM\A\B").set("x", 1);
        hive.make(r"HKLM\A").set("y", 2).set("z", 3);
        let text = "\u{feff}Windows Registry Editor Version 5.00\n; a comment\n[-HKEY_LOCAL_MACHINE\\A\\B]\n\n[HKLM\\A]\n\"y\"=-\n";
        import(text, &mut hive).unwrap();
        assert!(hive.key(r"HKLM\A\B").is_none());
        assert_eq!(hive.key(r"HKLM\A").unwrap().values().map(|(name, _)| name).collect::<Vec<_>>(), ["z"]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let cases = [
            ("REGEDIT4\n", 1, "begin with"),
            ("\"x\"=dword:1\n", 2, "below a key"),
            ("[HKLM\n", 2, "ends with ]"),
            ("[HKLM]\n\"x\"=dword:xyz\n", 3, "no dword"),
            ("[HKLM]\n\"x=1\n", 3, "end with a quote"),
            ("[HKLM]\n\"x\"=hex(b):00\n", 3, "eight bytes"),
            ("[HKLM]\n\"x\"=hex:1g\n", 3, "no byte"),
        ];
        for (text, line, cause) in cases {
            let text = if line == 1 { text.to_owned() } else { format!("{HEADER}\n{text}") };
            let error = import(&text, &mut Hive::default()).unwrap_err();
            assert!(error.line == line && error.cause.contains(cause), "{text:?}: {error}");
        }
    }

    fn name() -> impl Strategy<Value = String> {
        r#"[A-Za-z0-9 _{}().,;@="-]{1,10}"#
    }

    fn value() -> impl Strategy<Value = Value> {
        let text = "[^\0]{0,12}";
        prop_oneof![
            text.prop_map(Value::Text),
            text.prop_map(Value::Expandable),
            prop::collection::vec("[^\0]{1,8}", 0..4).prop_map(Value::List),
            any::<u32>().prop_map(Value::Number),
            any::<u64>().prop_map(Value::LongNumber),
            prop::collection::vec(any::<u8>(), 0..60).prop_map(Value::Bytes),
        ]
    }

    proptest! {
        #[test]
        fn every_hive_comes_back(entries in prop::collection::vec((prop::collection::vec(name(), 1..4), name(), value()), 0..8)) {
            let mut hive = Hive::default();
            for (path, name, value) in entries {
                hive.make(&format!(r"HKLM\{}", path.join("\\"))).set(&name, value);
            }
            let mut read = Hive::default();
            import(&export(&hive), &mut read).unwrap();
            prop_assert_eq!(read, hive);
        }

        #[test]
        fn no_file_makes_it_panic(text in any::<String>()) {
            let _ = import(&format!("{HEADER}\n[HKLM]\n{text}"), &mut Hive::default());
        }
    }
}
