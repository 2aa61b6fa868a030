//! Patterns of paths: `/search/**`, `/users/{id}/avatar`, `/images/*.png`.
//!
//! Every part of a pattern is matched once, from the end of the path that it is tied to, and what
//! stands between two `**` at the first place that fits: no path makes the match go back and forth.

mod normal;
mod spelled;

use std::fmt;

use self::normal::decoded;
pub(crate) use self::normal::{Case, Normal, Segments, Servers};
use self::spelled::folded;
pub(crate) use self::spelled::key_spelling;
use crate::misread::{Misread, quoted};

/// The most segments of a pattern.
const SEGMENTS_MAX: usize = 32;
/// The most bytes of a pattern.
const BYTES_MAX: usize = 1_024;

const FORM: &str = "write `*` for one segment, `{name}` for one that is named, `**` for any number";

/// Which paths are meant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Pattern {
    /// As it was typed, but for a slash at its end.
    text: String,
    segments: Vec<Segment>,
    /// The segments in lower case, where those are others.
    folded: Option<Vec<Segment>>,
}

/// What stands between two slashes of a pattern.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Segment {
    /// Exactly this.
    Literal(String),
    /// These in order, with anything or nothing between them: at least two; some are empty.
    Parts(Vec<String>),
    /// Any one segment.
    One,
    /// Any one segment, under a name.
    Named(String),
    /// Any number of segments, also none.
    Any,
}

impl Pattern {
    pub(crate) fn parse(text: &str) -> Result<Pattern, Misread> {
        let text = text.trim();
        let wrong = |message: &str, help: &str| {
            Err(Misread::new(format!("the path {} {message}", quoted(text)), help))
        };
        let Some(path) = text.strip_prefix('/') else {
            return wrong("does not start with `/`", "write it from the root, as in `/search/**`");
        };
        if text.contains(['?', '#']) {
            return wrong("goes on after its end", "remove what follows `?` or `#`: paths only");
        }
        let path = path.strip_suffix('/').unwrap_or(path);
        let typed = path.split('/').filter(|_| !path.is_empty());
        if BYTES_MAX < text.len() || SEGMENTS_MAX < typed.clone().count() {
            return wrong("is too long", "write at most 32 segments and 1024 bytes");
        }
        let segments = typed.map(Segment::parse).collect::<Result<Vec<_>, _>>()?;
        if 2 < segments.iter().filter(|segment| **segment == Segment::Any).count() {
            return wrong("has more than two `**`", "write at most two");
        }
        let mut names = segments.iter().filter_map(Segment::name);
        while let Some(name) = names.next() {
            if names.clone().any(|other| other == name) {
                return wrong("names two segments alike", "give each segment a name of its own");
            }
        }
        let folded = segments.iter().map(Segment::folded).collect();
        let folded = Some(folded).filter(|folded| *folded != segments);
        Ok(Pattern { text: format!("/{path}"), segments, folded })
    }

    pub(crate) fn segments(&self, case: Case) -> &[Segment] {
        match (&self.folded, case) {
            (Some(folded), Case::Ignored) => folded,
            _ => &self.segments,
        }
    }

    /// The names of its segments.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(Segment::name)
    }

    pub(crate) fn matches(&self, path: &Normal<'_>, case: Case) -> bool {
        self.walk(path, case, |_, _| {})
    }

    /// What stands at `{name}` in a path that matches.
    pub(crate) fn capture<'n>(
        &self,
        path: &'n Normal<'_>,
        case: Case,
        name: &str,
    ) -> Option<&'n str> {
        let mut found = None;
        let matches = self.walk(path, case, |segment, part| {
            if segment.name() == Some(name) {
                found = Some(part);
            }
        });
        found.filter(|_| matches)
    }

    /// Whether every path that `other` matches is matched by this too. When unsure, no.
    pub(crate) fn covers(&self, other: &Pattern) -> bool {
        covers(&self.segments, &other.segments)
    }

    /// Whether `path` matches. `meet` is called with a segment of the pattern and the segment of
    /// the path that it met.
    fn walk<'n>(
        &self,
        path: &'n Normal<'_>,
        case: Case,
        mut meet: impl FnMut(&Segment, &'n str),
    ) -> bool {
        let mut path = path.segments(case);
        let mut groups = self.segments(case).split(|segment| *segment == Segment::Any);
        let head = groups.next().unwrap_or(&[]);
        let tail = groups.next_back();
        let between = groups.next().unwrap_or(&[]);
        let mut fits = |segment: &Segment, part: Option<&'n str>| {
            part.filter(|part| segment.accepts(part)).map(|part| meet(segment, part)).is_some()
        };
        if !head.iter().all(|segment| fits(segment, path.next())) {
            return false;
        }
        let Some(tail) = tail else { return path.next().is_none() };
        if !tail.iter().rev().all(|segment| fits(segment, path.next_back())) {
            return false;
        }
        while !starts_with(path.clone(), between) {
            if path.next().is_none() {
                return false;
            }
        }
        between.iter().all(|segment| fits(segment, path.next()))
    }
}

