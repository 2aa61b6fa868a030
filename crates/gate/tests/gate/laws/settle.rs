//! What is charged after the response is known: more, less, or nothing, and never twice.

use tidegate_core::{Span, Verdict};
use tidegate_gate::{Admission, Field, Sample};
use tidegate_sim::rng::Rng;

use super::gate;
use crate::stand::{
    Answered, START, Still, becomes, done, left, looks, passes, replace, retry_after, room, to,
};

fn request() -> Sample {
    Sample::new("GET /")
}

#[test]
fn costs_by_route_by_rule_and_by_what_the_request_says() {
    let (gate, _clock) = gate(
        "
identify: { client: [header:x-api-key] }
costs:
  - { path: /export/**, cost: 25 }
  - { method: POST, path: /upload, cost: { from: content-length, max: 50 } }
rules:
  - { name: cells, key: client, limit: 100/day }
  - { name: requests, key: client, limit: 9/day, cost: 1 }
",
    );
    assert_eq!(left(&gate.decide(&to("GET /export/a", "ada"))), [75, 8]);
    let upload = to("POST /upload", "ada").with_header("content-length", "30");
    assert_eq!(left(&gate.decide(&upload)), [45, 7]);
    let upload = to("POST /upload", "bob").with_header("content-length", "3000000");
    assert_eq!(left(&gate.decide(&upload)), [50, 8]);
    assert_eq!(left(&gate.decide(&to("GET /other", "bob"))), [49, 7]);
}

#[test]
fn what_the_caller_says_stands_in_for_what_the_route_costs() {
    let (gate, _clock) = gate(
        "
identify: { client: [header:x-api-key] }
costs:
  - { path: /export/**, cost: 25 }
  - { path: /llm, cost: { from: response:x-tokens, default: 10 } }
rules:
  - { name: cells, key: client, limit: 100/day }
  - { name: requests, key: client, limit: 9/day, cost: 1 }
",
    );
    assert_eq!(left(&gate.decide(&to("GET /export/a", "ada").with_cost(3))), [97, 8]);
    assert_eq!(left(&gate.decide(&to("GET /other", "ada").with_cost(7))), [90, 7]);
    assert_eq!(left(&gate.decide(&to("GET /export/a", "ada"))), [65, 6]);
    // It looks at the first, and takes of the second.
    assert_eq!(left(&gate.decide(&to("GET /export/a", "ada").with_cost(0))), [65, 5]);
    assert!(!gate.decide(&to("GET /", "ada").with_cost(66)).verdict().passes());
    // Nor has the response a say in it.
    let mut admission = gate.decide(&to("GET /llm", "ada").with_cost(5));
    assert!(!admission.is_open());
    done(admission.settle(&Answered(200, "x-tokens", "40")));
    assert_eq!(looks(&gate, &to("GET /", "ada")), [60, 4]);
}

const LOGIN: &str = "
rules:
  - { name: failed, limit: 3/day, counts_when: { status: [401, 403] } }
  - { name: all, limit: 9/day }
";

#[test]
fn what_does_not_count_is_given_back() {
    let (gate, _clock) = gate(LOGIN);
    for (status, expected) in [(200, [3, 8]), (401, [2, 7]), (500, [2, 6]), (403, [1, 5])] {
        let mut admission = gate.decide(&request());
        assert!(admission.is_open());
        done(admission.settle(&Answered(status, "", "")));
        // Again: that changes nothing.
        done(admission.settle(&Answered(status, "", "")));
        drop(admission);
        assert_eq!(looks(&gate, &request()), expected, "{status}");
    }
}

#[test]
fn the_response_says_what_it_cost() {
    let (gate, _clock) = gate(
        "rules:
          - { name: tokens, limit: 100/day, cost: { from: response:x-tokens, default: 10 } }
          - { name: requests, limit: 9/day, cost: 1 }",
    );
    for (said, expected) in [("4", [96, 8]), ("50", [46, 7]), ("nonsense", [36, 6])] {
        let mut admission = gate.decide(&request());
        done(admission.settle(&Answered(200, "x-tokens", said)));
        assert_eq!(looks(&gate, &request()), expected, "{said}");
    }
    // More than there is room for is all that there is.
    let mut admission = gate.decide(&request());
    done(admission.settle(&Answered(200, "x-tokens", "5000")));
    assert!(!gate.decide(&request()).verdict().passes());
}

#[test]
fn a_cost_of_the_route_is_settled_by_the_response() {
    let (gate, _clock) = gate(
        "{ costs: [{ path: /, cost: { from: response:x-tokens } }],
           rules: [{ name: r, limit: 100/day }] }",
    );
    let mut admission = gate.decide(&request());
    done(admission.settle(&Answered(200, "x-tokens", "40")));
    assert_eq!(looks(&gate, &request()), [60]);
}

const PLAIN: &str = "
rules:
  - { name: cells, limit: 100/day }
  - { name: tried, limit: 100/day, shadow: true }
  - { name: requests, limit: 9/day, cost: 1 }
";

#[test]
fn a_caller_sets_the_cost() {
    let (gate, _clock) = gate(PLAIN);
    let look = || looks(&gate, &request());
    let mut admission = gate.decide(&request());
    done(admission.set_cost(30));
    assert_eq!(look(), [70, 8, 70]);
    done(admission.set_cost(30));
    assert_eq!(look(), [70, 8, 70]);
    done(admission.charge_more(5));
    assert_eq!(look(), [65, 8, 65]);
    done(admission.set_cost(10));
    assert_eq!(look(), [90, 8, 90]);
    done(admission.refund());
    assert_eq!(look(), [100, 9, 100]);
    done(admission.refund());
    done(admission.set_cost(0));
    drop(admission);
    assert_eq!(look(), [100, 9, 100]);
}

/// A request that was refused is settled by nobody: nothing of it was charged.
/// A permit is held, not spent: it is one, whatever else its request turns out to have cost.
#[test]
fn a_permit_stays_one_whatever_its_request_costs() {
    let (gate, _clock) = gate(
        "rules:
  - { name: cells, limit: 10/h }
  - { name: busy, limit: 5 in flight, algorithm: concurrency }
  - { name: tried, limit: 5 in flight, algorithm: concurrency, shadow: true }",
    );
    let mut admission = gate.decide(&request());
    let left = || crate::stand::looks(&gate, &request());
    assert_eq!(left(), [9, 4, 4]);
    done(admission.set_cost(3));
    assert_eq!(left(), [7, 4, 4]);
    done(admission.charge_more(2));
    assert_eq!(left(), [5, 4, 4]);
    done(admission.refund());
    assert_eq!(left(), [10, 4, 4]);
    drop(admission);
    becomes(&gate, || room(&gate, &request()), [10, 5, 5]);
}

#[test]
fn what_was_refused_is_never_charged_later() {
    let (gate, _clock) = gate(
        "rules:
          - { name: tight, limit: 1/day, cost: 1 }
          - { name: cells, limit: 100/day }
          - { name: said, limit: 100/day, cost: { from: response:x-tokens } }
          - { name: credits, limit: 100/day, shadow: true, burst: 1,
              credits: { for: 12h, rate: 2x } }",
    );
    assert!(gate.decide(&request()).verdict().passes());
    let look = || left(&gate.decide(&request()));
    let before = look();
    let mut refused = gate.decide(&request());
    assert!(!refused.verdict().passes());
    done(refused.charge_more(10));
    done(refused.set_cost(20));
    done(refused.settle(&Answered(200, "x-tokens", "30")));
    assert_eq!(look(), before);
    done(refused.refund());
    drop(refused);
    assert_eq!(look(), before);
}

/// Of two limits that judge together in shadow, one has no room: neither was charged.
#[test]
fn a_shadow_rule_that_refused_is_not_charged_later() {
    let (gate, _clock) = gate(
        "rules: [{ name: r, limit: 100/day, shadow: true, burst: 1,
                   credits: { for: 12h, rate: 2x } }]",
    );
    assert_eq!(left(&gate.decide(&request())), [50, 0]);
    let mut second = gate.decide(&request());
    assert_eq!(left(&second), [50, 0]);
    done(second.charge_more(10));
    assert_eq!(left(&gate.decide(&request())), [50, 0]);
}

/// What could not be charged is not given back.
#[test]
fn what_there_was_no_room_for_is_not_given_back() {
    let (gate, _clock) = gate("rules: [{ name: r, limit: 10/day }]");
    let mut admission = gate.decide(&request());
    done(gate.decide(&request()).set_cost(5));
    assert_eq!(looks(&gate, &request()), [4]);
    // Four of these nine are charged, on top of one.
    done(admission.charge_more(9));
    done(admission.set_cost(7));
    assert!(!gate.decide(&request()).verdict().passes());
    done(admission.set_cost(3));
    assert_eq!(looks(&gate, &request()), [2]);
    done(admission.refund());
    assert_eq!(looks(&gate, &request()), [5]);
}

/// Whatever is done about it, what is charged in the end is what was wanted in the end.
#[test]
fn any_chain_of_corrections_ends_where_it_says() {
    for algorithm in ["token-bucket", "gcra", "leaky-bucket", "fixed-window", "sliding-log"] {
        let policy = format!("rules: [{{ name: r, limit: 1000/day, algorithm: {algorithm} }}]");
        let mut rng = Rng::new(7);
        let (gate, _clock) = gate(&policy);
        let mut taken = 0;
        for _ in 0..15 {
            let mut admission = gate.decide(&request());
            let mut cost = 1;
            for _ in 0..rng.below(6) {
                match rng.below(4) {
                    0 => {
                        let more = rng.below_u32(5);
                        cost += more;
                        done(admission.charge_more(more));
                    }
                    1 => {
                        cost = 0;
                        done(admission.refund());
                    }
                    _ => {
                        cost = rng.below_u32(20);
                        done(admission.set_cost(cost));
                    }
                }
            }
            taken += cost;
            drop(admission);
            assert_eq!(looks(&gate, &request()), [1_000 - taken], "{algorithm}");
        }
    }
}

#[test]
fn a_correction_after_a_reload_is_one_under_the_new_rules() {
    let (gate, _clock) = gate("rules: [{ name: r, limit: 100/day }]");
    let mut admission = gate.decide(&request());
    done(admission.set_cost(50));
    replace(&gate, "rules: [{ name: new, limit: 7/day }, { name: r, limit: 200/day }]");
    assert_eq!(looks(&gate, &request()), [7, 150]);
    done(admission.set_cost(20));
    assert_eq!(looks(&gate, &request()), [7, 180]);
    done(admission.charge_more(60));
    assert_eq!(looks(&gate, &request()), [7, 120]);
    done(admission.refund());
    assert_eq!(looks(&gate, &request()), [7, 200]);
}

#[test]
fn what_has_happened_is_charged_also_beyond_the_limit() {
    let (gate, clock) = gate("rules: [{ name: r, limit: 10/day }]");
    let mut admission = gate.decide(&request());
    for cells in [12, 4, 19, 10, 0, 15] {
        done(admission.set_cost(cells));
        assert_eq!(admission.each().next().map(|answer| answer.cost), Some(cells));
        assert_eq!(left(&admission), [10_u32.saturating_sub(cells)]);
        assert_eq!(room(&gate, &request()) != [0], cells < 10, "{cells}");
    }
    // Five are owed beyond the limit, and one is asked for.
    let day = Span::from_secs(86_400);
    let refused = gate.decide(&request());
    assert_eq!(retry_after(&refused), Some(Span::from_micros(day.get() / 10 * 6)));
    clock.advance(Span::from_micros(day.get() / 10 * 6));
    assert!(passes(&gate, &request()));
    // A settlement that no state remembers in full still has its cost.
    drop(admission.set_cost(1_000_000));
    assert_eq!(admission.each().next().map(|answer| answer.cost), Some(1_000_000));
    assert_eq!(left(&admission), [0]);
}

#[test]
fn a_reset_counts_from_when_it_was_settled() {
    let (gate, clock) = gate(
        "headers: legacy
rules: [{ name: r, limit: 60/min }]",
    );
    let reset = |admission: &Admission| {
        let mut reset = None;
        admission.fields(|field, value| {
            if field == Field::XReset {
                reset = value.parse().ok();
            }
        });
        reset
    };
    let mut admission = gate.decide(&request());
    assert_eq!(reset(&admission), Some(START + 1));
    clock.advance(Span::from_secs(30));
    assert_eq!(reset(&admission), Some(START + 1), "nothing has changed");
    done(admission.set_cost(20));
    assert_eq!(reset(&admission), Some(START + 30 + 19));
}

/// How long the next would wait.
fn delay(gate: &Still) -> Option<Span> {
    done(gate.peek(&request())).delay()
}

fn queue(gate: &Still) -> Option<Span> {
    match gate.decide(&request()).verdict() {
        Verdict::Delay { by } => Some(by),
        Verdict::Allow => Some(Span::ZERO),
        _ => None,
    }
}

#[test]
fn who_cannot_wait_leaves_the_queue() {
    let (gate, _clock) = gate("rules: [{ name: q, limit: 1/s, algorithm: leaky-queue, burst: 5 }]");
    assert_eq!([queue(&gate), queue(&gate)], [Some(Span::ZERO), Some(Span::from_secs(1))]);
    let waits = gate.decide(&request());
    assert_eq!(waits.delay(), Some(Span::from_secs(2)));
    let mut refused = waits.within(Span::from_millis(500));
    let verdict = Verdict::Deny { retry_after: Span::from_millis(1_500) };
    assert_eq!((refused.verdict(), refused.violated().count()), (verdict, 1));
    done(refused.charge_more(2));
    done(refused.refund());
    drop(refused);
    becomes(&gate, || delay(&gate), Some(Span::from_secs(2)));
    assert_eq!(queue(&gate), Some(Span::from_secs(2)), "its place is free");
    let patient = gate.decide(&request()).within(Span::from_secs(3));
    assert_eq!(patient.delay(), Some(Span::from_secs(3)));
}

#[test]
fn who_goes_away_while_waiting_leaves_the_queue() {
    let (gate, clock) = gate("rules: [{ name: q, limit: 1/s, algorithm: leaky-queue, burst: 5 }]");
    assert_eq!(queue(&gate), Some(Span::ZERO));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut start = Box::pin(gate.decide(&request()).start());
    assert!(start.as_mut().poll(&mut context).is_pending());
    assert_eq!(clock.waiting(), 1);
    drop(start);
    assert_eq!(clock.waiting(), 0);
    becomes(&gate, || delay(&gate), Some(Span::from_secs(1)));
    let mut start = Box::pin(gate.decide(&request()).start());
    assert!(start.as_mut().poll(&mut context).is_pending());
    clock.advance(Span::from_micros(999_999));
    assert!(start.as_mut().poll(&mut context).is_pending());
    clock.advance(Span::from_micros(1));
    let std::task::Poll::Ready(started) = start.as_mut().poll(&mut context) else {
        panic!("its turn has come");
    };
    drop(started);
    assert_eq!(queue(&gate), Some(Span::from_secs(1)), "who has started has taken its place");
}
