//! JSON, strictly: a YAML parser would also take comments, bare words and commas too many, and
//! such a file breaks the next tool that reads it.

use std::ops::Range;

use super::text::Text;
use super::{Entry, Format, Node, Value, scalar};
use crate::problem::Problem;

pub(super) fn read(text: &mut Text<'_>) -> Result<Node, Problem> {
    let mut json = Json { text, offset: 0, depth: 0 };
    json.skip_blanks();
    if json.peek().is_none() {
        return Err(json.text.empty());
    }
    let root = json.value()?;
    json.skip_blanks();
    match json.peek() {
        None => Ok(root),
        Some(_) => Err(json.wrong("nothing may follow the value", "remove the rest")),
    }
}

struct Json<'a, 't> {
    text: &'a mut Text<'t>,
    offset: usize,
    /// Of the list or map that is being read.
    depth: usize,
}

impl<'t> Json<'_, 't> {
    fn value(&mut self) -> Result<Node, Problem> {
        let start = self.offset;
        self.text.count(1, start..start + 1)?;
        let value = match self.peek() {
            Some(b'{') => self.nested(Json::map)?,
            Some(b'[') => self.nested(Json::list)?,
            Some(b'"') => Value::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => self.word()?,
        };
        Ok(Node { value, at: self.text.span(start..self.offset) })
    }

    fn nested(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<Value, Problem>,
    ) -> Result<Value, Problem> {
        self.depth += 1;
        self.text.nest(self.depth, self.offset..self.offset + 1)?;
        self.offset += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn list(&mut self) -> Result<Value, Problem> {
        let mut nodes = Vec::new();
        self.skip_blanks();
        if self.skip(b']') {
            return Ok(Value::List(nodes));
        }
        loop {
            self.skip_blanks();
            nodes.push(self.value()?);
            self.skip_blanks();
            if self.skip(b']') {
                return Ok(Value::List(nodes));
            }
            if !self.skip(b',') {
                return Err(self.wrong("expected `,` or `]`", "close the list, or add a comma"));
            }
        }
    }

    fn map(&mut self) -> Result<Value, Problem> {
        let mut entries = Vec::new();
        self.skip_blanks();
        if self.skip(b'}') {
            return Ok(Value::Map(entries));
        }
        loop {
            self.skip_blanks();
            entries.push(self.entry()?);
            self.skip_blanks();
            if self.skip(b'}') {
                self.text.unique(&entries)?;
                return Ok(Value::Map(entries));
            }
            if !self.skip(b',') {
                return Err(self.wrong("expected `,` or `}`", "close the map, or add a comma"));
            }
        }
    }

    fn entry(&mut self) -> Result<Entry, Problem> {
        let start = self.offset;
        if self.peek() != Some(b'"') {
            let help = "write names in double quotes, and no comma after the last field";
            return Err(self.wrong("expected the name of a field", help));
        }
        let name = self.string()?;
        let name_at = self.text.span(start..self.offset);
        self.skip_blanks();
        if !self.skip(b':') {
            return Err(self.wrong("expected `:`", "write `\"name\": value`"));
        }
        self.skip_blanks();
        Ok(Entry { name, name_at, node: self.value()? })
    }

    fn number(&mut self) -> Result<Value, Problem> {
        let start = self.offset;
        self.skip(b'-');
        let mut holds = self.skip(b'0') || 0 < self.skip_digits();
        if self.skip(b'.') {
            holds &= 0 < self.skip_digits();
        }
        if self.skip(b'e') || self.skip(b'E') {
            let _ = self.skip(b'-') || self.skip(b'+');
            holds &= 0 < self.skip_digits();
        }
        let end = self.end_of_word(start);
        if !holds || self.offset != end {
            let problem = self.not_json(start..end, "this is not a number");
            return Err(problem.help("write it like `100`, or put text in double quotes"));
        }
        Ok(scalar::number(self.text.body.get(start..self.offset).unwrap_or_default()))
    }

    fn word(&mut self) -> Result<Value, Problem> {
        let start = self.offset;
        let end = self.end_of_word(start);
        let value = match self.text.body.get(start..end) {
            Some("true") => Value::Bool(true),
            Some("false") => Value::Bool(false),
            Some("null") => Value::Null,
            Some("") | None => {
                let help = match self.peek() {
                    Some(b'/' | b'#') => "remove comments: JSON has none",
                    Some(b'\'') => "put text in double quotes",
                    _ => "write no comma after the last item",
                };
                return Err(self.wrong("expected a value", help));
            }
            Some(_) => {
                let problem = self.not_json(start..end, "expected a value");
                return Err(problem.help("put text in double quotes"));
            }
        };
        self.offset = end;
        Ok(value)
    }

    fn string(&mut self) -> Result<String, Problem> {
        let open = self.offset;
        self.offset += 1;
        let mut string = String::new();
        loop {
            let rest = self.rest();
            let plain = rest.find(|c: char| c == '"' || c == '\\' || c < ' ').unwrap_or(rest.len());
            string.push_str(rest.get(..plain).unwrap_or_default());
            self.offset += plain;
            match self.peek() {
                Some(b'"') => {
                    self.offset += 1;
                    return Ok(string);
                }
                Some(b'\\') => string.push(self.escaped()?),
                Some(_) => {
                    let why = "text has a line break, a tab or the like in it";
                    return Err(self.wrong(why, "write `\\n` for a line break, `\\t` for a tab"));
                }
                None => {
                    let problem = self.not_json(open..open + 1, "the text does not end");
                    return Err(problem.help("close the quote"));
                }
            }
        }
    }

    fn escaped(&mut self) -> Result<char, Problem> {
        let start = self.offset;
        let letter = self.text.body.as_bytes().get(start + 1).copied();
        self.offset += 2;
        Ok(match letter {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => self.unicode().ok_or_else(|| self.no_escape(start))?,
            _ => return Err(self.no_escape(start)),
        })
    }

    /// The character of a `\u` escape, or of two that are one character in UTF-16.
    fn unicode(&mut self) -> Option<char> {
        let unit = self.hex()?;
        if !(0xd800..0xdc00).contains(&unit) {
            return char::from_u32(unit);
        }
        if !(self.skip(b'\\') && self.skip(b'u')) {
            return None;
        }
        let low = self.hex().filter(|low| (0xdc00..0xe000).contains(low))?;
        char::from_u32(0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00))
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = self.text.body.get(self.offset..self.offset + 4)?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        self.offset += 4;
        u32::from_str_radix(digits, 16).ok()
    }

    fn no_escape(&self, start: usize) -> Problem {
        let problem = self.not_json(start..start + 1, "this escape means nothing");
        problem.help("write `\\\\` for a backslash")
    }

    fn wrong(&self, why: &str, help: &str) -> Problem {
        self.not_json(self.offset..self.offset, why).help(help)
    }

    fn not_json(&self, at: Range<usize>, why: &str) -> Problem {
        self.text.not_valid(Format::Json, at, why)
    }

    fn rest(&self) -> &'t str {
        self.text.body.get(self.offset..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.body.as_bytes().get(self.offset).copied()
    }

    fn skip(&mut self, byte: u8) -> bool {
        let skipped = self.peek() == Some(byte);
        self.offset += usize::from(skipped);
        skipped
    }

    fn skip_digits(&mut self) -> usize {
        let count = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        self.offset += count;
        count
    }

    fn skip_blanks(&mut self) {
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.offset += self.rest().bytes().take_while(blank).count();
    }

    fn end_of_word(&self, start: usize) -> usize {
        let part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-._".contains(byte);
        let rest = self.text.body.get(start..).unwrap_or_default();
        start + rest.bytes().take_while(part).count()
    }
}
