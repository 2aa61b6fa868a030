//! What holds in every format: equal trees, exact places, and bounds that hold quickly.

use super::*;

const YAML: &str = include_str!("../samples/policy.yaml");
const TOML: &str = include_str!("../samples/policy.toml");
const JSON: &str = include_str!("../samples/policy.json");

/// The tree without its places.
fn shape(node: &Node) -> String {
    match &node.value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Integer(whole) => whole.to_string(),
        Value::Fraction(typed) => format!("~{typed}"),
        Value::Text(text) => format!("{text:?}"),
        Value::List(nodes) => {
            format!("[{}]", nodes.iter().map(shape).collect::<Vec<_>>().join(", "))
        }
        Value::Map(entries) => {
            let field = |entry: &Entry| format!("{}: {}", entry.name, shape(&entry.node));
            format!("{{{}}}", entries.iter().map(field).collect::<Vec<_>>().join(", "))
        }
    }
}

/// What the places of the leaves, and of names before `=`, hold in the file.
fn typed(node: &Node, text: &[u8]) -> Vec<String> {
    let part = |at: Span| {
        let range = at.start as usize..at.end as usize;
        String::from_utf8(text[range].to_vec()).unwrap()
    };
    match &node.value {
        Value::List(nodes) => nodes.iter().flat_map(|node| typed(node, text)).collect(),
        Value::Map(entries) => {
            let field = |entry: &Entry| {
                let mut field = typed(&entry.node, text);
                field.insert(0, part(entry.name_at) + "=");
                field
            };
            entries.iter().flat_map(field).collect()
        }
        _ => vec![part(node.at)],
    }
}

#[track_caller]
fn check(format: Format, text: &str, wanted: &str) {
    let found = match read(0, text.as_bytes(), format) {
        Ok(root) => shape(&root),
        Err(problem) => {
            let at = problem.at.start as usize..problem.at.end as usize;
            let help = problem.help.map(|help| format!(" | {help}")).unwrap_or_default();
            format!("{}..{}: {}{help}", at.start, at.end, problem.message)
        }
    };
    assert_eq!(found, wanted, "{}", text.chars().take(200).collect::<String>());
}

/// Checks that a file is refused, and that this is quick.
#[track_caller]
fn check_refused(format: Format, text: &[u8], wanted: &str) {
    let cpu_start = cpu_ticks();
    let problem = read(0, text, format).unwrap_err();
    assert!(problem.message.contains(wanted), "{}", problem.message);
    // Tests run beside others: only what is far off is a failure.
    assert!(cpu_ticks() - cpu_start < 500, "took {} ticks", cpu_ticks() - cpu_start);
}

/// Hundredths of a second that this thread has worked.
fn cpu_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    let numbers = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    numbers.skip(11).take(2).filter_map(|number| number.parse::<u64>().ok()).sum()
}

#[test]
fn equal_files_are_equal_trees_in_every_format() {
    let yaml = shape(&read(0, YAML.as_bytes(), Format::Yaml).unwrap());
    assert_eq!(yaml, shape(&read(0, TOML.as_bytes(), Format::Toml).unwrap()));
    assert_eq!(yaml, shape(&read(0, JSON.as_bytes(), Format::Json).unwrap()));
    // JSON is YAML, too.
    assert_eq!(yaml, shape(&read(0, JSON.as_bytes(), Format::Yaml).unwrap()));
    assert!(yaml.starts_with("{version: 1, name: \"Größe 😀\", rules: [{name: "), "{yaml}");
}

#[track_caller]
fn check_places(format: Format, text: &str, wanted: &[&str]) {
    for (mark, file) in [("", 0), ("\u{feff}", 7)] {
        for (from, to) in [("\n", "\n"), ("\n", "\r\n")] {
            let text = mark.to_owned() + &text.replace(from, to);
            let root = read(file, text.as_bytes(), format).unwrap();
            assert_eq!(typed(&root, text.as_bytes()), wanted);
            assert_eq!(root.at.file, file);
        }
    }
}

