//! Tests of a policy: each with a gate of its own, whose clock the test moves on.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use tidegate_config::{Answered, Cells, Ends, Expected, Place, Response, Rules, Step, Test};
use tidegate_core::{Kind, Span, Tick, Verdict};
use tidegate_store::{Clock as _, ManualClock};

use crate::admission::{Admission, Reason};
use crate::answer::Answer;
use crate::build::OpenError;
use crate::gate::Gate;

/// The most requests of a test that are under way at the same time.
const HELD_MAX: usize = 100_000;

/// Something that did not come as a test expects.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Unmet {
    /// Where the file expects it.
    pub at: Place,
    /// What came instead.
    pub message: String,
    /// When it came.
    pub when: String,
}

/// A test that is being run.
struct Trial<'t> {
    test: &'t Test,
    gate: Gate,
    clock: Arc<ManualClock>,
    /// Requests that are under way, by when they end and the order in which they came.
    held: BTreeMap<(Tick, u64), (Admission, Option<&'t Answered>)>,
    count: u64,
}

/// What came of a request.
struct Came {
    ends: Ends,
    verdict: Verdict,
    by: Named,
    shadow: Named,
    rules: Named,
    /// What is left of the limit that is closest to refusing, if there is one.
    remaining: Option<u32>,
    /// By rule, and by limit where a rule has two: what is left, and what it took.
    cells: BTreeMap<String, (u32, u32)>,
}

/// Limits by their names as clients see them, each with its rule. A file may say either.
type Named = BTreeMap<String, String>;

/// A policy that is tried out: read once, whatever the number of its tests.
#[derive(Clone, Debug)]
pub struct Tryout {
    rules: Arc<Rules>,
}

impl Tryout {
    /// Of these rules. Tests are about limits: nobody waits for a share in them.
    pub fn new(rules: Rules) -> Tryout {
        Tryout { rules: Arc::new(rules.without_shares()) }
    }

    /// The rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Runs a test of a [`Suite`](crate::Suite), which knows nothing of those before.
    ///
    /// The first step that does not come as expected ends it; all that was expected of that step is
    /// reported.
    pub fn run(&self, test: &Test) -> Result<Vec<Unmet>, OpenError> {
        let clock = Arc::new(ManualClock::new());
        clock.advance(test.start.since(Tick::from_micros(0)));
        let builder = Gate::builder().rules(Arc::clone(&self.rules));
        let gate = builder.clock(Arc::clone(&clock) as _).open()?;
        let mut trial = Trial { test, gate, clock, held: BTreeMap::new(), count: 0 };
        for step in &test.steps {
            let unmet = trial.step(step);
            if !unmet.is_empty() {
                return Ok(unmet);
            }
        }
        Ok(Vec::new())
    }
}

impl<'t> Trial<'t> {
    fn step(&mut self, step: &'t Step) -> Vec<Unmet> {
        for nth in 1..=step.times {
            let after = step.after.get() + step.every.get() * u64::from(nth - 1);
            self.go_on(self.test.start.after(Span::from_micros(after)));
            let came = self.send(step);
            let when = when(Span::from_micros(after), nth, step.times);
            let unmet = |(at, message)| Unmet { at, message, when: when.clone() };
            if came.ends != step.expect.value {
                let expected = step.expect.value.name();
                let message = format!("expected `{expected}`, but it was {}", came.told());
                return vec![unmet((step.expect.at, message))];
            }
            if HELD_MAX < self.held.len() {
                let message = format!("more than {HELD_MAX} requests are under way");
                return vec![unmet((step.expect.at, message))];
            }
            if nth == step.times {
                return came.unlike(step).into_iter().map(unmet).collect();
            }
        }
        Vec::new()
    }

    /// Moves the clock to `tick`; what ends on the way is answered then.
    fn go_on(&mut self, tick: Tick) {
        while let Some(held) = self.held.first_entry() {
            let (ends, _) = *held.key();
            if tick < ends {
                break;
            }
            let (admission, response) = held.remove();
            self.clock.advance(ends.since(self.clock.now()));
            answer(admission, response);
        }
        self.clock.advance(tick.since(self.clock.now()));
    }

