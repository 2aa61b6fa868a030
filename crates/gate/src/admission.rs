//! What was decided about a request, and what can still be done about it.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_config::{Outline, Plan};
use tidegate_core::{Decision, Tick, Verdict};
use tidegate_store::{By, Charged, Left, Standing, StoreKey};

use crate::answer::Answer;
use crate::in_force::Limit;
use crate::per_core::PolicyRef;
use crate::turn::Turn;

/// What was decided about a request.
///
/// Dropping it gives back permits of concurrency rules, and its place in a share: keep it until the
/// work is done. What other rules charged stays charged unless it is settled otherwise.
#[derive(Debug)]
pub struct Admission {
    pub(crate) in_force: Arc<PolicyRef>,
    pub(crate) now: Tick,
    pub(crate) verdict: Verdict,
    pub(crate) reason: Reason,
    /// The rule that let it pass or blocked it, if one did.
    pub(crate) stopped_by: Option<usize>,
    /// Which of the file's costs counts for its route.
    pub(crate) route_cost: Option<usize>,
    pub(crate) by: By,
    pub(crate) each: Each,
    /// Whether it is held back: then, dropping it gives everything back.
    pub(crate) is_waiting: bool,
    /// What came of it in a share; most have none.
    pub(crate) turn: Option<Turn>,
}

/// What limits said, in their order. There is room for what most requests are judged by.
pub(crate) type Each = SmallVec<[Judged; 4]>;

/// Why a request was decided as it was.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reason {
    /// A rule blocks it.
    Blocked,
    /// Its limits let it pass, but its share had no turn for it in time.
    Crowded,
    /// It was judged by the limits that are for it; if there are none, it passes.
    Judged,
    /// A rule counts the length of its body, and it does not say how long that is.
    LengthRequired,
    /// What identifies it is too long to be counted.
    KeyTooLong,
    /// More limits are for it than can be judged together.
    TooManyLimits,
    /// A rule lets it pass whatever those below it say.
    Unlimited,
    /// It has an API key that nobody has, and the policy refuses such requests.
    UnknownKey,
}

/// One limit's part in a decision.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts that have nothing to do with another")]
pub(crate) struct Judged {
    pub(crate) rule: u32,
    pub(crate) variant: u32,
    pub(crate) part: u8,
    pub(crate) is_shadow: bool,
    /// Whether clients see it.
    pub(crate) is_shown: bool,
    /// Whether the response may change what it costs.
    pub(crate) is_open: bool,
    /// Whether the rule says itself what a request costs.
    pub(crate) has_own_cost: bool,
    /// Whether it hands out permits, which come back.
    pub(crate) is_permit: bool,
    /// Whether it was charged: then it can be settled.
    pub(crate) is_charged: bool,
    /// Whether another admission holds what this limit charged for both.
    pub(crate) is_shared: bool,
    /// What it cost when it was decided, or since it was settled at once.
    pub(crate) cost: u32,
    /// What it said, with what is left since it was settled at once.
    pub(crate) decision: Decision,
    /// When it was settled at once.
    pub(crate) settled_at: Option<Tick>,
    /// The key that it counts.
    pub(crate) key: StoreKey,
    pub(crate) charged: Charged,
}

impl Judged {
    /// How many more requests like this one would pass: limits that count different things, such
    /// as requests and bytes, can be compared by that.
    fn requests_left(&self) -> u32 {
        let (remaining, cost) = (self.decision().remaining, self.cost());
        if cost <= 1 { remaining } else { remaining / cost }
    }

    /// What the limit said, with what is left since it was settled.
    pub(crate) fn decision(&self) -> Decision {
        let left = self.charged.standing().and_then(|standing| standing.left);
        let left = left.map_or(self.decision, |left| left.decision);
        Decision { verdict: self.decision.verdict, ..left }
    }

