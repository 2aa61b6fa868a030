//! TOML: its parser's tree, in the order of the file.
//!
//! A table's place is its header, since its fields may stand far apart.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeArray, DeInteger, DeTable, DeValue, Error};

use super::text::{Text, given_twice};
use super::{Entry, Format, Node, Value, toml_shape};
use crate::problem::Problem;

pub(super) fn read(text: &mut Text<'_>) -> Result<Node, Problem> {
    toml_shape::check(text)?;
    let table = DeTable::parse(text.body).map_err(|wrong| not_toml(text, &wrong))?;
    if table.get_ref().is_empty() {
        return Err(text.empty());
    }
    let all = 0..text.body.len();
    text.count(1, all.clone())?;
    let value = map(text, table.get_ref(), 1)?;
    Ok(Node { value, at: text.span(all) })
}

fn node(text: &mut Text<'_>, value: &Spanned<DeValue<'_>>, depth: usize) -> Result<Node, Problem> {
    let at = value.span();
    text.count(1, at.clone())?;
    let value = match value.get_ref() {
        DeValue::Array(items) => {
            text.nest(depth + 1, at.clone())?;
            list(text, items, depth + 1)?
        }
        DeValue::Table(fields) => {
            text.nest(depth + 1, at.clone())?;
            map(text, fields, depth + 1)?
        }
        DeValue::String(string) => Value::Text(string.to_string()),
        DeValue::Boolean(flag) => Value::Bool(*flag),
        DeValue::Integer(integer) => whole(text, integer, at.clone()),
        DeValue::Float(_) => Value::Fraction(typed(text, at.clone())),
        DeValue::Datetime(_) => Value::Text(typed(text, at.clone())),
    };
    Ok(Node { value, at: text.span(at) })
}

fn list(text: &mut Text<'_>, items: &DeArray<'_>, depth: usize) -> Result<Value, Problem> {
    let nodes: Result<Vec<Node>, Problem> =
        items.iter().map(|item| node(text, item, depth)).collect();
    nodes.map(Value::List)
}

fn map(text: &mut Text<'_>, fields: &DeTable<'_>, depth: usize) -> Result<Value, Problem> {
    let mut entries = Vec::with_capacity(fields.len());
    for (name, value) in fields {
        let name_at = text.span(name.span());
        let node = node(text, value, depth)?;
        entries.push(Entry { name: name.get_ref().to_string(), name_at, node });
    }
    entries.sort_by_key(|entry| entry.name_at.start);
    Ok(Value::Map(entries))
}

fn whole(text: &Text<'_>, integer: &DeInteger<'_>, at: Range<usize>) -> Value {
    match i64::from_str_radix(integer.as_str(), integer.radix()) {
        Ok(whole) => Value::Integer(whole),
        Err(_) => Value::Fraction(typed(text, at)),
    }
}

fn typed(text: &Text<'_>, at: Range<usize>) -> String {
    text.body.get(at).unwrap_or_default().to_owned()
}

fn not_toml(text: &Text<'_>, wrong: &Error) -> Problem {
    let at = wrong.span().unwrap_or_default();
    if wrong.message() == "duplicate key" {
        let name = text.body.get(at.clone()).unwrap_or_default();
        return given_twice(text.span(at.clone()), name, first_line(text, name, at.start));
    }
    text.not_valid(Format::Toml, at, wrong.message())
}

/// The line where the same name stands before, in the same part of the file.
///
/// The parser does not tell it. Only what stands at the start of a line is found.
fn first_line(text: &Text<'_>, name: &str, second: usize) -> Option<usize> {
    let before = text.body.get(..second)?;
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    let is_header = before.get(line_start..)?.trim_start().starts_with('[');
    let above = before.get(..line_start)?;
    let mut number = above.lines().count();
    for line in above.lines().rev() {
        let line = line.trim_start();
        let heads = line.starts_with('[');
        let rest = line.trim_start_matches('[').trim_start().strip_prefix(name);
        match rest.and_then(|rest| rest.trim_start().chars().next()) {
            Some(']') if is_header && heads => return Some(number),
            Some('=') if !is_header && !heads => return Some(number),
            _ if heads && !is_header => return None,
            _ => number -= 1,
        }
    }
    None
}
