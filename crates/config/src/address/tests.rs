//! What clients write into headers to be somebody else, and who they are all the same.

use super::*;
use crate::chance::Chance;

/// The proxy that every request comes through, unless a test says otherwise.
const PROXY: &str = "10.0.0.1";
const CLIENT: &str = "203.0.113.9";
/// The address that an attacker would like to have.
const VICTIM: &str = "198.51.100.7";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn proxies(trusted: &[&str], believes: Believes) -> Proxies {
    let trusted = trusted.iter().flat_map(|text| networks(text).unwrap()).collect();
    Proxies { trusted, believes, ..Proxies::default() }
}

#[track_caller]
fn check(proxies: &Proxies, peer: &str, lines: &[&str], expected: &str) {
    let found = proxies.client(Some(ip(peer)), lines.iter().map(|line| line.as_bytes()));
    assert_eq!(found, Some(ip(expected)), "{peer} {lines:?}");
}

#[test]
fn with_nobody_trusted_headers_are_ignored() {
    for believes in [Believes::XForwardedFor, Believes::Forwarded] {
        let nobody = Proxies { believes, ..Proxies::default() };
        check(&nobody, CLIENT, &[VICTIM], CLIENT);
        check(&nobody, "127.0.0.1", &[VICTIM, "for=198.51.100.7"], "127.0.0.1");
        check(&nobody, "::ffff:203.0.113.9", &[], CLIENT);
    }
    assert_eq!(Proxies::default().client(None, [VICTIM.as_bytes()].into_iter()), None);
}

#[test]
fn x_forwarded_for_is_read_past_trusted_networks_only() {
    let behind = proxies(&["private", "loopback", "2001:db8:1::/48"], Believes::XForwardedFor);
    for (peer, lines, expected) in [
        // As it should be.
        (PROXY, &[CLIENT] as &[&str], CLIENT),
        (PROXY, &[], PROXY),
        (PROXY, &["203.0.113.9, 10.0.0.2"], CLIENT),
        (PROXY, &["203.0.113.9,10.0.0.2,10.0.0.3"], CLIENT),
        (PROXY, &["  203.0.113.9\t,\t10.0.0.2  "], CLIENT),
        (PROXY, &["203.0.113.9:4711"], CLIENT),
        (PROXY, &["[2001:db8::1]:4711"], "2001:db8::1"),
        (PROXY, &["[2001:db8::1]"], "2001:db8::1"),
        (PROXY, &["2001:db8::1"], "2001:db8::1"),
        ("2001:db8:1::5", &["203.0.113.9"], CLIENT),
        ("::ffff:10.0.0.1", &["::ffff:203.0.113.9"], CLIENT),
        (PROXY, &["[::ffff:203.0.113.9]:1"], CLIENT),
        (PROXY, &["203.0.113.9, ::ffff:10.0.0.2"], CLIENT),
        (PROXY, &["203.0.113.9", "10.0.0.2"], CLIENT),
        // All are trusted: the leftmost asks.
        (PROXY, &["10.0.0.4, 10.0.0.3", "10.0.0.2"], "10.0.0.4"),
        // A stranger in front of us: nothing it says counts.
        (CLIENT, &[VICTIM], CLIENT),
        (CLIENT, &["198.51.100.7, 10.0.0.1"], CLIENT),
        ("::ffff:203.0.113.9", &[VICTIM], CLIENT),
        // What the client wrote stands to the left of what the proxy saw.
        (PROXY, &["198.51.100.7, 203.0.113.9"], CLIENT),
        (PROXY, &["198.51.100.7, 10.0.0.9, 203.0.113.9"], CLIENT),
        (PROXY, &["127.0.0.1, 203.0.113.9"], CLIENT),
        (PROXY, &["198.51.100.7, 203.0.113.9, 10.0.0.2"], CLIENT),
        (PROXY, &[VICTIM, CLIENT], CLIENT),
        (PROXY, &["198.51.100.7, 10.0.0.9", "203.0.113.9, 10.0.0.2"], CLIENT),
        (PROXY, &["198.51.100.7,", "203.0.113.9"], CLIENT),
        (PROXY, &["unknown, 203.0.113.9"], CLIENT),
        (PROXY, &["\"198.51.100.7, 203.0.113.9"], CLIENT),
        // What cannot be read ends it, at the last address that was reached.
        (PROXY, &["198.51.100.7, unknown"], PROXY),
        (PROXY, &["198.51.100.7, unknown, 10.0.0.2"], "10.0.0.2"),
        (PROXY, &["198.51.100.7, _hidden, 10.0.0.2"], "10.0.0.2"),
        (PROXY, &["198.51.100.7,, 10.0.0.2"], "10.0.0.2"),
        (PROXY, &["198.51.100.7,"], PROXY),
        (PROXY, &["198.51.100.7", ""], PROXY),
        (PROXY, &["", "10.0.0.2"], "10.0.0.2"),
        (PROXY, &["198.51.100.7 10.0.0.2"], PROXY),
        (PROXY, &["\"198.51.100.7\""], PROXY),
        (PROXY, &["for=198.51.100.7"], PROXY),
        (PROXY, &["198.51.100.07"], PROXY),
        (PROXY, &["0xC6336407"], PROXY),
        (PROXY, &["3325256711"], PROXY),
        (PROXY, &["198.51.100"], PROXY),
        (PROXY, &["198.51.100.7/32"], PROXY),
        (PROXY, &["198.51.100.7:"], PROXY),
        (PROXY, &["198.51.100.7:65536"], PROXY),
        (PROXY, &["198.51.100.7:+1"], PROXY),
        (PROXY, &["198.51.100.7:80:80"], PROXY),
        (PROXY, &["[198.51.100.7]"], PROXY),
        (PROXY, &["[2001:db8::1"], PROXY),
        (PROXY, &["[2001:db8::1]x"], PROXY),
        (PROXY, &["2001:db8::1]"], PROXY),
        (PROXY, &["fe80::1%eth0"], PROXY),
        (PROXY, &["localhost"], PROXY),
        (PROXY, &["198.51.100.7\u{0}"], PROXY),
        (PROXY, &["１98.51.100.7"], PROXY),
        (PROXY, &["198.51.100.7; 10.0.0.2"], PROXY),
    ] {
        check(&behind, peer, lines, expected);
    }
}

