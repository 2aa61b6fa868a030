//! What each room may touch: time, unsafe code, the terminal, and what a simulation must not see.

use super::Finding;
use super::source::{File, calls_macro, has_word};

const CLOCK: &str = "crates/store/src/clock.rs";
/// Waits for other processes, whose time no clock of ours is.
const WAIT: &str = "crates/testbed/src/wait.rs";
const PREFETCH: &str = "crates/store/src/memory/prefetch.rs";
const SIM: &str = "crates/sim/src";
const TIME: [&str; 3] = ["Instant", "SystemTime", "quanta"];
const PRINTS: [&str; 4] = ["print", "println", "eprint", "eprintln"];

/// How far above `unsafe` its reason may begin.
const SAFETY_LINES: usize = 6;

/// What would make two runs of one seed differ.
const UNSEEDED: [&str; 8] = [
    "std::time",
    "core::time",
    "std::thread",
    "std::net",
    "HashMap",
    "HashSet",
    // Groups hide what they name from this list.
    "use std::{",
    "use core::{",
];

/// Finds what is not in its room.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let rust = files.iter().filter(|file| file.is_rust());
    let rules = [time, unsafe_code, simulation, printing];
    rust.flat_map(|file| rules.into_iter().flat_map(|rule| rule(file))).collect()
}

fn time(file: &File) -> Vec<Finding> {
    if [CLOCK, WAIT].contains(&file.path.as_str())
        || file.is_under("bench")
        || file.is_under("xtask")
    {
        return Vec::new();
    }
    let names = |line| TIME.into_iter().find(|word| has_word(line, word));
    let found = file.code().filter_map(|(number, line)| Some((number, names(line)?)));
    let wrong = |word| format!("`{word}` outside the clock's room");
    let fix = "take a Tick or a Clock";
    found.map(|(number, word)| file.finding(number, wrong(word), fix)).collect()
}

fn unsafe_code(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, _) in file.code().filter(|(_, line)| has_word(line, "unsafe")) {
        if file.path != PREFETCH {
            let wrong = "unsafe code outside the prefetch's room".to_owned();
            findings.push(file.finding(number, wrong, "find a safe way"));
        } else if !is_argued(file, number) {
            let wrong = "unsafe code without its reason".to_owned();
            findings.push(file.finding(number, wrong, "say why it holds in `// SAFETY:` above"));
        }
    }
    findings
}

fn is_argued(file: &File, number: usize) -> bool {
    let above = (number.saturating_sub(SAFETY_LINES))..number;
    let mut lines = file.lines().filter(|(other, _)| above.contains(other));
    lines.any(|(_, line)| line.trim_start().starts_with("// SAFETY:"))
}

fn simulation(file: &File) -> Vec<Finding> {
    if !file.is_under(SIM) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in file.code() {
        for name in UNSEEDED.into_iter().filter(|name| line.contains(name)) {
            let wrong = format!("`{name}` in the simulator");
            let fix = "use ticks, one thread and ordered maps, and import one item a line";
            findings.push(file.finding(number, wrong, fix));
        }
    }
    findings
}

/// Commands print, examples show, tests explain themselves; a library does none of these.
fn printing(file: &File) -> Vec<Finding> {
    let prints_for_a_living =
        ["crates/cli", "bench", "xtask"].into_iter().any(|room| file.is_under(room));
    if prints_for_a_living || file.has_folder("examples") || file.has_folder("tests") {
        return Vec::new();
    }
    let calls = |line| PRINTS.into_iter().find(|name| calls_macro(line, name));
    let found = file.body().filter_map(|(number, line)| Some((number, calls(line)?)));
    let wrong = |name| format!("`{name}!` in a library");
    let fix = "return the text and let the command print it";
    found.map(|(number, name)| file.finding(number, wrong(name), fix)).collect()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::finds;

    #[test]
    fn only_the_clock_reads_time() {
        let text = "use std::time::Instant;\n";
        let found = "crates/store/src/key.rs:1: `Instant` outside the clock's room; \
                     take a Tick or a Clock";
        finds(check, &[("crates/store/src/key.rs", text)], &[found]);
        for fine in [super::CLOCK, super::WAIT, "bench/src/main.rs", "xtask/src/test.rs"] {
            finds(check, &[(fine, text)], &[]);
        }
    }

    #[test]
    fn tests_do_not_read_time_either() {
        let text = "#[cfg(test)]\nmod tests { use quanta::Clock; }\n";
        let found = "crates/store/src/key.rs:2: `quanta` outside the clock's room; \
                     take a Tick or a Clock";
        finds(check, &[("crates/store/src/key.rs", text)], &[found]);
    }

    #[test]
    fn unsafe_code_has_one_room() {
        let text = "// SAFETY: it is not.\nunsafe { go() }\n";
        let found = "bench/src/main.rs:2: unsafe code outside the prefetch's room; find a safe way";
        finds(check, &[("bench/src/main.rs", text)], &[found]);
        finds(check, &[("crates/store/src/memory/prefetch.rs", text)], &[]);
        finds(check, &[("crates/store/src/lib.rs", "#![forbid(unsafe_code)] // unsafe")], &[]);
    }

    #[test]
    fn unsafe_code_is_argued_nearby() {
        let path = "crates/store/src/memory/prefetch.rs";
        let far = format!("// SAFETY: far away.\n{}unsafe {{ go() }}\n", "\n".repeat(6));
        let near = far.replacen("\n\n", "\n", 1);
        let found = "crates/store/src/memory/prefetch.rs:8: unsafe code without its reason; \
                     say why it holds in `// SAFETY:` above";
        finds(check, &[(path, &far)], &[found]);
        finds(check, &[(path, &near)], &[]);
    }

    #[test]
    fn a_simulation_sees_only_its_seed() {
        let fix = "use ticks, one thread and ordered maps, and import one item a line";
        for bad in super::UNSEEDED {
            let found = format!("crates/sim/src/world.rs:2: `{bad}` in the simulator; {fix}");
            let text = format!("// {bad}\n{bad}\n");
            finds(check, &[("crates/sim/src/world.rs", &text)], &[&found]);
            finds(check, &[("crates/sim/tests/world.rs", &text)], &[]);
        }
    }

    #[test]
    fn libraries_do_not_print() {
        let text = "fn a() { println!(\"b\") }\n";
        let found = "crates/core/src/tick.rs:1: `println!` in a library; \
                     return the text and let the command print it";
        finds(check, &[("crates/core/src/tick.rs", text)], &[found]);
        for fine in ["crates/cli/src/main.rs", "xtask/src/lib.rs", "crates/tidegate/examples/a.rs"]
        {
            finds(check, &[(fine, text)], &[]);
        }
    }
}
