//! Decisions by Redis, for a fleet: the same plan, asked there.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use smallvec::SmallVec;
use tidegate_config::{Planned, Request, Rules};
use tidegate_core::{Tick, Verdict};
use tidegate_redis::{Fleet, FleetDecided, FleetKey, FleetReceipts, SharedCharge, SharedRule};
use tidegate_store::{By, Clock};

use crate::admission::{Admission, Charged, Judged, Reason};
use crate::apart::Lease;
use crate::fleet_key::fleet_key;
use crate::gate::{Gate, Inner};
use crate::generation::Generation;
use crate::here::judged;
use crate::later::Later;
use crate::ledger::{Account, Ledger, Opening, Placed};
use crate::permits::Permits;
use crate::renew::Renewal;
use crate::reset::names_of;
use crate::settle::Telling;
use crate::store::{StoreFailure, StoreRule};
use crate::turn::Patience;

/// What a limit charged in Redis.
pub(crate) struct FleetCharged {
    fleet: Fleet,
    rule: SharedRule,
    key: FleetKey,
    receipts: FleetReceipts,
    /// Its place among the limits that were asked together.
    place: usize,
    /// Where the receipts are once it was settled.
    ledger: Option<Arc<Ledger>>,
    /// Where permits are once they were renewed: then `receipts` is empty.
    permits: Option<Arc<Permits>>,
}

/// One limit to be judged.
pub(crate) struct Asked {
    rule: SharedRule,
    key: FleetKey,
    judged: Judged,
}

impl Asked {
    fn charge(&self) -> SharedCharge<'_> {
        SharedCharge { rule: &self.rule, key: &self.key, cost: self.judged.cost }
    }

    /// Whether both are of one rule and one key: then they are charged together.
    fn is_beside(&self, other: &Asked) -> bool {
        let place = |asked: &Asked| (asked.judged.rule, asked.judged.variant);
        place(self) == place(other) && self.key == other.key
    }

    pub(crate) fn into_judged(self) -> Judged {
        self.judged
    }
}

/// Asks Redis about a request, or only looks. All that is needed of the request is taken here.
pub(crate) fn admit(
    inner: &Arc<Inner>,
    generation: &Arc<Lease>,
    fleet: &Fleet,
    request: &dyn Request,
    charges: bool,
) -> Pin<Box<dyn Future<Output = Admission> + Send>> {
    let gate = Gate(Arc::clone(inner));
    // Calendars go by the server's clock, as everything that is decided there does.
    let (now, server_now) = (inner.clock.now(), fleet.server_now());
    let facts = generation.rules.facts(request, now);
    let plan = generation.rules.plan(&facts);
    let mut admission = Admission::planned(generation, &plan, now);
    let (mut enforced, mut shadow) = (Vec::new(), Vec::new());
    if matches!(admission.reason, Reason::Judged | Reason::Unlimited) {
        for planned in &plan.charges {
            let asked = if planned.is_shadow { &mut shadow } else { &mut enforced };
            match fleet_key(&planned.key, gate.0.secret.as_ref()) {
                Ok(key) => gate.ask(fleet, generation, planned, key, server_now, asked),
                Err(_) if planned.is_shadow => {}
                Err(_) => admission.never(Reason::KeyTooLong),
            }
        }
    }
    let asking = if charges && !generation.shares.is_empty() {
        generation.asking(&facts, plan.route_cost, Patience::Usual)
    } else {
        None
    };
    let (fleet, clock) = (fleet.clone(), Arc::clone(&inner.clock));
    let judges = admission.verdict.passes();
    let patience = request.patience().filter(|_| charges && generation.holds_back);
    Box::pin(async move {
        if judges {
            // A place that is taken in vain may be lost to everybody: so this looks first.
            let mut late = None;
            if let Some(patience) = patience {
                let looked = judge(&fleet, &mut enforced, &mut shadow, false).await;
                let is_late = matches!(looked.0, Verdict::Delay { by } if patience < by);
                late = is_late.then_some((looked, patience));
            }
            let (verdict, by) = match late {
                Some((looked, _)) => looked,
                None => judge(&fleet, &mut enforced, &mut shadow, charges).await,
            };
            // From here on: what Redis says of times is counted from when it was asked, and what is
            // held back until a slot must not start before it.
            admission.now = clock.now();
            admission.by = by;
            admission.conclude(verdict);
            let asked = enforced.into_iter().chain(shadow);
            admission.each.extend(asked.map(Asked::into_judged));
            if let Some((_, patience)) = late {
                admission.too_late(patience);
            }
        }
        if charges {
            admission.count();
        }
        match asking.filter(|_| admission.verdict.passes()) {
            None => admission,
            Some(asking) => *Box::new(admission).turning(asking).await,
        }
    })
}

