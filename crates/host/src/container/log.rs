//! The log of a container: a line for a line, in the format that Kubernetes reads.
//!
//! `2026-01-31T10:00:00.123456789Z stdout F text`: when, which stream, full line or part of one, and the line itself.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::Mode;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// How large a log grows if nothing is said; it is what the kubelet does.
const DEFAULT_LIMIT: u64 = 10 << 20;

/// A line longer than this is written in parts, as other runtimes do.
pub(super) const LINE_LIMIT: usize = 16 << 10;

/// A log and its size. The directory is held open, since the container may not be able to write to it by its name.
#[derive(Debug)]
pub(super) struct Log {
    directory: OwnedFd,
    name: String,
    file: File,
    size: u64,
    limit: u64,
}

impl Log {
    /// Opens a log, and goes on where it ends.
    pub(super) fn open(directory: OwnedFd, name: String, limit: u64) -> io::Result<Self> {
        let file = open(&directory, &name)?;
        let size = file.metadata()?.len();
        Ok(Self { directory, name, file, size, limit: if limit == 0 { DEFAULT_LIMIT } else { limit } })
    }

    /// Writes a line, or a part of one. A disk that is full costs the line and nothing else.
    pub(super) fn write(&mut self, stream: &str, is_whole: bool, line: &[u8]) {
        let _ = self.try_write(stream, is_whole, line);
    }

    fn try_write(&mut self, stream: &str, is_whole: bool, line: &[u8]) -> io::Result<()> {
        let now = OffsetDateTime::now_utc().format(&Rfc3339).map_err(io::Error::other)?;
        let tag = if is_whole { "F" } else { "P" };
        let mut entry = format!("{now} {stream} {tag} ").into_bytes();
        entry.extend_from_slice(line);
        entry.push(b'\n');
        if self.size > 0 && self.size + entry.len() as u64 > self.limit {
            self.turn_over()?;
        }
        self.file.write_all(&entry)?;
        self.size += entry.len() as u64;
        Ok(())
    }

    fn turn_over(&mut self) -> io::Result<()> {
        renameat(&self.directory, self.name.as_str(), &self.directory, format!("{}.1", self.name).as_str())?;
        self.file = open(&self.directory, &self.name)?;
        self.size = 0;
        Ok(())
    }
}

fn open(directory: &OwnedFd, name: &str) -> io::Result<File> {
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_APPEND | OFlag::O_CLOEXEC;
    Ok(openat(directory, name, flags, Mode::from_bits_truncate(0o640))?.into())
}

/// What one process writes to one stream, cut into lines.
#[derive(Debug)]
pub(super) struct Lines {
    stream: &'static str,
    rest: Vec<u8>,
}

impl Lines {
    /// A stream of this name.
    pub(super) fn new(stream: &'static str) -> Self {
        Self { stream, rest: Vec::new() }
    }

    /// Takes what was written, and logs the lines that are whole.
    pub(super) fn take(&mut self, bytes: &[u8], log: &mut Log) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(piece);
            match self.rest.strip_suffix(b"\n") {
                Some(line) => log.write(self.stream, true, line),
                None if self.rest.len() >= LINE_LIMIT => log.write(self.stream, false, &self.rest),
                None => continue,
            }
            self.rest.clear();
        }
        // A program that is silent again should not keep room for its longest line.
        if self.rest.is_empty() {
            self.rest = Vec::new();
        }
    }

    /// Logs what has no end of line.
    pub(super) fn finish(&mut self, log: &mut Log) {
        if !self.rest.is_empty() {
            log.write(self.stream, true, &self.rest);
            self.rest.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn directory(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("transom-log-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// The entries of a log without their times.
    fn entries(path: &std::path::Path) -> Vec<String> {
        fs::read_to_string(path).unwrap().lines().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
    }

    #[test]
    fn lines_are_cut_and_named() {
        let path = directory("lines");
        let mut log = Log::open(File::open(&path).unwrap().into(), "0.log".into(), 0).unwrap();
        let mut lines = Lines::new("stdout");
        lines.take(b"one\ntw", &mut log);
        lines.take(b"o\n\nrest", &mut log);
        lines.finish(&mut log);
        Lines::new("stderr").take(&[b'x'; LINE_LIMIT], &mut log);
        let part = format!("stderr P {}", "x".repeat(LINE_LIMIT));
        assert_eq!(entries(&path.join("0.log")), ["stdout F one", "stdout F two", "stdout F ", "stdout F rest", &part]);
        let text = fs::read_to_string(path.join("0.log")).unwrap();
        let time = text.split(' ').next().unwrap();
        assert!(OffsetDateTime::parse(time, &Rfc3339).is_ok(), "{time}");
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_log_has_a_limit() {
        let path = directory("limit");
        let mut log = Log::open(File::open(&path).unwrap().into(), "0.log".into(), 100).unwrap();
        for number in 0..3 {
            log.write("stdout", true, format!("{number} {}", "y".repeat(40)).as_bytes());
        }
        assert_eq!(entries(&path.join("0.log")).len(), 1);
        assert_eq!(entries(&path.join("0.log.1")).len(), 1);
        fs::remove_dir_all(path).unwrap();
    }
}
