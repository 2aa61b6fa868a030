//! What is JSON's own.

use super::*;

#[test]
fn escapes_are_characters() {
    check(
        Format::Json,
        r#"["\"\\\/\b\f\n\r\t", "\u00e4\u20AC\ud83d\ude00", "ä€😀", "\u0000"]"#,
        r#"["\"\\/\u{8}\u{c}\n\r\t", "ä€😀", "ä€😀", "\0"]"#,
    );
    for escape in [
        r"\x",
        r"\u12",
        r"\u12g4",
        r"\ud83d",
        r"\ud83dx",
        r"\ud83d\u0041",
        r"\ud83d\ue000",
        r"\ude00",
    ] {
        check(
            Format::Json,
            &format!("[\"ä{escape}\"]"),
            "4..5: the file is not valid JSON: this escape means nothing | \
             write `\\\\` for a backslash",
        );
    }
    check_sane("[\"\\u12ä\"]".as_bytes(), Format::Json);
    check_sane("[\"\\ä\"]".as_bytes(), Format::Json);
}

#[test]
fn lists_side_by_side_are_not_deep() {
    let sides = ["[]"; 2 * DEPTH_MAX].join(",");
    assert!(read(0, format!("[{sides}]").as_bytes(), Format::Json).is_ok());
}

#[test]
fn numbers_are_as_typed() {
    check(
        Format::Json,
        "[0, -1, 9223372036854775807, 9223372036854775808, 1.50, 1E+2, -0]",
        "[0, -1, 9223372036854775807, ~9223372036854775808, ~1.50, ~1E+2, ~-0]",
    );
    for number in ["01", "1.", "-", "1e", "1.e5", "0x1", "1_000", "-a", "1.2.3"] {
        let problem = read(0, number.as_bytes(), Format::Json).unwrap_err();
        assert_eq!(problem.message, "the file is not valid JSON: this is not a number");
        assert_eq!((problem.at.start, problem.at.end as usize), (0, number.len()), "{number}");
    }
}

#[test]
fn what_only_other_languages_allow_is_refused_with_advice() {
    let json = |text: &str, wanted: &str| {
        let problem = read(0, text.as_bytes(), Format::Json).unwrap_err();
        let help = problem.help.unwrap_or_default();
        let message = problem.message.strip_prefix("the file is not valid JSON: ").unwrap();
        assert_eq!(format!("{}: {message} | {help}", problem.at.start), wanted);
    };
    json("[1,]", "3: expected a value | write no comma after the last item");
    let names = "write names in double quotes, and no comma after the last field";
    json("{\"a\":1,}", &format!("7: expected the name of a field | {names}"));
    json("{a:1}", &format!("1: expected the name of a field | {names}"));
    json("{\"a\" 1}", "5: expected `:` | write `\"name\": value`");
    json("[1 2]", "3: expected `,` or `]` | close the list, or add a comma");
    json("{\"a\":1", "6: expected `,` or `}` | close the map, or add a comma");
    json("[no]", "1: expected a value | put text in double quotes");
    json("['a']", "1: expected a value | put text in double quotes");
    json("// x\n1", "0: expected a value | remove comments: JSON has none");
    json("1 2", "2: nothing may follow the value | remove the rest");
    json("[\"a", "1: the text does not end | close the quote");
    let control = "text has a line break, a tab or the like in it";
    json("\"a\tb\"", &format!("2: {control} | write `\\n` for a line break, `\\t` for a tab"));
}

#[test]
fn a_field_given_twice_names_both_places() {
    check(
        Format::Json,
        "{\n\"a\": 1,\n\"\\u0061\": 2}",
        "10..18: the field `a` is given twice | the first is in line 2: keep one of them",
    );
}
