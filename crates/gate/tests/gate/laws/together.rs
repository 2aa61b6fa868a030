//! Several requests decided as one, against a naive model: a state for each rule and key in a plain
//! map, each asked once for the highest cost.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use tidegate_core::{Decision, Kind, Policy, Quota, Span, State, Tick, Verdict};
use tidegate_gate::{Admission, Gate, Joint, Reason, Request, Rules, Sample};
use tidegate_sim::rng::Rng;

use super::{gate, turns};
use crate::stand::{START, becomes, by, counts, done, left, looks, room, to};

const ALGORITHMS: [&str; 7] = [
    "token-bucket",
    "gcra",
    "leaky-bucket",
    "leaky-queue",
    "fixed-window",
    "sliding-window",
    "sliding-log",
];
const CLIENTS: [&str; 3] = ["ada", "bob", "eve"];
const PATHS: [&str; 2] = ["/a", "/b"];

fn at(rng: &mut Rng, below: u64) -> usize {
    usize::try_from(rng.below(below)).unwrap()
}

/// A rule as the model knows it.
struct Modeled {
    kind: Kind,
    cells: u32,
    seconds: u32,
    by_client: bool,
    by_path: bool,
    path: Option<usize>,
    cost: Option<u32>,
    is_shadow: bool,
}

impl Modeled {
    fn any(rng: &mut Rng) -> Modeled {
        Modeled {
            kind: ALGORITHMS[at(rng, 7)].parse().unwrap(),
            cells: 1 + rng.below_u32(12),
            seconds: [1, 3, 10, 60][at(rng, 4)],
            by_client: !rng.one_in(3),
            by_path: rng.one_in(3),
            path: rng.one_in(4).then(|| at(rng, 2)),
            cost: rng.one_in(4).then(|| rng.below_u32(4)),
            is_shadow: rng.one_in(5),
        }
    }

    fn yaml(&self, number: usize) -> String {
        let Modeled { kind, cells, seconds, is_shadow, .. } = self;
        let mut fields = vec![
            format!("name: r{number}, algorithm: {kind}, limit: {cells}/{seconds}s"),
            format!("shadow: {is_shadow}"),
        ];
        let key = [(self.by_client, "client"), (self.by_path, "path")];
        let key: Vec<&str> = key.iter().filter(|(is_in, _)| *is_in).map(|(_, it)| *it).collect();
        if !key.is_empty() {
            fields.push(format!("key: [{}]", key.join(", ")));
        }
        fields.extend(self.path.map(|path| format!("match: {{ path: {} }}", PATHS[path])));
        fields.extend(self.cost.map(|cost| format!("cost: {cost}")));
        format!("  - {{ {} }}\n", fields.join(", "))
    }

    fn policy(&self) -> Policy {
        Policy::new(self.kind, Quota::new(self.cells, Span::from_secs(self.seconds))).unwrap()
    }
}

/// Client, path and cost.
type Asked = (usize, usize, u32);

fn sample((client, path, cost): Asked) -> Sample {
    to(&format!("GET {}", PATHS[path]), CLIENTS[client]).with_cost(cost)
}

/// Rule, client and path: what a state belongs to.
type Whom = (usize, usize, usize);

#[derive(Clone)]
struct Model {
    rules: std::rc::Rc<Vec<Modeled>>,
    states: BTreeMap<Whom, State>,
}

impl Model {
    /// Judges together, and charges all or none if that is wanted.
    fn judge(&mut self, limits: &[(Whom, u32)], now: Tick, charges: bool) -> Vec<Decision> {
        let mut said = Vec::new();
        for (whom, cost) in limits {
            let policy = self.rules[whom.0].policy();
            let state = self.states.entry(*whom).or_insert_with(|| policy.fresh());
            said.push(policy.peek(state, now, *cost));
        }
        if charges && said.iter().all(|it| it.verdict.passes()) {
            for ((whom, cost), said) in limits.iter().zip(&mut said) {
                let policy = self.rules[whom.0].policy();
                let state = self.states.get_mut(whom).unwrap();
                let decided = policy.decide(state, now, *cost).verdict;
                assert_eq!(decided, said.verdict);
                *said = Decision { verdict: said.verdict, ..policy.peek(state, now, 0) };
            }
        }
        said
    }