#[test]
fn forwarded_is_read_past_trusted_networks_only() {
    let behind = proxies(&["private"], Believes::Forwarded);
    for (lines, expected) in [
        (&["for=203.0.113.9"] as &[&str], CLIENT),
        (&["For=203.0.113.9"], CLIENT),
        (&["FOR=\"203.0.113.9\""], CLIENT),
        (&["for=\"203.0.113.9:4711\""], CLIENT),
        (&["for=\"203.0.113.9:_port\""], CLIENT),
        (&["for=\"[2001:db8::1]:4711\""], "2001:db8::1"),
        (&["for=\"[2001:db8::1]\""], "2001:db8::1"),
        (&["for=\"[::ffff:203.0.113.9]\""], CLIENT),
        (&["proto=https;for=203.0.113.9;by=10.0.0.1"], CLIENT),
        (&["by=10.0.0.1; host=\"a,b;for=198.51.100.7\"; for=203.0.113.9"], CLIENT),
        (&["for=203.0.113.9;host=\"a\\\",for=198.51.100.7,\\\"\""], CLIENT),
        (&["for=203.0.113.9, for=10.0.0.2"], CLIENT),
        // Pairs may be empty, and their names are tokens.
        (&["for=203.0.113.9;"], CLIENT),
        (&["for=203.0.113.9;;by=x"], CLIENT),
        (&["ext-param=1;for=203.0.113.9;ext_p=2"], CLIENT),
        (&["for=203.0.113.9", "for=10.0.0.2;proto=http"], CLIENT),
        (&["for=\"2\\03.0.113.9\""], CLIENT),
        // What the client wrote stands to the left, and no quotation mark of its reaches right.
        (&["for=198.51.100.7, for=203.0.113.9"], CLIENT),
        (&["for=198.51.100.7;x=\", for=203.0.113.9"], CLIENT),
        (&["for=198.51.100.7;x=\", for=\"203.0.113.9\""], CLIENT),
        (&["for=\"198.51.100.7, for=203.0.113.9;by=\"[::1]\""], CLIENT),
        (&["for=198.51.100.7;x=\\, for=\"203.0.113.9\""], CLIENT),
        (&["for=198.51.100.7;x=\"\\", "for=203.0.113.9"], CLIENT),
        (&["for=198.51.100.7;x=\", for=10.0.0.2"], "10.0.0.2"),
        (&["for=\"_x, for=198.51.100.7\", for=10.0.0.2"], "10.0.0.2"),
        // What cannot be read ends it.
        (&["for=198.51.100.7, for=unknown"], PROXY),
        (&["for=198.51.100.7, for=_hidden"], PROXY),
        (&["for=198.51.100.7, for=\"_hidden:80\", for=10.0.0.2"], "10.0.0.2"),
        (&["for=198.51.100.7, proto=https"], PROXY),
        (&["for=198.51.100.7;for=203.0.113.9"], PROXY),
        (&["for=198.51.100.7;FOR=198.51.100.7"], PROXY),
        (&["198.51.100.7"], PROXY),
        (&["for="], PROXY),
        (&["for=\"\""], PROXY),
        (&["=198.51.100.7"], PROXY),
        (&[";"], PROXY),
        (&["for=198.51.100.7;by="], PROXY),
        (&["for=198.51.100.7 10.0.0.2"], PROXY),
        (&["for=\"198.51.100.7\"x"], PROXY),
        (&["for=\"198.51.100.7"], PROXY),
        (&["for=198.51.100.7\""], PROXY),
        (&["for=\"198.51.100.7\\\""], PROXY),
        (&["xfor=198.51.100.7"], PROXY),
        (&["for =198.51.100.7;f\u{f6}r=x"], PROXY),
        (&["\""], PROXY),
        (&[""], PROXY),
        (&[","], PROXY),
    ] {
        check(&behind, PROXY, lines, expected);
    }
}

