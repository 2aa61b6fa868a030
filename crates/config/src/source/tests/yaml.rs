//! What is YAML's own.

use std::fmt::Write;

use super::*;

#[test]
fn words_are_those_of_the_core_schema() {
    check(
        Format::Yaml,
        "[no, yes, on, ~, null, true, False, 1, 007, 1.5, 0x1f, 'true', \"1\", 10/min]",
        "[\"no\", \"yes\", \"on\", null, null, true, false, 1, ~007, ~1.5, ~0x1f, \"true\", \"1\", \
         \"10/min\"]",
    );
    check(
        Format::Yaml,
        "1: a\n~: b\ntrue: c\n0x1F: d",
        r#"{1: "a", ~: "b", true: "c", 0x1F: "d"}"#,
    );
    check(
        Format::Yaml,
        "[9223372036854775807, 9223372036854775808]",
        "[9223372036854775807, ~9223372036854775808]",
    );
}

#[test]
fn aliases_are_copies() {
    check(
        Format::Yaml,
        "a: &x {b: 1}\nc: *x\nd: [*x, &y 2, *y]",
        "{a: {b: 1}, c: {b: 1}, d: [{b: 1}, 2, 2]}",
    );
    check(Format::Yaml, "&k a: 1\nb: *k", r#"{a: 1, b: "a"}"#);
    let text = "a: &x [1]\nb: *x\n";
    let root = read(0, text.as_bytes(), Format::Yaml).unwrap();
    assert_eq!(typed(&root, text.as_bytes()), ["a=", "1", "b=", "1"]);
    let Value::Map(entries) = root.value else { panic!("not a map") };
    assert_eq!((entries[1].node.at.start, entries[1].node.at.end), (13, 15));
}

#[test]
fn aliases_that_repeat_each_other_are_refused_in_little_memory() {
    let mut laughs = "a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha]\n".to_owned();
    for level in 1..30 {
        let repeated = vec![format!("*a{}", level - 1); 9].join(", ");
        writeln!(laughs, "a{level}: &a{level} [{repeated}]").unwrap();
    }
    check_refused(Format::Yaml, laughs.as_bytes(), "more than `2000000` values");
    // One long text, and many aliases of it.
    let text = format!("a: &a {}\nb: [{}1]", "x".repeat(1 << 20), "*a,".repeat(1_000_000));
    check_refused(Format::Yaml, text.as_bytes(), "more than `2000000` values");
    // One long name.
    let name = "x".repeat(1000);
    let text = format!("a: &a {{{name}: 1}}\nb: [{}1]", "*a,".repeat(150_000));
    check_refused(Format::Yaml, text.as_bytes(), "more than `2000000` values");
    // Anchors in anchors: each would keep a copy of all that is in it.
    let text = "&a [".repeat(30) + &"1,".repeat(1_900_000) + &"]".repeat(30);
    check_refused(Format::Yaml, text.as_bytes(), "more than `2000000` values");
    // Each alias one deeper than the one before.
    let mut stairs = "a0: &a0 [1]\n".to_owned();
    for level in 1..40 {
        writeln!(stairs, "a{level}: &a{level} [*a{}]", level - 1).unwrap();
    }
    check_refused(Format::Yaml, stairs.as_bytes(), "nested more than `32` deep");
}

#[test]
fn what_yaml_could_do_and_we_do_not_read_is_named() {
    let yaml = |text: &str, wanted: &str| check(Format::Yaml, text, wanted);
    yaml("a: 1\n---\nb: 2\n", "5..8: a second document starts here | use two files");
    yaml("a: !!str 1\n", "3..8: tags are not read | put text in quotes");
    yaml("a: !mine {b: 1}\n", "3..8: tags are not read | put text in quotes");
    yaml(
        "%YAML 1.1\n---\na: 1\n",
        "0..1: directives are not read | remove the line that starts with `%`",
    );
    yaml(
        "a: &x {b: 1}\nc:\n  <<: *x\n",
        "18..20: merge keys (`<<`) are not read | \
         write the fields out, or use an alias as the whole value",
    );
    yaml("a: &x [*x]\n", "7..9: the alias stands inside of what it repeats | write the value out");
    let help = "write `name: value`; put text that starts with `[`, `{` or `*` in quotes";
    yaml("[a]: 1\n", &format!("0..1: the name of a field is text, not a list | {help}"));
    yaml("? {a: 1}\n: 1\n", &format!("2..3: the name of a field is text, not a map | {help}"));
    yaml(
        "a: &x b\n*x : 1\n",
        &format!("8..10: the name of a field is text, not an alias | {help}"),
    );
    yaml(": 1\n", "0..0: a field has no name | write `name: value`");
}

#[test]
fn a_document_may_be_marked_and_ended() {
    check(Format::Yaml, "---\na: 1\n...\n", "{a: 1}");
    check(Format::Yaml, "--- # x\na: 1\n...\n# y\n", "{a: 1}");
    check(Format::Yaml, "'<<': 1", "{<<: 1}");
    check(Format::Yaml, "'': 1", "{: 1}");
}

#[test]
fn a_field_given_twice_names_both_places() {
    check(
        Format::Yaml,
        "a: 1\nb:\n  c: 1\n  d: 2\n  'c': 3\n",
        "24..27: the field `c` is given twice | the first is in line 3: keep one of them",
    );
    check(
        Format::Yaml,
        "\u{feff}a: 1\na: 2\na: 3\n",
        "8..9: the field `a` is given twice | the first is in line 1: keep one of them",
    );
    check(
        Format::Yaml,
        "\u{feff}? a\n: 1\n? a\n: 2\n",
        "13..14: the field `a` is given twice | the first is in line 1: keep one of them",
    );
    check(Format::Yaml, "a: {b: 1}\nc: {b: 1}", "{a: {b: 1}, c: {b: 1}}");
}

#[test]
fn what_is_no_yaml_comes_with_advice() {
    let yaml = |text: &str, wanted: &str| {
        let problem = read(0, text.as_bytes(), Format::Yaml).unwrap_err();
        assert!(problem.message.starts_with("the file is not valid YAML: "), "{problem:?}");
        assert_eq!(problem.help.as_deref(), Some(wanted), "{problem:?}");
    };
    yaml("a:\n\tb: 1\n", "indent with spaces");
    yaml("a: 'x\n", "close the quote");
    yaml("a: [1, 2\n", "close the bracket");
    yaml("a: *x\n", "define it above with `&`, or put text that starts with `*` in quotes");
    yaml("a: b: c\n", "put text that has `: ` in it in quotes, and indent fields alike");
    yaml("a: @x\n", "put text that starts with this character in quotes");
    yaml("a: 1\nb\n", "write `name: value`, with a space after the colon");
    yaml("a: \"\\q\"\n", "write `\\\\` for a backslash, or use '...' quotes");
}
