//! What is wrong with a policy file: where, why, and what to write instead.
//!
//! Problems are collected, so that one look at a file finds all of them; but only so many, since a
//! file may be nothing but mistakes.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;

use crate::lint::{Allowed, Lint};
use crate::misread::Misread;

/// A place in one of the files, in bytes.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Span {
    /// Which of the files.
    pub(crate) file: u16,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Level {
    /// The file can be used, but probably does not do what was meant.
    Warning,
    /// The file cannot be used.
    Error,
}

/// One thing that is wrong.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Problem {
    pub(crate) level: Level,
    /// The name of a warning that can be allowed.
    pub(crate) lint: Option<Lint>,
    pub(crate) at: Span,
    /// What is wrong: lower case, no full stop.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) help: Option<String>,
}

/// What is wrong so far.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    list: Vec<Problem>,
    errors: usize,
    warnings: usize,
    /// What each file allows, by its number.
    allowed: HashMap<u16, Allowed>,
    /// What the rule that is being read allows.
    allowed_here: Allowed,
}

/// The problem that was just added, to say more about it.
#[derive(Debug)]
pub(crate) struct Added<'p> {
    /// None if there were too many to keep it, or it is allowed.
    problem: Option<&'p mut Problem>,
}

impl Problem {
    pub(crate) fn error(at: Span, message: impl Into<String>) -> Problem {
        Problem { level: Level::Error, lint: None, at, message: message.into(), help: None }
    }

    /// Adds what to do about it.
    #[must_use]
    pub(crate) fn help(mut self, text: impl Into<String>) -> Problem {
        self.help = Some(text.into());
        self
    }
}

impl Problems {
    #[track_caller]
    pub(crate) fn error(&mut self, at: Span, message: impl Into<String>) -> Added<'_> {
        self.add(Problem::error(at, message))
    }

    #[track_caller]
    pub(crate) fn warn(&mut self, at: Span, message: impl Into<String>) -> Added<'_> {
        self.add(Problem { level: Level::Warning, ..Problem::error(at, message) })
    }

    /// Adds a warning that has a name, unless the file or the rule that is being read allows it.
    #[track_caller]
    pub(crate) fn lint(&mut self, lint: Lint, at: Span, message: impl Into<String>) -> Added<'_> {
        let here = self.allowed_here.has(lint);
        self.lint_unless(here, lint, at, message)
    }

    /// As [`Problems::lint`], where what is allowed here is known otherwise: for rules that have
    /// been read.
    #[track_caller]
    pub(crate) fn lint_unless(
        &mut self,
        is_allowed: bool,
        lint: Lint,
        at: Span,
        message: impl Into<String>,
    ) -> Added<'_> {
        if is_allowed || self.allowed.get(&at.file).is_some_and(|file| file.has(lint)) {
            return Added { problem: None };
        }
        let problem = Problem::error(at, message);
        self.add(Problem { level: Level::Warning, lint: Some(lint), ..problem })
    }

    /// Whether the file or the rule that is being read allows a warning.
    pub(crate) fn allows(&self, lint: Lint, at: Span) -> bool {
        let in_file = || self.allowed.get(&at.file).is_some_and(|file| file.has(lint));
        self.allowed_here.has(lint) || in_file()
    }

    /// Allows warnings in a file, by its number.
    pub(crate) fn allow(&mut self, file: u16, allowed: Allowed) {
        self.allowed.insert(file, allowed);
    }

    /// Allows warnings, and only these, until it is called again.
    pub(crate) fn allow_here(&mut self, allowed: Allowed) {
        self.allowed_here = allowed;
    }

    /// Adds a text that was not understood. What to write instead may take long to find, so that is
    /// done only for those that are kept: a file may be nothing but mistakes.
    #[track_caller]
    pub(crate) fn misread(&mut self, at: Span, why: impl FnOnce() -> Misread) {
        if self.is_full() {
            self.error(at, "");
            return;
        }
        let Misread { message, help } = why();
        self.add(Problem { help, ..Problem::error(at, message) });
    }

    #[track_caller]
    pub(crate) fn add(&mut self, problem: Problem) -> Added<'_> {
        #[cfg(test)]
        seen::note(std::panic::Location::caller());
        let count = match problem.level {
            Level::Error => &mut self.errors,
            Level::Warning => &mut self.warnings,
        };
        *count += 1;
        if PROBLEMS_MAX < *count {
            return Added { problem: None };
        }
        self.list.push(problem);
        Added { problem: self.list.last_mut() }
    }

    /// Whether the files cannot be used.
    pub(crate) fn is_fatal(&self) -> bool {
        0 < self.errors
    }

    /// Whether more errors would only be counted: no need to think of help for them.
    pub(crate) fn is_full(&self) -> bool {
        PROBLEMS_MAX <= self.errors
    }

    pub(crate) fn errors(&self) -> usize {
        self.errors
    }

    pub(crate) fn warnings(&self) -> usize {
        self.warnings
    }

    /// Those that were kept, by place.
    pub(crate) fn into_sorted(mut self) -> Vec<Problem> {
        self.list.sort_by_key(|problem| (problem.at, Reverse(problem.level)));
        self.list
    }
}

impl Added<'_> {
    /// Adds what to do about it.
    pub(crate) fn help(self, text: impl Into<String>) {
        if let Some(problem) = self.problem {
            problem.help = Some(text.into());
        }
    }
}

/// What a user typed, short enough for a message.
pub(crate) fn shortened(typed: &str) -> Cow<'_, str> {
    match typed.char_indices().nth(SHOWN_CHARS_MAX) {
        None => Cow::Borrowed(typed),
        Some((end, _)) => Cow::Owned(format!("{}...", typed.get(..end).unwrap_or_default())),
    }
}

/// The most errors, and the most warnings, that are kept. Nobody reads on.
const PROBLEMS_MAX: usize = 100;
const SHOWN_CHARS_MAX: usize = 60;

/// Which lines of code have said something, for a test that wants to have seen all of them.
#[cfg(test)]
pub(crate) mod seen {
    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use std::panic::Location;

    thread_local! {
        static PLACES: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
    }

    pub(crate) fn note(at: &Location<'_>) {
        PLACES.with_borrow_mut(|it| it.insert(format!("{}:{}", at.file(), at.line())));
    }

    pub(crate) fn forget() {
        PLACES.with_borrow_mut(BTreeSet::clear);
    }

    pub(crate) fn places() -> BTreeSet<String> {
        PLACES.with_borrow(BTreeSet::clone)
    }
}
