//! A file as rules see it: its text, and its code with comments and literals blanked.

mod blank;

use std::ops::Range;
use std::path::Path;

use super::Finding;

/// A file and what was read from it.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
    /// The lines of a Rust file, blanked. No other file has any.
    code: Vec<String>,
    /// How many lines come before the tests at the bottom.
    body_len: usize,
}

/// A line and its number, counted from one.
pub(crate) type Line<'a> = (usize, &'a str);

impl File {
    pub(crate) fn new(path: &str, text: &str) -> File {
        let code: Vec<String> = if is_rust(path) {
            blank::blank(text).lines().map(str::to_owned).collect()
        } else {
            Vec::new()
        };
        let body_len = code.iter().position(|line| opens_tests(line)).unwrap_or(code.len());
        File { path: path.to_owned(), text: text.to_owned(), code, body_len }
    }

    pub(crate) fn is_rust(&self) -> bool {
        is_rust(&self.path)
    }

    /// Whether the file is in this folder, at any depth.
    pub(crate) fn is_under(&self, folder: &str) -> bool {
        self.path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
    }

    /// Whether some folder above the file has this name.
    pub(crate) fn has_folder(&self, name: &str) -> bool {
        self.path.rsplit('/').skip(1).any(|folder| folder == name)
    }

    /// Whether a program wrote it: then it is committed as it came.
    pub(crate) fn is_generated(&self) -> bool {
        self.has_folder("gen")
    }

    /// All lines of code, blanked.
    pub(crate) fn code(&self) -> impl Iterator<Item = Line<'_>> {
        numbered(&self.code, 0..self.code.len())
    }

    /// The lines of code before the tests, blanked.
    pub(crate) fn body(&self) -> impl Iterator<Item = Line<'_>> {
        numbered(&self.code, 0..self.body_len)
    }

    /// The lines of code from the first test module on, blanked.
    pub(crate) fn tests(&self) -> impl Iterator<Item = Line<'_>> {
        numbered(&self.code, self.body_len..self.code.len())
    }

    /// The lines as they are written.
    pub(crate) fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// A finding in this file.
    pub(crate) fn finding(&self, line: usize, wrong: String, fix: &'static str) -> Finding {
        Finding { path: self.path.clone(), line, wrong, fix }
    }
}

/// Whether `word` stands in `line` as a word of its own.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    line.split(|c| !is_of_word(c)).any(|part| part == word)
}

/// Whether `line` calls the macro `name`.
pub(crate) fn calls_macro(line: &str, name: &str) -> bool {
    let word_before = |at| line[..at].rsplit(|c| !is_of_word(c)).next();
    line.match_indices('!').any(|(at, _)| word_before(at) == Some(name))
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "rs")
}

fn opens_tests(line: &str) -> bool {
    line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test")
}

fn numbered(lines: &[String], range: Range<usize>) -> impl Iterator<Item = Line<'_>> {
    let start = range.start;
    lines[range].iter().enumerate().map(move |(index, line)| (start + index + 1, line.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_whole() {
        assert!(has_word("unsafe { go() }", "unsafe"));
        assert!(has_word("use std::time;", "std"));
        assert!(!has_word("#![forbid(unsafe_code)]", "unsafe"));
        assert!(!has_word("#![no_std]", "std"));
    }

    #[test]
    fn macros_are_whole() {
        assert!(calls_macro("    print!(1)", "print"));
        assert!(calls_macro("a!(); std::print!(1)", "print"));
        assert!(!calls_macro("    eprint!(1)", "print"));
        assert!(!calls_macro("a!(print)", "print"));
    }

    #[test]
    fn tests_begin_where_they_are_switched_on() {
        for attribute in ["#[cfg(test)]", "#[cfg(all(test, not(loom)))]"] {
            let file = File::new("a.rs", &format!("fn a() {{}}\n\n{attribute}\nmod tests {{}}\n"));
            assert_eq!(file.body().count(), 2);
            assert_eq!(file.tests().next(), Some((3, attribute)));
        }
        let file = File::new("a.rs", "//! #[cfg(test)]\n    #[cfg(test)]\n#[cfg(not(test))]\n");
        assert_eq!(file.body().count(), 3);
    }

    #[test]
    fn folders_are_whole() {
        let file = File::new("crates/core/src/tick.rs", "");
        assert!(file.is_under("crates/core") && !file.is_under("crates/co"));
        assert!(file.has_folder("src") && !file.has_folder("tick.rs"));
    }
}
