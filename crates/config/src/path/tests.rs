//! Patterns against what people ask for, what they try, and a matcher that tries everything.

use super::*;
use crate::chance::Chance;

fn strict(path: &str) -> Normal<'_> {
    Normal::new(path, Servers::Strict)
}

fn pattern(text: &str) -> Pattern {
    Pattern::parse(text).unwrap()
}

#[track_caller]
fn check(text: &str, paths: &[&str], others: &[&str]) {
    let pattern = pattern(text);
    for path in paths {
        assert!(pattern.matches(&strict(path), Case::Kept), "{text} {path}");
    }
    for path in others {
        assert!(!pattern.matches(&strict(path), Case::Kept), "{text} {path}");
    }
}

#[track_caller]
fn refuses(text: &str, message: &str) {
    assert_eq!(Pattern::parse(text).unwrap_err().message, message);
}

#[test]
fn a_pattern_matches_what_it_says() {
    check("/", &["/", "", "//", "/.", "/x/.."], &["/x"]);
    check("/search", &["/search", "/search/"], &["/", "/searching", "/search/x", "/x/search"]);
    check("/search/", &["/search", "/search/"], &["/search/x"]);
    check("/search/**", &["/search", "/search/", "/search/x", "/search/x/y"], &["/", "/searchx"]);
    check("/users/*", &["/users/7"], &["/users", "/users/7/x", "/users//"]);
    check("/users/{id}/avatar", &["/users/7/avatar"], &["/users/avatar", "/users/7/8/avatar"]);
    check("/*.png", &["/a.png", "/.png"], &["/a.pngx", "/a/b.png", "/png"]);
    check("/v*/x", &["/v1/x", "/v/x"], &["/w1/x"]);
    check("/a*b*c", &["/abc", "/a-b-c", "/abcbc"], &["/ac", "/acb", "/ab"]);
    check("/a*a", &["/aa", "/aba"], &["/a"]);
    check("/**", &["/", "/a", "/a/b/c"], &[]);
    check("/**/x", &["/x", "/a/x", "/a/b/x"], &["/", "/x/a"]);
    check("/a/**/b/**/c", &["/a/b/c", "/a/1/b/2/3/c", "/a/b/b/c"], &["/a/c", "/a/b", "/a/c/b"]);
    check("/**/b/c/**", &["/b/c", "/b/b/c", "/a/b/c/d"], &["/b", "/b/a/c"]);
    check("/**/a/a/b/**", &["/a/a/a/b"], &["/a/b/a/b"]);
    check("/caf%C3%A9/50%", &["/café/50%25", "/caf%c3%a9/50%"], &["/cafe/50%"]);
    check("/%2A", &["/*", "/%2a"], &["/x"]);
}

#[test]
fn no_other_spelling_gets_around_a_rule() {
    let spellings = [
        "/search",
        "//search",
        "///search//",
        "/%73earch",
        "/%73%65%61%72%63%68",
        "/./search",
        "/search/.",
        "/x/../search",
        "/x/%2e%2e/search",
        "/x/%2E./search",
        "/%2e/search",
        "/../../search",
        "/search/",
        "/search/x/..",
        "/search/x/%2e%2e/",
        "search",
    ];
    check("/search", &spellings, &[]);
    check("/search/**", &spellings, &["/search/%2e%2e/admin", "/search/../admin"]);
    check("/admin", &["/search/%2e%2e/admin", "/search/../admin"], &[]);
    // Other paths, not other spellings.
    check(
        "/search",
        &[],
        &[
            "/SEARCH",
            "/search%2Fx",
            "/search%2f",
            "/search;a=b",
            "/search%00",
            "/search%",
            "/searc%h",
        ],
    );
    check("/search%2Fx", &["/search%2fx", "/search%2Fx"], &["/search/x", "/search%252Fx"]);
    check("/*", &["/search%2Fx", "/search%00", "/%ff", "/..%2F"], &[]);
    // However long the detour.
    let detour = "/x/..".repeat(40_000);
    check("/search", &[&format!("{detour}/search"), &format!("{}search", "/".repeat(90_000))], &[]);
}

#[test]
fn a_plain_path_has_one_spelling() {
    for (path, expected) in [
        ("/a/%7euser", "/a/~user"),
        ("/%e2%82%ac", "/€"),
        ("/%F0%9F%A6%80/x", "/🦀/x"),
        ("/%e2%82", "/%E2%82"),
        ("/%e2%82%41", "/%E2%82A"),
        ("/%c0%af", "/%C0%AF"),
        ("/%ed%a0%80", "/%ED%A0%80"),
        ("/%2f%2F", "/%2F%2F"),
        ("/%25%32%35", "/%2525"),
        ("/%", "/%25"),
        ("/%4", "/%254"),
        ("/%zz%41", "/%25zzA"),
        ("/%00", "/\u{0}"),
        ("/a;b=c/d", "/a;b=c/d"),
        ("/%3Fa%23", "/?a#"),
        ("*", "/*"),
        ("", "/"),
        ("/a/b/../../..", "/"),
        ("/..a/.b/...", "/..a/.b/..."),
        ("/%é", "/%25é"),
    ] {
        assert_eq!(strict(path).text(Case::Kept), expected, "{path}");
    }
}

