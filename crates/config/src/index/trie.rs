//! Rules by the path that they are for, segment by segment.

use std::collections::HashMap;

use foldhash::quality::RandomState;

use super::{Candidates, RuleNumber, put};
use crate::path::{Case, Normal, Pattern, Segment, Segments};

/// A tree of segments.
#[derive(Debug)]
pub(super) struct Trie {
    nodes: Vec<Node>,
}

#[derive(Debug, Default)]
struct Node {
    literal: Literals,
    /// Below any segment: those with a wildcard.
    any: Option<u32>,
    /// For paths that end here.
    here: Vec<RuleNumber>,
    /// For paths that go through here or end here.
    below: Vec<RuleNumber>,
}

/// The segments below a node. A few are compared one by one, which takes less than a hash.
#[derive(Debug)]
enum Literals {
    Few(Vec<(Box<str>, u32)>),
    Many(HashMap<Box<str>, u32, RandomState>),
}

impl Node {
    /// Whether nothing is left to be found from here on.
    #[inline]
    fn is_end(&self) -> bool {
        self.any.is_none() && self.here.is_empty() && self.literal.is_empty()
    }
}

impl Default for Literals {
    fn default() -> Literals {
        Literals::Few(Vec::new())
    }
}

impl Literals {
    const FEW_MAX: usize = 4;

    #[inline]
    fn is_empty(&self) -> bool {
        matches!(self, Literals::Few(few) if few.is_empty())
    }

    #[inline]
    fn get(&self, segment: &str) -> Option<u32> {
        match self {
            Literals::Few(few) => few.iter().find(|(text, _)| **text == *segment).map(|it| it.1),
            Literals::Many(many) => many.get(segment).copied(),
        }
    }

    /// Adds one that is not there.
    fn insert(&mut self, segment: &str, node: u32) {
        match self {
            Literals::Few(few) if few.len() < Literals::FEW_MAX => few.push((segment.into(), node)),
            Literals::Few(few) => {
                let known = std::mem::take(few).into_iter();
                *self = Literals::Many(known.chain([(segment.into(), node)]).collect());
            }
            Literals::Many(many) => drop(many.insert(segment.into(), node)),
        }
    }
}

impl Default for Trie {
    fn default() -> Trie {
        Trie { nodes: vec![Node::default()] }
    }
}

impl Trie {
    pub(super) fn put(&mut self, pattern: &Pattern, case: Case, rule: RuleNumber) {
        let mut at = 0;
        for segment in pattern.segments(case) {
            at = match segment {
                Segment::Any => {
                    self.nodes[at].below.push(rule);
                    return;
                }
                Segment::Literal(text) => self.literal(at, text),
                _ => self.any(at),
            };
        }
        self.nodes[at].here.push(rule);
    }

    fn literal(&mut self, at: usize, text: &str) -> usize {
        if let Some(next) = self.nodes[at].literal.get(text) {
            return next as usize;
        }
        let next = self.add();
        self.nodes[at].literal.insert(text, next);
        next as usize
    }

    fn any(&mut self, at: usize) -> usize {
        if let Some(next) = self.nodes[at].any {
            return next as usize;
        }
        let next = self.add();
        self.nodes[at].any = Some(next);
        next as usize
    }

    fn add(&mut self) -> u32 {
        self.nodes.push(Node::default());
        u32::try_from(self.nodes.len() - 1).unwrap_or(u32::MAX)
    }

    /// Adds the rules whose path is like this one.
    #[inline]
    pub(super) fn find(&self, path: &Normal<'_>, found: &mut Candidates) {
        // To a strict server no path has another case than its own.
        self.find_below(0, path.segments(Case::Ignored), found);
    }

    /// Adds those below a node. It goes no deeper than the patterns do, and looks at each node
    /// once.
    fn find_below(&self, at: u32, mut rest: Segments<'_>, found: &mut Candidates) {
        let node = &self.nodes[at as usize];
        put(&node.below, found);
        // Below `/**` nobody asks for more.
        if node.is_end() {
            return;
        }
        let Some(segment) = rest.next() else { return put(&node.here, found) };
        if let Some(below) = node.literal.get(segment) {
            self.find_below(below, rest.clone(), found);
        }
        if let Some(below) = node.any {
            self.find_below(below, rest, found);
        }
    }
}

/// Whether a pattern begins with `**`, so that every path leads to it.
pub(super) fn is_for_everything(pattern: &Pattern) -> bool {
    matches!(pattern.segments(Case::Kept), [Segment::Any, ..])
}

/// Whether only paths that the pattern matches lead to it.
pub(super) fn is_proved(pattern: &Pattern) -> bool {
    let is_plain = |segment: &Segment| match segment {
        Segment::Literal(_) | Segment::One | Segment::Named(_) => true,
        Segment::Parts(_) | Segment::Any => false,
    };
    match pattern.segments(Case::Kept) {
        [before @ .., Segment::Any] => before.iter().all(is_plain),
        all => all.iter().all(is_plain),
    }
}
