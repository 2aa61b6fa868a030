//! The closed set of algorithms, for code that learns which one to run from a file.

mod gist;

use crate::algorithm::{
    Algorithm, FixedWindow, Line, LineBucket, Log, LogLimit, Overflow, SlidingWindow, WindowCount,
    WindowPair,
};
use crate::debit::{Overdraft, Refused};
use crate::decision::{Decision, Receipt, Verdict};
use crate::kind::Kind;
use crate::quota::{Grains, Quota, QuotaError};
use crate::shape::Shape;
use crate::tick::Tick;

pub use self::change::Applied;

/// An algorithm with its quota, chosen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Policy {
    kind: Kind,
    rule: Rule,
    overdraft: Overdraft,
    refused: Refused,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Rule {
    FixedWindow(FixedWindow),
    Line(LineBucket),
    Log(LogLimit),
    SlidingWindow(SlidingWindow),
}

/// What a [`Policy`] remembers about one key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct State(Memory);

#[derive(Clone, Debug, Eq, PartialEq)]
enum Memory {
    FixedWindow(WindowCount),
    Line(Line),
    Log(Log),
    SlidingWindow(WindowPair),
}

impl State {
    /// Bytes that it keeps on the heap: the events of a log.
    pub fn heap_bytes(&self) -> usize {
        if let Memory::Log(log) = &self.0 { log.heap_bytes() } else { 0 }
    }
}

/// Runs `$body` with the algorithm and the state of the same kind. A state that another algorithm
/// left behind (the policy was changed meanwhile) counts as fresh.
macro_rules! with_state {
    ($policy:expr, $state:expr, |$it:ident, $memory:ident| $body:expr) => {{
        let state: &mut State = $state;
        if !$policy.knows(state) {
            *state = $policy.fresh();
        }
        match (&$policy.rule, &mut state.0) {
            (Rule::FixedWindow($it), Memory::FixedWindow($memory)) => $body,
            (Rule::Line($it), Memory::Line($memory)) => $body,
            (Rule::Log($it), Memory::Log($memory)) => $body,
            (Rule::SlidingWindow($it), Memory::SlidingWindow($memory)) => $body,
            _ => unreachable!("made of the right kind just above"),
        }
    }};
}

// Below the macro, which they use.
mod change;
mod debt;

impl Policy {
    /// `kind` with `quota`.
    pub const fn new(kind: Kind, quota: Quota) -> Result<Policy, QuotaError> {
        macro_rules! made {
            ($variant:ident, $made:expr) => {
                match $made {
                    Ok(rule) => Rule::$variant(rule),
                    Err(error) => return Err(error),
                }
            };
        }
        let rule = match kind {
            Kind::Concurrency | Kind::SlidingLog => made!(Log, LogLimit::new(quota)),
            Kind::FixedWindow => made!(FixedWindow, FixedWindow::new(quota)),
            Kind::Gcra | Kind::LeakyBucket | Kind::TokenBucket => {
                made!(Line, LineBucket::new(quota, Overflow::Meter))
            }
            Kind::LeakyQueue => made!(Line, LineBucket::new(quota, Overflow::Queue)),
            Kind::SlidingWindow => made!(SlidingWindow, SlidingWindow::new(quota)),
        };
        Ok(Policy::of(kind, rule))
    }

    const fn of(kind: Kind, rule: Rule) -> Policy {
        Policy { kind, rule, overdraft: Overdraft::Again, refused: Refused::Free }
    }

    /// A token bucket.
    pub const fn token_bucket(quota: Quota) -> Result<Policy, QuotaError> {
        Policy::new(Kind::TokenBucket, quota)
    }

    /// A fixed window whose boundaries are those of a calendar; this one and the next.
    ///
    /// Three ticks bound two windows. The caller gives new ones before the third is reached; until
    /// it does, the second window goes on, so that a late caller lets nobody pass twice.
    pub const fn calendar(limit: u32, boundaries: [Tick; 3]) -> Result<Policy, QuotaError> {
        match FixedWindow::calendar(limit, boundaries) {
            Ok(window) => Ok(Policy::of(Kind::FixedWindow, Rule::FixedWindow(window))),
            Err(error) => Err(error),
        }
    }

    /// Which algorithm it is.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The most cells that can pass at once.
    pub fn limit(&self) -> u32 {
        match &self.rule {
            Rule::FixedWindow(it) => it.limit(),
            Rule::Line(it) => it.limit(),
            Rule::Log(it) => it.limit(),
            Rule::SlidingWindow(it) => it.limit(),
        }
    }

