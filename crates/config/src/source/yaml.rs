//! YAML: one document, without tags and merge keys.
//!
//! An alias is a copy, and is counted before it is made: a file whose aliases repeat each other is
//! refused before it takes memory. A copy points at its alias, what is in it at where it was typed.

use std::collections::HashMap;
use std::ops::Range;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, StructureStyle};

use super::text::Text;
use super::{DEPTH_MAX, Entry, Format, Node, Value, scalar};
use crate::problem::{Problem, Span};

pub(super) fn read(text: &mut Text<'_>) -> Result<Node, Problem> {
    let options = granit_parser::options! {
        disallow_directives: true,
        emit_comments: false,
        // One more than allowed, so that most such files get our own words.
        flow_nesting_limit: DEPTH_MAX + 1,
        block_nesting_limit: DEPTH_MAX + 1,
    };
    let parser = Parser::new_from_str_with_options(text.body, options);
    let mut tree = Tree { text, open: Vec::new(), anchored: HashMap::new(), root: None };
    for next in parser {
        let (event, span) = next.map_err(|wrong| not_yaml(tree.text, &wrong))?;
        let at = span.byte_range().unwrap_or_default();
        tree.take(event, at, span.tag_span().and_then(|tag| tag.byte_range()))?;
    }
    match tree.root {
        Some(Node { value: Value::Null, at }) if at.start == at.end => Err(text.empty()),
        Some(root) => Ok(root),
        None => Err(text.empty()),
    }
}

/// What has been built of the file so far.
struct Tree<'a, 't> {
    text: &'a mut Text<'t>,
    /// Lists and maps that have not ended, the outermost first.
    open: Vec<Open>,
    anchored: HashMap<usize, Made>,
    root: Option<Node>,
}

struct Open {
    start: usize,
    style: StructureStyle,
    anchor: usize,
    size: Size,
    parts: Parts,
}

enum Parts {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, name: Option<(String, Span)> },
}

#[derive(Clone)]
struct Made {
    node: Node,
    size: Size,
}

/// What a copy costs.
#[derive(Clone, Copy)]
struct Size {
    values: usize,
    depth: usize,
}

impl Tree<'_, '_> {
    fn take(
        &mut self,
        event: Event<'_>,
        at: Range<usize>,
        tag: Option<Range<usize>>,
    ) -> Result<(), Problem> {
        if let Some(tag) = tag {
            return Err(self.text.error(tag, "tags are not read").help("put text in quotes"));
        }
        match event {
            Event::DocumentStart(..) if self.root.is_some() => {
                Err(self.text.error(at, "a second document starts here").help("use two files"))
            }
            Event::Scalar(word, style, anchor, _) => self.scalar(&word, style, anchor, at),
            Event::SequenceStart(style, anchor, _) => {
                self.start(style, anchor, at, Parts::List(Vec::new()))
            }
            Event::MappingStart(style, anchor, _) => {
                self.start(style, anchor, at, Parts::Map { entries: Vec::new(), name: None })
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(at),
            Event::Alias(anchor) => self.repeat(anchor, at),
            // What is left holds no values: where the stream and its document start and end.
            _ => Ok(()),
        }
    }

    fn scalar(
        &mut self,
        word: &str,
        style: ScalarStyle,
        anchor: usize,
        at: Range<usize>,
    ) -> Result<(), Problem> {
        let plain = style == ScalarStyle::Plain;
        // A block of text ends with its last word, not where the next field starts.
        let typed = self.text.body.get(at.clone()).unwrap_or_default();
        let at = at.start..at.start + typed.trim_end().len();
        let value = if plain { scalar::bare(word) } else { Value::Text(word.to_owned()) };
        let node = Node { value, at: self.text.span(at.clone()) };
        let made = Made { node, size: Size { values: 1 + word.len() / TEXT_UNIT, depth: 0 } };
        if !self.wants_name() {
            self.text.count(1, at)?;
            return self.add(made, anchor);
        }
        if plain && word == "<<" {
            let problem = self.text.error(at, "merge keys (`<<`) are not read");
            return Err(problem.help("write the fields out, or use an alias as the whole value"));
        }
        // The parser says `~` for what is not there.
        if plain && at.is_empty() {
            return Err(self.text.error(at, "a field has no name").help("write `name: value`"));
        }
        self.keep(&made, anchor)?;
        if let Some(Open { parts: Parts::Map { name, .. }, size, .. }) = self.open.last_mut() {
            *name = Some((word.to_owned(), made.node.at));
            size.values += word.len() / TEXT_UNIT;
        }
        Ok(())
    }

    fn start(
        &mut self,
        style: StructureStyle,
        anchor: usize,
        at: Range<usize>,
        parts: Parts,
    ) -> Result<(), Problem> {
        self.text.nest(self.open.len() + 1, at.clone())?;
        self.text.count(1, at.clone())?;
        if self.wants_name() {
            let what = if matches!(parts, Parts::List(_)) { "a list" } else { "a map" };
            return Err(self.name_is(what, at));
        }
        let size = Size { values: 1, depth: 1 };
        self.open.push(Open { start: at.start, style, anchor, size, parts });
        Ok(())
    }

    fn end(&mut self, at: Range<usize>) -> Result<(), Problem> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let last = match &open.parts {
            Parts::List(nodes) => nodes.last(),
            Parts::Map { entries, .. } => entries.last().map(|entry| &entry.node),
        };
        let mut place = self.text.span(open.start..at.end);
        // The end of a block is only seen at what follows, which may be lines away.
        if open.style == StructureStyle::Block {
            place.end = last.map_or(place.start, |node| node.at.end).max(place.start);
        }
        let value = match open.parts {
            Parts::List(nodes) => Value::List(nodes),
            Parts::Map { entries, .. } => {
                self.text.unique(&entries)?;
                Value::Map(entries)
            }
        };
        self.add(Made { node: Node { value, at: place }, size: open.size }, open.anchor)
    }

