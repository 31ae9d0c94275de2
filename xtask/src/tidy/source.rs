//! Just enough of Rust's grammar to tell code from comments and strings.

/// A Rust source taken apart. Both texts have the lines and columns of the original, with blanks where the other is.
#[derive(Debug, PartialEq)]
pub(super) struct Source {
    /// The code; of a string only the quotes are left.
    pub(super) code: String,
    /// The comments.
    pub(super) comments: String,
}

/// Where the reader is.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Code,
    LineComment,
    BlockComment { depth: usize },
    Text,
    RawText { hashes: usize },
}

/// Takes a source apart.
pub(super) fn read(text: &str) -> Source {
    let characters: Vec<char> = text.chars().collect();
    let mut source = Source { code: String::with_capacity(text.len()), comments: String::with_capacity(text.len()) };
    let mut state = State::Code;
    let mut at = 0;
    while at < characters.len() {
        let rest = &characters[at..];
        let (next, length) = step(state, rest, at.checked_sub(1).map(|before| characters[before]));
        let in_comment = |state| matches!(state, State::LineComment | State::BlockComment { .. });
        for &character in &rest[..length] {
            let (code, comment) = match character {
                '\n' => ('\n', '\n'),
                _ if in_comment(state) || in_comment(next) => (' ', character),
                '"' if state != next => ('"', ' '),
                _ if state == State::Code && next == State::Code => (code_character(character, length), ' '),
                _ => (' ', ' '),
            };
            source.code.push(code);
            source.comments.push(comment);
        }
        at += length;
        state = next;
    }
    source
}

/// Character literals are read in one piece, longer than any other piece of code, and are no code to us.
fn code_character(character: char, length: usize) -> char {
    if length > 1 { ' ' } else { character }
}

/// The state after the next piece, and how long that piece is.
fn step(state: State, rest: &[char], before: Option<char>) -> (State, usize) {
    match (state, rest) {
        (State::Code, ['/', '/', ..]) => (State::LineComment, 2),
        (State::Code, ['/', '*', ..]) => (State::BlockComment { depth: 1 }, 2),
        (State::Code, ['"', ..]) => (State::Text, 1),
        (State::Code, ['r', ..]) if !before.is_some_and(|before| is_name(before) && before != 'b' && before != 'c') => raw_start(rest),
        (State::Code, ['\'', ..]) => (State::Code, character_literal(rest)),
        (State::LineComment, ['\n', ..]) => (State::Code, 1),
        (State::BlockComment { depth }, ['/', '*', ..]) => (State::BlockComment { depth: depth + 1 }, 2),
        (State::BlockComment { depth: 1 }, ['*', '/', ..]) => (State::Code, 2),
        (State::BlockComment { depth }, ['*', '/', ..]) => (State::BlockComment { depth: depth - 1 }, 2),
        (State::Text, ['\\', _, ..]) => (State::Text, 2),
        (State::Text, ['"', ..]) => (State::Code, 1),
        (State::RawText { hashes }, ['"', ..]) if hashes_at(&rest[1..]) >= hashes => (State::Code, 1 + hashes),
        (state, _) => (state, 1),
    }
}

/// A raw string if one begins here: `r"` or `r#"`; else the letter.
fn raw_start(rest: &[char]) -> (State, usize) {
    let hashes = hashes_at(&rest[1..]);
    match rest.get(1 + hashes) {
        Some('"') => (State::RawText { hashes }, 2 + hashes),
        _ => (State::Code, 1),
    }
}

fn hashes_at(rest: &[char]) -> usize {
    rest.iter().take_while(|character| **character == '#').count()
}

/// The length of a character literal; of a lifetime only its quote counts.
fn character_literal(rest: &[char]) -> usize {
    match rest {
        ['\'', '\\', _, tail @ ..] => tail.iter().position(|character| *character == '\'').map_or(1, |end| 4 + end),
        ['\'', _, '\'', ..] => 3,
        _ => 1,
    }
}

/// Whether a character can stand in a name.
pub(super) fn is_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Where a word stands in code as a word of its own, as byte offsets.
pub(super) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = code[..*at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_name) && !after.is_some_and(is_name)
    })
}

/// The number of the line that a byte offset is on, from 1.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

/// Where the brace that opens at `open` closes, as a byte offset.
pub(super) fn closing_brace(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, character) in code[open..].char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 1 => return Some(open + at),
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        read(text).code
    }

    #[test]
    fn comments_and_strings_are_no_code() {
        assert_eq!(code("a // b\nc"), "a     \nc");
        assert_eq!(code("a /* b /* c */ d */ e"), "a                   e");
        assert_eq!(code(r#"f("x \" {", y)"#), r#"f("      ", y)"#);
        assert_eq!(code(r###"r#"a " {"# b"###), r###"  "     "  b"###);
        assert_eq!(read("a // b").comments, "  // b");
    }

    #[test]
    fn characters_and_lifetimes() {
        assert_eq!(code("'{' x"), "    x");
        assert_eq!(code(r"'\'' '\u{7f}' x"), "              x");
        assert_eq!(code("&'a str"), "&'a str");
        assert_eq!(code("bar\"x\""), "bar\" \"");
    }

    #[test]
    fn lines_stay_where_they_are() {
        let text = "one\n\"two\n{\"\n// three\nfour";
        let code = code(text);
        assert_eq!(code.lines().count(), 5);
        assert_eq!(line_of(&code, words(&code, "four").next().unwrap()), 5);
    }

    #[test]
    fn words_are_whole_words() {
        assert_eq!(words("unsafe unsafety un_unsafe", "unsafe").collect::<Vec<_>>(), [0]);
        assert_eq!(closing_brace("{ { } } }", 0), Some(6));
    }
}
