//! What the tree weighs: lines, files, and what makes a reader stumble. Counted, not judged.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use super::source::File;

/// Crates that nobody installs: they try, break and measure the others.
const TOOLS: [&str; 4] = ["crates/sim", "crates/testbed", "bench", "xtask"];

const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;

/// The words that define a type.
const DEFINES: [&str; 4] = ["struct", "enum", "trait", "type"];

/// The figures of a tree. Tests, examples and generated code are left out.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Size {
    /// Lines of Rust and Lua in what is shipped, and of tools.
    shipped: usize,
    shipped_files: usize,
    tools: usize,
    /// Names that two types of one crate have, one of which can be seen outside of its file.
    names_twice: usize,
    long_functions: usize,
    long_files: usize,
}

impl Size {
    pub(crate) fn of(files: &[File]) -> Size {
        let mut size = Size::default();
        for file in files.iter().filter(|file| counts(file)) {
            let lines = if file.is_rust() { file.body().count() } else { file.lines().count() };
            if TOOLS.into_iter().any(|tool| file.is_under(tool)) {
                size.tools += lines;
            } else {
                size.shipped += lines;
                size.shipped_files += 1;
            }
            size.long_files += usize::from(FILE_LINES_MAX < file.lines().count());
            size.long_functions += long_functions(file);
        }
        Size { names_twice: names_twice(files), ..size }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} lines shipped in {} files, {} of tools; {} names of types stand twice in a crate, \
             {} functions over {FUNCTION_LINES_MAX} lines, {} files over {FILE_LINES_MAX}",
            self.shipped,
            self.shipped_files,
            self.tools,
            self.names_twice,
            self.long_functions,
            self.long_files,
        )
    }
}

/// Whether a file is source of ours, and neither a test nor an example.
fn counts(file: &File) -> bool {
    let is_lua = Path::new(&file.path).extension().is_some_and(|it| it == "lua");
    let is_source = file.is_rust() || is_lua;
    let is_aside = ["tests", "examples", "fuzz"].into_iter().any(|it| file.has_folder(it));
    let is_tests = file.path.ends_with("/tests.rs");
    is_source && !is_aside && !is_tests && !file.is_generated()
}

/// Functions by their indentation, which rustfmt sees to.
fn long_functions(file: &File) -> usize {
    let lines: Vec<&str> = file.body().map(|(_, line)| line).collect();
    let begins = |line: &str| {
        let words = line.split(['(', '<']).next().unwrap_or_default();
        words.split_whitespace().any(|word| word == "fn")
    };
    let is_long = |&(index, line): &(usize, &&str)| {
        let indent = line.len() - line.trim_start().len();
        let close = format!("{}}}", " ".repeat(indent));
        let ends = lines[index..].iter().position(|line| line.trim_end() == close);
        begins(line) && ends.is_some_and(|length| FUNCTION_LINES_MAX <= length)
    };
    lines.iter().enumerate().filter(is_long).count()
}

fn names_twice(files: &[File]) -> usize {
    // By crate and name: how many, and whether any can be seen outside of its file.
    let mut types: BTreeMap<(&str, &str), (usize, bool)> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust() && counts(file)) {
        let Some((room, _)) = file.path.split_once("/src/") else { continue };
        for (name, is_seen) in file.body().filter_map(|(_, line)| defined(line)) {
            let (count, seen) = types.entry((room, name)).or_default();
            *count += 1;
            *seen |= is_seen;
        }
    }
    types.values().filter(|(count, is_seen)| 1 < *count && *is_seen).count()
}

/// The type that a line at the left margin defines, and whether it says `pub`.
fn defined(line: &str) -> Option<(&str, bool)> {
    if line.starts_with(' ') {
        return None;
    }
    let mut words = line.split([' ', '(', '<', '{', ':', ';', ')']).filter(|it| !it.is_empty());
    let is_seen = line.starts_with("pub");
    words.by_ref().find(|word| DEFINES.contains(word))?;
    words.next().map(|name| (name, is_seen))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(files: &[(&str, &str)]) -> Size {
        let files: Vec<File> = files.iter().map(|(path, text)| File::new(path, text)).collect();
        Size::of(&files)
    }

    #[test]
    fn what_is_shipped_is_told_from_tools_and_tests() {
        let seen = size(&[
            ("crates/a/src/lib.rs", "//! A.\nfn a() {}\n#[cfg(test)]\nmod tests {\n}\n"),
            ("crates/a/src/b.lua", "-- B.\nreturn 1\n"),
            ("crates/a/tests/c.rs", "//! C.\n"),
            ("crates/a/src/d/tests.rs", "//! D.\n"),
            ("crates/a/examples/e.rs", "//! E.\n"),
            ("bench/src/main.rs", "//! F.\n"),
            ("README.md", "# G\n"),
        ]);
        assert_eq!(seen, Size { shipped: 4, shipped_files: 2, tools: 1, ..Size::default() });
    }

    #[test]
    fn names_count_where_somebody_can_mistake_them() {
        let two = |first, second| {
            size(&[("crates/a/src/b.rs", first), ("crates/a/src/c.rs", second)]).names_twice
        };
        assert_eq!(two("pub(crate) struct Share;\n", "enum Share {\n}\n"), 1);
        assert_eq!(two("struct Share<T>(T);\n", "type Share = u8;\n"), 0);
        assert_eq!(two("pub struct Share;\n", "    struct Share;\n// struct Share\n"), 0);
        assert_eq!(two("pub trait Share {\n}\n", "pub struct Shares;\n"), 0);
        let apart =
            [("crates/a/src/b.rs", "pub struct A;\n"), ("crates/c/src/d.rs", "pub struct A;\n")];
        assert_eq!(size(&apart).names_twice, 0);
    }

    #[test]
    fn long_functions_and_files_are_counted() {
        let function =
            |lines: usize| format!("    fn a() {{\n{}    }}\n", "        b();\n".repeat(lines));
        let text = format!("impl A {{\n{}{}}}\n", function(68), function(69));
        assert_eq!(size(&[("crates/a/src/b.rs", &text)]).long_functions, 1);
        assert_eq!(size(&[("crates/a/src/b.rs", &"a();\n".repeat(401))]).long_files, 1);
        assert_eq!(size(&[("crates/a/src/b.rs", &"a();\n".repeat(400))]).long_files, 0);
    }
}
