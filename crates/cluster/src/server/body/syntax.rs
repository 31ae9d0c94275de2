//! What is wrong with a text that should be JSON, in the words of the original, which clients show to people.

/// The first mistake of a text; none if it is JSON.
pub(super) fn mistake(text: &[u8]) -> Option<String> {
    let mut scanner = Scanner { text, at: 0 };
    let read = scanner.value(0).and_then(|()| match scanner.peek() {
        None => Ok(()),
        Some(_) => scanner.unexpected("after top-level value"),
    });
    read.err()
}

/// The beginning of a body, as messages show it: objects as they are, anything else in hexadecimal digits.
pub(super) fn summary(body: &[u8]) -> String {
    const LONGEST: usize = 512;
    let (shown, more) = match body.get(..LONGEST) {
        Some(shown) if body.len() > LONGEST => (shown, " ..."),
        _ => (body, ""),
    };
    let shown = match shown.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(shown).into_owned(),
        Some(_) => shown.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    shown + more
}

/// Values inside of values, at most; deeper ones are left to the reader of documents, which refuses them too.
const DEEPEST: usize = 200;

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

type Scanned = Result<(), String>;

impl Scanner<'_> {
    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn unexpected(&self, place: &str) -> Scanned {
        let Some(byte) = self.text.get(self.at) else { return Err("unexpected end of JSON input".into()) };
        let shown = match byte {
            b'\'' => "\\'".to_owned(),
            b'"' => "\"".to_owned(),
            byte => (*byte as char).escape_default().to_string(),
        };
        Err(format!("invalid character '{shown}' {place}"))
    }

    fn value(&mut self, depth: usize) -> Scanned {
        match self.peek() {
            Some(_) if depth > DEEPEST => Err("exceeded max depth".into()),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string(),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.unexpected("looking for beginning of value"),
        }
    }

    fn object(&mut self, depth: usize) -> Scanned {
        self.at += 1;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            match self.peek() {
                Some(b'"') => self.string()?,
                _ => return self.unexpected("looking for beginning of object key string"),
            }
            match self.peek() {
                Some(b':') => self.at += 1,
                _ => return self.unexpected("after object key"),
            }
            self.value(depth + 1)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return self.unexpected("after object key:value pair"),
            }
        }
        self.at += 1;
        Ok(())
    }

    fn array(&mut self, depth: usize) -> Scanned {
        self.at += 1;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value(depth + 1)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return self.unexpected("after array element"),
            }
        }
        self.at += 1;
        Ok(())
    }

    fn string(&mut self) -> Scanned {
        self.at += 1;
        loop {
            match self.text.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(0x20..) => self.at += 1,
                _ => return self.unexpected("in string literal"),
            }
        }
        self.at += 1;
        Ok(())
    }

    fn escape(&mut self) -> Scanned {
        self.at += 1;
        match self.text.get(self.at) {
            Some(b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => self.at += 1,
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    match self.text.get(self.at).is_some_and(u8::is_ascii_hexdigit) {
                        true => self.at += 1,
                        false => return self.unexpected("in \\u hexadecimal character escape"),
                    }
                }
            }
            _ => return self.unexpected("in string escape code"),
        }
        Ok(())
    }

    fn literal(&mut self, word: &str) -> Scanned {
        for expected in word.bytes() {
            match self.text.get(self.at) == Some(&expected) {
                true => self.at += 1,
                false => return self.unexpected(&format!("in literal {word} (expecting '{}')", expected as char)),
            }
        }
        Ok(())
    }

    fn number(&mut self) -> Scanned {
        if self.text.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        match self.text.get(self.at) {
            // A number does not go on after a zero in front.
            Some(b'0') => self.at += 1,
            _ => self.digits("in numeric literal")?,
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.text.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.text.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn digits(&mut self, place: &str) -> Scanned {
        if !self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            return self.unexpected(place);
        }
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_read_as_the_original_says_them() {
        for (text, expected) in [
            (r#"{"a": [1, -2.5e3, true, null, "\u00e9\n"], "b": {}}"#, None),
            ("", Some("unexpected end of JSON input")),
            (r#"{"a"}"#, Some("invalid character '}' after object key")),
            (r#"{"a":1 "b"}"#, Some("invalid character '\"' after object key:value pair")),
            ("[1 2]", Some("invalid character '2' after array element")),
            ("01", Some("invalid character '1' after top-level value")),
            ("nil", Some("invalid character 'i' in literal null (expecting 'u')")),
            ("'", Some("invalid character '\\'' looking for beginning of value")),
            (r#""\x""#, Some("invalid character 'x' in string escape code")),
            ("{}\n{}", Some("invalid character '{' after top-level value")),
        ] {
            assert_eq!(mistake(text.as_bytes()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn summaries_are_short() {
        assert_eq!((summary(b"").as_str(), summary(b"[]").as_str(), summary(b"{x").as_str()), ("<empty>", "5b5d", "{x"));
        assert_eq!(summary(&[b'{'; 600]).len(), 516);
    }
}
