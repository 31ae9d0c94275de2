//! The difference between two texts, in the unified form: what goes, what comes, and three lines around it.

use std::fmt::Write as _;
use std::ops::Range;

const CONTEXT: usize = 3;

/// The most lines that are compared one by one; beyond that everything between the first and the last change counts as changed.
const MOST_COMPARED: usize = 2000;

/// A stretch of lines that was replaced.
#[derive(Clone, Debug, PartialEq)]
struct Change {
    old: Range<usize>,
    new: Range<usize>,
}

/// The difference, empty if there is none.
pub(crate) fn unified(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let mut text = String::new();
    for hunk in hunks(&changes(&old, &new)) {
        write_hunk(hunk, &old, &new, &mut text);
    }
    text
}

fn changes(old: &[&str], new: &[&str]) -> Vec<Change> {
    let start = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let end = old[start..].iter().rev().zip(new[start..].iter().rev()).take_while(|(old, new)| old == new).count();
    let (old_end, new_end) = (old.len() - end, new.len() - end);
    if start == old_end && start == new_end {
        return Vec::new();
    }
    if old_end.max(new_end) - start > MOST_COMPARED {
        return vec![Change { old: start..old_end, new: start..new_end }];
    }
    compare(&old[start..old_end], &new[start..new_end], start)
}

/// The changes between what has the longest common lines.
fn compare(old: &[&str], new: &[&str], offset: usize) -> Vec<Change> {
    let width = new.len() + 1;
    let mut common = vec![0u16; (old.len() + 1) * width];
    for (i, line) in old.iter().enumerate().rev() {
        for (j, other) in new.iter().enumerate().rev() {
            common[i * width + j] = match line == other {
                true => common[(i + 1) * width + j + 1] + 1,
                false => common[(i + 1) * width + j].max(common[i * width + j + 1]),
            };
        }
    }
    let (mut changes, mut i, mut j) = (Vec::new(), 0, 0);
    while i < old.len() || j < new.len() {
        let (from, to) = (i, j);
        while (i < old.len() || j < new.len()) && !(i < old.len() && j < new.len() && old[i] == new[j]) {
            match i < old.len() && (j == new.len() || common[(i + 1) * width + j] >= common[i * width + j + 1]) {
                true => i += 1,
                false => j += 1,
            }
        }
        if (from, to) != (i, j) {
            changes.push(Change { old: from + offset..i + offset, new: to + offset..j + offset });
        }
        while i < old.len() && j < new.len() && old[i] == new[j] {
            (i, j) = (i + 1, j + 1);
        }
    }
    changes
}

/// Changes that are so near to each other that their surroundings touch.
fn hunks(changes: &[Change]) -> impl Iterator<Item = &[Change]> {
    changes.chunk_by(|first, next| next.old.start - first.old.end <= 2 * CONTEXT)
}

fn write_hunk(changes: &[Change], old: &[&str], new: &[&str], text: &mut String) {
    let (Some(first), Some(last)) = (changes.first(), changes.last()) else { return };
    let before = first.old.start.min(CONTEXT);
    let after = (old.len() - last.old.end).min(CONTEXT);
    let old_range = first.old.start - before..last.old.end + after;
    let new_range = first.new.start - before..last.new.end + after;
    let _ = writeln!(text, "@@ -{} +{} @@", place(&old_range), place(&new_range));
    let mut at = old_range.start;
    for change in changes {
        write_lines(' ', &old[at..change.old.start], text);
        write_lines('-', &old[change.old.clone()], text);
        write_lines('+', &new[change.new.clone()], text);
        at = change.old.end;
    }
    write_lines(' ', &old[at..old_range.end], text);
}

fn write_lines(sign: char, lines: &[&str], text: &mut String) {
    for line in lines {
        let _ = writeln!(text, "{sign}{line}");
    }
}

fn place(range: &Range<usize>) -> String {
    match range.len() {
        0 => format!("{},0", range.start),
        1 => (range.start + 1).to_string(),
        length => format!("{},{length}", range.start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_shown_with_its_surroundings() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16";
        let new = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n10\n11\n12\n13\n14\n16";
        let expected = "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n@@ -12,5 +12,4 @@\n 12\n 13\n 14\n-15\n 16\n";
        assert_eq!(unified(old, new), expected);
        assert_eq!(unified(old, old), "");
        assert_eq!(unified("a\nb\nc", "b\nc\nd"), "@@ -1,3 +1,3 @@\n-a\n b\n c\n+d\n");
        assert_eq!(unified("", "a"), "@@ -0,0 +1 @@\n+a\n");
    }
}
