//! What servers take a path for, one by one.

use super::*;

#[track_caller]
fn readings(path: &str, servers: Servers, expected: &[&str]) {
    let normal = Normal::new(path, servers);
    assert_eq!(normal.is_disputed(), 1 < expected.len(), "{path}");
    let readings = Normal::readings(path, servers);
    let found: Vec<&str> = readings.iter().map(|it| it.text(Case::Kept)).collect();
    assert_eq!(found, expected, "{path} {servers:?}");
}

#[test]
fn a_path_that_begins_with_no_host_has_at_most_four_readings() {
    for (path, expected) in [
        ("/a/b", &["/a/b"][..]),
        ("/a%20b//c", &["/a b/c"]),
        ("/a%252Fb", &["/a%252Fb"]),
        ("/a/../b", &["/b", "/a/../b"]),
        ("/a%2Fb", &["/a%2Fb", "/a/b"]),
        ("/%2f", &["/%2F", "/"]),
        ("/a%2F..%2fb/", &["/a%2F..%2Fb", "/b", "/a/../b"]),
        ("/a/./b%2F..", &["/a/b%2F..", "/a", "/a/./b%2F..", "/a/./b/.."]),
        ("/%252F%2F%25", &["/%252F%2F%25", "/%252F/%25"]),
        ("/A;x/b.\\c ", &["/A;x/b.\\c "]),
    ] {
        readings(path, Servers::Strict, expected);
    }
    for (path, expected) in [
        ("/a/b", &["/a/b"][..]),
        ("/A/.b/c.d", &["/A/.b/c.d"]),
        ("/a/../b", &["/b", "/a/../b"]),
        ("/a%2Fb", &["/a%2Fb", "/a/b"]),
        ("/a;x", &["/a", "/a;x"]),
        ("/a/..;/b%2F.", &["/b%2F", "/a/..;/b%2F.", "/b", "/a/..;/b/."]),
        ("/a;/%2F..%2fb ", &["/a/%2F..%2Fb", "/a;/%2F..%2Fb ", "/b", "/a;/../b "]),
        ("/a%5c..\\b", &["/b", "/a\\..\\b"]),
    ] {
        readings(path, Servers::Any, expected);
    }
}

/// To `new URL(path, base)` in Node and `urlparse` in Python, those begin with a host.
#[test]
fn what_follows_two_slashes_may_be_a_host() {
    for (path, expected) in [
        ("//x/login", &["/login", "/x/login"][..]),
        ("///x//login/", &["/login", "/x/login"]),
        ("//x", &["/", "/x"]),
        ("/%2Fx/login", &["/%2Fx/login", "/login", "/x/login"]),
        ("//x/a/..%2Fb", &["/a/..%2Fb", "/b", "/a/../b", "/x/a/..%2Fb", "/x/b", "/x/a/../b"]),
    ] {
        readings(path, Servers::Strict, expected);
    }
    for (path, expected) in [
        ("//x/login", &["/login", "/x/login"][..]),
        ("//x", &["/", "/x"]),
        ("//", &["/"]),
        ("/x//login", &["/x/login"]),
        ("/\\x/login", &["/login", "/x/login", "/\\x/login"]),
        ("/%5Cx/login", &["/login", "/x/login", "/\\x/login"]),
        ("\\/x\\login", &["/login", "/\\login", "/x/login", "/\\/x\\login"]),
        ("/%2Fx/login", &["/%2Fx/login", "/login", "/x/login"]),
        ("//;/login", &["/login", "/;/login"]),
    ] {
        readings(path, Servers::Any, expected);
    }
}

#[test]
fn what_is_cut_is_cut_before_dots_are_followed() {
    for sent in [
        "/login",
        "/login;x",
        "/login;x=y/",
        "/x/..;/login",
        "/x/..;a;b/login",
        "/login%3Bx",
        "/login%20",
        "/login ",
        "/login%09",
        "/login%0a",
        "/login%7f",
        "/login.",
        "/login%2e",
        "/login. .%20.",
        "/login%00",
        "/login%00.png",
        "/login%00/../x",
        "/login\\",
        "/login%5C",
        "/x\\..\\login",
        "/x/..%20/login",
        "/;/login",
        "/;x/;y/login",
        "/login;%2F..%2Fx",
        "/login%20;x.",
    ] {
        let normal = Normal::new(sent, Servers::Any);
        assert_eq!(normal.is_disputed(), sent != "/login", "{sent}");
        let first = Normal::readings(sent, Servers::Any).remove(0);
        assert_eq!(first.text(Case::Kept), "/login", "{sent}");
    }
    for (sent, first) in [("/...", "/..."), ("/. .", "/. ."), ("/%20", "/"), ("/a/.;x", "/a")] {
        let reading = Normal::readings(sent, Servers::Any).remove(0);
        assert_eq!(reading.text(Case::Kept), first, "{sent}");
    }
}

#[test]
fn letters_are_the_same_in_every_case() {
    for (sent, folded) in [
        ("/LogIn", "/login"),
        ("/caf%C3%89/%2F%c3", "/café/%2F%C3"),
        ("/\u{212a}/stra%C3%9Fe", "/k/strasse"),
    ] {
        assert_eq!(Normal::new(sent, Servers::Any).text(Case::Ignored), folded);
        assert_ne!(Normal::new(sent, Servers::Any).text(Case::Kept), folded);
        assert_ne!(Normal::new(sent, Servers::Strict).text(Case::Ignored), folded);
    }
    for (text, path) in [("/Login", "/LOGIN"), ("/V*/x", "/v1/X"), ("/CAF%C3%89", "/café")] {
        let (pattern, path) = (Pattern::parse(text).unwrap(), Normal::new(path, Servers::Any));
        assert!(pattern.matches(&path, Case::Ignored) && !pattern.matches(&path, Case::Kept));
        assert!(!pattern.matches(&Normal::new(path.text(Case::Kept), Servers::Strict), Case::Kept));
    }
}
