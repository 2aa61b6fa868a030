//! The gate against a naive model: all rules in their order, a state for each rule and key in a
//! plain map, and the core's policies asked one by one. Now and then the gate is restarted. The
//! fields of each response are those of its limits.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use tidegate_core::{Decision, Kind, Policy, Quota, Span, State, Tick, Verdict};
use tidegate_gate::{Admission, Answer, Sample};
use tidegate_sim::rng::Rng;

use super::{gate, restarted, turns};
use crate::stand::START;

const ALGORITHMS: [&str; 7] = [
    "token-bucket",
    "gcra",
    "leaky-bucket",
    "leaky-queue",
    "fixed-window",
    "sliding-window",
    "sliding-log",
];
const TIERS: [&str; 2] = ["free", "pro"];
const CLIENTS: [&str; 4] = ["ada", "bob", "acme", "eve"];
const PATHS: [&str; 2] = ["/a", "/b"];

/// A rule as the model knows it.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "as many as the file has flags")]
struct Modeled {
    kind: Kind,
    /// For each tier: so many cells in so many seconds; nothing is unlimited.
    quotas: Vec<Option<(u32, u32)>>,
    of_acme: Option<(u32, u32)>,
    path: Option<usize>,
    by_client: bool,
    by_path: bool,
    cost: Option<u32>,
    /// A burst, for buckets; and so many seconds of credits at so many times the rate.
    burst: Option<u32>,
    credits: Option<(u32, u32)>,
    is_shadow: bool,
    is_hidden: bool,
    is_last: bool,
}

struct Asked {
    client: usize,
    path: usize,
    tier: usize,
    cost: u32,
}

impl Modeled {
    fn any(rng: &mut Rng) -> Modeled {
        let at = usize::try_from(rng.below(7)).unwrap();
        let kind: Kind = ALGORITHMS[at].parse().unwrap();
        let quota = |rng: &mut Rng| (1 + rng.below_u32(12), [1, 3, 10, 60][rng_at(rng, 4)]);
        let tiers = if rng.one_in(3) { 2 } else { 1 };
        let mut quotas: Vec<_> = (0..tiers).map(|_| Some(quota(rng))).collect();
        if tiers == 2 && rng.one_in(4) {
            quotas[1] = None;
        }
        let by_client = !rng.one_in(4);
        let is_bucket = matches!(kind, Kind::TokenBucket | Kind::Gcra | Kind::LeakyBucket);
        Modeled {
            kind,
            quotas,
            of_acme: (by_client && rng.one_in(3)).then(|| quota(rng)),
            path: rng.one_in(3).then(|| rng_at(rng, 2)),
            by_client,
            by_path: rng.one_in(3),
            cost: rng.one_in(3).then(|| rng.below_u32(4)),
            burst: (is_bucket && rng.one_in(2)).then(|| 1 + rng.below_u32(9)),
            credits: (is_bucket && rng.one_in(3)).then(|| (1 + rng.below_u32(20), 2)),
            is_shadow: rng.one_in(5),
            is_hidden: rng.one_in(8),
            is_last: rng.one_in(8),
        }
    }

    fn yaml(&self, number: usize) -> String {
        let limit = |quota: &Option<(u32, u32)>| match quota {
            Some((cells, per)) => format!("{cells}/{per}s"),
            None => "unlimited".to_owned(),
        };
        let mut fields = vec![
            format!("name: r{number}"),
            format!("algorithm: {}", self.kind),
            format!("shadow: {}", self.is_shadow),
            format!("headers: {}", !self.is_hidden),
            format!("last: {}", self.is_last),
        ];
        fields.push(match &self.quotas[..] {
            [free, pro] => format!("limit: {{ free: {}, pro: {} }}", limit(free), limit(pro)),
            all => format!("limit: {}", limit(&all[0])),
        });
        let key = [(self.by_client, "client"), (self.by_path, "path")];
        let key: Vec<&str> = key.iter().filter(|(is_in, _)| *is_in).map(|(_, it)| *it).collect();
        if !key.is_empty() {
            fields.push(format!("key: [{}]", key.join(", ")));
        }
        if let (Some(quota), false) = (self.of_acme, self.by_path) {
            fields.push(format!("overrides: {{ acme: {} }}", limit(&Some(quota))));
        }
        fields.extend(self.path.map(|path| format!("match: {{ path: {} }}", PATHS[path])));
        fields.extend(self.cost.map(|cost| format!("cost: {cost}")));
        fields.extend(self.burst.map(|burst| format!("burst: {burst}")));
        let credits =
            |(seconds, factor)| format!("credits: {{ for: {seconds}s, rate: {factor}x }}");
        fields.extend(self.credits.map(credits));
        format!("  - {{ {} }}\n", fields.join(", "))
    }

