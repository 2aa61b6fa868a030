//! The key that a rule counts: no two keys are ever taken for one another.

use tidegate_core::Verdict;
use tidegate_gate::{Reason, Sample};
use tidegate_sim::rng::Rng;

use crate::stand::{at, by, gate, left, passes};

#[test]
fn the_same_text_from_another_source_is_somebody_else() {
    let (gate, _clock) = gate(
        "
identify: { client: [header:x-api-key, cookie:session, 'query:id', attribute:user, ip] }
rules: [{ name: r, key: client, limit: 1/day }]
",
    );
    let text = "192.0.2.1";
    let requests = [
        by(text),
        Sample::new("GET /").with_header("cookie", format!("session={text}")),
        Sample::new(&format!("GET /?id={text}")),
        Sample::new("GET /").with_attribute("user", text),
        at(text),
    ];
    for request in &requests {
        assert!(passes(&gate, request), "{request:?}");
    }
    for request in &requests {
        assert!(!passes(&gate, request), "{request:?}");
    }
}

/// Whatever stands in the values: two different pairs of them are two keys.
#[test]
fn values_never_run_together() {
    let (gate, _clock) = gate("rules: [{ name: r, key: [header:a, header:b], limit: 1/day }]");
    let mut rng = Rng::new(1);
    let pieces = ["a", "b", "/", ":", ",", " x", "(", ")", "%", "\\", "=", "a:", "{", "}", "\u{1}"];
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..20_000 {
        let mut value = || -> String {
            let length = 1 + rng.below(3);
            (0..length).map(|_| pieces[usize::try_from(rng.below(15)).unwrap()]).collect()
        };
        let (a, b) = (value(), value());
        let request = Sample::new("GET /").with_header("a", &a).with_header("b", &b);
        let is_new = seen.insert((a.trim().to_owned(), b.trim().to_owned()));
        assert_eq!(passes(&gate, &request), is_new, "{a:?} {b:?}");
    }
}

#[test]
fn addresses_count_by_network() {
    let (gate, _clock) = gate("rules: [{ name: r, key: ip, limit: 2/day }]");
    assert_eq!(left(&gate.decide(&at("2001:db8::1"))), [1]);
    assert_eq!(left(&gate.decide(&at("2001:db8::ffff"))), [0], "the same /64");
    assert_eq!(left(&gate.decide(&at("2001:db8:0:1::1"))), [1]);
    assert_eq!(left(&gate.decide(&at("192.0.2.1"))), [1]);
    assert_eq!(left(&gate.decide(&at("::ffff:192.0.2.1"))), [0], "unwrapped");
}

#[test]
fn one_key_under_two_rules_is_counted_twice() {
    let (gate, _clock) =
        gate("rules: [{ name: a, key: ip, limit: 2/day }, { name: b, key: ip, limit: 5/day }]");
    assert_eq!(left(&gate.decide(&at("192.0.2.1"))), [1, 4]);
    assert_eq!(gate.keys(), 2);
}

/// A store that hashes its keys has a bound on them; one that names them writes a digest instead.
#[test]
fn a_key_that_is_too_long_never_passes() {
    let (gate, _clock) = gate(
        "
identify: { who: [[header:a, header:b, header:c, header:d, header:e]] }
rules:
  - { name: shadow, key: who, limit: 9/day, shadow: true }
  - { name: everybody, limit: 9/day }
  - { name: r, key: who, limit: 9/day }
",
    );
    let long = "x".repeat(1_000);
    let mut request = Sample::new("GET /");
    for name in ["a", "b", "c", "d", "e"] {
        request = request.with_header(name, &long);
    }
    let refused = gate.decide(&request);
    assert_eq!((refused.verdict(), refused.reason()), (Verdict::Never, Reason::KeyTooLong));
    assert_eq!((refused.status(), gate.keys()), (429, 0));
    assert!(refused.problem().contains("too long"));
}