    /// The quota of a bucket as it is counted: the exact fraction that its rate is.
    pub const fn grains(&self) -> Option<&Grains> {
        match &self.rule {
            Rule::Line(it) => Some(it.grains()),
            _ => None,
        }
    }

    /// The policy in plain numbers, for stores that decide elsewhere.
    pub const fn shape(&self) -> Shape {
        match &self.rule {
            Rule::FixedWindow(it) => it.shape(),
            Rule::Line(it) => Shape::Line(*it.grains()),
            Rule::Log(it) => it.shape(),
            Rule::SlidingWindow(it) => it.shape(),
        }
    }

    /// The state of a key nobody has asked about.
    pub fn fresh(&self) -> State {
        State(match &self.rule {
            Rule::FixedWindow(_) => Memory::FixedWindow(WindowCount::default()),
            Rule::Line(_) => Memory::Line(Line::default()),
            Rule::Log(_) => Memory::Log(Log::default()),
            Rule::SlidingWindow(_) => Memory::SlidingWindow(WindowPair::default()),
        })
    }

    /// Decides one request and charges it if it passes.
    #[inline]
    pub fn decide(&self, state: &mut State, now: Tick, cost: u32) -> Decision {
        self.decide_with_receipt(state, now, cost).0
    }

    /// Decides one request; the receipt is for what passed, and can be refunded once.
    #[inline]
    pub fn decide_with_receipt(
        &self,
        state: &mut State,
        now: Tick,
        cost: u32,
    ) -> (Decision, Option<Receipt>) {
        with_state!(self, state, |it, memory| {
            it.settle(memory, now);
            let mut verdict = it.judge(memory, now, cost);
            let receipt = verdict.passes().then(|| it.charge(memory, now, cost));
            if self.refused == Refused::Charge && matches!(verdict, Verdict::Deny { .. }) {
                it.charge_refusal(memory, now, cost);
                verdict = it.judge(memory, now, cost);
            }
            (it.decision(memory, now, verdict), receipt)
        })
    }

    /// Decides one request on a state that is packed into one word, and charges it if it passes.
    ///
    /// Does the same as unpacking, deciding and packing again, several times faster.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "whoever wants only the verdict pays only for that")]
    pub fn decide_word(&self, word: &mut u64, now: Tick, cost: u32) -> Decision {
        if let Rule::Line(line) = &self.rule
            && line.is_quick()
        {
            return line.decide_narrow(word, now, cost);
        }
        self.decide_wide_word(word, now, cost)
    }

    /// As [`Policy::decide_word`], where a state fits one word and refusals are free, and the
    /// answer stays in registers; `None` elsewhere: see [`Policy::words`].
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as above")]
    pub fn decide_only_word(&self, word: &mut u64, now: Tick, cost: u32) -> Option<Decision> {
        match &self.rule {
            Rule::Line(line) if line.is_quick() => Some(line.decide_narrow(word, now, cost)),
            _ => None,
        }
    }

    #[inline(never)]
    fn decide_wide_word(&self, word: &mut u64, now: Tick, cost: u32) -> Decision {
        let mut state = self.unpack([*word, 0]);
        let decision = self.decide(&mut state, now, cost);
        *word = self.pack(&state)[0];
        decision
    }

    /// The receipt of `cost` cells that [`Policy::decide_word`] has just let pass.
    pub fn receipt_of_word(&self, word: u64, now: Tick, cost: u32) -> Receipt {
        match &self.rule {
            Rule::Line(line) => line.receipt_narrow(word, now, cost),
            _ => Receipt::new(now, cost),
        }
    }

    /// What [`Policy::decide`] would answer, without charging: the numbers are those of now. Where
    /// refusals are charged, this is what one that is not would be told.
    pub fn peek(&self, state: &mut State, now: Tick, cost: u32) -> Decision {
        with_state!(self, state, |it, memory| {
            it.settle(memory, now);
            it.decision(memory, now, it.judge(memory, now, cost))
        })
    }

    /// Charges what [`Policy::peek`] has just let pass at the same tick.
    pub(crate) fn charge(&self, state: &mut State, now: Tick, cost: u32) -> Receipt {
        with_state!(self, state, |it, memory| it.charge(memory, now, cost))
    }

    /// Whether a refund by `receipt` gives anything back at `now`. Of a queue, only the last slot
    /// comes back, and none whose time is over; a look has taken none.
    pub fn takes_back(&self, state: &State, now: Tick, receipt: &Receipt) -> bool {
        let is_last = || now < receipt.at() && receipt.at() == self.forget_at(state);
        self.kind != Kind::LeakyQueue || receipt.cost() == 0 || is_last()
    }

