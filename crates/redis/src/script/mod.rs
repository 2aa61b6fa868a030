//! The scripts: the core's transitions once more, in Lua, where the states are.
//!
//! They judge and charge, and hand back the state that they found; what to tell the caller is then
//! worked out from it by the core itself. So the numbers of an answer are the core's own, and every
//! single answer checks that script and core agree on what passed.

use std::sync::LazyLock;

use tidegate_core::{Grains, Shape};

use crate::wire::Script;

/// The scripts that decide.
///
/// Redis runs a script from its first line on every call, so one that defines everything takes
/// longer to begin than to decide. So each call is sent the shortest that will do.
#[derive(Debug)]
pub(crate) struct Decide {
    whole_line: Script,
    narrow_line: Script,
    simple: [Script; 4],
    by_shape: [Script; 4],
    mixed: Script,
}

/// What kind of call it is: what the script has to know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Form {
    /// Requests that differ in their keys only and all in these, by one line that is narrow and of
    /// whole ticks.
    WholeLine,
    /// Requests that differ in their keys only, by one line that is narrow.
    NarrowLine,
    /// Requests that differ in their keys only, by one policy of this shape.
    Simple(Shape),
    /// Anything else, by policies of this shape.
    Of(Shape),
    /// Anything.
    Mixed,
}

/// Decides many requests in one call.
pub(crate) static DECIDE: LazyLock<Decide> = LazyLock::new(|| Decide {
    whole_line: Script::new(whole_line_text()),
    narrow_line: Script::new(concat!(include_str!("clock.lua"), include_str!("narrow_line.lua"))),
    simple: [1, 2, 3, 4].map(|number| Script::new(simple_text(number))),
    by_shape: [1, 2, 3, 4].map(|number| Script::new(text(&[number]))),
    mixed: Script::new(text(&[1, 2, 3, 4])),
});

/// Moves a state from a former policy's key to the present one's.
pub(crate) static CARRY: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("carry.lua")));

/// Has nodes tell each other what is left of limits that follow the load.
pub(crate) static FACTOR: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("factor.lua")));

/// Has nodes count each other.
pub(crate) static NODES: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("nodes.lua")));

/// States are kept for a second longer than they count: clocks of primary and replica differ.
pub(crate) const SLACK_MILLIS: u64 = 1_000;

const CLOCK: &str = include_str!("clock.lua");

/// The shapes: the name that each file gives its table, and the file.
const SHAPES: [(&str, &str); 4] = [
    ("line", include_str!("line.lua")),
    ("fixed_window", include_str!("fixed_window.lua")),
    ("sliding_window", include_str!("sliding_window.lua")),
    ("log", include_str!("log.lua")),
];

impl Decide {
    pub(crate) fn script(&self, form: Form) -> &Script {
        match form {
            Form::WholeLine => &self.whole_line,
            Form::NarrowLine => &self.narrow_line,
            Form::Simple(shape) => &self.simple[number(shape) - 1],
            Form::Of(shape) => &self.by_shape[number(shape) - 1],
            Form::Mixed => &self.mixed,
        }
    }
}

/// The number by which a script knows a shape.
pub(crate) const fn number(shape: Shape) -> usize {
    match shape {
        Shape::Line(_) => 1,
        Shape::FixedWindow { .. } | Shape::Calendar { .. } => 2,
        Shape::SlidingWindow { .. } => 3,
        Shape::Log { .. } => 4,
    }
}

/// Whether a line never needs a word, nor more than three digits of parts.
pub(crate) fn is_narrow(shape: Shape) -> bool {
    let Shape::Line(grains) = shape else { return false };
    // A burst that takes 35 years to refill: with any clock until 2076 that is below a word.
    let refill = u128::from(grains.burst()) * u128::from(grains.cell()) / u128::from(grains.tick());
    grains.tick() <= 1_000 && refill < 1 << 50
}

/// Whether such a line has no parts of ticks at all.
pub(crate) fn is_whole(grains: &Grains) -> bool {
    grains.tick() == 1
}

/// The script for calls by a line of whole ticks, which knows how long states are kept: that is
/// the same in all calls but those of tests, and one argument less.
fn whole_line_text() -> String {
    format!("local SLACK = {SLACK_MILLIS}\n{}", include_str!("whole_line.lua"))
}

/// A script for simple calls by one shape.
fn simple_text(number: usize) -> String {
    let (name, source) = SHAPES[number - 1];
    format!("{CLOCK}{source}local SHAPE = {name}\n{}", include_str!("simple.lua"))
}

/// The script for any call by these shapes. Each stands in a block of its own: their helpers have
/// like names.
fn text(numbers: &[usize]) -> String {
    let block = |&number: &usize| {
        let (name, source) = SHAPES[number - 1];
        format!("do\n{source}SHAPES[{number}] = {name}\nend\n")
    };
    let blocks: String = numbers.iter().map(block).collect();
    format!("{CLOCK}local SHAPES = {{}}\n{blocks}{}", include_str!("decide.lua"))
}
