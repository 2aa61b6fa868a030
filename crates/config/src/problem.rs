//! What is wrong with a policy file: where, why, and what to write instead.

use std::fmt;

/// A place in one of the files, in bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
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
    pub(crate) at: Span,
    /// What is wrong: lower case, no full stop.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) help: Option<String>,
}