impl Gate {
    /// Adds the limits of a rule.
    pub(crate) fn ask(
        &self,
        fleet: &Fleet,
        generation: &Generation,
        planned: &Planned<'_>,
        key: FleetKey,
        now: Tick,
        asked: &mut Vec<Asked>,
    ) {
        let variant = &generation.rule(planned.number).variants()[planned.variant];
        let limits = generation.limits(planned.number, planned.variant).iter();
        for (part, (limit, timed)) in (0..).zip(limits.zip(variant.policies())) {
            let present = limit.present(timed, &self.0.store, now);
            let StoreRule::Fleet(rule) = &*present else { continue };
            let (fleet, rule) = (fleet.clone(), rule.clone());
            let receipts = FleetReceipts::default();
            let (rule_there, ledger, permits) = (rule.clone(), None, None);
            let charged =
                FleetCharged { fleet, rule: rule_there, key, receipts, place: 0, ledger, permits };
            let judged = judged(planned, (part, timed.kind()), Charged::Fleet(Box::new(charged)));
            asked.push(Asked { rule, key, judged });
        }
    }
}

/// Makes keys fresh, one limit after the other.
pub(crate) fn reset(
    gate: &Gate,
    generation: &Generation,
    fleet: &Fleet,
    wanted: &[&Planned<'_>],
) -> Later<Result<Vec<String>, StoreFailure>> {
    let (mut asked, mut names) = (Vec::new(), Vec::new());
    for planned in wanted {
        match fleet_key(&planned.key, gate.0.secret.as_ref()) {
            Ok(key) => {
                gate.ask(fleet, generation, planned, key, fleet.server_now(), &mut asked);
                names.extend(names_of(planned));
            }
            Err(error) => return Later::Here(Err(StoreFailure::new(error.to_string()))),
        }
    }
    let fleet = fleet.clone();
    Later::Asked(Box::pin(async move {
        for Asked { rule, key, .. } in &asked {
            let done = fleet.reset(rule, key).await;
            done.map_err(|error| StoreFailure::new(error.to_string()))?;
        }
        Ok(names)
    }))
}

/// One round trip for what is enforced, and one more for what is in shadow: charged if all of the
/// first passes, looked at otherwise.
pub(crate) async fn judge(
    fleet: &Fleet,
    enforced: &mut [Asked],
    shadow: &mut [Asked],
    charges: bool,
) -> (Verdict, By) {
    let decided = if charges {
        fleet.decide(&wanted(enforced)).await
    } else {
        fleet.peek(&wanted(enforced)).await
    };
    let (verdict, by) = (decided.verdict, decided.by);
    take_down(enforced, decided);
    if charges && verdict.passes() {
        try_each(fleet, shadow).await;
    } else {
        for asked in enforced {
            asked.judged.is_charged = false;
        }
        look_at(fleet, shadow).await;
    }
    (verdict, by)
}

/// Charges each rule by itself; the limits of one rule all or none. All are asked at once.
async fn try_each(fleet: &Fleet, shadow: &mut [Asked]) {
    let (mut alone, mut together): (Vec<&mut [Asked]>, Vec<&mut [Asked]>) =
        shadow.chunk_by_mut(Asked::is_beside).partition(|it| it.len() == 1);
    let decided = {
        let separately: SmallVec<[SharedCharge<'_>; 4]> =
            alone.iter().flat_map(|limits| limits.iter().map(Asked::charge)).collect();
        let mut asking: Vec<Asking<'_>> = Vec::with_capacity(1 + together.len());
        asking.push(Box::pin(async move { fleet.decide_separately(&separately).await }));
        for limits in &together {
            let charges = wanted(limits);
            asking.push(Box::pin(async move { vec![fleet.decide(&charges).await] }));
        }
        all(asking).await
    };
    let limits = alone.iter_mut().chain(&mut together);
    limits.zip(decided.into_iter().flatten()).for_each(|(limits, it)| take_down(limits, it));
}

/// Looks at each, and charges nothing: a request that is refused is charged to nothing, not even
/// in shadow.
async fn look_at(fleet: &Fleet, shadow: &mut [Asked]) {
    let mut chunks: Vec<&mut [Asked]> = shadow.chunks_mut(Rules::LIMITS_MAX).collect();
    let decided = {
        let mut asking: Vec<Asking<'_>> = Vec::with_capacity(chunks.len());
        for limits in &chunks {
            let charges = wanted(limits);
            asking.push(Box::pin(async move { vec![fleet.peek(&charges).await] }));
        }
        all(asking).await
    };
    for (limits, decided) in chunks.iter_mut().zip(decided.into_iter().flatten()) {
        take_down(limits, decided);
        limits.iter_mut().for_each(|asked| asked.judged.is_charged = false);
    }
}

type Asking<'a> = Pin<Box<dyn Future<Output = Vec<FleetDecided>> + Send + 'a>>;

/// What all of them say, in their order; they go on together.
async fn all(mut asking: Vec<Asking<'_>>) -> Vec<Vec<FleetDecided>> {
    let mut said: Vec<Option<Vec<FleetDecided>>> = asking.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (asking, said) in asking.iter_mut().zip(&mut said).filter(|(_, said)| said.is_none()) {
            if let Poll::Ready(decided) = asking.as_mut().poll(context) {
                *said = Some(decided);
            }
        }
        if said.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    said.into_iter().flatten().collect()
}

fn wanted(asked: &[Asked]) -> SmallVec<[SharedCharge<'_>; 4]> {
    asked.iter().map(Asked::charge).collect()
}

/// Notes what each limit said, and what it charged.
fn take_down(asked: &mut [Asked], decided: FleetDecided) {
    let FleetDecided { verdict, each, mut receipts, .. } = decided;
    for (place, asked) in asked.iter_mut().enumerate() {
        match each.get(place) {
            Some(decision) => asked.judged.decision = *decision,
            None => asked.judged.decision.verdict = verdict,
        }
        if let Charged::Fleet(charged) = &mut asked.judged.charged {
            (charged.receipts, charged.place) = (receipts.take(place), place);
            asked.judged.is_charged = verdict.passes();
        }
    }
}

impl FleetCharged {
    /// The same place, with nothing charged there.
    pub(crate) fn nothing(&self) -> FleetCharged {
        let (fleet, rule) = (self.fleet.clone(), self.rule.clone());
        let (key, receipts) = (self.key, FleetReceipts::default());
        FleetCharged { fleet, rule, key, receipts, place: 0, ledger: None, permits: None }
    }

    /// Brings what was charged to `cells`, as far as there is room.
    pub(crate) fn settle(&mut self, cells: u32, opening: Opening) -> Telling {
        Box::pin(self.open(opening).settle(cells))
    }

    /// The ledger of what was charged; it is opened if there is none.
    pub(crate) fn open(&mut self, opening: Opening) -> Arc<Ledger> {
        if self.ledger.is_none() {
            let (fleet, rule, key) = (self.fleet.clone(), self.rule.clone(), self.key);
            let receipts = std::mem::take(&mut self.receipts);
            let charged = Placed { receipts, place: self.place };
            let ledger = Ledger::new(Account { fleet, rule, key }, charged, opening);
            self.ledger = Some(Arc::new(ledger));
        }
        self.ledger.clone().expect("made just now")
    }

    pub(crate) fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// What became of it since it was decided, if it was settled.
    pub(crate) fn ledger(&self) -> Option<&Ledger> {
        self.ledger.as_deref()
    }

    /// Renews permits; whether they are still held.
    pub(crate) fn renew(&mut self) -> Renewal {
        if self.permits.is_none() && self.receipts.is_empty() {
            // Let through without being counted: there is nothing to lose.
            return Box::pin(std::future::ready(Ok(true)));
        }
        let receipts = std::mem::take(&mut self.receipts);
        let permits = self.permits.get_or_insert_with(|| Arc::new(Permits::new(receipts)));
        Box::pin(Permits::renew(Arc::clone(permits)))
    }

    /// When the first permit lapses, by `clock`, whatever the server's says; nothing if none is
    /// held.
    pub(crate) fn permits_lapse_at(&self, clock: &dyn Clock) -> Option<Tick> {
        let left = self.lapse_there()?.since(self.fleet.server_now());
        Some(clock.now().after(left))
    }

    /// The same by the server's clock.
    fn lapse_there(&self) -> Option<Tick> {
        self.permits.as_ref().map_or_else(|| self.receipts.lapse_at(), |it| it.lapse_at())
    }

    /// Gives back permits; also if nobody waits until it is done.
    pub(crate) fn release(&mut self) -> Option<Telling> {
        self.lapse_there()?;
        // To renew them afterwards finds none.
        let renewed = self.permits.replace(Arc::default());
        let receipts = std::mem::take(&mut self.receipts);
        // Dropped receipts give back their permits, so nothing is lost with this.
        Some(Box::pin(async move {
            let _ = receipts.release().await;
            if let Some(permits) = renewed {
                permits.release().await;
            }
        }))
    }

    /// Gives back all of it.
    pub(crate) fn give_back(&mut self, opening: Opening) -> Telling {
        match self.permits {
            // They are no longer where a ledger would look for them.
            Some(_) => self.release().unwrap_or_else(|| Box::pin(std::future::ready(()))),
            None => self.settle(0, opening),
        }
    }
}

impl std::fmt::Debug for FleetCharged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("FleetCharged");
        debug.field("rule", &self.rule).field("key", &self.key).finish_non_exhaustive()
    }
}
