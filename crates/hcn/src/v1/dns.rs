//! DNS lists: v1 writes them as one text with commas.

/// The elements of a text with commas. Blanks around them do not count.
pub(super) fn split(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|element| !element.is_empty()).map(str::to_owned).collect()
}

/// Takes a list as text. A list that the text cannot carry, such as one with a comma in an element, also stays.
pub(super) fn lower(list: &mut Vec<String>) -> String {
    let text = list.join(",");
    if split(&text) == *list {
        list.clear();
    }
    text
}

/// Fills a list from its text, unless the list itself was given.
pub(super) fn raise(text: &str, list: &mut Vec<String>) {
    if list.is_empty() {
        *list = split(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let table: [(&[&str], &str, usize); 4] =
            [(&[], "", 0), (&["a.local"], "a.local", 0), (&["10.0.0.1", "10.0.0.2"], "10.0.0.1,10.0.0.2", 0), (&["a,b"], "a,b", 1)];
        for (list, text, rest) in table {
            let list: Vec<String> = list.iter().map(|element| (*element).to_owned()).collect();
            let mut left = list.clone();
            assert_eq!(lower(&mut left), text);
            assert_eq!(left.len(), rest, "{text}");
            raise(text, &mut left);
            assert_eq!(left, list);
        }
    }

    #[test]
    fn blanks_do_not_count() {
        assert_eq!(split(" a , ,b,"), ["a", "b"]);
    }
}
