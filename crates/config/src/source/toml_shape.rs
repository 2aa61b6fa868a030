//! Bounds a TOML file before it is parsed.
//!
//! The parser builds everything that a file holds before it can be asked how much that is: a
//! hostile one of 16 MiB would take gigabytes. So its pieces are counted here, without building
//! any. Whether the file is right is left to the parser.

use super::text::Text;
use super::{DEPTH_MAX, NODES_MAX};
use crate::problem::Problem;

pub(super) fn check(text: &Text<'_>) -> Result<(), Problem> {
    let mut shape = Shape::default();
    let mut rest = text.body.as_bytes();
    while let Some(first) = rest.first() {
        let offset = text.body.len() - rest.len();
        shape.add(*first);
        if DEPTH_MAX < shape.depth + shape.dots {
            return Err(text.too_deep(offset..offset + 1));
        }
        if NODES_MAX < shape.values || PIECES_MAX < shape.pieces {
            return Err(text.too_many(offset..offset + 1));
        }
        rest = rest.get(piece_length(rest)..).unwrap_or_default();
    }
    Ok(())
}

#[derive(Default)]
struct Shape {
    pieces: usize,
    values: usize,
    /// Of brackets, and of the dots in the names before them.
    depth: usize,
    /// In the name, or the number, that is being read.
    dots: usize,
    /// What each open bracket added to the depth.
    open: Vec<usize>,
}

impl Shape {
    fn add(&mut self, first: u8) {
        self.pieces += 1;
        match first {
            b'[' | b'{' => {
                self.open.push(self.dots + 1);
                self.depth += self.dots + 1;
                self.dots = 0;
            }
            b']' | b'}' => {
                self.depth -= self.open.pop().unwrap_or_default();
                self.dots = 0;
            }
            b'.' => self.dots += 1,
            b'=' => self.values += 1,
            b',' => {
                self.values += 1;
                self.dots = 0;
            }
            b'\n' => self.dots = 0,
            _ => {}
        }
    }
}

fn piece_length(rest: &[u8]) -> usize {
    let run = |part: fn(&u8) -> bool| rest.iter().take_while(|byte| part(byte)).count();
    match rest {
        [b'"', b'"', b'"', ..] | [b'\'', b'\'', b'\'', ..] => long_string_length(rest),
        [quote @ (b'"' | b'\''), tail @ ..] => string_length(*quote, tail),
        [b'#', ..] => run(|byte| *byte != b'\n'),
        [b' ' | b'\t', ..] => run(|byte| matches!(byte, b' ' | b'\t')),
        _ => run(|byte| !b"[]{}.,=\n\r#\"' \t".contains(byte)).max(1),
    }
}

/// The length of a string on one line, whose first quote is not part of `tail`.
fn string_length(quote: u8, tail: &[u8]) -> usize {
    let mut offset = 0;
    loop {
        match tail.get(offset) {
            Some(b'\\') if quote == b'"' => offset += 2,
            Some(byte) if *byte == quote => return offset + 2,
            None | Some(b'\n') => return offset + 1,
            Some(_) => offset += 1,
        }
    }
}

/// The length of a string in three quotes.
fn long_string_length(rest: &[u8]) -> usize {
    let mut offset = 3;
    loop {
        match rest.get(offset..) {
            None | Some([]) => return rest.len(),
            Some([b'\\', ..]) if rest.starts_with(b"\"") => offset += 2,
            Some(tail) if tail.starts_with(rest.get(..3).unwrap_or_default()) => {
                return offset + 3;
            }
            Some(_) => offset += 1,
        }
    }
}

/// As many as the most values take, one to a line: name, blank, `=`, blank, value, line break.
const PIECES_MAX: usize = 6 * NODES_MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_pieces(text: &str, wanted: &[&str]) {
        let mut rest = text;
        let mut pieces = Vec::new();
        while !rest.is_empty() {
            let (piece, tail) = rest.split_at(piece_length(rest.as_bytes()).min(rest.len()));
            pieces.push(piece);
            rest = tail;
        }
        assert_eq!(pieces, wanted);
    }

    #[test]
    fn strings_and_comments_are_one_piece() {
        check_pieces("a = 1 # [[\n", &["a", " ", "=", " ", "1", " ", "# [[", "\n"]);
        check_pieces(r#""a\"[" = '\'[1]"#, &[r#""a\"[""#, " ", "=", " ", r"'\'", "[", "1", "]"]);
        check_pieces("\"\"\"a\n\\\"\"\"[\"\"\"]", &["\"\"\"a\n\\\"\"\"[\"\"\"", "]"]);
        check_pieces("'''a'b''']", &["'''a'b'''", "]"]);
        check_pieces("\"open\n'''open", &["\"open", "\n", "'''open"]);
        check_pieces("ä.b", &["ä", ".", "b"]);
    }

    #[track_caller]
    fn check_bounds(text: &str, holds: bool) {
        let text = Text::of(0, text.as_bytes()).unwrap();
        assert_eq!(check(&text).is_ok(), holds);
    }

    #[test]
    fn dots_and_brackets_are_depth() {
        let nested = |count| format!("a = {}{}", "[".repeat(count), "]".repeat(count));
        check_bounds(&nested(DEPTH_MAX), true);
        check_bounds(&nested(DEPTH_MAX + 1), false);
        let dotted = |count| format!("a{} = 1\n", ".a".repeat(count));
        check_bounds(&dotted(DEPTH_MAX), true);
        check_bounds(&dotted(DEPTH_MAX + 1), false);
        check_bounds(&dotted(1).repeat(100), true);
        check_bounds(&format!("a = [{}]", "1.5, ".repeat(100)), true);
        let inline = |count| format!("a = {}1{}", "{b.c = ".repeat(count), "}".repeat(count));
        check_bounds(&inline(DEPTH_MAX / 2), true);
        check_bounds(&inline(DEPTH_MAX / 2 + 1), false);
    }

    #[test]
    fn values_are_counted_without_the_parser() {
        check_bounds(&format!("a=[{}]", "1,".repeat(NODES_MAX - 1)), true);
        check_bounds(&format!("a=[{}]", "1,".repeat(NODES_MAX)), false);
        check_bounds(&"a=1\n".repeat(NODES_MAX), true);
        check_bounds(&"a=1\n".repeat(NODES_MAX + 1), false);
        check_bounds(&"\n".repeat(PIECES_MAX), true);
        check_bounds(&"\n".repeat(PIECES_MAX + 1), false);
    }
}
