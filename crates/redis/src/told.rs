//! What a script found, and what the core makes of it: the answers.

use smallvec::{SmallVec, smallvec};
use tidegate_core::{Decision, Policy, Receipt, Shape, Span, State, Tick, Verdict};

use crate::value;

/// What was found of one limit before a script decided by it.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    /// All that is remembered, in one word: judging by it is several times faster.
    Word(u64),
    /// All that is remembered.
    State(State),
    /// Too much to send, so what the answers need of it.
    Log(LogTold),
}

/// What the answers need of a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogTold {
    used: u32,
    newest: Option<Tick>,
    /// The tick at which what passes is recorded.
    latest: Tick,
    /// When a request like this one passes that does not now.
    frees: Tick,
}

/// The answer of one limit, and the receipt of what was charged to it.
#[derive(Debug)]
pub(crate) struct One {
    pub(crate) decision: Decision,
    pub(crate) receipt: Option<Receipt>,
}

/// The most limits that one request is judged by.
pub(crate) const LIMITS_MAX: usize = 16;

/// The answers of all limits of one request.
pub(crate) type Answers = SmallVec<[One; 1]>;

impl Told {
    /// Reads what the script says of a limit.
    pub(crate) fn read(policy: &Policy, bytes: &[u8]) -> Option<Told> {
        if let Shape::Log { .. } = policy.shape() {
            return LogTold::read(bytes).map(Told::Log);
        }
        if policy.words() == 1 {
            return value::read_words(policy, bytes).map(|[word, _]| Told::Word(word));
        }
        value::read(policy, bytes).map(Told::State)
    }

    /// Whether time has made it another by `now`, so that it says nothing any more.
    pub(crate) fn has_changed_by(&self, now: Tick) -> bool {
        matches!(self, Told::Log(log) if log.frees <= now)
    }

    /// What the limit says of a cost, by itself.
    pub(crate) fn peek(&mut self, policy: &Policy, now: Tick, cost: u32) -> Decision {
        match self {
            Told::Word(word) => {
                let verdict = policy.decide_word(&mut { *word }, now, cost).verdict;
                Decision { verdict, ..policy.decide_word(&mut { *word }, now, 0) }
            }
            Told::State(state) => policy.peek(state, now, cost),
            Told::Log(log) => log.decision(policy, now, log.judge(policy, now, cost)),
        }
    }

    /// The same, and charges what passes.
    fn decide(&mut self, policy: &Policy, now: Tick, cost: u32) -> One {
        match self {
            Told::Word(word) => {
                let decision = policy.decide_word(word, now, cost);
                let receipt = || policy.receipt_of_word(*word, now, cost);
                let receipt = decision.verdict.passes().then(receipt);
                One { decision, receipt }
            }
            Told::State(state) => {
                let (decision, receipt) = policy.decide_with_receipt(state, now, cost);
                One { decision, receipt }
            }
            Told::Log(log) => log.decide(policy, now, cost),
        }
    }
}

impl LogTold {
    fn read(bytes: &[u8]) -> Option<LogTold> {
        let mut numbers = str::from_utf8(bytes).ok()?.split(' ').map(str::parse::<u64>);
        let mut next = || numbers.next().and_then(Result::ok);
        let (used, newest) = (u32::try_from(next()?).ok()?, next()?);
        let newest = (newest != 0).then(|| Tick::from_micros(newest));
        let (latest, frees) = (Tick::from_micros(next()?), Tick::from_micros(next()?));
        Some(LogTold { used, newest, latest, frees })
    }

    fn judge(&self, policy: &Policy, now: Tick, cost: u32) -> Verdict {
        if cost <= policy.limit().saturating_sub(self.used) {
            Verdict::Allow
        } else if policy.limit() < cost {
            Verdict::Never
        } else {
            Verdict::Deny { retry_after: self.frees.since(now) }
        }
    }

    fn decide(&mut self, policy: &Policy, now: Tick, cost: u32) -> One {
        let verdict = self.judge(policy, now, cost);
        let receipt = verdict.passes().then(|| Receipt::new(self.latest, cost));
        if verdict.passes() && 0 < cost {
            self.used = self.used.saturating_add(cost);
            self.newest = Some(self.latest);
        }
        One { decision: self.decision(policy, now, verdict), receipt }
    }

    fn decision(&self, policy: &Policy, now: Tick, verdict: Verdict) -> Decision {
        let per = if let Shape::Log { per, .. } = policy.shape() { per } else { Span::ZERO };
        let (limit, remaining) = (policy.limit(), policy.limit().saturating_sub(self.used));
        let reset_after = self.newest.map_or(Span::ZERO, |newest| newest.after(per).since(now));
        Decision { verdict, limit, remaining, reset_after }
    }
}

/// One limit of a request, and what was found of it.
#[derive(Clone, Debug)]
pub(crate) struct Found<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) cost: u32,
    pub(crate) told: Told,
}

/// Judges one request at `now` as the script did, and charges all limits or none.
pub(crate) fn decide(limits: &mut [Found<'_>], now: Tick) -> (Verdict, Answers) {
    if let [Found { policy, cost, told }] = limits {
        let one = told.decide(policy, now, *cost);
        return (one.decision.verdict, smallvec![one]);
    }
    let (together, peeked) = peek(limits, now);
    if !together.passes() {
        return (together, peeked);
    }
    let decide = |limit: &mut Found<'_>| limit.told.decide(limit.policy, now, limit.cost);
    (together, limits.iter_mut().map(decide).collect())
}

/// Judges one request at `now`, and charges nothing.
pub(crate) fn peek(limits: &mut [Found<'_>], now: Tick) -> (Verdict, Answers) {
    let mut together = Verdict::Allow;
    let mut answers = Answers::new();
    for limit in limits {
        let decision = limit.told.peek(limit.policy, now, limit.cost);
        together = together.and(decision.verdict);
        answers.push(One { decision, receipt: None });
    }
    (together, answers)
}