    /// The policies for a request that it matches; none if it is not limited.
    fn policies(&self, asked: &Asked) -> Vec<Policy> {
        let is_acme = self.by_client && !self.by_path && CLIENTS[asked.client] == "acme";
        let own = self.of_acme.filter(|_| is_acme);
        let tier = asked.tier.min(self.quotas.len() - 1);
        let Some((cells, per)) = own.or(self.quotas[tier]) else { return Vec::new() };
        // An override has no burst of its own but that of its limit.
        let burst = self.burst.filter(|_| own.is_none());
        let per_span = Span::from_secs(per);
        let make = |cells: u32, burst: Option<u32>| {
            let quota = Quota::new(cells, per_span);
            Policy::new(self.kind, burst.map_or(quota, |burst| quota.burst(burst))).unwrap()
        };
        match self.credits {
            None => vec![make(cells, burst)],
            Some((seconds, factor)) => {
                let burst = burst.unwrap_or(cells);
                let saved = cells * seconds / per;
                vec![make(cells, Some(burst + saved)), make(cells * factor, Some(burst))]
            }
        }
    }
}

fn rng_at(rng: &mut Rng, below: u64) -> usize {
    usize::try_from(rng.below(below)).unwrap()
}

/// Rule, variant, part, client and path: what a state belongs to.
type Whom = (usize, String, usize, usize, usize);

#[derive(Default)]
struct Model {
    states: BTreeMap<Whom, State>,
}

impl Model {
    /// Judges several limits together, and charges all or none if that is wanted.
    fn judge(
        &mut self,
        limits: &[(Whom, Policy, u32)],
        now: Tick,
        charges: bool,
    ) -> (Verdict, Vec<Decision>) {
        let mut states: Vec<State> = Vec::new();
        let (mut verdict, mut answers) = (Verdict::Allow, Vec::new());
        for (whom, policy, cost) in limits {
            let known = self.states.get(whom).cloned();
            let mut state = known.unwrap_or_else(|| policy.fresh());
            let mut looked = state.clone();
            answers.push(policy.peek(&mut looked, now, *cost));
            verdict = verdict.and(answers.last().unwrap().verdict);
            let said = policy.decide(&mut state, now, *cost).verdict;
            assert_eq!(said, answers.last().unwrap().verdict);
            states.push(state);
        }
        if verdict.passes() && charges {
            for ((mut state, (whom, policy, _)), answer) in
                states.into_iter().zip(limits).zip(&mut answers)
            {
                let after = policy.peek(&mut state, now, 0);
                *answer = Decision { verdict: answer.verdict, ..after };
                self.states.insert(whom.clone(), state);
            }
        }
        (verdict, answers)
    }

    fn decide(&mut self, rules: &[Modeled], asked: &Asked, now: Tick) -> (Verdict, Vec<Decision>) {
        let (mut enforced, mut shadow) = (Vec::new(), Vec::new());
        for (number, rule) in rules.iter().enumerate() {
            if rule.path.is_some_and(|path| path != asked.path) {
                continue;
            }
            let is_own = rule.by_client && !rule.by_path && CLIENTS[asked.client] == "acme";
            let tier = asked.tier.min(rule.quotas.len() - 1);
            let variant = match rule.of_acme {
                Some(_) if is_own => "own".to_owned(),
                _ => tier.to_string(),
            };
            let client = if rule.by_client { asked.client } else { 9 };
            let path = if rule.by_path { asked.path } else { 9 };
            let cost = rule.cost.unwrap_or(asked.cost);
            let limits: Vec<_> = rule
                .policies(asked)
                .into_iter()
                .enumerate()
                .map(|(part, policy)| ((number, variant.clone(), part, client, path), policy, cost))
                .collect();
            if rule.is_shadow {
                shadow.push(limits);
            } else {
                enforced.extend(limits);
            }
            if rule.is_last {
                break;
            }
        }
        let (verdict, mut answers) = self.judge(&enforced, now, true);
        for limits in shadow {
            let (_, said) = self.judge(&limits, now, verdict.passes());
            answers.extend(said);
        }
        (verdict, answers)
    }
}

