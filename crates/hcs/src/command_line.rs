//! One line of a Windows command as its arguments.
//!
//! On Windows a program gets one line and divides it itself. Nearly all do it by the rules of `CommandLineToArgvW`, and these
//! are they.

/// Divides a line into the program and its arguments.
pub fn split(line: &str) -> Vec<String> {
    let line = line.trim_start_matches(BLANKS);
    if line.is_empty() {
        return Vec::new();
    }
    let (program, mut rest) = split_program(line);
    let mut arguments = vec![program];
    loop {
        rest = rest.trim_start_matches(BLANKS);
        if rest.is_empty() {
            return arguments;
        }
        let argument;
        (argument, rest) = split_argument(rest);
        arguments.push(argument);
    }
}

const BLANKS: [char; 2] = [' ', '\t'];

/// The program has rules of its own: quotes only, since its path is full of backslashes.
fn split_program(line: &str) -> (String, &str) {
    let (program, rest) = match line.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
        None => line.split_at(line.find(BLANKS).unwrap_or(line.len())),
    };
    (program.to_owned(), rest)
}

/// Backslashes are themselves, unless a quote follows: then two are one, and one that is left over makes the quote a character.
fn split_argument(line: &str) -> (String, &str) {
    let (mut argument, mut is_quoted) = (String::new(), false);
    let mut rest = line;
    loop {
        let after = rest.trim_start_matches('\\');
        let slashes = rest.len() - after.len();
        match after.chars().next() {
            Some('"') => {
                argument.extend(std::iter::repeat_n('\\', slashes / 2));
                rest = &after[1..];
                match (slashes % 2, is_quoted && rest.starts_with('"')) {
                    (1, _) => argument.push('"'),
                    // Two quotes inside quotes are one, and the quotes go on.
                    (_, true) => {
                        argument.push('"');
                        rest = &rest[1..];
                    }
                    (_, false) => is_quoted = !is_quoted,
                }
            }
            Some(character) if is_quoted || !BLANKS.contains(&character) => {
                argument.extend(std::iter::repeat_n('\\', slashes));
                argument.push(character);
                rest = &after[character.len_utf8()..];
            }
            _ => {
                argument.extend(std::iter::repeat_n('\\', slashes));
                return (argument, after);
            }
        }
    }
}

/// Joins arguments to a line that divides into the same arguments again.
pub fn join<S: AsRef<str>>(arguments: &[S]) -> String {
    arguments.iter().map(|argument| quote(argument.as_ref())).collect::<Vec<_>>().join(" ")
}

fn quote(argument: &str) -> String {
    if !argument.is_empty() && !argument.contains([' ', '\t', '"']) {
        return argument.to_owned();
    }
    let (mut quoted, mut slashes) = (String::from('"'), 0);
    for character in argument.chars() {
        match character {
            '\\' => slashes += 1,
            '"' => {
                quoted.extend(std::iter::repeat_n('\\', slashes + 1));
                slashes = 0;
            }
            _ => slashes = 0,
        }
        quoted.push(character);
    }
    quoted.extend(std::iter::repeat_n('\\', slashes));
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_divide_as_on_windows() {
        let cases: [(&str, &[&str]); 9] = [
            ("", &[]),
            ("  cmd", &["cmd"]),
            (r#""C:\Program Files\a.exe" b"#, &[r"C:\Program Files\a.exe", "b"]),
            (r"C:\a\ b\ c", &[r"C:\a\", r"b\", "c"]),
            (r#"x "a b" c"#, &["x", "a b", "c"]),
            (r#"x a\"b"#, &["x", r#"a"b"#]),
            (r#"x a\\"b c""#, &["x", r"a\b c"]),
            (r#"x "a""b""#, &["x", r#"a"b"#]),
            (r#"x """#, &["x", ""]),
        ];
        for (line, arguments) in cases {
            assert_eq!(split(line), arguments, "{line}");
        }
    }

    proptest! {
        #[test]
        fn what_is_joined_divides_again(arguments in prop::collection::vec(r#"[ab\\" \t]{0,8}"#, 1..5)) {
            let mut arguments = arguments;
            // A path has no quotes, and the program's rules know no other way.
            arguments[0] = "program".to_owned();
            prop_assert_eq!(split(&join(&arguments)), arguments);
        }
    }
}