#[test]
fn a_plain_path_is_borrowed() {
    for path in ["/", "/a", "/a/b.c/.d", "/a%2Fb", "/é"] {
        let normal = strict(path);
        assert_eq!(normal.text(Case::Kept).as_ptr(), path.as_ptr(), "{path}");
        assert_eq!(normal.text(Case::Kept), path);
    }
    assert_eq!(strict("/").segments(Case::Kept).count(), 0);
    assert_eq!(strict("/a//b").segments(Case::Kept).rev().collect::<Vec<_>>(), ["b", "a"]);
}

#[test]
fn making_plain_twice_changes_nothing() {
    let pieces = [
        "/", ".", ";", "\\", "A", " ", "%00", "%", "%2", "%2F", "%2e", "%25", "a", "%c3", "%a9",
        "%E2%82", "é", "25",
    ];
    let mut chance = Chance::of(2);
    for _ in 0..200_000 {
        let length = chance.below(9);
        let path: String = (0..length).map(|_| *chance.pick(&pieces)).collect();
        let once = strict(&path);
        assert_eq!(strict(once.text(Case::Kept)).text(Case::Kept), once.text(Case::Kept), "{path}");
        assert!(once.text(Case::Kept).starts_with('/'), "{path}");
        assert!(once.segments(Case::Kept).all(|part| !matches!(part, "" | "." | "..")), "{path}");
        for servers in [Servers::Any, Servers::Strict] {
            let normal = Normal::new(&path, servers);
            let is_disputed = normal.is_disputed();
            let readings = Normal::readings(&path, servers);
            assert!(readings.contains(&normal) || is_disputed, "{path}");
            assert!(readings.len() <= 8 && (is_disputed || readings.len() == 1), "{path}");
        }
    }
}

#[test]
fn named_segments_are_captured() {
    for (text, path, name, expected) in [
        ("/users/{id}", "/users/7", "id", Some("7")),
        ("/users/{id}", "//users/%37/", "id", Some("7")),
        ("/users/{id}", "/users", "id", None),
        ("/users/{id}", "/users/7", "other", None),
        ("/{a}/**/{b}", "/1/2/3", "a", Some("1")),
        ("/{a}/**/{b}", "/1/2/3", "b", Some("3")),
        ("/**/x/{a}/**", "/1/x/2/x/3", "a", Some("2")),
        ("/{a}/x", "/1/y", "a", None),
        ("/{a}", "/a%2Fb", "a", Some("a%2Fb")),
    ] {
        assert_eq!(
            pattern(text).capture(&strict(path), Case::Kept, name),
            expected,
            "{text} {path}"
        );
    }
}

#[test]
fn what_is_not_a_pattern_says_why() {
    refuses("", "the path `` does not start with `/`");
    refuses("search", "the path `search` does not start with `/`");
    refuses("/a?b", "the path `/a?b` goes on after its end");
    refuses("/a//b", "the segment `` is empty");
    refuses("/a/../b", "the segment `..` matches nothing");
    refuses("/a/%2e", "the segment `%2e` matches nothing");
    refuses("/a**", "the segment `a**` has a `**` inside");
    refuses("/***", "the segment `***` has a `**` inside");
    refuses("/{}", "the segment `{}` has no name");
    refuses("/{a b}", "the segment `{a b}` has no name");
    refuses("/{id}.json", "the segment `{id}.json` is only partly named");
    refuses("/{a}/{a}", "the path `/{a}/{a}` names two segments alike");
    refuses("/**/a/**/b/**", "the path `/**/a/**/b/**` has more than two `**`");
    let long = "/a".repeat(33);
    refuses(&long, &format!("the path `{}...` is too long", &long[..60]));
}

#[test]
fn patterns_are_shown_as_typed() {
    for (text, shown) in
        [("/", "/"), (" /a/*/{b}/** ", "/a/*/{b}/**"), ("/caf%C3%A9/", "/caf%C3%A9")]
    {
        assert_eq!(pattern(text).to_string(), shown);
    }
}