#[test]
fn places_are_exact() {
    check_places(
        Format::Yaml,
        "ä: ö # x\n'b c': [1, \"x\\n\"]\nd:\n  - -5\n  - {e: no}\nf: |\n  text\n\ng: *h\n"
            .replace("*h", "1.5")
            .as_str(),
        &["ä=", "ö", "'b c'=", "1", "\"x\\n\"", "d=", "-5", "e=", "no", "f=", "text", "g=", "1.5"],
    );
    check_places(
        Format::Toml,
        "ab = 'ö' # x\n'b c' = [1, \"x\\n\"]\nd.e = 0x1f\n[[f]]\ng = 1.5\nh = 1979-05-27\n",
        &[
            "ab=",
            "'ö'",
            "'b c'=",
            "1",
            "\"x\\n\"",
            "d=",
            "e=",
            "0x1f",
            "f=",
            "g=",
            "1.5",
            "h=",
            "1979-05-27",
        ],
    );
    check_places(
        Format::Json,
        "{\"ä\":\"ö\",\t\"b\" : [1, -2.5e3,null],\n\"c\":{\"d\":true}}\n",
        &["\"ä\"=", "\"ö\"", "\"b\"=", "1", "-2.5e3", "null", "\"c\"=", "\"d\"=", "true"],
    );
}

#[test]
fn collections_have_places_too() {
    let text = "a:\n  - x\n  - y\n\n# end\nb: {c: 1}\n";
    let root = read(0, text.as_bytes(), Format::Yaml).unwrap();
    let Value::Map(entries) = root.value else { panic!("not a map") };
    let part = |at: Span| &text[at.start as usize..at.end as usize];
    assert_eq!(part(entries[0].node.at), "- x\n  - y");
    assert_eq!(part(entries[1].node.at), "{c: 1}");
}

#[test]
fn the_ending_of_a_name_is_its_format() {
    for (path, wanted) in [
        ("a/policy.json", Format::Json),
        ("policy.TOML", Format::Toml),
        ("policy.yml", Format::Yaml),
        ("policy", Format::Yaml),
        (".json", Format::Yaml),
        ("", Format::Yaml),
    ] {
        assert_eq!(Format::of_path(Path::new(path)), wanted, "{path}");
    }
}

#[test]
fn an_empty_file_is_refused() {
    let wanted = "0..0: the file is empty | write at least one field, or remove the file";
    for text in ["", "\n\n", "# only a comment\n", "  \n"] {
        check(Format::Yaml, text, wanted);
        check(Format::Toml, text, wanted);
    }
    check(Format::Yaml, "---\n", wanted);
    for text in ["", " \r\n\t"] {
        check(Format::Json, text, wanted);
    }
}

#[test]
fn what_is_no_text_is_named_with_its_place() {
    for format in [Format::Yaml, Format::Toml, Format::Json] {
        let problem = read(0, b"\xef\xbb\xbfa: b\n\xff: c\n", format).unwrap_err();
        assert_eq!(problem.message, "the byte `0xff` is not part of UTF-8 text");
        assert_eq!((problem.at.start, problem.at.end), (8, 9));
        let problem = read(0, b"a: \xf0\x9f", format).unwrap_err();
        assert_eq!((problem.at.start, problem.at.end), (3, 5));
    }
}

#[test]
fn a_file_of_too_many_bytes_is_refused() {
    let large = vec![b' '; 17 << 20];
    for format in [Format::Yaml, Format::Toml, Format::Json] {
        check_refused(format, &large, "the file has `17825792` bytes, but at most `16777216`");
    }
}

#[test]
fn a_file_of_too_many_values_is_refused() {
    let items = "1,".repeat(8_000_000);
    check_refused(Format::Yaml, format!("[{items}1]").as_bytes(), "more than `2000000` values");
    check_refused(Format::Json, format!("[{items}1]").as_bytes(), "more than `2000000` values");
    check_refused(Format::Toml, format!("a=[{items}1]").as_bytes(), "more than `2000000` values");
    let lines = "\n".repeat(16_000_000);
    check_refused(Format::Toml, format!("a=1{lines}").as_bytes(), "more than `2000000` values");
}

