//! JSON whose values know where they stand.
//!
//! serde_json says whether a text is JSON at all; the scanner here walks over what it has accepted, and so has nothing to
//! decide but where values begin. It answers with nothing rather than panic should the two ever disagree.

use serde_json::Number;

/// A value and the offset of its first byte.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) at: usize,
    pub(super) value: Located,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Located {
    Null,
    Flag(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Object(Vec<Member>),
}

/// A key, where it stands, and its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Member {
    pub(super) key: String,
    pub(super) at: usize,
    pub(super) node: Node,
}

impl Node {
    /// Reads a text that serde_json accepts.
    pub(super) fn scan(text: &str) -> Option<Self> {
        Scanner { text, at: 0 }.node()
    }

    /// A key of an object, as configurations are read: the exact spelling, else the last in any case.
    pub(super) fn member(&self, key: &str) -> Option<&Member> {
        let members = self.members();
        let exact = members.iter().rev().find(|member| member.key == key);
        exact.or_else(|| members.iter().rev().find(|member| member.key.eq_ignore_ascii_case(key)))
    }

    /// The value of a key, unless it is `null`.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        self.member(key).map(|member| &member.node).filter(|node| node.value != Located::Null)
    }

    /// The text of a key.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Self::as_text)
    }

    /// Whether a key is true.
    pub(super) fn flag(&self, key: &str) -> bool {
        self.get(key).is_some_and(|node| node.value == Located::Flag(true))
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match &self.value {
            Located::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn as_whole(&self) -> Option<i64> {
        match &self.value {
            Located::Number(number) => number.as_i64(),
            _ => None,
        }
    }

    pub(super) fn is_object(&self) -> bool {
        matches!(self.value, Located::Object(_))
    }

    /// The elements, if it is a list.
    pub(super) fn elements(&self) -> &[Self] {
        match &self.value {
            Located::List(elements) => elements,
            _ => &[],
        }
    }

    /// The members, if it is an object.
    pub(super) fn members(&self) -> &[Member] {
        match &self.value {
            Located::Object(members) => members,
            _ => &[],
        }
    }

    /// What it is, for a message.
    pub(super) fn says(&self) -> String {
        match &self.value {
            Located::Null => "null".to_owned(),
            Located::Flag(flag) => flag.to_string(),
            Located::Number(number) => format!("the number {number}"),
            Located::Text(text) => format!("the string {}", crate::object::quote(text)),
            Located::List(_) => "a list".to_owned(),
            Located::Object(_) => "an object".to_owned(),
        }
    }
}

/// The line and the column of an offset, both from 1. A column is a character.
pub(super) fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl Scanner<'_> {
    fn node(&mut self) -> Option<Node> {
        let first = self.peek()?;
        let at = self.at;
        let value = match first {
            b'{' => self.object()?,
            b'[' => self.list()?,
            b'"' => Located::Text(self.string()?),
            _ => self.word()?,
        };
        Some(Node { at, value })
    }

    fn object(&mut self) -> Option<Located> {
        let mut members = Vec::new();
        self.at += 1;
        while self.peek()? != b'}' {
            let at = self.at;
            let key = self.string()?;
            self.skip(b':')?;
            members.push(Member { key, at, node: self.node()? });
            self.skip_comma()?;
        }
        self.at += 1;
        Some(Located::Object(members))
    }

    fn list(&mut self) -> Option<Located> {
        let mut elements = Vec::new();
        self.at += 1;
        while self.peek()? != b']' {
            elements.push(self.node()?);
            self.skip_comma()?;
        }
        self.at += 1;
        Some(Located::List(elements))
    }

    /// A string, from its quote to its quote.
    fn string(&mut self) -> Option<String> {
        let rest = self.text.get(self.at..)?;
        let mut escaped = false;
        let end = rest.bytes().skip(1).position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        })?;
        let token = rest.get(..end + 2)?;
        self.at += token.len();
        serde_json::from_str(token).ok()
    }

    /// A number, `true`, `false` or `null`.
    fn word(&mut self) -> Option<Located> {
        let rest = self.text.get(self.at..)?;
        let end = rest.find(|character: char| character.is_ascii_whitespace() || ",]}".contains(character)).unwrap_or(rest.len());
        let token = rest.get(..end)?;
        self.at += end;
        match token {
            "null" => Some(Located::Null),
            "true" | "false" => Some(Located::Flag(token == "true")),
            token => serde_json::from_str(token).ok().map(Located::Number),
        }
    }

    /// The next byte that is no blank.
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    fn skip(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn skip_comma(&mut self) -> Option<()> {
        if self.peek()? == b',' {
            self.at += 1;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn to_value(node: &Node) -> Value {
        match &node.value {
            Located::Null => Value::Null,
            Located::Flag(flag) => (*flag).into(),
            Located::Number(number) => number.clone().into(),
            Located::Text(text) => text.as_str().into(),
            Located::List(elements) => elements.iter().map(to_value).collect(),
            Located::Object(members) => Value::Object(members.iter().map(|member| (member.key.clone(), to_value(&member.node))).collect()),
        }
    }

    #[test]
    fn values_know_where_they_stand() {
        let text = "{\n  \"ä\": [1, \"\\\"x\\\\\" ,\n true]\n}";
        let node = Node::scan(text).unwrap();
        assert_eq!(to_value(&node), json!({"ä": [1, "\"x\\", true]}));
        let member = node.member("ä").unwrap();
        assert_eq!(position(text, member.at), (2, 3));
        let places: Vec<_> = member.node.elements().iter().map(|node| position(text, node.at)).collect();
        assert_eq!(places, [(2, 9), (2, 12), (3, 2)]);
        assert_eq!(position(text, 10_000), (4, 2));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,6}".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(".{0,4}", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_serde_reads_is_read_the_same(value in any_json(), pretty: bool) {
            let text = if pretty { format!(" {value:#}\n") } else { value.to_string() };
            let again: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(to_value(&Node::scan(&text).unwrap()), again);
        }

        #[test]
        fn nothing_breaks_the_scanner(text in "[\\[\\]{}\",:\\\\0-9a-z \n]{0,40}|.{0,40}") {
            let scanned = Node::scan(&text);
            prop_assert!(scanned.is_some() || serde_json::from_str::<Value>(&text).is_err());
        }
    }
}
