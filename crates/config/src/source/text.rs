//! The text of one file: places in it, and the bounds that hold in every format.
//!
//! Parsers count bytes from behind the byte order mark; places count them from the file's start.

use std::ops::Range;

use super::{DEPTH_MAX, Entry, FILE_BYTES_MAX, Format, NODES_MAX};
use crate::problem::{Problem, Span};

#[derive(Debug)]
pub(super) struct Text<'t> {
    /// Without a byte order mark.
    pub(super) body: &'t str,
    file: u16,
    /// Bytes of the byte order mark.
    skipped: usize,
    values: usize,
}

impl<'t> Text<'t> {
    pub(super) fn of(file: u16, bytes: &'t [u8]) -> Result<Text<'t>, Problem> {
        let mut text = Text { body: "", file, skipped: 0, values: 0 };
        if FILE_BYTES_MAX < bytes.len() {
            let message = format!(
                "the file has `{}` bytes, but at most `{FILE_BYTES_MAX}` are read",
                bytes.len()
            );
            return Err(text.error(0..0, message).help("split it into several files"));
        }
        let unmarked = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        text.skipped = bytes.len() - unmarked.len();
        text.body = str::from_utf8(unmarked).map_err(|wrong| {
            let start = wrong.valid_up_to();
            let end = wrong.error_len().map_or(unmarked.len(), |length| start + length);
            let byte = unmarked.get(start).copied().unwrap_or_default();
            text.error(start..end, format!("the byte `0x{byte:02x}` is not part of UTF-8 text"))
                .help("save the file as UTF-8")
        })?;
        Ok(text)
    }

    pub(super) fn span(&self, range: Range<usize>) -> Span {
        let place = |offset: usize| u32::try_from(self.skipped + offset).unwrap_or(u32::MAX);
        Span { file: self.file, start: place(range.start), end: place(range.end) }
    }

    /// Where a place of this file is in the body.
    pub(super) fn range(&self, place: Span) -> Range<usize> {
        let offset = |place: u32| (place as usize).saturating_sub(self.skipped);
        offset(place.start)..offset(place.end)
    }

    pub(super) fn error(&self, range: Range<usize>, message: impl Into<String>) -> Problem {
        Problem::error(self.span(range), message)
    }

    pub(super) fn not_valid(&self, format: Format, range: Range<usize>, why: &str) -> Problem {
        self.error(range, format!("the file is not valid {}: {why}", format.name()))
    }

    pub(super) fn empty(&self) -> Problem {
        self.error(0..0, "the file is empty").help("write at least one field, or remove the file")
    }

    /// Counts values, before they are built.
    pub(super) fn count(&mut self, more: usize, at: Range<usize>) -> Result<(), Problem> {
        self.values = self.values.saturating_add(more);
        if self.values <= NODES_MAX {
            return Ok(());
        }
        Err(self.too_many(at))
    }

    pub(super) fn too_many(&self, at: Range<usize>) -> Problem {
        self.error(at, format!("the file has more than `{NODES_MAX}` values, with what it repeats"))
            .help("split it into several files, or repeat less")
    }

    /// Checks how deep a list or a map is, itself included, before it is built.
    pub(super) fn nest(&self, depth: usize, at: Range<usize>) -> Result<(), Problem> {
        if depth <= DEPTH_MAX { Ok(()) } else { Err(self.too_deep(at)) }
    }

    pub(super) fn too_deep(&self, at: Range<usize>) -> Problem {
        self.error(at, format!("values are nested more than `{DEPTH_MAX}` deep"))
            .help("write it flatter")
    }

    /// Checks that no name stands twice in a map.
    pub(super) fn unique(&self, entries: &[Entry]) -> Result<(), Problem> {
        let mut order: Vec<&Entry> = entries.iter().collect();
        // Stable: entries with one name stay in the order of the file.
        order.sort_by(|a, b| a.name.cmp(&b.name));
        let twice = order.windows(2).filter_map(|pair| match pair {
            [first, second] if first.name == second.name => Some((*first, *second)),
            _ => None,
        });
        match twice.min_by_key(|(_, second)| second.name_at.start) {
            None => Ok(()),
            Some((first, second)) => {
                let line = self.line_of(self.range(first.name_at).start);
                Err(given_twice(second.name_at, &second.name, Some(line)))
            }
        }
    }

    /// The line, from 1, in which a byte is.
    pub(super) fn line_of(&self, offset: usize) -> usize {
        let before = self.body.as_bytes().get(..offset).unwrap_or_default();
        before.split(|byte| *byte == b'\n').count()
    }
}

pub(super) fn given_twice(at: Span, name: &str, first_line: Option<usize>) -> Problem {
    let name = crate::problem::shortened(name);
    let problem = Problem::error(at, format!("the field `{name}` is given twice"));
    match first_line {
        Some(line) => problem.help(format!("the first is in line {line}: keep one of them")),
        None => problem.help("keep one of them"),
    }
}
