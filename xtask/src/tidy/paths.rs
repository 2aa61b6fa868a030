//! Paths that documents name: each file and folder exists.
//!
//! A map that names what is gone is worse than none, and nobody thinks of it when a file moves.

use std::collections::BTreeSet;
use std::path::Path;

use super::Finding;
use super::source::File;

/// The documents that show the way through the code: paths between backticks count here.
const MAPS: [&str; 2] = ["ARCHITECTURE.md", "docs/design"];

/// How a path in a map may end, besides a slash.
const ENDINGS: [&str; 8] = ["rs", "lua", "md", "toml", "json", "txt", "yaml", "yml"];

/// Where most of the code is: maps leave it out.
const CRATES: &str = "crates/";

/// Finds paths in maps, and links in any document, that lead nowhere.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let tree = Tree::of(files);
    let documents = files.iter().filter(|file| has_ending(&file.path, "md"));
    documents.flat_map(|file| [named(file, &tree), linked(file, &tree)].concat()).collect()
}

/// What there is: files and the folders above them.
struct Tree<'a>(BTreeSet<&'a str>);

impl<'a> Tree<'a> {
    fn of(files: &'a [File]) -> Tree<'a> {
        let above = |path: &'a str| path.match_indices('/').map(move |(at, _)| &path[..at]);
        let paths = files.iter().map(|file| file.path.as_str());
        Tree(paths.flat_map(|path| above(path).chain([path])).collect())
    }

    fn has(&self, path: &str) -> bool {
        self.0.contains(path.trim_end_matches('/'))
    }
}

fn named(file: &File, tree: &Tree<'_>) -> Vec<Finding> {
    if !MAPS.into_iter().any(|map| file.path == map || file.is_under(map)) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        // The folder that was named last in this line: what follows may be in it.
        let mut folder = "";
        for span in line.split('`').skip(1).step_by(2) {
            if span.starts_with(CRATES) && !is_file(span) && tree.has(span) {
                folder = span;
            } else if is_path(span) {
                let places =
                    [span.to_owned(), [CRATES, span].concat(), [folder, "/", span].concat()];
                if !places.iter().any(|place| tree.has(place)) {
                    let wrong = format!("there is no `{span}`");
                    let fix = "name it from the root, from `crates/`, or after its folder";
                    findings.push(file.finding(number, wrong, fix));
                }
            }
        }
    }
    findings
}

fn is_path(span: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let has_form = span.starts_with(CRATES) || span.ends_with('/') || is_file(span);
    has_form && !span.starts_with('/') && span.chars().all(is_plain)
}

fn is_file(span: &str) -> bool {
    ENDINGS.into_iter().any(|ending| has_ending(span, ending))
}

fn has_ending(path: &str, ending: &str) -> bool {
    Path::new(path).extension().is_some_and(|it| it == ending)
}

fn linked(file: &File, tree: &Tree<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        for target in line.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            // Anything else is a web page, a part of this one, or an item of the code.
            if is_file(target) && !target.contains("://") && !tree.has(&beside(file, target)) {
                let wrong = format!("a link to `{target}`, which is not there");
                findings.push(file.finding(number, wrong, "link what it has become"));
            }
        }
    }
    findings
}

/// The path of what `target` means in `file`, from the root.
fn beside(file: &File, target: &str) -> String {
    let mut parts: Vec<&str> = file.path.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::finds;

    const CODE: [(&str, &str); 2] = [("crates/a/src/b/mod.rs", ""), ("docs/design/c.md", "")];

    #[track_caller]
    fn check_one(path: &str, text: &str, expected: &[&str]) {
        let mut files = CODE.to_vec();
        files.push((path, text));
        finds(check, &files, expected);
    }

    #[test]
    fn what_is_there_may_be_named() {
        for text in [
            "`crates/a/src/b/mod.rs`, `a/src/b/mod.rs` and `docs/design/c.md`",
            "`crates/a`, `a/src/` and `crates/a/src`: `b/mod.rs`, `b/`",
            "`POST /v1/check`, `/metrics`, `Kind`, `a and b.rs`, `*.rs`",
        ] {
            check_one("ARCHITECTURE.md", text, &[]);
        }
    }

    #[test]
    fn a_path_that_leads_nowhere_is_found() {
        let fix = "name it from the root, from `crates/`, or after its folder";
        for gone in ["b/mod.rs", "a/src/c.rs", "crates/b", "b/", "crates/a/src/b.rs"] {
            for map in ["ARCHITECTURE.md", "docs/design/d.md"] {
                let found = format!("{map}:2: there is no `{gone}`; {fix}");
                check_one(map, &format!("`crates/a/src`\n`{gone}`"), &[&found]);
            }
            check_one("docs/d.md", &format!("`{gone}`"), &[]);
        }
    }

    #[test]
    fn a_folder_counts_until_the_next_one() {
        let fix = "name it from the root, from `crates/`, or after its folder";
        let found = format!("ARCHITECTURE.md:1: there is no `b/mod.rs`; {fix}");
        check_one(
            "ARCHITECTURE.md",
            "`crates/a/src`: `b/mod.rs`, `crates/a`: `b/mod.rs`",
            &[&found],
        );
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let text = "[x](design/c.md#part) [y](https://a.example/b.md) [z](#part) [i](Item)";
        check_one("docs/d.md", text, &[]);
        check_one("docs/e/d.md", "[x](../design/./c.md)", &[]);
        let found = "docs/d.md:1: a link to `c.md`, which is not there; link what it has become";
        check_one("docs/d.md", "[x](c.md)", &[found]);
    }
}
