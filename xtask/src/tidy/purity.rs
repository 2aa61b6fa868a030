//! The core is pure: no `std`, no floats, no unsafe code, and no algorithm knows another.

use super::source::{File, has_word};
use super::{ALGORITHMS, Finding};

const LIB: &str = "crates/core/src/lib.rs";
const SRC: &str = "crates/core/src";
const ROOM: &str = "crates/core/src/algorithm/";

const ATTRIBUTES: [&str; 3] =
    ["#![no_std]", "#![forbid(unsafe_code)]", "#![deny(clippy::float_arithmetic)]"];

/// Words that the core's own code never uses, and the way out.
const FORBIDDEN: [(&str, &str); 3] = [
    ("std", "use `core` or `alloc`"),
    ("f32", "count in whole grains and ticks"),
    ("f64", "count in whole grains and ticks"),
];

/// Finds what the core may not hold.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let core = files.iter().filter(|file| file.is_rust() && file.is_under(SRC));
    core.flat_map(|file| [attributes(file), words(file), neighbors(file)].concat()).collect()
}

fn attributes(file: &File) -> Vec<Finding> {
    let is_set = |attribute: &&str| file.code().any(|(_, line)| line.trim_end() == *attribute);
    let missing = ATTRIBUTES.into_iter().filter(|attribute| file.path == LIB && !is_set(attribute));
    let wrong = |attribute| format!("the core does not say `{attribute}`");
    missing.map(|attribute| file.finding(1, wrong(attribute), "put it back")).collect()
}

fn words(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.body() {
        for (word, fix) in FORBIDDEN.into_iter().filter(|(word, _)| has_word(line, word)) {
            findings.push(file.finding(number, format!("`{word}` in the core"), fix));
        }
    }
    findings
}

/// Only a file of the room that is named for an algorithm is held to this; `mod.rs` names all.
fn neighbors(file: &File) -> Vec<Finding> {
    let name = file.path.strip_prefix(ROOM).and_then(|name| name.strip_suffix(".rs"));
    let own = ALGORITHMS.into_iter().find(|algorithm| Some(&*snake(algorithm)) == name);
    let Some(own) = own else { return Vec::new() };
    let mut findings = Vec::new();
    for (number, line) in file.body() {
        for other in ALGORITHMS.into_iter().filter(|other| *other != own && names(line, other)) {
            let wrong = format!("`{own}` uses `{other}`");
            let fix = "move what both need to a file of its own beside the room";
            findings.push(file.finding(number, wrong, fix));
        }
    }
    findings
}

/// Whether `line` names an algorithm, by its module or by its type.
fn names(line: &str, algorithm: &str) -> bool {
    has_word(line, &snake(algorithm)) || has_word(line, &camel(algorithm))
}

fn snake(algorithm: &str) -> String {
    algorithm.replace('-', "_")
}

fn camel(algorithm: &str) -> String {
    let capital = |part: &str| part[..1].to_uppercase() + &part[1..];
    algorithm.split('-').map(capital).collect()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::finds;

    const GOOD: &str = "//! Decides.\n\n#![no_std]\n#![forbid(unsafe_code)]\n\
                        #![deny(clippy::float_arithmetic)]\n";

    #[test]
    fn a_pure_core_is_fine() {
        let tests =
            "//! Uses no `std::time`.\nfn a() {}\n\n#[cfg(test)]\nmod tests { use std::vec; }\n";
        finds(check, &[("crates/core/src/lib.rs", GOOD), ("crates/core/src/tick.rs", tests)], &[]);
        finds(check, &[("crates/store/src/lib.rs", "use std::vec;\nfn a(b: f64) {}\n")], &[]);
    }

    #[test]
    fn a_missing_attribute_is_found() {
        let bad = GOOD.replace("#![no_std]\n", "// #![no_std]\n");
        let found = "crates/core/src/lib.rs:1: the core does not say `#![no_std]`; put it back";
        finds(check, &[("crates/core/src/lib.rs", &bad)], &[found]);
    }

    #[test]
    fn std_and_floats_are_found() {
        finds(
            check,
            &[("crates/core/src/tick.rs", "use std::vec;\n\nfn a(b: f64, c: f32) {}\n")],
            &[
                "crates/core/src/tick.rs:1: `std` in the core; use `core` or `alloc`",
                "crates/core/src/tick.rs:3: `f32` in the core; count in whole grains and ticks",
                "crates/core/src/tick.rs:3: `f64` in the core; count in whole grains and ticks",
            ],
        );
    }

    #[test]
    fn algorithms_that_use_each_other_are_found() {
        let found = "crates/core/src/algorithm/gcra.rs:1: `gcra` uses `leaky-queue`; \
                     move what both need to a file of its own beside the room";
        for line in ["use super::leaky_queue::room;", "use super::{A, LeakyQueue};"] {
            finds(check, &[("crates/core/src/algorithm/gcra.rs", line)], &[found]);
            finds(check, &[("crates/core/src/algorithm/mod.rs", line)], &[]);
            finds(check, &[("crates/core/src/algorithm/leaky_queue.rs", line)], &[]);
        }
    }
}