#[test]
fn no_more_than_64_hops_are_looked_at() {
    let behind = proxies(&["private"], Believes::XForwardedFor);
    let near = vec!["10.0.0.2"; 63].join(",");
    check(&behind, PROXY, &[&format!("{CLIENT},{near}")], CLIENT);
    check(&behind, PROXY, &[&format!("{CLIENT},10.0.0.3,{near}")], "10.0.0.3");
    let lines = vec!["10.0.0.2"; 1_000];
    check(&behind, PROXY, &lines, "10.0.0.2");
}

/// Whatever stands left of the comma that a proxy wrote, the entry after it is read the same.
#[test]
fn no_prefix_changes_what_the_proxy_saw() {
    let pieces = [
        "\"",
        "\\",
        ",",
        ";",
        "=",
        "for=",
        "for=198.51.100.7",
        "by=",
        " ",
        "[",
        "]",
        ":",
        "unknown",
        "10.0.0.2",
        "\u{0}",
        "é",
    ];
    let mut chance = Chance::of(5);
    for believes in [Believes::XForwardedFor, Believes::Forwarded] {
        let behind = proxies(&["private"], believes);
        let seen = match believes {
            Believes::XForwardedFor => ["203.0.113.9", "203.0.113.9:1"],
            Believes::Forwarded => ["for=\"203.0.113.9:1\";host=\"a,b\"", "by=x;for=203.0.113.9"],
        };
        for _ in 0..50_000 {
            let length = chance.below(12);
            let prefix: String = (0..length).map(|_| *chance.pick(&pieces)).collect();
            check(&behind, PROXY, &[&format!("{prefix}, {}", chance.pick(&seen))], CLIENT);
            // And no text at all is too odd to be answered.
            assert!(behind.client(Some(ip(PROXY)), [prefix.as_bytes()].into_iter()).is_some());
        }
        let bytes: [&[u8]; 2] = [b"\xff\xfe", b"for=\"\xff\""];
        assert_eq!(behind.client(Some(ip(PROXY)), bytes.into_iter()), Some(ip(PROXY)));
    }
}

#[test]
fn clients_are_grouped_by_network() {
    let usual = Proxies::default();
    let wide = Proxies { ipv4_prefix: 24, ipv6_prefix: 48, ..Proxies::default() };
    let odd = Proxies { ipv4_prefix: 200, ipv6_prefix: 200, ..Proxies::default() };
    for (address, expected) in [
        ("1.2.3.4", ["1.2.3.4", "1.2.3.0/24", "1.2.3.4"]),
        ("::ffff:1.2.3.4", ["1.2.3.4", "1.2.3.0/24", "1.2.3.4"]),
        ("2001:db8::1", ["2001:db8::/64", "2001:db8::/48", "2001:db8::1"]),
        ("2001:db8:1:2:3::", ["2001:db8:1:2::/64", "2001:db8:1::/48", "2001:db8:1:2:3::"]),
    ] {
        let found = [&usual, &wide, &odd].map(|proxies| proxies.group(ip(address)).to_string());
        assert_eq!(found, expected, "{address}");
    }
    assert_eq!(usual.group(ip("2001:db8::1")), usual.group(ip("2001:db8::ffff")));
}

#[test]
fn networks_read_as_they_are_typed() {
    for (text, expected) in [
        ("10.0.0.0/8", "10.0.0.0/8"),
        (" 192.0.2.1 ", "192.0.2.1/32"),
        ("2001:db8::/32", "2001:db8::/32"),
        ("::1", "::1/128"),
        ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
        ("::ffff:192.0.2.1", "192.0.2.1/32"),
        ("loopback", "127.0.0.0/8 ::1/128"),
        ("private", "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7"),
    ] {
        let found: Vec<String> = networks(text).unwrap().iter().map(IpNet::to_string).collect();
        assert_eq!(found.join(" "), expected, "{text}");
    }
    let form = "write a network such as `10.0.0.0/8`, an address, `private` or `loopback`";
    for (text, message, help) in [
        ("10.0.0.0/33", "`10.0.0.0/33` is not a network", form),
        ("example.org", "`example.org` is not a network", form),
        ("", "`` is not a network", form),
        ("Private", "`Private` is not a network", &format!("did you mean `private`? {form}")),
        (
            "10.0.0.1/8",
            "`10.0.0.1/8` is an address within a network",
            "write `10.0.0.0/8` for all of it, or `10.0.0.1`",
        ),
    ] {
        assert_eq!(networks(text), Err(Misread::new(message, help)), "{text}");
    }
}
