//! The fleet's store, as those who decide by any store see it.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::adapt::Fraction;
use tidegate_core::{Decision, Policy, Span, Tick};
use tidegate_store::{
    Charged, Clock, FollowsNodes, Health, HearsFactor, Judgment, KeyForm, Later, LimitCharge,
    OtherLimit, Place, PreparedLimits, Standing, Store, StoreFailure, StoreKey, StoreLimit,
    StoreStats, TextKey, Verb, WantedLimit, Work, all,
};

use super::charged::FleetCharged;
use super::finish::finished;
use super::put::WantedRule;
use super::{Fleet, FleetDecided, SharedCharge, SharedRule, settlement};

/// The most quotas that are looked for of keys which have them no more.
const OTHERS_MAX: usize = 64;

impl OtherLimit for SharedRule {}

impl Store for Fleet {
    fn is_shared(&self) -> bool {
        true
    }

    fn key_form(&self) -> KeyForm<'_> {
        KeyForm::Text
    }

    fn now(&self, _clock: &dyn Clock) -> Tick {
        self.server_now()
    }

    fn prepare(
        &self,
        wanted: &[WantedLimit<'_>],
        _now: Tick,
    ) -> Result<PreparedLimits<'_>, StoreFailure> {
        // Each is looked for by every request of a key that is not known.
        let few = |it: &WantedLimit<'_>| it.others.len() <= OTHERS_MAX;
        let others = |it: &WantedLimit<'_>| {
            it.others.iter().filter(|_| few(it)).filter_map(rule).cloned().collect()
        };
        let others: Vec<Vec<SharedRule>> = wanted.iter().map(others).collect();
        let wanted = wanted.iter().zip(&others).map(|(it, others)| WantedRule {
            name: &it.name,
            limit: &it.limit,
            policy: it.policy,
            whole: it.whole,
            without: it.without,
            before: it.before.and_then(rule),
            others,
        });
        let prepared = Fleet::prepare(self, &wanted.collect::<Vec<_>>());
        let prepared = prepared.map_err(|error| StoreFailure::new(error.to_string()))?;
        let limits = prepared.rules().iter().cloned();
        let limits = limits.map(|rule| StoreLimit::Other(Arc::new(rule))).collect();
        Ok(PreparedLimits::new(limits, || drop(prepared.commit())))
    }

    fn formerly(&self, limit: &StoreLimit, policy: Policy) {
        if let Some(limit) = rule(limit) {
            limit.adjust(|rule| rule.formerly(policy));
        }
    }

    fn remember_refusals(&self, limit: &StoreLimit, yes: bool) {
        if let Some(limit) = rule(limit) {
            limit.adjust(|rule| rule.remember_refusals(yes));
        }
    }

    fn judge(&self, charges: &[LimitCharge<'_>], verb: Verb, _now: Tick) -> Later<Judgment> {
        let asked: Option<SmallVec<[Asked; 2]>> = charges.iter().map(asked).collect();
        let Some(asked) = asked else { return Later::Ready(Judgment::never(charges)) };
        let fleet = self.clone();
        Later::pending(async move {
            let charges: SmallVec<[SharedCharge<'_>; 2]> = asked.iter().map(charge).collect();
            let decided = match verb {
                Verb::Decide => fleet.decide(&charges).await,
                Verb::Peek => fleet.peek(&charges).await,
            };
            judgment(&fleet, &charges, decided, verb)
        })
    }

    fn judge_each(
        &self,
        requests: &[SmallVec<[LimitCharge<'_>; 4]>],
        verb: Verb,
        now: Tick,
    ) -> Later<Vec<Judgment>> {
        let are_single = requests.iter().all(|it| it.len() == 1);
        let asked: Option<Vec<_>> = requests.iter().flatten().map(asked).collect();
        let Some(asked) = asked.filter(|_| are_single && verb == Verb::Decide) else {
            let each = requests.iter().map(|it| self.judge(it, verb, now)).collect();
            return Later::pending(all(each));
        };
        let fleet = self.clone();
        Later::pending(async move {
            let charges: Vec<SharedCharge<'_>> = asked.iter().map(charge).collect();
            let decided = fleet.decide_separately(&charges).await.into_iter();
            let each = decided.zip(charges.chunks(1));
            each.map(|(decided, charge)| judgment(&fleet, charge, decided, verb)).collect()
        })
    }

    fn settle(
        &self,
        _at: Place<'_>,
        charged: &mut Charged,
        cells: u32,
        clock: &Arc<dyn Clock>,
    ) -> Later<Standing> {
        match charged_there(charged) {
            Some(charged) => finished(self.runtime(), charged.settle(cells, clock)),
            None => Later::Ready(Standing { cells: 0, left: None }),
        }
    }

    fn give_up(
        &self,
        charged: &mut [(Place<'_>, &mut Charged)],
        clock: &Arc<dyn Clock>,
    ) -> Later<()> {
        let (mut settlements, mut permits) = (Vec::new(), Vec::new());
        for charged in charged.iter_mut().filter_map(|(_, charged)| charged_there(charged)) {
            if charged.lends() {
                permits.push(finished(self.runtime(), charged.settle(0, clock)));
            } else {
                settlements.push(charged.open(clock));
            }
        }
        let others = settlement::give_up(settlements);
        finished(self.runtime(), async move {
            // At the same time: permits do not wait for a slot.
            let permits = async move { drop(all(permits).await) };
            let both = [Later::pending(permits), Later::pending(others)];
            drop(all(both.into()).await);
        })
    }

    fn release(&self, _at: Place<'_>, charged: &mut Charged, _clock: &Arc<dyn Clock>) -> Later<()> {
        match charged_there(charged).and_then(FleetCharged::release) {
            Some(releasing) => finished(self.runtime(), releasing),
            None => Later::Ready(()),
        }
    }

    fn renew(
        &self,
        _at: Place<'_>,
        charged: &mut Charged,
        _clock: &Arc<dyn Clock>,
    ) -> Later<Result<bool, StoreFailure>> {
        match charged_there(charged).and_then(FleetCharged::renew) {
            Some(renewing) => finished(self.runtime(), renewing),
            // Let through without being counted: there is nothing to lose.
            None => Later::Ready(Ok(true)),
        }
    }

    fn lapses_at(&self, _at: Place<'_>, charged: &Charged, clock: &dyn Clock) -> Option<Tick> {
        let Charged::Other(charged) = charged else { return None };
        let charged: &dyn Any = &**charged;
        charged.downcast_ref::<FleetCharged>()?.permits_lapse_at(clock)
    }

    fn reset(&self, at: Place<'_>) -> Later<Result<(), StoreFailure>> {
        let Some((rule, key)) = place(at) else {
            return Later::Ready(Err(StoreFailure::of_another_store()));
        };
        let (fleet, rule, key) = (self.clone(), rule.clone(), Arc::clone(key));
        Later::pending(async move {
            let done = Fleet::reset(&fleet, &rule, &key).await;
            done.map_err(|error| StoreFailure::new(error.to_string()))
        })
    }

    fn finish(&self, work: Work<()>) {
        drop(self.runtime().spawn(work));
    }

    fn stats(&self) -> StoreStats {
        let mut stats = StoreStats::default();
        (stats.memory, stats.remote) = (self.local_stats(), Some(Fleet::stats(self)));
        stats
    }

    fn health(&self) -> Option<Health> {
        Some(Fleet::health(self))
    }

    fn keys_max(&self) -> usize {
        Fleet::LOCAL_KEYS_MAX
    }

    fn for_policy(&self, name: Option<&str>) -> Option<Arc<dyn Store>> {
        Some(Arc::new(Fleet::for_policy(self, name)))
    }

    fn takes_policy(&self, name: Option<&str>) -> bool {
        let store = self.store();
        store.for_policy(name).prefix() == store.prefix()
    }

    fn nodes(&self) -> u32 {
        Fleet::nodes(self)
    }

    fn set_nodes(&self, nodes: u32) {
        Fleet::set_nodes(self, nodes);
    }

    fn count_nodes(&self, every: Duration, follower: Box<dyn FollowsNodes>) {
        self.take_census(every, follower);
    }

    fn share_factor(&self, node: u64, own: Option<Fraction>, lease: Span, heard: HearsFactor) {
        let store = self.store().clone();
        drop(self.runtime().spawn(async move {
            let said = store.share_factor(node, own, lease).await;
            heard(said.map_err(|error| StoreFailure::new(error.to_string())));
        }));
    }
}

/// A charge that owns what it needs.
type Asked = (SharedRule, Arc<TextKey>, u32);

fn asked(charge: &LimitCharge<'_>) -> Option<Asked> {
    let (rule, key) = place(charge.at)?;
    Some((rule.clone(), Arc::clone(key), charge.cost))
}

fn charge((rule, key, cost): &Asked) -> SharedCharge<'_> {
    SharedCharge { rule, key, cost: *cost }
}

fn judgment(
    fleet: &Fleet,
    charges: &[SharedCharge<'_>],
    decided: FleetDecided,
    verb: Verb,
) -> Judgment {
    let FleetDecided { verdict, by, each, mut receipts } = decided;
    let is_charged = verb == Verb::Decide && verdict.passes();
    let limits = charges.iter().enumerate().map(|(place, charge)| {
        let decision = each.get(place).copied().unwrap_or(Decision::of_no_limit(verdict));
        let receipts = receipts.take(place);
        let taken = || FleetCharged::new(fleet, charge, (receipts, place), by);
        let taken = is_charged.then(taken).map(Box::new);
        (decision, taken.map_or(Charged::Nothing, |taken| Charged::Other(taken)))
    });
    Judgment { verdict, by, limits: limits.collect() }
}

fn rule(limit: &StoreLimit) -> Option<&SharedRule> {
    let StoreLimit::Other(limit) = limit else { return None };
    let limit: &dyn Any = &**limit;
    limit.downcast_ref()
}

fn place(at: Place<'_>) -> Option<(&SharedRule, &Arc<TextKey>)> {
    match at.key {
        StoreKey::Text(key) => Some((rule(at.limit)?, key)),
        StoreKey::Hash(_) => None,
    }
}

fn charged_there(charged: &mut Charged) -> Option<&mut FleetCharged> {
    let Charged::Other(charged) = charged else { return None };
    let charged: &mut dyn Any = &mut **charged;
    charged.downcast_mut()
}
