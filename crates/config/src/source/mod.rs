//! A policy file as it was typed: a tree of values, each with its place.
//!
//! All three formats become the same tree, so that rules are read, and mistakes are pointed at, in
//! one way. Size, depth and the number of values are bounded before anything is built of them.

mod json;
mod scalar;
mod text;
mod toml;
mod toml_shape;
mod yaml;

use std::path::Path;

use self::text::Text;
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

impl Format {
    /// The language that a file's name promises.
    pub fn of_path(path: &Path) -> Format {
        let ending = path.extension().unwrap_or_default();
        if ending.eq_ignore_ascii_case("json") {
            Format::Json
        } else if ending.eq_ignore_ascii_case("toml") {
            Format::Toml
        } else {
            Format::Yaml
        }
    }

    fn name(self) -> &'static str {
        match self {
            Format::Json => "JSON",
            Format::Toml => "TOML",
            Format::Yaml => "YAML",
        }
    }
}

/// A value with its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) at: Span,
}

/// What was typed.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Integer(i64),
    /// Any other number, as it was typed: nothing here is counted in fractions.
    Fraction(String),
    Text(String),
    List(Vec<Node>),
    /// In the order of the file. No name stands here twice.
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

/// Reads the tree of a file. `file` is its number in every place.
pub(crate) fn read(file: u16, text: &[u8], format: Format) -> Result<Node, Problem> {
    let mut text = Text::of(file, text)?;
    match format {
        Format::Json => json::read(&mut text),
        Format::Toml => toml::read(&mut text),
        Format::Yaml => yaml::read(&mut text),
    }
}

#[cfg(test)]
mod tests;
