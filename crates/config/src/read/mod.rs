//! Turns nodes into values: what a table of fields takes, and what to say about anything else.
//!
//! The tables are also what editors complete from (`schema.rs`), so that both always agree on the
//! names.

mod fields;
mod values;

pub(crate) use self::fields::Fields;

/// The fields of a table, each with what it takes and what it is for.
macro_rules! table_fields {
    ($($name:literal: $takes:expr, $about:literal;)*) => {
        &[$($crate::read::Field { name: $name, about: $about, takes: $takes }),*]
    };
}

pub(crate) use table_fields;

/// What may stand in a map whose names we choose.
#[derive(Debug)]
pub(crate) struct Table {
    /// As in a message: `a rule`.
    pub(crate) what: &'static str,
    /// For documentation: a sentence.
    pub(crate) about: &'static str,
    pub(crate) fields: &'static [Field],
    /// The names of those that must be given, whatever else is.
    pub(crate) required: &'static [&'static str],
}

/// A field of a table.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// For documentation: a sentence.
    pub(crate) about: &'static str,
    pub(crate) takes: Takes,
}

impl Takes {
    /// The fields that may stand below it.
    fn table(&self) -> Option<&'static Table> {
        match self {
            Takes::Table(table) | Takes::Open(table, _) => Some(table),
            Takes::List(item) | Takes::OneOrMore(item) => item.table(),
            Takes::Either(ways) => ways.iter().find_map(Takes::table),
            _ => None,
        }
    }
}

/// What a field takes.
#[derive(Debug)]
pub(crate) enum Takes {
    Text,
    /// Text, or a number as it was typed.
    Scalar,
    Flag,
    Count {
        min: u64,
        max: u64,
    },
    OneOf(&'static [&'static str]),
    /// Text of a form: examples, and a regular expression for editors.
    Form {
        like: &'static [&'static str],
        pattern: &'static str,
    },
    List(&'static Takes),
    /// One, or a list.
    OneOrMore(&'static Takes),
    /// Any names.
    Map(&'static Takes),
    /// The fields of a table, and any other names.
    Open(&'static Table, &'static Takes),
    Table(&'static Table),
    Either(&'static [Takes]),
}