    /// Renews a permit that is still held: it counts as taken at `now` and lapses a period later.
    ///
    /// The receipt is that of the renewed permit; the old one is void. Nothing if the permit has
    /// lapsed, or if this is no policy of concurrency. As many are in flight after it as before.
    pub fn renew(&self, state: &mut State, now: Tick, receipt: Receipt) -> Option<Receipt> {
        match (&self.rule, &mut state.0) {
            (Rule::Log(it), Memory::Log(log)) if matches!(self.kind, Kind::Concurrency) => {
                it.renew(log, now, receipt)
            }
            _ => None,
        }
    }

    /// When `state` can no longer be told from a fresh one, and may be forgotten.
    pub fn forget_at(&self, state: &State) -> Tick {
        match (&self.rule, &state.0) {
            (Rule::FixedWindow(it), Memory::FixedWindow(memory)) => it.forget_at(memory),
            (Rule::Line(it), Memory::Line(memory)) => it.forget_at(memory),
            (Rule::Log(it), Memory::Log(memory)) => it.forget_at(memory),
            (Rule::SlidingWindow(it), Memory::SlidingWindow(memory)) => it.forget_at(memory),
            _ => Tick::default(),
        }
    }

    /// When a key that has consumed all that it may at `now` is fresh again: none is in debt for
    /// longer, unless it is charged anew.
    pub fn paid_at(&self, now: Tick) -> Tick {
        let mut state = self.fresh();
        let _ = self.decide(&mut state, now, self.limit());
        self.forget_at(&state)
    }

    /// Whether `state` can no longer be told from a fresh one at `now`.
    pub fn is_fresh(&self, state: &State, now: Tick) -> bool {
        match (&self.rule, &state.0) {
            (Rule::Line(it), Memory::Line(memory)) => it.is_fresh(*memory, now),
            // What would be forgotten at the end of time is never forgotten.
            _ => self.forget_at(state) <= now && self.forget_at(state) < Tick::MAX,
        }
    }

    /// A state under which at least as much is consumed as under `a` and under `b`, where there is
    /// one. A full store folds the states that it drops into one such state, so that dropping a key
    /// never gives it anything back.
    pub fn worse(&self, a: &State, b: &State) -> Option<State> {
        Some(State(match (&self.rule, &a.0, &b.0) {
            (Rule::FixedWindow(_), Memory::FixedWindow(a), Memory::FixedWindow(b)) => {
                Memory::FixedWindow(a.worse(*b))
            }
            (Rule::Line(_), Memory::Line(a), Memory::Line(b)) => Memory::Line(*a.max(b)),
            (Rule::Log(_), Memory::Log(a), Memory::Log(b)) => Memory::Log(a.either(b)?),
            (Rule::SlidingWindow(it), Memory::SlidingWindow(a), Memory::SlidingWindow(b)) => {
                Memory::SlidingWindow(it.worse(a, b))
            }
            _ => return None,
        }))
    }

    /// Bytes that `state` takes in a store: its words, and what a log keeps beside them.
    pub fn state_bytes(&self, state: &State) -> usize {
        match &state.0 {
            Memory::Log(_) => size_of::<Log>() + state.heap_bytes(),
            _ => self.words() * size_of::<u64>(),
        }
    }

    /// How many words a state takes, packed. A log does not fit words: it takes none.
    pub const fn words(&self) -> usize {
        match &self.rule {
            Rule::Line(it) if it.is_narrow() => 1,
            Rule::Log(_) => 0,
            _ => 2,
        }
    }

    /// Packs `state` into [`Policy::words`] words; the rest of the two stays zero. A fresh state is
    /// all zero.
    #[inline]
    pub fn pack(&self, state: &State) -> [u64; 2] {
        match &state.0 {
            Memory::FixedWindow(count) => count.to_words(),
            Memory::Line(line) => line.to_words(),
            Memory::Log(_) => [0; 2],
            Memory::SlidingWindow(pair) => pair.to_words(),
        }
    }

    /// Unpacks what [`Policy::pack`] packed under this policy.
    #[inline]
    pub fn unpack(&self, words: [u64; 2]) -> State {
        State(match &self.rule {
            Rule::FixedWindow(_) => Memory::FixedWindow(WindowCount::from_words(words)),
            Rule::Line(_) => Memory::Line(Line::from_words(words)),
            Rule::Log(_) => Memory::Log(Log::default()),
            Rule::SlidingWindow(_) => Memory::SlidingWindow(WindowPair::from_words(words)),
        })
    }

