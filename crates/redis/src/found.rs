//! What a script found, and what the core makes of it: the answers.

use smallvec::{SmallVec, smallvec};
use tidegate_core::{
    Debited, Decision, Policy, Receipt, Refused, Shape, Span, State, Tick, Verdict,
};

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
    /// By how many cells the limit is overdrawn.
    pub(crate) overdrawn: u32,
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
    pub(crate) fn peek(&mut self, policy: &Policy, now: Tick, cost: u32) -> One {
        let decision = match self {
            Told::Word(word) => match policy.decide_only_word(&mut { *word }, now, cost) {
                Some(Decision { verdict, .. }) => {
                    Decision { verdict, ..policy.decide_word(&mut { *word }, now, 0) }
                }
                None => policy.peek(&mut policy.unpack([*word, 0]), now, cost),
            },
            Told::State(state) => policy.peek(state, now, cost),
            Told::Log(log) => log.decision(policy, now, log.judge(policy, now, cost)),
        };
        self.answer(policy, now, decision, None)
    }

    /// What a debit comes to.
    pub(crate) fn debit(&mut self, policy: &Policy, now: Tick, cells: u32) -> Option<Debited> {
        match self {
            Told::Word(word) => policy.debit(&mut policy.unpack([*word, 0]), now, cells).ok(),
            Told::State(state) => policy.debit(state, now, cells).ok(),
            Told::Log(log) => Some(log.debit(cells)),
        }
    }

    /// By how many cells its limit is overdrawn.
    fn overdrawn(&mut self, policy: &Policy, now: Tick) -> u32 {
        match self {
            Told::Word(word) => policy.overdrawn(&mut policy.unpack([*word, 0]), now),
            Told::State(state) => policy.overdrawn(state, now),
            Told::Log(log) => log.used.saturating_sub(policy.limit()),
        }
    }

    /// What it says, and by how much it is overdrawn: that is not looked for where something is
    /// left.
    fn answer(
        &mut self,
        policy: &Policy,
        now: Tick,
        decision: Decision,
        receipt: Option<Receipt>,
    ) -> One {
        let overdrawn = if 0 < decision.remaining { 0 } else { self.overdrawn(policy, now) };
        One { decision, receipt, overdrawn }
    }

    /// Decides as `peek` does, and charges what passes, or what is refused if that is charged for.
    fn decide(&mut self, policy: &Policy, now: Tick, cost: u32) -> One {
        let (decision, receipt) = match self {
            Told::Word(word) => {
                let decision = policy.decide_word(word, now, cost);
                let receipt = || policy.receipt_of_word(*word, now, cost);
                let receipt = decision.verdict.passes().then(receipt);
                (decision, receipt)
            }
            Told::State(state) => policy.decide_with_receipt(state, now, cost),
            Told::Log(log) => log.decide(policy, now, cost),
        };
        self.answer(policy, now, decision, receipt)
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
        if policy.limit().checked_sub(self.used).is_some_and(|room| cost <= room) {
            Verdict::Allow
        } else if policy.limit() < cost {
            Verdict::Never
        } else {
            Verdict::Deny { retry_after: self.frees.since(now) }
        }
    }

    /// What a debit comes to; what is left then is of no interest.
    fn debit(&self, cells: u32) -> Debited {
        let charged = cells.min(u32::MAX - self.used);
        let forgiven = cells - charged;
        Debited { receipt: Receipt::new(self.latest, charged), forgiven }
    }

    fn decide(&mut self, policy: &Policy, now: Tick, cost: u32) -> (Decision, Option<Receipt>) {
        let verdict = self.judge(policy, now, cost);
        if let (Verdict::Deny { .. }, Refused::Charge, 1..) = (verdict, policy.refused(), cost) {
            // As core does: the newest stay. When it frees is after that.
            let sum = u64::from(self.used) + u64::from(cost);
            let kept = sum.min(policy.refusals_to().max(self.used.into()));
            (self.used, self.newest) = (u32::try_from(kept).unwrap_or(u32::MAX), Some(self.latest));
        }
        let receipt = verdict.passes().then(|| Receipt::new(self.latest, cost));
        if verdict.passes() && 0 < cost {
            self.used = self.used.saturating_add(cost);
            self.newest = Some(self.latest);
        }
        (self.decision(policy, now, verdict), receipt)
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
    let (mut together, mut answers) = peek(limits, now);
    if !together.passes() {
        // Those that refuse and charge for it say what is so after that.
        for (limit, one) in limits.iter_mut().zip(&mut answers) {
            let is_denied = matches!(one.decision.verdict, Verdict::Deny { .. });
            if is_denied && limit.policy.refused() == Refused::Charge {
                *one = limit.told.decide(limit.policy, now, limit.cost);
                together = together.and(one.decision.verdict);
            }
        }
        return (together, answers);
    }
    let decide = |limit: &mut Found<'_>| limit.told.decide(limit.policy, now, limit.cost);
    (together, limits.iter_mut().map(decide).collect())
}

/// Judges one request at `now`, and charges nothing.
pub(crate) fn peek(limits: &mut [Found<'_>], now: Tick) -> (Verdict, Answers) {
    let mut together = Verdict::Allow;
    let mut answers = Answers::new();
    for limit in limits {
        let one = limit.told.peek(limit.policy, now, limit.cost);
        together = together.and(one.decision.verdict);
        answers.push(one);
    }
    (together, answers)
}