/// The draft's two fields are those of the limits that enforce, in their order; the other three
/// are those of one of them.
#[track_caller]
fn check_fields(admission: &Admission) {
    let mut fields = BTreeMap::new();
    admission.fields(|field, value| {
        assert!(fields.insert(field.name(), value.to_owned()).is_none(), "each once");
    });
    let limits: Vec<_> = admission.each().filter(|it| !it.is_shadow && it.is_shown).collect();
    let secs = |span: Span| span.get().div_ceil(1_000_000);
    let list = |item: &dyn Fn(&Answer<'_>) -> String| {
        let items: Vec<String> = limits.iter().map(item).collect();
        (!items.is_empty()).then(|| items.join(", "))
    };
    let remains = list(&|it| {
        let Decision { remaining, reset_after, .. } = it.decision;
        format!("\"{}\";r={remaining};t={}", it.name(), secs(reset_after))
    });
    assert_eq!(fields.get("ratelimit"), remains.as_ref());
    let quotas = list(&|it| {
        let (limit, window) = (it.decision.limit, secs(it.window).max(1));
        format!("\"{}\";q={limit};w={window}", it.name())
    });
    assert_eq!(fields.get("ratelimit-policy"), quotas.as_ref());
    let three = ["limit", "remaining", "reset"].map(|it| format!("x-ratelimit-{it}"));
    let three = three.map(|name| fields.get(&*name).cloned());
    let of = |it: &Answer<'_>| {
        let Decision { limit, remaining, reset_after, .. } = it.decision;
        let reset = secs(Span::from_micros(admission.now().after(reset_after).get()));
        [u64::from(limit), remaining.into(), reset].map(|number| Some(number.to_string()))
    };
    let is_one = limits.iter().any(|it| of(it) == three);
    assert!(is_one || limits.is_empty() && three == [None, None, None], "{three:?}");
    let is_refused = matches!(admission.verdict(), Verdict::Deny { .. });
    assert_eq!(fields.contains_key("retry-after"), is_refused);
}

fn check(seed: u64) -> (u32, u32) {
    let mut rng = Rng::new(seed);
    let rules: Vec<Modeled> = (0..=rng.below(4)).map(|_| Modeled::any(&mut rng)).collect();
    let yaml: String = rules.iter().enumerate().map(|(at, rule)| rule.yaml(at)).collect();
    // Where routes have no costs, a thread remembers which rules are for them.
    let has_costs = rng.one_in(2);
    let costs = "costs: [{ path: /**, cost: { from: header:x-cost, min: 0 } }]\n";
    let costs = if has_costs { costs } else { "" };
    let policy = format!(
        "identify: {{ client: [header:x-api-key] }}\n\
         tiers: {{ header: x-tier, default: free, names: [free, pro] }}\n\
         {costs}rules:\n{yaml}"
    );
    let (mut gate, clock) = gate(&policy);
    let mut model = Model::default();
    let mut now = Tick::from_micros(START * 1_000_000);
    let (mut passed, mut refused) = (0, 0);
    for step in 0..400 {
        if rng.one_in(3) {
            let longest = [1, 1_000_000, 20_000_000][rng_at(&mut rng, 3)];
            let span = Span::from_micros(rng.below(longest) + 1);
            clock.advance(span);
            now = now.after(span);
        }
        // A restart is nothing that anybody can see later.
        if rng.one_in(200) {
            gate = restarted(&gate, &policy, &clock);
        }
        let asked = Asked {
            client: rng_at(&mut rng, 4),
            path: rng_at(&mut rng, 2),
            tier: rng_at(&mut rng, 2),
            cost: if has_costs { rng.below_u32(4) } else { 1 },
        };
        let request = Sample::new(&format!("GET {}", PATHS[asked.path]))
            .with_header("x-api-key", CLIENTS[asked.client])
            .with_header("x-tier", TIERS[asked.tier])
            .with_header("x-cost", asked.cost.to_string());
        let admission = gate.decide(&request);
        let said: Vec<Decision> = admission.each().map(|answer| answer.decision).collect();
        let expected = model.decide(&rules, &asked, now);
        assert_eq!((admission.verdict(), said), expected, "seed {seed}, step {step}\n{policy}");
        check_fields(&admission);
        if admission.verdict().passes() { passed += 1 } else { refused += 1 }
    }
    (passed, refused)
}

#[test]
fn a_gate_says_what_the_rules_say_one_by_one() {
    let (mut passed, mut refused) = (0, 0);
    for seed in 0..turns(150).into() {
        let (more, fewer) = check(seed);
        (passed, refused) = (passed + more, refused + fewer);
    }
    let enough = 33 * turns(150);
    assert!(enough < passed && enough < refused, "{passed} passed, {refused} were refused");
}
