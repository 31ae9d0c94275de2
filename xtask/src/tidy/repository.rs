//! The text of the repository.

use std::fs;
use std::path::Path;

/// Every text file that a person wrote, by path.
#[derive(Debug, Default)]
pub(super) struct Repository {
    pub(super) files: Vec<File>,
}

/// A file: its path from the root, with `/` between names, and its text.
#[derive(Debug)]
pub(super) struct File {
    pub(super) path: String,
    pub(super) text: String,
}

/// Directories and files that no person wrote.
const SKIPPED: &[&str] = &["target", "dist", ".git", "Cargo.lock", "go.sum", "LICENSE"];

impl Repository {
    /// Reads everything below a directory.
    pub(super) fn read(root: &Path) -> Result<Self, String> {
        let mut repository = Self::default();
        repository.read_directory(root, "")?;
        repository.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(repository)
    }

    /// A repository with these files, for tests of rules.
    #[cfg(test)]
    pub(super) fn with(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| File { path: (*path).to_owned(), text: (*text).to_owned() };
        Self { files: files.iter().map(file).collect() }
    }

    /// The files whose names end in one of these.
    pub(super) fn ending<'a>(&'a self, endings: &'a [&'a str]) -> impl Iterator<Item = &'a File> {
        self.files.iter().filter(|file| endings.iter().any(|ending| file.path.ends_with(ending)))
    }

    /// The file with this path.
    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    fn read_directory(&mut self, directory: &Path, prefix: &str) -> Result<(), String> {
        let cannot = |error: std::io::Error| format!("cannot read {}: {error}", directory.display());
        for entry in fs::read_dir(directory).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            if SKIPPED.contains(&name.as_str()) {
                continue;
            }
            let kind = entry.file_type().map_err(cannot)?;
            if kind.is_dir() {
                self.read_directory(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file() {
                // What is no UTF-8 is no text, and so nothing for these rules.
                if let Ok(text) = String::from_utf8(fs::read(entry.path()).map_err(cannot)?) {
                    self.files.push(File { path, text });
                }
            }
        }
        Ok(())
    }
}

impl File {
    /// The lines with their numbers, from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        numbered(&self.text)
    }
}

/// Lines with their numbers, from 1.
pub(super) fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}
