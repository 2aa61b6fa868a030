//! `docs/policy.md`: its tables are made of those that files are read by, and its examples are
//! read. `docs/warnings.md` is made of the table of warnings.
//!
//! To renew the tables, run `UPDATE=1 cargo test -p tidegate-config reference`.

use std::path::{Path, PathBuf};
use std::{env, fs, ptr};

use super::messages::Pretended;
use crate::file::FILE;
use crate::lint::Lint;
use crate::load::read;
use crate::read::{Table, Takes};
use crate::source::Format;
use crate::suite::SUITE;

const MARK: &str = "<!-- fields of ";
const WARNINGS: &str = "<!-- warnings -->\n";

fn page() -> (PathBuf, String) {
    named("policy.md")
}

/// A page of the documentation.
fn named(name: &str) -> (PathBuf, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    let text = fs::read_to_string(&path).unwrap();
    (path, text)
}

/// Pages with tables, each with the table that leads to all others.
const PAGES: [(&str, &Table); 2] = [("policy.md", &FILE), ("policy-tests.md", &SUITE)];

/// Every table, in the order in which fields lead to it.
fn tables(first: &'static Table) -> Vec<&'static Table> {
    fn below(takes: &'static Takes, found: &mut Vec<&'static Table>) {
        match takes {
            Takes::Table(table) | Takes::Open(table, _) => add(table, found),
            Takes::List(item) | Takes::OneOrMore(item) | Takes::Map(item) => below(item, found),
            Takes::Either(ways) => ways.iter().for_each(|way| below(way, found)),
            Takes::Text
            | Takes::Scalar
            | Takes::Flag
            | Takes::Count { .. }
            | Takes::OneOf(_)
            | Takes::Form { .. } => {}
        }
    }
    fn add(table: &'static Table, found: &mut Vec<&'static Table>) {
        if !found.iter().any(|known| ptr::eq(*known, table)) {
            found.push(table);
            table.fields.iter().for_each(|field| below(&field.takes, found));
        }
    }
    let mut found = Vec::new();
    add(first, &mut found);
    found
}

fn fields(table: &Table) -> String {
    let row = |field: &crate::read::Field| {
        format!("| `{}` | {} | {} |\n", field.name, takes(&field.takes), field.about)
    };
    let rows: Vec<String> = table.fields.iter().map(row).collect();
    format!("| field | takes | what it is for |\n|---|---|---|\n{}", rows.concat())
}

fn takes(what: &Takes) -> String {
    let quoted = |names: &[&str]| {
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    match what {
        Takes::Text | Takes::Scalar => "text".to_owned(),
        Takes::Flag => "`true` or `false`".to_owned(),
        Takes::Count { min, max } if *max == u64::from(u32::MAX) => {
            format!("a number from {min}")
        }
        Takes::Count { min, max } => format!("a number from {min} to {max}"),
        Takes::OneOf(names) => format!("one of {}", quoted(names)),
        Takes::Form { like, .. } => format!("text such as {}", quoted(like)),
        Takes::List(item) => format!("a list, each {}", takes(item)),
        Takes::OneOrMore(item) => format!("{}; or a list", takes(item)),
        Takes::Map(value) => format!("a map of names to {}", takes(value)),
        Takes::Open(table, _) => format!("the fields of {}, and names of your own", table.what),
        Takes::Table(table) => format!("the fields of {}", table.what),
        Takes::Either(ways) => {
            let ways: Vec<String> = ways.iter().map(takes).collect();
            ways.join("; or ")
        }
    }
}

/// The page with its tables made anew.
fn renewed(text: &str, tables: &[&'static Table]) -> String {
    let mut parts = text.split(MARK);
    let mut page = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (what, rest) = part.split_once(" -->\n").unwrap();
        let (_, after) = rest.split_once("<!-- end -->").unwrap();
        let table = tables.iter().find(|table| table.what == what);
        let table = table.unwrap_or_else(|| panic!("there is no table of {what}"));
        page += &[MARK, what, " -->\n\n", &fields(table), "\n<!-- end -->", after].concat();
    }
    page
}

/// The page with its list of warnings made anew.
fn with_warnings(text: &str) -> String {
    let (before, rest) = text.split_once(WARNINGS).unwrap();
    let (_, after) = rest.split_once("<!-- end -->").unwrap();
    let row = |it: &Lint| format!("| [`{it}`](warnings.md#{it}) | {} |\n", it.meaning());
    let rows: String = Lint::ALL.iter().map(row).collect();
    let warnings = format!("\n| name | what it warns of |\n|---|---|\n{rows}\n<!-- end -->");
    [before, WARNINGS, &warnings, after].concat()
}

#[test]
fn the_reference_has_every_field_that_is_read() {
    for (name, first) in PAGES {
        let ((path, text), tables) = (named(name), tables(first));
        for table in &tables {
            let mark = format!("{MARK}{} -->", table.what);
            assert!(
                text.contains(&mark),
                "docs/{name} has no table for {}: add {mark}",
                table.what
            );
        }
        let mut renewed = renewed(&text, &tables);
        if ptr::eq(first, &raw const FILE) {
            renewed = with_warnings(&renewed);
        }
        if env::var_os("UPDATE").is_some() {
            fs::write(path, &renewed).unwrap();
        }
        let (_, text) = named(name);
        assert!(text == renewed, "docs/{name} is out of date: run the tests with UPDATE=1");
    }
}

/// A reader of one row knows what happens without the field.
#[test]
fn every_field_says_its_default_or_that_it_is_required() {
    for table in PAGES.into_iter().flat_map(|(_, first)| tables(first)) {
        for field in table.fields {
            let is_required = table.required.contains(&field.name);
            let says = |word: &str| field.about.contains(word);
            assert!(
                if is_required {
                    field.about.ends_with("Required.")
                } else {
                    says("Default: ") || says("Required, unless")
                },
                "`{}` of {}: {}",
                field.name,
                table.what,
                field.about
            );
        }
    }
}

/// A page with a section for each warning, one sentence a line.
fn warnings() -> String {
    let section = |it: &Lint| {
        let text = format!("{} {}", it.meaning(), it.page()).replace(". ", ".\n");
        format!("\n## {it}\n\n{text}\n")
    };
    let sections: String = Lint::ALL.iter().map(section).collect();
    format!("{WARNINGS_HEAD}{sections}")
}

const WARNINGS_HEAD: &str = "\
# Warnings

A warning says that a policy file can be used, but probably does not do what was meant.
`tidegate check` prints warnings, and `--strict` makes them errors.
The server logs them when it starts and at each reload.
`tidegate explain NAME` shows the same text as this page.

If a warning describes what you want, allow it by name: with `allow: NAME` in the rule, or at \
the top of the file for all of its rules.

```yaml
allow: weak-secret
rules:
  - { name: everything, unlimited: true }
  - { name: some-day, limit: 5/s, allow: [unreachable-rule] }
```
";

#[test]
fn the_page_of_warnings_has_all_of_them() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/warnings.md");
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, warnings()).unwrap();
    }
    let text = fs::read_to_string(path).unwrap();
    assert!(text == warnings(), "docs/warnings.md is out of date: run the tests with UPDATE=1");
}

