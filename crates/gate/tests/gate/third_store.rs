//! A store that is neither of ours: a map, with what it was asked. It comes to a gate by
//! `Gate::builder().store(…)`, and nothing but `Store` says what it is.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_core::{
    Decision, Kind, Limit, Policy, Receipt, Shape, Span, State, Tick, Verdict, decide_all,
};
use tidegate_gate::{By, WithoutStore};
use tidegate_store::{
    Charged, Clock, Judgment, KeyForm, Later, Left, LimitCharge, OtherCharge, OtherLimit, Place,
    PreparedLimits, Standing, Store, StoreFailure, StoreKey, StoreLimit, StoreStats, TextKey, Verb,
    WantedLimit, Work, at_once,
};

/// States in a map. Clones are the same store. What keys had under other limits is not looked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThirdStore(Arc<Inner>);

/// How much of what it was asked it remembers.
const ASKED_MAX: usize = 64;

#[derive(Debug, Default)]
struct Inner {
    kept: Mutex<Kept>,
    is_down: AtomicBool,
}

#[derive(Debug, Default)]
struct Kept {
    /// What each limit is now, by its name, and the states under it.
    limits: HashMap<String, (Policy, HashMap<TextKey, State>)>,
    asked: Vec<String>,
}

#[derive(Debug)]
struct Named {
    name: String,
    without: WithoutStore,
}

impl OtherLimit for Named {}

/// What was charged, and the cells that it is for: a limit may remember less.
#[derive(Debug, Default)]
struct Taken(Vec<Receipt>, u32);

impl OtherCharge for Taken {
    fn standing(&self) -> Option<Standing> {
        None
    }

    fn stand(&mut self) {
        self.0.clear();
    }
}

