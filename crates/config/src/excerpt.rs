//! The line of a file that a problem is in, and which part of it to mark.
//!
//! Terminals draw some characters wide and some not at all, and obey others. So characters are
//! replaced where they would move the marks away from what they mark, or hide what was typed.

use std::ops::Range;

/// A line, and where in it the marks go.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Excerpt {
    /// From 1.
    pub(crate) line: usize,
    /// In characters, from 1.
    pub(crate) column: usize,
    /// The line, or what is around the place in a long one.
    pub(crate) shown: String,
    /// How far from the start of `shown` the marks begin, in a terminal's columns.
    pub(crate) marks_from: usize,
    /// At least one.
    pub(crate) marks: usize,
}

impl Excerpt {
    /// The first line of a place in a file, which need not be valid UTF-8.
    pub(crate) fn of(text: &[u8], place: Range<usize>) -> Excerpt {
        let start = place.start.min(text.len());
        let (before, after) = text.split_at(start);
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let line = before.split(|byte| *byte == b'\n').count();
        let line_left = after.iter().position(|byte| *byte == b'\n').unwrap_or(after.len());
        let (head, tail) = (before.get(line_start..), after.get(..line_left));
        let (head, tail) = (head.unwrap_or_default(), tail.unwrap_or_default());
        let tail = tail.strip_suffix(b"\r").unwrap_or(tail);
        let (marked, tail) = tail.split_at(place.end.saturating_sub(start).min(tail.len()));
        let head = String::from_utf8_lossy(head);
        // The byte order mark is no column.
        let head = if line == 1 { head.trim_start_matches('\u{feff}') } else { &head };
        Excerpt::cut(line, head, &String::from_utf8_lossy(marked), &String::from_utf8_lossy(tail))
    }

    fn cut(line: usize, head: &str, marked: &str, tail: &str) -> Excerpt {
        let column = head.chars().count() + 1;
        let mut before = drawn(head.chars().skip(column.saturating_sub(BEFORE_MAX + 1)));
        if BEFORE_MAX + 1 < column {
            before.insert_str(0, "...");
        }
        let within = drawn(marked.chars().take(WITHIN_MAX));
        let room = match WITHIN_MAX.checked_sub(marked.chars().count()) {
            Some(unused) => unused + AFTER_MIN,
            None => 0,
        };
        let mut after = drawn(tail.chars().take(room));
        if room == 0 || tail.chars().nth(room).is_some() {
            after.push_str("...");
        }
        Excerpt {
            line,
            column,
            marks_from: width(&before),
            marks: width(&within).max(1),
            shown: format!("{before}{within}{after}"),
        }
    }
}

/// The characters as they are drawn.
pub(crate) fn drawn(characters: impl Iterator<Item = char>) -> String {
    let mut line = String::new();
    for character in characters {
        match character {
            '\t' => line.push_str("    "),
            _ if is_unseen(character) => line.push(char::REPLACEMENT_CHARACTER),
            _ => line.push(character),
        }
    }
    line
}

/// Whether a terminal would obey or hide a character, or turn the line around.
fn is_unseen(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// The columns of a terminal that text takes.
fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

fn columns(character: char) -> usize {
    match character {
        // Accents that are drawn over the character before them.
        '\u{300}'..='\u{36f}'
        | '\u{1ab0}'..='\u{1aff}'
        | '\u{20d0}'..='\u{20ff}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{fe20}'..='\u{fe2f}' => 0,
        // East Asian scripts and pictures.
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{303e}'
        | '\u{3041}'..='\u{a4cf}'
        | '\u{a960}'..='\u{a97f}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1f64f}'
        | '\u{1f680}'..='\u{1f6ff}'
        | '\u{1f900}'..='\u{1f9ff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

/// The most characters that are shown before, within and after a place.
const BEFORE_MAX: usize = 60;
const WITHIN_MAX: usize = 60;
const AFTER_MIN: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// `marked` has `^` under what is marked.
    #[track_caller]
    fn check(text: &[u8], place: Range<usize>, at: (usize, usize), shown: &str, marks: &str) {
        let excerpt = Excerpt::of(text, place);
        assert_eq!((excerpt.line, excerpt.column), at);
        assert_eq!(excerpt.shown, shown);
        let drawn = " ".repeat(excerpt.marks_from) + &"^".repeat(excerpt.marks);
        assert_eq!(drawn, marks);
    }

    #[test]
    fn columns_are_characters_and_marks_are_where_they_are_drawn() {
        check("ä: ö\n".as_bytes(), 4..6, (1, 4), "ä: ö", "   ^");
        check("界: x\n".as_bytes(), 5..6, (1, 4), "界: x", "    ^");
        check("\t\tx: 1".as_bytes(), 2..3, (1, 3), "        x: 1", "        ^");
        check("e\u{301}: x".as_bytes(), 5..6, (1, 5), "e\u{301}: x", "   ^");
        check("😀😀".as_bytes(), 4..8, (1, 2), "😀😀", "  ^^");
    }

    #[test]
    fn what_a_terminal_would_obey_is_replaced() {
        check(b"a\x1b[31mb", 6..7, (1, 7), "a\u{fffd}[31mb", "      ^");
        check("a\u{202e}b".as_bytes(), 4..5, (1, 3), "a\u{fffd}b", "  ^");
        check(b"a\0b\rc", 4..5, (1, 5), "a\u{fffd}b\u{fffd}c", "    ^");
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_and_marked() {
        check(b"ok\nab\xff\xfecd", 5..6, (2, 3), "ab\u{fffd}\u{fffd}cd", "  ^");
    }

    #[test]
    fn a_byte_order_mark_is_no_column() {
        check("\u{feff}ab".as_bytes(), 4..5, (1, 2), "ab", " ^");
    }

    #[test]
    fn the_end_of_a_line_and_of_the_file_can_be_marked() {
        check(b"ab\r\ncd", 2..2, (1, 3), "ab", "  ^");
        check(b"ab\ncd", 5..5, (2, 3), "cd", "  ^");
        check(b"ab\n", 3..3, (2, 1), "", "^");
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let long = format!("{}bad{}", "x".repeat(5000), "y".repeat(5000));
        let shown = format!("...{}bad{}...", "x".repeat(60), "y".repeat(77));
        check(long.as_bytes(), 5000..5003, (1, 5001), &shown, &format!("{}^^^", " ".repeat(63)));
        let shown = format!("{}...", "x".repeat(60));
        check(long.as_bytes(), 0..9000, (1, 1), &shown, &"^".repeat(60));
        check(long.as_bytes(), 0..long.len(), (1, 1), &shown, &"^".repeat(60));
        // Just short enough.
        let line = format!("{}{}{}", "x".repeat(60), "y".repeat(60), "z".repeat(20));
        let marks = " ".repeat(60) + &"^".repeat(60);
        check(line.as_bytes(), 60..120, (1, 61), &line, &marks);
    }
}
