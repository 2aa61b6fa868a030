//! A request that is under way at midnight, where each window is a limit of its own.

use tidegate_core::Span;
use tidegate_gate::Sample;

use crate::stand::{done, gate_at, looks, passed, replace};

const DAILY: &str = "rules: [{ name: daily, limit: 3/day, algorithm: fixed-window, \
                     time_zone: Europe/Berlin }]";
/// Midnight of 30 March 2024 in Berlin.
const BEFORE_SUMMER: u64 = 1_711_753_200;

fn request() -> Sample {
    Sample::new("GET /")
}

fn hours(hours: u32) -> Span {
    Span::from_secs(hours * 3_600)
}

/// A request that began by the old rules, before midnight, puts nothing of them in force.
#[test]
fn who_is_under_way_at_midnight_does_not_bring_old_rules_back() {
    let (gate, clock) = gate_at(BEFORE_SUMMER, DAILY);
    clock.advance(hours(23));
    let mut late = gate.decide(&request());
    let mut later = gate.decide(&request());
    replace(&gate, &DAILY.replace("3/day", "5/day"));
    assert_eq!(looks(&gate, &request()), [3]);
    clock.advance(hours(2));
    assert_eq!(passed(&gate, &request(), 1), 1);
    done(late.refund());
    done(later.charge_more(1));
    drop((late, later));
    assert_eq!(passed(&gate, &request(), 9), 4, "five a day");
    // As above, if nobody has asked since midnight.
    clock.advance(hours(23));
    let mut late = gate.decide(&request());
    replace(&gate, &DAILY.replace("3/day", "2/day"));
    clock.advance(hours(2));
    done(late.set_cost(0));
    assert_eq!(passed(&gate, &request(), 9), 2);
}