    /// Since when that is what is left, if not since it was decided.
    pub(crate) fn settled_at(&self) -> Option<Tick> {
        match self.charged.standing() {
            Some(standing) => standing.left.map(|left| left.at),
            None => self.settled_at,
        }
    }

    /// How many cells it costs by now.
    pub(crate) fn cost(&self) -> u32 {
        self.charged.standing().map_or(self.cost, |standing| standing.cells)
    }

    /// Notes what became of it, where the store says so at once.
    pub(crate) fn stands(&mut self, standing: Standing) {
        self.cost = standing.cells;
        if let Some(Left { decision, at }) = standing.left {
            self.decision = Decision { verdict: self.decision.verdict, ..decision };
            self.settled_at = Some(at);
        }
    }

    /// Whether both are of one rule and one key: then they are charged together.
    pub(crate) fn is_beside(&self, other: &Judged) -> bool {
        (self.rule, self.variant) == (other.rule, other.variant) && self.key == other.key
    }

    /// What the limit said, for another request that it was asked for at the same time.
    pub(crate) fn shared(&self, cost: u32, is_open: bool) -> Judged {
        let (key, charged) = (self.key.clone(), Charged::Nothing);
        Judged { cost, is_open, is_charged: false, is_shared: true, key, charged, ..*self }
    }
}

impl Admission {
    /// An admission before anything has been said of it.
    pub(crate) fn new(in_force: &Arc<PolicyRef>, now: Tick) -> Admission {
        Admission {
            in_force: Arc::clone(in_force),
            now,
            verdict: Verdict::Allow,
            reason: Reason::Judged,
            stopped_by: None,
            route_cost: None,
            by: By::Store,
            each: Each::new(),
            is_waiting: false,
            turn: None,
        }
    }

    /// What a plan says before any limit is asked.
    pub(crate) fn planned(in_force: &Arc<PolicyRef>, plan: &Plan<'_>, now: Tick) -> Admission {
        let mut admission = Admission::new(in_force, now);
        admission.outline(&plan.outline());
        admission
    }

    /// Whether the request passes.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Why it was decided as it was.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// The rule that let it pass or blocked it without counting.
    pub fn stopped_by(&self) -> Option<&str> {
        self.stopped_by.map(|number| self.in_force.rule(number).name())
    }

    /// By what it was decided.
    pub fn by(&self) -> By {
        self.by
    }

    /// When it was decided, in microseconds of Unix time.
    pub fn now(&self) -> Tick {
        self.now
    }

