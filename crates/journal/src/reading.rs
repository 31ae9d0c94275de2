//! Reading a file: whole frames count, a cut-off end is dropped, and damage is never touched.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use crate::error::doing;
use crate::frame::{HEAD_LENGTH, HEADER_LENGTH, Head};
use crate::{Content, Format, JournalError, Result};

/// Reads the content of a file. Only a frame that a crash has cut off at the end is cut away.
pub(crate) fn read_file<C: Content>(path: &Path) -> Result<(File, u64, C)> {
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(doing(format!("open {}", path.display())))?;
    let total = file.metadata().map_err(doing(format!("open {}", path.display())))?.len();
    let mut content = C::empty();
    let sound = read_frames(&file, total, path, &mut content)?;
    if sound < total {
        tracing::info!(bytes = total - sound, "the last change was cut off by a crash and never acknowledged; it is dropped");
        file.set_len(sound).and_then(|()| file.sync_all()).map_err(doing(format!("cut {}", path.display())))?;
    }
    Ok((file, sound, content))
}

/// Applies all whole frames and returns where they end.
fn read_frames<C: Content>(file: &File, total: u64, path: &Path, content: &mut C) -> Result<u64> {
    let unreadable = |cause: String| JournalError::Unreadable { path: path.to_owned(), cause };
    let read_failed = |error: io::Error| JournalError::Io { doing: format!("read {}", path.display()), error };
    let mut reader = BufReader::with_capacity(1 << 18, file);
    check_header(&mut reader, total, path, C::FORMAT)?;
    let mut at = HEADER_LENGTH as u64;
    let mut payload = Vec::new();
    while at < total {
        if total - at < HEAD_LENGTH as u64 {
            return Ok(at);
        }
        let mut head = [0; HEAD_LENGTH];
        reader.read_exact(&mut head).map_err(read_failed)?;
        let Some(head) = Head::read(&head) else {
            if head == [0; HEAD_LENGTH] && is_blank(&mut reader).map_err(read_failed)? {
                return Ok(at);
            }
            return Err(unreadable(format!("the frame at byte {at} is damaged")));
        };
        let end = at + HEAD_LENGTH as u64 + u64::from(head.length);
        if end > total {
            return Ok(at);
        }
        payload.resize(head.length as usize, 0);
        reader.read_exact(&mut payload).map_err(read_failed)?;
        if crc32fast::hash(&payload) != head.sum {
            return Err(unreadable(format!("the frame at byte {at} is damaged")));
        }
        content.apply(&payload).map_err(|cause| unreadable(format!("the frame at byte {at} has {cause}")))?;
        at = end;
    }
    Ok(at)
}

/// Whether nothing but zeros follows: room that the file system gave to a write which a loss of power then cut off.
fn is_blank(reader: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let bytes = reader.fill_buf()?;
        if bytes.is_empty() {
            return Ok(true);
        }
        if bytes.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        let length = bytes.len();
        reader.consume(length);
    }
}

fn check_header(reader: &mut impl Read, total: u64, path: &Path, known: Format) -> Result<()> {
    let unreadable = |cause: String| JournalError::Unreadable { path: path.to_owned(), cause };
    if total < HEADER_LENGTH as u64 {
        return Err(unreadable("it is too short to be a state file".into()));
    }
    let mut header = [0; HEADER_LENGTH];
    reader.read_exact(&mut header).map_err(doing(format!("read {}", path.display())))?;
    let [.., a, b, c, d] = header;
    match u32::from_le_bytes([a, b, c, d]) {
        _ if !header.starts_with(known.magic) => Err(unreadable(format!("it is no state file of {}", known.owner))),
        0 => Err(unreadable("it has no format number".into())),
        format if format == known.number => Ok(()),
        format => Err(JournalError::Newer { path: path.to_owned(), format, known: known.number }),
    }
}
