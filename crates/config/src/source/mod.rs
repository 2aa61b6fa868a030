//! A policy file as it was typed: a tree of values, each with its place.
//!
//! All three formats become the same tree, so that rules are read, and mistakes are pointed at, in
//! one way. Size, depth and the number of values are bounded before anything is built of them.

mod toml;
mod yaml;

use crate::problem::{Problem, Span};

/// The language that a file is written in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Format {
    /// `.json`
    Json,
    /// `.toml`
    Toml,
    /// `.yaml`, `.yml`, and whatever has another ending.
    Yaml,
}

/// A value with its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) at: Span,
}

/// What was typed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Integer(i64),
    /// As it was typed: nothing here is counted in fractions.
    Fraction(String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A field with its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Numbers and the like are taken as they were typed.
    pub(crate) name: String,
    pub(crate) name_at: Span,
    pub(crate) node: Node,
}

/// The most bytes of one file.
pub const FILE_BYTES_MAX: usize = 16 << 20;
/// The deepest that values may be nested.
pub(crate) const DEPTH_MAX: usize = 32;
/// The most values of one file, with what aliases repeat.
pub(crate) const NODES_MAX: usize = 2_000_000;
