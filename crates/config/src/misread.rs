//! A text that was not understood: what is wrong with it, and what to write instead.
//!
//! It knows no place: the caller that handed the text over adds where it stood.

use std::fmt;

/// The most characters of a text that a message repeats.
const SHOWN_MAX: usize = 60;

/// Why a text was not understood.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Misread {
    /// What is wrong: lower case, no full stop.
    pub(crate) message: String,
    /// What to write instead.
    pub(crate) help: Option<String>,
}

impl Misread {
    pub(crate) fn new(message: impl Into<String>, help: impl Into<String>) -> Misread {
        Misread { message: message.into(), help: Some(help.into()) }
    }
}

impl fmt::Display for Misread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.help.as_ref().map_or(Ok(()), |help| write!(f, "; {help}"))
    }
}

/// `text` as a message repeats it: in backticks, and not too much of it.
pub(crate) fn quoted(text: &str) -> String {
    let mut letters = text.chars();
    let shown: String = letters.by_ref().take(SHOWN_MAX).map(visible).collect();
    let more = if letters.next().is_some() { "..." } else { "" };
    format!("`{shown}{more}`")
}

/// A file may hold letters that move the cursor or end the quotation.
fn visible(letter: char) -> char {
    if letter.is_control() || letter == '`' { '\u{FFFD}' } else { letter }
}

/// A help that names what was probably meant before it says what can be written.
pub(crate) fn did_you_mean(meant: Option<&str>, form: &str) -> String {
    meant.map_or(form.to_owned(), |meant| format!("did you mean `{meant}`? {form}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_repeated_in_part_and_without_tricks() {
        assert_eq!(quoted("a b"), "`a b`");
        assert_eq!(quoted("a`\u{1b}[2J\n"), "`a\u{FFFD}\u{FFFD}[2J\u{FFFD}`");
        assert_eq!(quoted(&"x".repeat(60)), format!("`{}`", "x".repeat(60)));
        assert_eq!(quoted(&"x".repeat(61)), format!("`{}...`", "x".repeat(60)));
    }
}