    fn whom(&self, rule: usize, (client, path, _): Asked) -> Option<Whom> {
        let modeled = &self.rules[rule];
        let is_for_it = modeled.path.is_none_or(|only| only == path);
        let client = if modeled.by_client { client } else { 9 };
        is_for_it.then_some((rule, client, if modeled.by_path { path } else { 9 }))
    }

    fn decide(&mut self, asked: &[Asked], now: Tick) -> Vec<(Verdict, Vec<Decision>)> {
        let rules = std::rc::Rc::clone(&self.rules);
        let mut wanted: BTreeMap<Whom, u32> = BTreeMap::new();
        for one in asked {
            for whom in (0..rules.len()).filter_map(|rule| self.whom(rule, *one)) {
                let cost = rules[whom.0].cost.unwrap_or(one.2);
                let highest = wanted.entry(whom).or_default();
                *highest = cost.max(*highest);
            }
        }
        let (shadow, enforced): (Vec<_>, Vec<_>) =
            wanted.into_iter().partition(|(whom, _)| rules[whom.0].is_shadow);
        let said = self.judge(&enforced, now, true);
        let passes = said.iter().all(|it| it.verdict.passes());
        let mut answers: BTreeMap<Whom, Decision> =
            enforced.iter().map(|(whom, _)| *whom).zip(said).collect();
        for limit in shadow {
            answers.insert(limit.0, self.judge(&[limit], now, passes)[0]);
        }
        let of = |one: &Asked| {
            let whom = |is_shadow: bool| {
                let all = (0..rules.len()).filter(|rule| rules[*rule].is_shadow == is_shadow);
                all.filter_map(|rule| self.whom(rule, *one)).collect::<Vec<_>>()
            };
            let (enforced, shadow) = (whom(false), whom(true));
            let verdict = enforced.iter().map(|whom| answers[whom].verdict);
            let verdict = verdict.fold(Verdict::Allow, Verdict::and);
            (verdict, enforced.iter().chain(&shadow).map(|whom| answers[whom]).collect())
        };
        asked.iter().map(of).collect()
    }
}

fn together(gate: &Gate, requests: &[Sample]) -> Joint {
    let requests: Vec<&dyn Request> = requests.iter().map(|it| it as &dyn Request).collect();
    done(gate.admit_jointly(&requests))
}

fn said(admission: &Admission) -> (Verdict, Vec<Decision>) {
    (admission.verdict(), admission.each().map(|answer| answer.decision).collect())
}

fn policy(rules: &[Modeled]) -> String {
    let rules: String = rules.iter().enumerate().map(|(at, rule)| rule.yaml(at)).collect();
    format!("identify: {{ client: [header:x-api-key] }}\nrules:\n{rules}")
}