    fn send(&mut self, step: &'t Step) -> Came {
        let mut admission = self.gate.decide(&step.request);
        let mut came = Came::of(&admission);
        let response = step.response.as_ref();
        let takes = admission.delay().unwrap_or(Span::ZERO).get() + step.takes.get();
        let has_permits = admission.each().any(|answer| answer.kind == Kind::Concurrency);
        if 0 < takes && (has_permits || response.is_some()) && came.ends.passes() {
            self.count += 1;
            let ends = admission.now().after(Span::from_micros(takes));
            self.held.insert((ends, self.count), (admission, response));
            return came;
        }
        if let Some(response) = response {
            // In this process it is done at once.
            drop(admission.settle(response as &dyn Response));
            came.count(&admission);
        }
        came
    }
}

/// Ends a request: what it held comes back, and what the response says is charged.
fn answer(mut admission: Admission, response: Option<&Answered>) {
    if let Some(response) = response {
        drop(admission.settle(response as &dyn Response));
    }
}

impl Came {
    fn of(admission: &Admission) -> Came {
        let ends = match (admission.reason(), admission.verdict()) {
            (Reason::Blocked, _) => Ends::Block,
            (_, Verdict::Allow) => Ends::Allow,
            (_, Verdict::Delay { .. }) => Ends::Delay,
            (_, Verdict::Deny { .. }) => Ends::Deny,
            (_, Verdict::Never) => Ends::Never,
        };
        let named = |answer: Answer<'_>| (answer.name(), answer.rule.to_owned());
        let stopped = || admission.stopped_by().map(|rule| (rule.to_owned(), rule.to_owned()));
        let mut by: Named = admission.violated().map(named).collect();
        let is_stopped = ends == Ends::Block || admission.reason() == Reason::LengthRequired;
        by.extend(stopped().filter(|_| is_stopped));
        let refused = admission.each().filter(|it| it.is_shadow && !it.decision.verdict.passes());
        let shadow = refused.map(named).collect();
        let rules = admission.each().map(named).chain(stopped()).collect();
        let (verdict, cells) = (admission.verdict(), BTreeMap::new());
        let mut came = Came { ends, verdict, by, shadow, rules, remaining: None, cells };
        came.count(admission);
        came
    }

    /// Takes down what is left, and what was taken.
    fn count(&mut self, admission: &Admission) {
        let is_judged = admission.each().any(|answer| !answer.is_shadow);
        self.remaining = is_judged.then(|| admission.decision().remaining);
        self.cells.clear();
        for answer in admission.each() {
            let now = (answer.decision.remaining, answer.cost);
            let cells = self.cells.entry(answer.rule.to_owned()).or_insert(now);
            cells.0 = cells.0.min(now.0);
            if !answer.part.is_empty() {
                self.cells.insert(answer.name(), now);
            }
        }
    }

    /// What came, in words.
    fn told(&self) -> String {
        let mut told = format!("`{}`", self.ends.name());
        if !self.by.is_empty() {
            let _ = write!(told, " by {}", names(self.by.keys()));
        }
        match self.verdict {
            Verdict::Deny { retry_after } => {
                let _ = write!(told, ", retry after {retry_after}");
            }
            Verdict::Delay { by } => {
                let _ = write!(told, " by {by}");
            }
            Verdict::Allow | Verdict::Never => {}
        }
        if let (Some(remaining), true) = (self.remaining, self.ends.passes()) {
            let _ = write!(told, ", {remaining} remaining");
        }
        told
    }