#[test]
fn values_too_deep_are_refused_quickly() {
    let wanted = "nested more than `32` deep";
    for piece in ["[", "{\"a\":", "- ", "{a: ", "[a,"] {
        check_refused(Format::Yaml, piece.repeat(1_000_000).as_bytes(), wanted);
    }
    for piece in ["[", "{\"a\":"] {
        check_refused(Format::Json, piece.repeat(1_000_000).as_bytes(), wanted);
    }
    for piece in ["[", "{a=", "a.", "{a.a="] {
        let text = format!("a={}", piece.repeat(1_000_000));
        check_refused(Format::Toml, text.as_bytes(), wanted);
    }
    let stairs: String = (0..40).map(|depth| " ".repeat(depth) + "a:\n").collect();
    check_refused(Format::Yaml, stairs.as_bytes(), wanted);
    let header = format!("[{}a]\n{}a = 1", "a.".repeat(20), "b.".repeat(20));
    check_refused(Format::Toml, header.as_bytes(), wanted);
}

#[test]
fn the_deepest_that_is_allowed_is_read() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    for format in [Format::Yaml, Format::Json] {
        assert!(read(0, nested(DEPTH_MAX).as_bytes(), format).is_ok());
        assert!(read(0, nested(DEPTH_MAX + 1).as_bytes(), format).is_err());
    }
    let toml = |depth: usize| format!("a = {}", nested(depth - 1));
    assert!(read(0, toml(DEPTH_MAX).as_bytes(), Format::Toml).is_ok());
    assert!(read(0, toml(DEPTH_MAX + 1).as_bytes(), Format::Toml).is_err());
}

/// One step of a small generator: the same files in every run.
fn step(seed: &mut u64) -> usize {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    usize::try_from(*seed >> 33).unwrap()
}

/// Every place of a tree is inside the file, and every problem's too.
#[track_caller]
fn check_sane(text: &[u8], format: Format) {
    let inside = |at: Span| at.start <= at.end && at.end as usize <= text.len() + 1;
    let mut left = match read(0, text, format) {
        Ok(root) => vec![root],
        Err(problem) => {
            assert!(inside(problem.at), "{problem:?}\n{}", String::from_utf8_lossy(text));
            vec![]
        }
    };
    while let Some(node) = left.pop() {
        assert!(inside(node.at), "{node:?}\n{}", String::from_utf8_lossy(text));
        match node.value {
            Value::List(nodes) => left.extend(nodes),
            Value::Map(entries) => left.extend(entries.into_iter().map(|entry| entry.node)),
            _ => {}
        }
    }
}

#[test]
fn no_mutation_of_a_file_makes_it_panic() {
    const BYTES: &[u8] = b"[]{}:,.-?*&!|>'\"%@`#=<~\\/ \t\n\r0e\0\xff\xc3\xef";
    for (sample, format) in [(YAML, Format::Yaml), (TOML, Format::Toml), (JSON, Format::Json)] {
        let mut seed = 0x9e37_79b9_7f4a_7c15;
        for round in 0..4000 {
            let mut text = sample.as_bytes().to_vec();
            for _ in 0..=round % 4 {
                let at = step(&mut seed) % text.len();
                match step(&mut seed) % 5 {
                    0 => text[at] = BYTES[step(&mut seed) % BYTES.len()],
                    1 => text.insert(at, BYTES[step(&mut seed) % BYTES.len()]),
                    2 => drop(text.remove(at)),
                    3 => text[at] ^= 1 << (step(&mut seed) % 8),
                    _ => {
                        let end = (at + 1 + step(&mut seed) % 40).min(text.len());
                        let piece = text[at..end].to_vec();
                        let to = step(&mut seed) % text.len();
                        text.splice(to..to, piece);
                    }
                }
            }
            check_sane(&text, format);
        }
    }
}

#[test]
fn no_start_of_a_file_makes_it_panic() {
    for (sample, format) in [(YAML, Format::Yaml), (TOML, Format::Toml), (JSON, Format::Json)] {
        for end in 0..sample.len() {
            check_sane(&sample.as_bytes()[..end], format);
        }
    }
}

mod json;
mod toml;
mod yaml;