fn starts_with(mut path: Segments<'_>, segments: &[Segment]) -> bool {
    segments.iter().all(|segment| path.next().is_some_and(|part| segment.accepts(part)))
}

/// The first `**` of the one takes as much of the other as is needed; nothing else takes a `**`.
/// With two `**` at most, this tries no more than the square of the other's length.
fn covers(these: &[Segment], others: &[Segment]) -> bool {
    match (these.split_first(), others.split_first()) {
        (None, None) => true,
        (Some((Segment::Any, rest)), None) => covers(rest, others),
        (Some((Segment::Any, rest)), Some((_, other_rest))) => {
            covers(rest, others) || covers(these, other_rest)
        }
        (Some((this, rest)), Some((other, other_rest))) => {
            this.covers(other) && covers(rest, other_rest)
        }
        (None, Some(_)) | (Some(_), None) => false,
    }
}

impl Segment {
    fn parse(text: &str) -> Result<Segment, Misread> {
        let wrong = |message: &str, help: &str| {
            Err(Misread::new(format!("the segment {} {message}", quoted(text)), help))
        };
        match text {
            "" => return wrong("is empty", "write one slash between segments"),
            "." | ".." => return wrong("matches nothing", "write the path that is meant"),
            "*" => return Ok(Segment::One),
            "**" => return Ok(Segment::Any),
            _ => {}
        }
        if let Some(name) = text.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
            if name.is_empty() || !name.bytes().all(is_name) {
                return wrong("has no name", "name it with letters, digits, `_` and `-`");
            }
            return Ok(Segment::Named(name.to_owned()));
        }
        if text.contains(['{', '}']) {
            return wrong("is only partly named", FORM);
        }
        if text.contains("**") {
            return wrong("has a `**` inside", FORM);
        }
        let mut parts = text.split('*').map(|part| decoded(part).into_owned());
        match (parts.next(), text.contains('*')) {
            (Some(first), true) => Ok(Segment::Parts([first].into_iter().chain(parts).collect())),
            (Some(literal), false) if !matches!(&*literal, "." | "..") => {
                Ok(Segment::Literal(literal))
            }
            _ => wrong("matches nothing", "write the path that is meant"),
        }
    }

    /// This segment in lower case.
    fn folded(&self) -> Segment {
        let fold = |text: &String| folded(text).unwrap_or_else(|| text.clone());
        match self {
            Segment::Literal(literal) => Segment::Literal(fold(literal)),
            Segment::Parts(parts) => Segment::Parts(parts.iter().map(fold).collect()),
            Segment::One | Segment::Named(_) | Segment::Any => self.clone(),
        }
    }

    /// The name of a named segment.
    fn name(&self) -> Option<&str> {
        if let Segment::Named(name) = self { Some(name) } else { None }
    }

    /// Whether it is a `part` of a path.
    fn accepts(&self, part: &str) -> bool {
        match self {
            Segment::Literal(literal) => literal == part,
            Segment::Parts(parts) => accepts_parts(parts, part),
            Segment::One | Segment::Named(_) | Segment::Any => true,
        }
    }

    /// Whether it accepts all that `other` accepts.
    fn covers(&self, other: &Segment) -> bool {
        match (self, other) {
            (_, Segment::Any) => false,
            (Segment::One | Segment::Named(_) | Segment::Any, _) => true,
            (_, Segment::Literal(literal)) => self.accepts(literal),
            // No part has a slash, so that only our own `*` can accept one: and then it accepts
            // whatever stands there.
            (_, Segment::Parts(parts)) => self.accepts(&parts.join("/")),
            (_, Segment::One | Segment::Named(_)) => false,
        }
    }
}

/// The first part at the start, the last at the end, the others in between where they first fit.
fn accepts_parts(parts: &[String], text: &str) -> bool {
    let [first, between @ .., last] = parts else { return false };
    let rest = text.strip_prefix(first.as_str()).and_then(|rest| rest.strip_suffix(last.as_str()));
    let Some(mut rest) = rest else { return false };
    for part in between {
        let Some((_, after)) = rest.split_once(part.as_str()) else { return false };
        rest = after;
    }
    true
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod readings;
#[cfg(test)]
mod tests;
