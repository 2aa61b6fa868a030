//! Redis and memory say the same, number for number, where a limit stands twice in a request:
//! plain limits, limits in shadow that one cost fits and another does not, several requests as one.

#![expect(clippy::unwrap_used, reason = "tests")]

use tidegate_core::{Decision, Kind, Policy, Quota, Span, Verdict};
use tidegate_gate::{AdhocCharge, AdhocLimit, Admission, Gate, Reason, Request, Sample};
use tidegate_gate::{Joint, WithoutStore};
use tidegate_sim::rng::Rng;

use crate::on_redis::still;
use crate::stand::{START, gate_at, to};

const CASES: u32 = 2_000;
const POLICY: &str = "
identify: { client: header:x-api-key }
rules:
  - { name: all, limit: 30/10s, burst: 20 }
  - { name: tried, key: client, limit: 4/10s, shadow: true, algorithm: fixed-window }
  - { name: bucket, key: client, limit: 5/10s, shadow: true }
  - { name: paths, key: path, limit: 6/10s, shadow: true, algorithm: sliding-log }
  - { name: client, key: client, limit: 12/10s, algorithm: sliding-window }";

/// Limits that count one thing each, in each of the ways.
fn limits(gate: &Gate) -> Vec<AdhocLimit> {
    let kinds = [Kind::TokenBucket, Kind::FixedWindow, Kind::SlidingLog, Kind::SlidingWindow];
    let limit = |kind: Kind| {
        let policy = Policy::new(kind, Quota::new(6, Span::from_secs(10))).unwrap();
        gate.adhoc(&format!("{kind:?}"), policy, WithoutStore::Closed).unwrap()
    };
    kinds.map(limit).into()
}

/// What is asked of one of so many limits: which, whose key, and for how much.
fn any_charges(rng: &mut Rng, limits: u64) -> Vec<(usize, usize, u32)> {
    let mut any = || {
        let pick = |rng: &mut Rng, most| usize::try_from(rng.below(most)).unwrap();
        (pick(rng, limits), pick(rng, 2), [0, 1, 1, 2, 5, 7][pick(rng, 6)])
    };
    let mut charges: Vec<_> = (0..3).map(|_| any()).collect();
    // The last is the first once more, at another cost.
    let (limit, key, cost) = charges[0];
    charges.push((limit, key, if cost == 5 { 1 } else { 5 }));
    let from = usize::try_from(rng.below(4)).unwrap();
    charges.rotate_left(from);
    charges
}

async fn plain(
    gate: &Gate,
    limits: &[AdhocLimit],
    charges: &[(usize, usize, u32)],
    takes: bool,
) -> (Verdict, Vec<Decision>) {
    let keys: [&[&[u8]]; 2] = [&[b"ada"], &[b"bob", b"x"]];
    let charge = |&(limit, key, cost): &(usize, usize, u32)| AdhocCharge {
        limit: &limits[limit],
        key: keys[key],
        cost,
    };
    let charges: Vec<AdhocCharge<'_>> = charges.iter().map(charge).collect();
    let asked = if takes { gate.decide_adhoc(&charges) } else { gate.peek_adhoc(&charges) };
    let decided = asked.await;
    assert!(!decided.by.is_fallback());
    (decided.verdict, decided.each.to_vec())
}

/// What was said of a request: of each limit, with what it cost.
type Said = (Verdict, Reason, Vec<(String, Decision, u32, bool)>);

fn said(admission: &Admission) -> Said {
    assert!(!admission.by().is_fallback());
    let each = admission.each();
    let each = each.map(|it| (it.rule.to_owned(), it.decision, it.cost, it.is_shadow));
    (admission.verdict(), admission.reason(), each.collect())
}

async fn together(gate: &Gate, requests: &[Sample]) -> Joint {
    let requests: Vec<&dyn Request> = requests.iter().map(|it| it as &dyn Request).collect();
    gate.admit_jointly(&requests).await
}

fn any_request(rng: &mut Rng) -> Sample {
    let pick = |rng: &mut Rng, from: [&'static str; 2]| from[usize::from(rng.one_in(2))];
    let path = pick(rng, ["GET /a", "GET /b"]);
    let costs = [1, 1, 2, 5];
    to(path, pick(rng, ["ada", "bob"])).with_cost(costs[usize::try_from(rng.below(4)).unwrap()])
}

#[tokio::test]
async fn a_limit_that_stands_twice_is_the_same_in_redis_and_in_memory() {
    let (_server, there, clock) = still(POLICY).await;
    let (here, here_clock) = gate_at(START, POLICY);
    let (far_limits, near_limits) = (limits(&there), limits(&here));
    let mut rng = Rng::new(1);
    // Of shadow limits that refused one of a request's costs and let another pass.
    let (mut passed, mut refused, mut mixed) = (0, 0, 0);
    for case in 0..CASES {
        let span = Span::from_micros(rng.below(2_500_000));
        clock.advance(span);
        here_clock.advance(span);
        let verdict = if rng.one_in(2) {
            let charges = any_charges(&mut rng, 4);
            let takes = !rng.one_in(5);
            let far = plain(&there, &far_limits, &charges, takes).await;
            let near = plain(&here, &near_limits, &charges, takes).await;
            assert_eq!(far, near, "case {case}: {charges:?}");
            near.0
        } else {
            let mut requests: Vec<Sample> = (0..3).map(|_| any_request(&mut rng)).collect();
            // The first once more, at another cost.
            requests.push(requests[0].clone().with_cost([1, 5][usize::from(rng.one_in(2))]));
            requests.drain(..usize::try_from(rng.below(3)).unwrap());
            let (mut far, mut near) =
                (together(&there, &requests).await, together(&here, &requests).await);
            let all = |it: &Joint| (it.verdict, it.each.iter().map(said).collect::<Vec<_>>());
            assert_eq!(all(&far), all(&near), "case {case}: {requests:?}");
            let tried = near.each.iter().flat_map(Admission::each);
            let mut tried = tried.filter(|it| it.is_shadow && !it.decision.verdict.passes());
            mixed += u32::from(near.verdict.passes() && tried.next().is_some());
            drop(tried);
            for (far, near) in far.each.iter_mut().zip(&mut near.each).filter(|_| rng.one_in(4)) {
                far.refund().await;
                near.refund().await;
            }
            near.verdict
        };
        let looked = any_request(&mut rng);
        let (far, near) = (there.peek(&looked).await, here.peek(&looked).await);
        assert_eq!(said(&far), said(&near), "case {case}: a look at {looked:?}");
        if verdict.passes() {
            passed += 1;
        } else {
            refused += 1;
        }
    }
    assert_eq!(there.counts(), here.counts());
    assert!(200 < passed && 200 < refused && 50 < mixed, "{passed}, {refused}, {mixed}");
}