#[test]
fn a_pattern_covers_what_it_matches_all_of() {
    for (text, other) in [
        ("/**", "/"),
        ("/**", "/a/**/b/**"),
        ("/a/**", "/a"),
        ("/a/**", "/a/*/c"),
        ("/*", "/{id}"),
        ("/{id}", "/*"),
        ("/v*", "/v1*"),
        ("/*a*", "/b*a*c"),
        ("/*.png", "/a.png"),
        ("/**/x", "/**/a/x"),
        ("/a/**/b", "/a/c/**/d/b"),
        ("/**/a/**", "/x/a"),
    ] {
        assert!(pattern(text).covers(&pattern(other)), "{text} {other}");
    }
    for (text, other) in [
        ("/a", "/**"),
        ("/*", "/**"),
        ("/a/*", "/a"),
        ("/v1*", "/v*"),
        ("/a*a", "/a*"),
        ("/*a*b", "/*b*a"),
        ("/a", "/*"),
        ("/**/x", "/**"),
    ] {
        assert!(!pattern(text).covers(&pattern(other)), "{text} {other}");
    }
}

/// Tries every way there is.
fn naive(segments: &[Segment], path: &[&str]) -> bool {
    match (segments.split_first(), path.split_first()) {
        (None, None) => true,
        (Some((Segment::Any, rest)), None) => naive(rest, path),
        (Some((Segment::Any, rest)), Some((_, tail))) => naive(rest, path) || naive(segments, tail),
        (Some((segment, rest)), Some((part, tail))) => {
            let accepts = match segment {
                Segment::Parts(parts) => naive_glob(&parts.join("*"), part),
                Segment::Literal(literal) => literal == part,
                Segment::One | Segment::Named(_) | Segment::Any => true,
            };
            accepts && naive(rest, tail)
        }
        (None, Some(_)) | (Some(_), None) => false,
    }
}

fn naive_glob(glob: &str, text: &str) -> bool {
    match (glob.split_at_checked(1), text.split_at_checked(1)) {
        (None, None) => true,
        (Some(("*", rest)), None) => naive_glob(rest, text),
        (Some(("*", rest)), Some((_, tail))) => naive_glob(rest, text) || naive_glob(glob, tail),
        (Some((letter, rest)), Some((other, tail))) => letter == other && naive_glob(rest, tail),
        (None, Some(_)) | (Some(_), None) => false,
    }
}

fn any_pattern(chance: &mut Chance) -> Pattern {
    let pieces = ["a", "b", "ab", "*", "**", "a*", "*b", "a*b", "*a*", "{n}"];
    loop {
        let length = chance.below(6);
        let segments: Vec<&str> = (0..length).map(|_| *chance.pick(&pieces)).collect();
        if let Ok(pattern) = Pattern::parse(&format!("/{}", segments.join("/"))) {
            return pattern;
        }
    }
}

fn any_path(chance: &mut Chance) -> String {
    let pieces = ["a", "b", "ab", "aab", "aba"];
    let length = chance.below(7);
    let segments: Vec<&str> = (0..length).map(|_| *chance.pick(&pieces)).collect();
    format!("/{}", segments.join("/"))
}

#[test]
fn patterns_match_what_the_naive_matcher_matches() {
    let mut chance = Chance::of(3);
    let mut matched = 0;
    for _ in 0..300_000 {
        let (pattern, path) = (any_pattern(&mut chance), any_path(&mut chance));
        let path = strict(&path);
        let parts: Vec<&str> = path.segments(Case::Kept).collect();
        let expected = naive(pattern.segments(Case::Kept), &parts);
        assert_eq!(
            pattern.matches(&path, Case::Kept),
            expected,
            "{pattern} {}",
            path.text(Case::Kept)
        );
        let captured = pattern.capture(&path, Case::Kept, "n").is_some();
        let has_name = pattern.segments(Case::Kept).iter().any(|segment| segment.name().is_some());
        assert_eq!(captured, expected && has_name, "{pattern} {}", path.text(Case::Kept));
        matched += usize::from(expected);
    }
    assert!(10_000 < matched);
}

#[test]
fn a_covering_pattern_matches_at_least_as_much() {
    let mut chance = Chance::of(4);
    let mut covered = 0;
    for _ in 0..100_000 {
        let (one, other) = (any_pattern(&mut chance), any_pattern(&mut chance));
        if !one.covers(&other) {
            continue;
        }
        covered += 1;
        for _ in 0..40 {
            let path = any_path(&mut chance);
            let path = strict(&path);
            let holds = !other.matches(&path, Case::Kept) || one.matches(&path, Case::Kept);
            assert!(holds, "{one} {other} {}", path.text(Case::Kept));
        }
    }
    assert!(5_000 < covered);
}

#[test]
fn the_worst_path_takes_no_longer_than_its_length_allows() {
    let pattern = pattern("/**/a/a/a/a/a/a/a/a/a/*a*a*a*b/**/c");
    let path = "/a".repeat(30_000);
    assert!(!pattern.matches(&strict(&path), Case::Kept));
    let one = Pattern::parse(&format!("/{}b", "*a".repeat(400))).unwrap();
    assert!(!one.matches(&strict(&format!("/{}", "a".repeat(60_000))), Case::Kept));
}