    /// What is not as a step expects, apart from the verdict.
    fn unlike(&self, step: &Step) -> Vec<(Place, String)> {
        let last = &step.last;
        let (retry_after, delay) = match self.verdict {
            Verdict::Deny { retry_after } => (retry_after, Span::ZERO),
            Verdict::Delay { by } => (Span::ZERO, by),
            Verdict::Allow | Verdict::Never => (Span::ZERO, Span::ZERO),
        };
        let lists = [
            ("by", &last.by, &self.by),
            ("shadow", &last.shadow, &self.shadow),
            ("rules", &last.rules, &self.rules),
        ];
        let mut unlike: Vec<(Place, String)> = Vec::new();
        for (what, expected, came) in lists {
            unlike.extend(expected.as_ref().and_then(|it| unlike_names(what, it, came)));
        }
        let times =
            [("retry_after", &last.retry_after, retry_after), ("delay", &last.delay, delay)];
        for (what, expected, came) in times {
            if let Some(expected) = expected.as_ref().filter(|it| it.value != came) {
                let message = format!("`{what}` is {came}, not {}", expected.value);
                unlike.push((expected.at, message));
            }
        }
        if let Some(expected) = &last.remaining {
            self.unlike_remaining(expected, &mut unlike);
        }
        if let Some(expected) = &last.cost {
            self.unlike_cost(expected, &mut unlike);
        }
        unlike.sort_by_key(|(at, _)| *at);
        unlike
    }

    fn unlike_remaining(&self, expected: &Expected<Cells>, unlike: &mut Vec<(Place, String)>) {
        match &expected.value {
            Cells::All(wanted) => match self.remaining {
                Some(left) if left == *wanted => {}
                Some(left) => {
                    unlike.push((expected.at, format!("`remaining` is {left}, not {wanted}")));
                }
                None => unlike.push((expected.at, "no rule counts it".to_owned())),
            },
            Cells::ByRule(_) => {
                self.unlike_by_rule("remaining", expected, |(left, _)| left, unlike);
            }
        }
    }

    fn unlike_cost(&self, expected: &Expected<Cells>, unlike: &mut Vec<(Place, String)>) {
        let Cells::All(wanted) = &expected.value else {
            return self.unlike_by_rule("cost", expected, |(_, cost)| cost, unlike);
        };
        if self.cells.is_empty() {
            unlike.push((expected.at, "no rule counts it".to_owned()));
        }
        if let Some((rule, (_, cost))) = self.cells.iter().find(|(_, (_, cost))| cost != wanted) {
            let message = format!("`cost` is {cost} under `{rule}`, not {wanted}");
            unlike.push((expected.at, message));
        }
    }

    fn unlike_by_rule(
        &self,
        what: &str,
        expected: &Expected<Cells>,
        of: impl Fn((u32, u32)) -> u32,
        unlike: &mut Vec<(Place, String)>,
    ) {
        let Cells::ByRule(by_rule) = &expected.value else { return };
        for (rule, wanted) in by_rule {
            let message = match self.cells.get(&rule.value).map(|cells| of(*cells)) {
                Some(came) if came == *wanted => continue,
                Some(came) => {
                    format!("`{what}` is {came} under `{}`, not {wanted}", rule.value)
                }
                None => format!("`{}` does not count it", rule.value),
            };
            unlike.push((rule.at, message));
        }
    }
}

fn unlike_names(
    what: &str,
    expected: &Expected<Vec<Expected<String>>>,
    came: &Named,
) -> Option<(Place, String)> {
    let wanted: BTreeSet<&String> = expected.value.iter().map(|it| &it.value).collect();
    let is_wanted =
        |(name, rule): (&String, &String)| wanted.contains(name) || wanted.contains(rule);
    let has_come = |it: &&String| came.contains_key(*it) || came.values().any(|rule| rule == *it);
    let is_alike = came.iter().all(is_wanted) && wanted.iter().all(has_come);
    let message = || format!("`{what}` is {}, not {}", names(came.keys()), names(wanted));
    (!is_alike).then(|| (expected.at, message()))
}

fn names<'n>(names: impl IntoIterator<Item = &'n String>) -> String {
    let quoted: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    if quoted.is_empty() { "none".to_owned() } else { quoted.join(", ") }
}

/// Which of the requests, and when.
fn when(after: Span, nth: u32, times: u32) -> String {
    let when = match after {
        Span::ZERO => "at the start".to_owned(),
        _ => format!("{after} after the start"),
    };
    if times == 1 { when } else { format!("request {nth} of {times}, {when}") }
}

#[cfg(test)]
mod tests;