/// Without a rule there would be nothing to read.
fn with_rule(text: &str) -> String {
    if text.contains("rules:") { text.to_owned() } else { format!("{text}{RULE}") }
}

const RULE: &str = "rules: [{ name: any, limit: 100/min }]\n";

#[test]
fn every_example_of_the_reference_is_read() {
    let (_, text) = page();
    let mut examples = 0;
    for (fence, format) in [("yaml", Format::Yaml), ("toml", Format::Toml), ("json", Format::Json)]
    {
        for block in text.split(&format!("```{fence}\n")).skip(1) {
            let (example, _) = block.split_once("```").unwrap();
            let example =
                if format == Format::Yaml { with_rule(example) } else { example.to_owned() };
            let file = ("example".to_owned(), example.clone().into_bytes(), format);
            let report = match read(&[file], &Pretended) {
                Ok(loaded) => loaded.report,
                Err(report) => report,
            };
            assert_eq!(report.summary(), "no problems", "{report}\nin\n{example}");
            examples += 1;
        }
    }
    assert!(20 < examples, "only {examples} examples were found");
}

#[test]
fn the_policy_on_the_page_about_sharing_is_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sharing.md");
    let text = fs::read_to_string(path).unwrap();
    let (_, example) = text.split_once("```yaml\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let rules = crate::Rules::from_text(example).unwrap().rules;
    assert_eq!(rules.shares().len(), 1);
}

/// What the page says of limits is so.
#[test]
fn every_limit_of_the_reference_is_one() {
    let (_, text) = page();
    let (_, grammar) = text.split_once("## Limits\n").unwrap();
    let (grammar, _) = grammar.split_once("\n### ").unwrap();
    let limits: Vec<&str> = grammar
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|it| it.0)
        .collect();
    assert!(8 < limits.len(), "{limits:?}");
    for limit in limits {
        assert!(crate::quantity::limit(limit).is_ok(), "{limit}");
    }
}

#[test]
fn a_line_has_one_sentence() {
    let (_, text) = page();
    let mut is_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        is_code ^= line.starts_with("```");
        let is_prose = !is_code && !line.starts_with(['|', '#', '<']);
        assert!(!is_prose || !line.contains(". "), "docs/policy.md:{number}: {line}");
    }
}