    /// What every limit said, those in shadow included.
    pub fn each(&self) -> impl Iterator<Item = Answer<'_>> {
        self.each.iter().map(|judged| self.answer(judged))
    }

    /// The limits that refused.
    pub fn violated(&self) -> impl Iterator<Item = Answer<'_>> {
        self.each().filter(|answer| !answer.is_shadow && !answer.decision.verdict.passes())
    }

    /// All in one: the verdict, with the numbers of the limit that is closest to refusing, or that
    /// refused for longest.
    pub fn decision(&self) -> Decision {
        let nothing = Decision::of_no_limit(self.verdict);
        let speaks = self.closest(|_| true).map_or(nothing, Judged::decision);
        Decision { verdict: self.verdict, ..speaks }
    }

    /// The limit that speaks for all that clients see.
    pub fn speaks(&self) -> Option<Answer<'_>> {
        self.closest(|judged| judged.is_shown).map(|judged| self.answer(judged))
    }

    /// The limit that speaks for all.
    pub(crate) fn closest(&self, wanted: impl Fn(&Judged) -> bool) -> Option<&Judged> {
        let enforced = self.each.iter().filter(|judged| !judged.is_shadow && wanted(judged));
        // Of one that is refused, a limit that refuses it for as long.
        let is_other = |it: &Judged| !self.verdict.passes() && it.decision.verdict != self.verdict;
        enforced.min_by_key(|it| (is_other(it), it.requests_left()))
    }

    pub(crate) fn answer(&self, judged: &Judged) -> Answer<'_> {
        let rule = self.in_force.rule(judged.rule as usize);
        let variant = &rule.variants()[judged.variant as usize];
        let timed = &variant.policies()[usize::from(judged.part)];
        let limits = self.in_force.limits(judged.rule as usize, judged.variant as usize);
        Answer {
            rule: rule.name(),
            part: timed.part(),
            variant: variant.id(),
            decision: judged.decision(),
            cost: judged.cost(),
            has_own_cost: judged.has_own_cost,
            window: limits[usize::from(judged.part)].window,
            credits: saved(limits, judged),
            unit: rule.unit(),
            kind: timed.kind(),
            is_shadow: judged.is_shadow,
            is_shown: judged.is_shown,
        }
    }

    /// Whether nothing is left to do about it, whatever the response is: it holds no permit and no
    /// place, and what it costs is known.
    pub fn is_settled(&self) -> bool {
        let is_unsettled = |judged: &Judged| judged.is_open || judged.is_permit;
        self.turn.is_none() && !self.each.iter().any(is_unsettled)
    }

    /// Notes what a plan says beside its limits.
    pub(crate) fn outline(&mut self, outline: &Outline<'_>) {
        (self.verdict, self.reason) = match outline.stopped {
            Some(stopped) if stopped.wants_length => (Verdict::Never, Reason::LengthRequired),
            Some(stopped) if stopped.blocks => (Verdict::Never, Reason::Blocked),
            _ if outline.is_unknown_key => (Verdict::Never, Reason::UnknownKey),
            _ if outline.is_too_much => (Verdict::Never, Reason::TooManyLimits),
            Some(_) => (Verdict::Allow, Reason::Unlimited),
            None => (Verdict::Allow, Reason::Judged),
        };
        let is_other = matches!(self.reason, Reason::TooManyLimits | Reason::UnknownKey);
        let stopped = outline.stopped.filter(|_| !is_other);
        self.stopped_by = stopped.map(|stopped| stopped.number);
        self.route_cost = outline.route_cost;
    }

    /// Notes what the limits said together. Where they refuse, no rule below has let it pass.
    pub(crate) fn conclude(&mut self, verdict: Verdict) {
        self.verdict = verdict;
        if !verdict.passes() && self.reason == Reason::Unlimited {
            (self.reason, self.stopped_by) = (Reason::Judged, None);
        }
    }

    /// Refuses it before any limit is asked.
    pub(crate) fn never(&mut self, reason: Reason) {
        (self.verdict, self.reason, self.stopped_by) = (Verdict::Never, reason, None);
    }

    /// Counts what each rule said.
    pub(crate) fn count(&self) {
        let mut rest = &self.each[..];
        while let [first, others @ ..] = rest {
            rest = others;
            let mut verdict = first.decision.verdict;
            // The limits of a rule stand beside each other; most have one.
            while let [other, others @ ..] = rest
                && other.rule == first.rule
            {
                verdict = verdict.and(other.decision.verdict);
                rest = others;
            }
            if !first.is_shared {
                self.in_force.counts(first.rule as usize).add(verdict, first.is_shadow);
            }
        }
        if let Some(rule) = self.stopped_by {
            self.in_force.counts(rule).add(self.verdict, false);
        }
    }
}

/// What a limit has saved beyond the burst, if it saves anything: the burst is its peak's.
fn saved(limits: &[Limit], judged: &Judged) -> Option<u32> {
    let ([_, peak], 0) = (limits, judged.part) else { return None };
    Some(judged.decision().remaining.saturating_sub(peak.cells))
}

impl Drop for Admission {
    fn drop(&mut self) {
        if self.is_waiting {
            drop(self.give_up());
        } else if self.each.iter().any(|judged| judged.is_permit) {
            drop(self.give_back(false));
        } else {
            self.leave();
        }
    }
}