fn check(seed: u64) -> (u32, u32) {
    let mut rng = Rng::new(seed);
    let rules: Vec<Modeled> = (0..=rng.below(3)).map(|_| Modeled::any(&mut rng)).collect();
    let policy = policy(&rules);
    let (gate, clock) = gate(&policy);
    let mut model = Model { rules: rules.into(), states: BTreeMap::new() };
    let mut now = Tick::from_micros(START * 1_000_000);
    let (mut passed, mut refused) = (0, 0);
    for step in 0..200 {
        if rng.one_in(2) {
            let longest = [1, 1_000_000, 20_000_000][at(&mut rng, 3)];
            let span = Span::from_micros(rng.below(longest) + 1);
            clock.advance(span);
            now = now.after(span);
        }
        let any = |rng: &mut Rng| (at(rng, 3), at(rng, 2), rng.below_u32(4));
        let asked: Vec<Asked> = (0..rng.below(5)).map(|_| any(&mut rng)).collect();
        let samples: Vec<Sample> = asked.iter().copied().map(sample).collect();
        let mut whole = together(&gate, &samples);
        let before = model.clone();
        let expected = model.decide(&asked, now);
        let own = expected.iter().map(|(verdict, _)| *verdict);
        let verdict = own.fold(Verdict::Allow, Verdict::and);
        let given: Vec<_> = whole.each.iter().map(said).collect();
        let place = format!("seed {seed}, step {step}: {asked:?}\n{policy}");
        assert_eq!((whole.verdict, given), (verdict, expected), "{place}");
        if verdict.passes() {
            passed += 1;
        } else {
            refused += 1;
        }
        // Given back by all of them, in any order, it is as if nobody had asked.
        if rng.one_in(4) {
            while !whole.each.is_empty() {
                let one = at(&mut rng, whole.each.len() as u64);
                done(whole.each[one].refund());
                done(whole.each.swap_remove(one).refund());
            }
            model = before;
        }
    }
    (passed, refused)
}

#[test]
fn all_of_them_pass_or_none_is_charged() {
    let (mut passed, mut refused) = (0, 0);
    for seed in 0..turns(150).into() {
        let (more, fewer) = check(seed);
        (passed, refused) = (passed + more, refused + fewer);
    }
    let enough = 26 * turns(150);
    assert!(enough < passed && enough < refused, "{passed} passed, {refused} were refused");
}

#[test]
fn one_request_together_is_admitted_as_by_itself() {
    for seed in 0..turns(30).into() {
        let mut rng = Rng::new(seed);
        let rules: Vec<Modeled> = (0..=rng.below(4)).map(|_| Modeled::any(&mut rng)).collect();
        let policy = policy(&rules)
            + "  - { name: no, match: { path: /no }, block: true }\n"
            + "  - { name: all, match: { path: /b }, unlimited: true }\n";
        let ((one, one_clock), (other, other_clock)) = (gate(&policy), gate(&policy));
        for step in 0..100 {
            let span = Span::from_micros(rng.below(1_500_000) + 1);
            one_clock.advance(span);
            other_clock.advance(span);
            let path = ["/a", "/b", "/no"][at(&mut rng, 3)];
            let name = CLIENTS[at(&mut rng, 3)];
            let name = if rng.one_in(20) { name.repeat(3_000) } else { name.to_owned() };
            let request = to(&format!("GET {path}"), &name).with_cost(rng.below_u32(4));
            let alone = one.decide(&request);
            let together = together(&other, std::slice::from_ref(&request));
            let [with] = &together.each[..] else { panic!("one for each") };
            let all = |it: &Admission| (said(it), it.reason(), it.by(), it.now());
            assert_eq!(all(&alone), all(with), "seed {seed}, step {step}: {request:?}\n{policy}");
            assert_eq!(together.verdict, alone.verdict());
            assert_eq!(alone.stopped_by(), with.stopped_by());
        }
        assert_eq!(one.counts(), other.counts(), "seed {seed}");
    }
}

const SHARED: &str = "
identify: { client: [header:x-api-key] }
rules:
  - { name: everybody, limit: 100/day }
  - { name: client, key: client, limit: 3/day, cost: 1 }
";

#[test]
fn a_limit_that_they_share_is_charged_once_and_held_by_one() {
    let (gate, _clock) = gate(SHARED);
    let requests = [by("ada").with_cost(2), by("bob").with_cost(5), by("ada").with_cost(4)];
    let mut whole = together(&gate, &requests);
    let lefts: Vec<Vec<u32>> = whole.each.iter().map(left).collect();
    assert_eq!(lefts, [[95, 2], [95, 2], [95, 2]]);
    assert_eq!(counts(&gate, "everybody"), (1, 0, 0));
    assert_eq!(counts(&gate, "client"), (2, 0, 0));
    let look = || (looks(&gate, &by("ada")), looks(&gate, &by("bob")));
    // The second holds what everybody is charged; the first holds what ada is.
    done(whole.each[2].refund());
    done(whole.each[2].set_cost(50));
    assert_eq!(look(), (vec![95, 2], vec![95, 2]));
    done(whole.each[0].refund());
    assert_eq!(look(), (vec![95, 3], vec![95, 2]));
    done(whole.each[1].set_cost(1));
    assert_eq!(look(), (vec![99, 3], vec![99, 2]));
    done(whole.each[1].refund());
    drop(whole);
    assert_eq!(look(), (vec![100, 3], vec![100, 3]));
}