    fn repeat(&mut self, anchor: usize, at: Range<usize>) -> Result<(), Problem> {
        if self.wants_name() {
            return Err(self.name_is("an alias", at));
        }
        let Some(Made { size, .. }) = self.anchored.get(&anchor) else {
            let problem = self.text.error(at, "the alias stands inside of what it repeats");
            return Err(problem.help("write the value out"));
        };
        let size = *size;
        self.text.nest(self.open.len() + size.depth, at.clone())?;
        self.text.count(size.values, at.clone())?;
        let Some(mut made) = self.anchored.get(&anchor).cloned() else { return Ok(()) };
        made.node.at = self.text.span(at);
        self.add(made, 0)
    }

    fn add(&mut self, made: Made, anchor: usize) -> Result<(), Problem> {
        self.keep(&made, anchor)?;
        let Some(open) = self.open.last_mut() else {
            self.root = Some(made.node);
            return Ok(());
        };
        open.size.values += made.size.values;
        open.size.depth = open.size.depth.max(made.size.depth + 1);
        match &mut open.parts {
            Parts::List(nodes) => nodes.push(made.node),
            Parts::Map { entries, name } => {
                if let Some((name, name_at)) = name.take() {
                    entries.push(Entry { name, name_at, node: made.node });
                }
            }
        }
        Ok(())
    }

    /// Keeps a copy for aliases. It counts, since anchors in anchors would multiply.
    fn keep(&mut self, made: &Made, anchor: usize) -> Result<(), Problem> {
        if anchor != 0 {
            let at = made.node.at;
            self.text.count(made.size.values, self.text.range(at))?;
            self.anchored.insert(anchor, made.clone());
        }
        Ok(())
    }

    fn wants_name(&self) -> bool {
        let innermost = self.open.last().map(|open| &open.parts);
        matches!(innermost, Some(Parts::Map { name: None, .. }))
    }

    fn name_is(&self, what: &str, at: Range<usize>) -> Problem {
        let problem = self.text.error(at, format!("the name of a field is text, not {what}"));
        problem.help("write `name: value`; put text that starts with `[`, `{` or `*` in quotes")
    }
}

/// Bytes of text that count as one more value, when a copy is made of it.
const TEXT_UNIT: usize = 64;

fn not_yaml(text: &Text<'_>, wrong: &ScanError) -> Problem {
    let start = wrong.marker().byte_offset().unwrap_or_default();
    let problem = match wrong.kind() {
        ErrorKind::RecursionLimitExceeded => return text.too_deep(start..start),
        ErrorKind::DirectiveDisallowed => text.error(start..start + 1, "directives are not read"),
        _ => text.not_valid(Format::Yaml, start..start, &wrong.info()),
    };
    match advice(wrong.kind()) {
        Some(help) => problem.help(help),
        None => problem,
    }
}

fn advice(kind: &ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::DirectiveDisallowed => "remove the line that starts with `%`",
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabInPlainScalar => "indent with spaces",
        ErrorKind::UnknownAnchor => {
            "define it above with `&`, or put text that starts with `*` in quotes"
        }
        ErrorKind::SimpleKeyExpected => "write `name: value`, with a space after the colon",
        ErrorKind::MappingValueNotAllowed => {
            "put text that has `: ` in it in quotes, and indent fields alike"
        }
        ErrorKind::InvalidIndentation
        | ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::ExpectedBlockSequenceEntry => {
            "indent the fields of a map, and the items of a list, alike"
        }
        ErrorKind::UnexpectedCharacter { .. } => {
            "put text that starts with this character in quotes"
        }
        ErrorKind::UnclosedQuotedScalar | ErrorKind::InvalidQuotedScalarIndent => "close the quote",
        ErrorKind::UnclosedFlowCollection { .. } => "close the bracket",
        ErrorKind::UnknownQuotedScalarEscape => "write `\\\\` for a backslash, or use '...' quotes",
        _ => return None,
    })
}
