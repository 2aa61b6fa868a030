//! Costs by the length of a body: nobody gains by leaving it out.

use tidegate_core::Verdict;
use tidegate_gate::{Admission, Gate, Reason, Sample};

use crate::stand::{gate, passes};

const PIECES: (&str, &str) = ("transfer-encoding", "chunked");

fn sent(line: &str, headers: &[(&str, &str)]) -> Sample {
    headers.iter().fold(Sample::new(line), |sample, (name, value)| sample.with_header(name, value))
}

/// What each limit takes of a request.
fn costs(admission: &Admission) -> Vec<u32> {
    admission.each().map(|answer| answer.cost).collect()
}

#[track_caller]
fn check(gate: &Gate, headers: &[(&str, &str)], expected: &[u32]) {
    let admission = gate.decide(&sent("POST /upload", headers));
    assert_eq!(costs(&admission), expected, "{headers:?}");
}

#[test]
fn a_body_of_unknown_length_costs_the_most_that_a_limit_lets_pass() {
    let (gate, _clock) = gate(
        "
rules:
  - { name: bytes, limit: 9kB/min, burst: 5000, cost: { from: content-length }, shadow: true }
  - { name: kilobytes, limit: 9kB/min, unit: kB, cost: { from: content-length }, shadow: true }
  - { name: saves, limit: 9kB/min, cost: { from: content-length }, shadow: true,
      credits: { for: 10min, rate: 2x } }
  - { name: daily, algorithm: fixed-window, time_zone: UTC, limit: 9MB/day, shadow: true,
      cost: { from: header:content-length, max: 8000 } }
  - { name: guessed, limit: 9kB/min, cost: { from: content-length, missing: 77 }, shadow: true }
",
    );
    let unknown = [5_000, 9, 9_000, 9_000, 8_000, 77];
    check(&gate, &[PIECES], &unknown);
    check(&gate, &[PIECES, ("content-length", "1")], &unknown);
    check(&gate, &[("content-length", "1"), ("content-length", "2")], &unknown);
    check(&gate, &[("content-length", "-1")], &unknown);
    check(&gate, &[], &unknown);
    check(&gate, &[("content-length", "1500")], &[1_500, 2, 1_500, 1_500, 1_500, 1_500]);
    check(&gate, &[("content-length", "0")], &[0; 6]);
    let get = gate.decide(&Sample::new("GET /upload"));
    assert_eq!(costs(&get), [0; 6]);
}

/// The attack: uploads in pieces, one after the other.
#[test]
fn uploads_in_pieces_do_not_pass_a_limit_of_bytes() {
    for (cost, many) in [
        ("{ from: content-length }", 1),
        ("{ from: content-length, missing: 500 }", 2),
        ("{ from: content-length, missing: refuse }", 0),
    ] {
        for place in ["rule", "route"] {
            let (costs, own) = if place == "rule" { ("1", cost) } else { (cost, "") };
            let own = if own.is_empty() { String::new() } else { format!("cost: {own}") };
            let (gate, _clock) = gate(&format!(
                "
costs: [{{ path: /upload, cost: {costs} }}]
rules: [{{ name: a, key: method, limit: 1000/h, {own} }}]"
            ));
            let pieces = sent("POST /upload", &[PIECES]);
            let passed = (0..9).filter(|_| passes(&gate, &pieces)).count();
            assert_eq!(passed, many, "{cost}, by the {place}");
            assert!(passes(&gate, &Sample::new("GET /upload")), "{cost}, by the {place}");
        }
    }
}

#[test]
fn a_length_can_be_asked_for() {
    let (gate, _clock) = gate(
        "
rules:
  - { name: tried, limit: 1kB/h, cost: { from: content-length, missing: refuse }, shadow: true }
  - { name: counted, limit: 10/h }
  - { name: sized, match: { path: /upload }, limit: 1kB/h,
      cost: { from: content-length, missing: refuse } }
  - { name: below, limit: 10/h }
",
    );
    let refused = gate.decide(&sent("POST /upload", &[PIECES]));
    let told = (refused.verdict(), refused.reason(), refused.status(), refused.stopped_by());
    assert_eq!(told, (Verdict::Never, Reason::LengthRequired, 411, Some("sized")));
    let problem = refused.problem();
    assert!(problem.contains(r#""error":"length_required""#), "{problem}");
    assert!(problem.contains("`Content-Length`"), "{problem}");
    drop(refused);
    let sized = gate.decide(&sent("POST /upload", &[("content-length", "1000")]));
    let left: Vec<u32> = sized.each().map(|answer| answer.decision.remaining).collect();
    assert_eq!((sized.verdict(), left), (Verdict::Allow, vec![9, 0, 9, 0]), "nothing was charged");
    assert!(passes(&gate, &sent("POST /other", &[PIECES])), "a rule in shadow never refuses");
}

#[test]
fn a_share_gives_a_body_of_unknown_length_all_that_it_has() {
    let (gate, _clock) = gate(
        "
costs: [{ path: /upload, cost: { from: content-length } }]
share: [{ name: a, capacity: 1000/h, by: ip, wait: 1ms }]
",
    );
    assert!(passes(&gate, &sent("POST /upload", &[PIECES])));
    assert_eq!(gate.decide(&sent("POST /upload", &[PIECES])).reason(), Reason::Crowded);
}