#[test]
fn each_says_whether_its_own_limits_refused() {
    let (gate, _clock) = gate(SHARED);
    for _ in 0..3 {
        assert!(gate.decide(&by("ada")).verdict().passes());
    }
    let mut whole = together(&gate, &[by("bob"), by("ada"), by("eve")]);
    assert!(!whole.verdict.passes());
    let passes: Vec<bool> = whole.each.iter().map(|it| it.verdict().passes()).collect();
    assert_eq!(passes, [true, false, true]);
    let violated: Vec<&str> = whole.each[1].violated().map(|answer| answer.rule).collect();
    assert_eq!(violated, ["client"]);
    // Nothing was charged, and nothing can be later.
    for admission in &mut whole.each {
        assert!(!admission.has_permits());
        done(admission.set_cost(9));
        done(admission.charge_more(9));
    }
    drop(whole);
    assert_eq!(looks(&gate, &by("bob")), [97, 3]);
}

#[test]
fn one_that_is_blocked_stops_all() {
    let (gate, _clock) =
        gate(&format!("{SHARED}  - {{ name: no, match: {{ path: /no }}, block: true }}"));
    let long = by(&"x".repeat(1_000)).with_header("x-api-key", "ignored");
    let whole = together(&gate, &[by("ada"), to("GET /no", "bob"), long]);
    assert_eq!(whole.verdict, Verdict::Never);
    let reasons: Vec<Reason> = whole.each.iter().map(Admission::reason).collect();
    assert_eq!(reasons, [Reason::Judged, Reason::Blocked, Reason::Judged]);
    assert_eq!(left(&whole.each[0]), [100, 3]);
    assert_eq!(looks(&gate, &by("ada")), [100, 3]);
}

#[test]
fn more_limits_than_are_judged_together_never_pass() {
    let policy = "{ identify: { client: [header:x-api-key] }, \
                  rules: [{ name: client, key: client, limit: 9/day }] }";
    let (gate, _clock) = gate(policy);
    let requests: Vec<Sample> = (0..=Rules::LIMITS_MAX).map(|id| by(&id.to_string())).collect();
    let whole = together(&gate, &requests);
    assert_eq!(whole.verdict, Verdict::Never);
    assert!(whole.each.iter().all(|it| it.reason() == Reason::TooManyLimits));
    assert!(together(&gate, &requests[1..]).verdict.passes());
    let alike: Vec<Sample> = (0..100).map(|_| by("0")).collect();
    let whole = together(&gate, &alike);
    assert!(whole.verdict.passes());
    assert_eq!(looks(&gate, &by("0")), [8]);
    assert!(together(&gate, &[]).verdict.passes());
}

#[test]
fn a_permit_that_they_share_is_given_back_once() {
    let (gate, _clock) = gate("rules: [{ name: r, limit: 2 in flight, algorithm: concurrency }]");
    let request = || Sample::new("GET /");
    let mut whole = together(&gate, &[request(), request()]);
    let other = gate.decide(&request());
    assert!(other.verdict().passes() && !gate.decide(&request()).verdict().passes());
    drop(whole.each.pop());
    assert!(!gate.decide(&request()).verdict().passes(), "the first holds it");
    drop(whole);
    becomes(&gate, || room(&gate, &request()), [1]);
    let again = gate.decide(&request());
    assert!(again.verdict().passes() && !gate.decide(&request()).verdict().passes());
}