    /// The events that a log remembers, oldest first: when each passed, and its cells.
    pub fn events<'a>(&self, state: &'a State) -> impl Iterator<Item = (Tick, u32)> + use<'a> {
        state.events()
    }

    /// Unpacks words that come from outside; `None` if this policy never packs such words.
    pub fn unpack_checked(&self, words: [u64; 2]) -> Option<State> {
        let state = self.unpack(words);
        let can_be = match (&self.rule, &state.0) {
            (Rule::Line(it), Memory::Line(line)) => it.can_be(*line),
            _ => true,
        };
        (can_be && self.pack(&state) == words && self.words() != 0).then_some(state)
    }

    /// A list of `events`, oldest first, as it was when [`State::seen`] said this; `None` if this
    /// policy keeps no lists, or there is no such list.
    pub fn list(
        &self,
        seen: (Tick, bool),
        events: impl Iterator<Item = (Tick, u32)>,
    ) -> Option<State> {
        let Rule::Log(_) = &self.rule else { return None };
        Log::again(seen, events).map(|log| State(Memory::Log(log)))
    }

    fn knows(&self, state: &State) -> bool {
        matches!(
            (&self.rule, &state.0),
            (Rule::FixedWindow(_), Memory::FixedWindow(_))
                | (Rule::Line(_), Memory::Line(_))
                | (Rule::Log(_), Memory::Log(_))
                | (Rule::SlidingWindow(_), Memory::SlidingWindow(_))
        )
    }
}

impl State {
    /// What a list has seen beside its events: the latest tick, and whether events of different
    /// ticks were ever kept as one. Nothing of a state that fits words.
    pub fn seen(&self) -> Option<(Tick, bool)> {
        if let Memory::Log(log) = &self.0 { Some(log.seen()) } else { None }
    }

    /// The events of a list, oldest first: when each passed, and its cells.
    pub fn events(&self) -> impl Iterator<Item = (Tick, u32)> {
        let log = if let Memory::Log(log) = &self.0 { Some(log) } else { None };
        log.into_iter().flat_map(Log::events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tick::Span;

    #[test]
    fn words_that_no_state_has_are_refused() {
        let policy = |kind, cells| Policy::new(kind, Quota::per_hour(cells)).unwrap();
        let narrow = policy(Kind::TokenBucket, 10);
        let most = Tick::MAX.get() + 10 * 360_000_000 + 1;
        assert!(narrow.unpack_checked([most, 0]).is_some());
        assert_eq!(narrow.unpack_checked([most + 1, 0]), None);
        assert_eq!(narrow.unpack_checked([0, 1]), None);
        let wide = policy(Kind::Gcra, u32::MAX - 4);
        assert!(wide.unpack_checked([u64::MAX, 1 << 20]).is_some());
        assert_eq!(wide.unpack_checked([u64::MAX, 1 << 30]), None);
        let window = policy(Kind::FixedWindow, 10);
        assert!(window.unpack_checked([Tick::MAX.get(), u32::MAX.into()]).is_some());
        assert_eq!(window.unpack_checked([Tick::MAX.get() + 1, 0]), None);
        assert_eq!(window.unpack_checked([0, 1 << 32]), None);
        assert_eq!(policy(Kind::SlidingWindow, 10).unpack_checked([u64::MAX, 0]), None);
        assert_eq!(policy(Kind::SlidingLog, 10).unpack_checked([0, 0]), None);
    }

    #[test]
    fn events_that_no_list_has_are_refused() {
        let policy = Policy::new(Kind::SlidingLog, Quota::per_hour(10)).unwrap();
        let at = |micros: u64| Tick::from_micros(1_700_000_000_000_000 + micros);
        let list = |events: &[(Tick, u32)]| policy.list((at(9), false), events.iter().copied());
        let state = list(&[(at(1), 1), (at(9), u32::MAX - 1)]).unwrap();
        assert_eq!(state.events().collect::<alloc::vec::Vec<_>>().len(), 2);
        assert_eq!(state.seen(), Some((at(9), false)));
        for events in [
            &[(at(1), 0)][..],
            &[(at(10), 1)],
            &[(at(2), 1), (at(2), 1)],
            &[(at(3), 1), (at(2), 1)],
            &[(at(1), 2), (at(2), u32::MAX - 1)],
            &[(Tick::from_micros(1), 1)],
        ] {
            assert_eq!(list(events), None, "{events:?}");
        }
        let window = Policy::new(Kind::FixedWindow, Quota::new(10, Span::from_secs(1))).unwrap();
        assert_eq!(window.list((at(9), false), core::iter::empty()), None);
        assert_eq!(window.fresh().seen(), None);
    }
}