impl ThirdStore {
    /// What it was asked to judge since the last time.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.kept(|kept| std::mem::take(&mut kept.asked))
    }

    /// Whether it fails from now on.
    pub(crate) fn fails(&self, is_down: bool) {
        self.0.is_down.store(is_down, Ordering::Relaxed);
    }

    fn kept<T>(&self, work: impl FnOnce(&mut Kept) -> T) -> T {
        work(&mut self.0.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn at<T>(&self, at: Place<'_>, work: impl FnOnce(&Policy, &mut State) -> T) -> T {
        self.kept(|kept| {
            let (policy, state) = kept.at(at);
            work(policy, state)
        })
    }
}

impl Kept {
    fn at(&mut self, at: Place<'_>) -> (&Policy, &mut State) {
        let limit = self.limits.get_mut(&named(at.limit).unwrap().name);
        let (policy, states) = limit.unwrap();
        (policy, states.entry(text(at)).or_insert_with(|| policy.fresh()))
    }

    /// All limits together: what they say, and what they charge.
    fn decide(&mut self, charges: &[LimitCharge<'_>], now: Tick) -> Judgment {
        let mut states = self.looked_up(charges);
        let limits = states.iter_mut().zip(charges);
        let limits = limits.map(|((policy, state), it)| Limit::new(policy, state, it.cost));
        let mut limits: Vec<Limit<'_>> = limits.collect();
        let verdict = decide_all(&mut limits, now);
        let said = limits.iter_mut().map(|it| {
            let receipt = it.take_receipt();
            (it.answer().unwrap(), receipt.map_or(Charged::Nothing, charged))
        });
        let limits = said.collect();
        for (it, (_, after)) in charges.iter().zip(states) {
            *self.at(it.at).1 = after;
        }
        Judgment { verdict, by: By::Store, limits }
    }

    fn peek(&mut self, charges: &[LimitCharge<'_>], now: Tick) -> Judgment {
        let mut judgment = Judgment::never(&[]);
        judgment.verdict = Verdict::Allow;
        for ((policy, mut state), it) in self.looked_up(charges).into_iter().zip(charges) {
            let decision = policy.peek(&mut state, now, it.cost);
            judgment.verdict = judgment.verdict.and(decision.verdict);
            judgment.limits.push((decision, Charged::Nothing));
        }
        judgment
    }

    fn looked_up(&mut self, charges: &[LimitCharge<'_>]) -> Vec<(Policy, State)> {
        let look = |it: &LimitCharge<'_>| {
            let (policy, state) = self.at(it.at);
            (*policy, state.clone())
        };
        charges.iter().map(look).collect()
    }
}

impl Store for ThirdStore {
    fn answers_at_once(&self) -> bool {
        true
    }

    fn key_form(&self) -> KeyForm<'_> {
        KeyForm::Text
    }

    fn prepare(
        &self,
        wanted: &[WantedLimit<'_>],
        now: Tick,
    ) -> Result<PreparedLimits<'_>, StoreFailure> {
        let limit = |it: &WantedLimit<'_>| {
            StoreLimit::Other(Arc::new(Named { name: it.name.clone(), without: it.without }))
        };
        let turn = |it: &WantedLimit<'_>| {
            let before = it.before.and_then(named).map(|before| before.name.clone());
            (it.name.clone(), before.unwrap_or_else(|| it.name.clone()), it.policy)
        };
        let turns: Vec<_> = wanted.iter().map(turn).collect();
        Ok(PreparedLimits::new(wanted.iter().map(limit).collect(), move || {
            self.kept(|kept| {
                for (name, before, policy) in turns {
                    let had = kept.limits.get(&before).cloned();
                    let (old, mut states) = had.unwrap_or((policy, HashMap::new()));
                    #[expect(clippy::iter_over_hash_type, reason = "each state by itself")]
                    for state in states.values_mut() {
                        policy.carry(&old, state, now);
                    }
                    kept.limits.insert(name, (policy, states));
                }
            });
        }))
    }

    fn judge(&self, charges: &[LimitCharge<'_>], verb: Verb, now: Tick) -> Later<Judgment> {
        let is_down = self.0.is_down.load(Ordering::Relaxed);
        Later::Ready(self.kept(|kept| {
            kept.asked.truncate(ASKED_MAX - 1);
            kept.asked.push(asked(charges, verb));
            match verb {
                _ if is_down => without(charges),
                Verb::Decide => kept.decide(charges, now),
                Verb::Peek => kept.peek(charges, now),
            }
        }))
    }

    fn settle(
        &self,
        at: Place<'_>,
        charged: &mut Charged,
        cells: u32,
        clock: &Arc<dyn Clock>,
    ) -> Later<Standing> {
        let (now, Taken(receipts, had)) = (clock.now(), taken(charged));
        Later::Ready(self.at(at, |policy, state| {
            if *had < cells {
                receipts.extend(policy.debit(state, now, cells - *had).ok().map(|it| it.receipt));
            }
            let mut back = had.saturating_sub(cells);
            while 0 < back
                && let Some(last) = receipts.pop()
            {
                let cells = last.cost().min(back);
                policy.refund(state, now, Receipt::new(last.at(), cells));
                back -= cells;
                if cells < last.cost() {
                    receipts.push(Receipt::new(last.at(), last.cost() - cells));
                }
            }
            *had = cells;
            let left = Left { decision: policy.peek(state, now, 0), at: now };
            Standing { cells, left: Some(left) }
        }))
    }

    fn give_up(&self, all: &mut [(Place<'_>, &mut Charged)], clock: &Arc<dyn Clock>) -> Later<()> {
        let come_back = all.iter_mut().all(|(at, charged)| {
            let back = |policy: &Policy, state: &mut State| {
                taken(charged).0.iter().all(|it| policy.takes_back(state, clock.now(), it))
            };
            self.at(*at, back)
        });
        for (at, charged) in all {
            if come_back || self.at(*at, |policy, _| policy.kind() == Kind::Concurrency) {
                drop(self.settle(*at, charged, 0, clock));
            }
        }
        Later::Ready(())
    }

    fn release(&self, at: Place<'_>, charged: &mut Charged, clock: &Arc<dyn Clock>) -> Later<()> {
        self.settle(at, charged, 0, clock).map(drop)
    }

    fn renew(
        &self,
        at: Place<'_>,
        charged: &mut Charged,
        clock: &Arc<dyn Clock>,
    ) -> Later<Result<bool, StoreFailure>> {
        let Taken(receipts, _) = taken(charged);
        self.at(at, |policy, state| {
            let held = std::mem::take(receipts).into_iter();
            receipts.extend(held.filter_map(|it| policy.renew(state, clock.now(), it)));
        });
        Later::Ready(Ok(!receipts.is_empty()))
    }

    fn lapses_at(&self, at: Place<'_>, charged: &Charged, _clock: &dyn Clock) -> Option<Tick> {
        let Charged::Other(charged) = charged else { return None };
        let taken: &dyn Any = &**charged;
        let first = taken.downcast_ref::<Taken>()?.0.iter().map(Receipt::at).min()?;
        self.at(at, |policy, _| match policy.shape() {
            Shape::Log { per, .. } if policy.kind() == Kind::Concurrency => Some(first.after(per)),
            _ => None,
        })
    }

    fn reset(&self, at: Place<'_>) -> Later<Result<(), StoreFailure>> {
        self.at(at, |policy, state| *state = policy.fresh());
        Later::Ready(Ok(()))
    }

    fn finish(&self, work: Work<()>) {
        at_once(work);
    }

    fn stats(&self) -> StoreStats {
        StoreStats::default()
    }

    fn keys_max(&self) -> usize {
        usize::MAX
    }
}

fn asked(charges: &[LimitCharge<'_>], verb: Verb) -> String {
    let name = |it: &LimitCharge<'_>| format!("{} {}", named(it.at.limit).unwrap().name, it.cost);
    format!("{verb:?}: {}", charges.iter().map(name).collect::<Vec<_>>().join(", "))
}

/// What is said while it fails: each limit has said what it does then.
fn without(charges: &[LimitCharge<'_>]) -> Judgment {
    let is_open = |it: &LimitCharge<'_>| named(it.at.limit).unwrap().without == WithoutStore::Open;
    let (verdict, by) = if charges.iter().all(is_open) {
        (Verdict::Allow, By::Open)
    } else {
        (Verdict::Deny { retry_after: Span::from_secs(1) }, By::Closed)
    };
    let said = charges.iter().map(|_| (Decision::of_no_limit(verdict), Charged::Nothing));
    Judgment { verdict, by, limits: said.collect() }
}

fn named(limit: &StoreLimit) -> Option<&Named> {
    let StoreLimit::Other(limit) = limit else { return None };
    let limit: &dyn Any = &**limit;
    limit.downcast_ref()
}

fn text(at: Place<'_>) -> TextKey {
    match at.key {
        StoreKey::Text(key) => **key,
        StoreKey::Hash(_) => panic!("it has asked for texts"),
    }
}

fn charged(receipt: Receipt) -> Charged {
    let cells = receipt.cost();
    Charged::Other(Box::new(Taken(vec![receipt], cells)))
}

fn taken(of: &mut Charged) -> &mut Taken {
    if !matches!(of, Charged::Other(_)) {
        *of = Charged::Other(Box::new(Taken::default()));
    }
    let Charged::Other(taken) = of else { unreachable!("just now") };
    let taken: &mut dyn Any = &mut **taken;
    taken.downcast_mut::<Taken>().unwrap()
}
