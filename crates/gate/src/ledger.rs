//! What one limit has charged in Redis since its request was decided, and what Redis says of it.
//!
//! Settlements may overlap, and one that nobody waits for goes on by itself. So each only says what
//! is to be charged in the end; then, one at a time, they bring what is charged to what was said
//! last.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::{Decision, Kind, Tick};
use tidegate_redis::{Fleet, FleetDecided, FleetKey, FleetReceipts, SharedCharge, SharedRule};
use tidegate_store::{By, Clock};

use crate::settle::{LOOKS_MAX, Telling, poll_all};

/// What a limit has charged, and where.
pub(crate) struct Ledger {
    fleet: Fleet,
    rule: SharedRule,
    key: FleetKey,
    /// By what its request was decided.
    by: By,
    clock: Arc<dyn Clock>,
    /// Locked for as long as one of them asks Redis.
    receipts: tokio::sync::Mutex<Vec<Placed>>,
    stands: Mutex<Stands>,
}

/// Where a limit is in Redis.
#[derive(Clone)]
pub(crate) struct Account {
    pub(crate) fleet: Fleet,
    pub(crate) rule: SharedRule,
    pub(crate) key: FleetKey,
}

/// What was charged when its request was decided.
pub(crate) struct Opening {
    pub(crate) cells: u32,
    pub(crate) by: By,
    pub(crate) clock: Arc<dyn Clock>,
}

/// What is left since a limit was settled, and when it was so; the verdict is of no interest.
#[derive(Clone, Copy)]
pub(crate) struct Told {
    pub(crate) decision: Decision,
    pub(crate) at: Tick,
}

/// Receipts, and the limit's place among those that were asked together.
pub(crate) struct Placed {
    pub(crate) receipts: FleetReceipts,
    pub(crate) place: usize,
}

#[derive(Clone, Copy)]
struct Stands {
    /// What is to be charged; once it is settled, what is.
    wanted: u32,
    charged: u32,
    told: Option<Told>,
}

impl Ledger {
    pub(crate) fn new(account: Account, charged: Placed, opening: Opening) -> Ledger {
        let Account { fleet, rule, key } = account;
        let Opening { cells, by, clock } = opening;
        let receipts = tokio::sync::Mutex::new(vec![charged]);
        let stands = Mutex::new(Stands { wanted: cells, charged: cells, told: None });
        Ledger { fleet, rule, key, by, clock, receipts, stands }
    }

    /// How many cells are charged, or will be as far as anybody knows.
    pub(crate) fn cells(&self) -> u32 {
        self.stands().wanted
    }

    /// What is left since it was settled.
    pub(crate) fn told(&self) -> Option<Told> {
        self.stands().told
    }

    /// Brings what is charged to `cells`, as far as there is room.
    pub(crate) fn settle(self: Arc<Ledger>, cells: u32) -> impl Future<Output = ()> + Send {
        self.stands().wanted = cells;
        self.bring()
    }

    /// Charges nothing else, and asks what is left.
    async fn look(self: Arc<Ledger>) {
        let cells = self.cells();
        self.settle(cells).await;
    }

    async fn bring(self: Arc<Ledger>) {
        let mut receipts = self.receipts.lock().await;
        let Stands { wanted, charged, .. } = *self.stands();
        let (charged, decided) = if charged < wanted {
            let (cells, decided) = self.charge(wanted - charged, &mut receipts).await;
            (charged + cells, Some(decided))
        } else {
            give_back(charged - wanted, &mut receipts).await;
            // Redis does not say what is left after a refund. If nobody has the ledger any more,
            // nobody asks.
            let is_asked = 1 < Arc::strong_count(&self);
            (wanted, if is_asked { Some(self.decide(0).await) } else { None })
        };
        let told = decided.and_then(|decided| self.heard(&decided));
        self.stands().settle(wanted, charged, told);
    }

    /// Charges `cells` more, or as many as there is room for: it has happened already.
    async fn charge(&self, cells: u32, receipts: &mut Vec<Placed>) -> (u32, FleetDecided) {
        let mut cells = cells;
        let mut decided = self.decide(cells).await;
        for _ in 0..LOOKS_MAX {
            if decided.verdict.passes() {
                let charged = std::mem::take(&mut decided.receipts);
                receipts.push(Placed { receipts: charged, place: 0 });
                return (cells, decided);
            }
            cells = decided.each.first().map_or(0, |it| it.remaining).min(cells);
            if cells == 0 {
                break;
            }
            decided = self.decide(cells).await;
        }
        (0, decided)
    }

    async fn decide(&self, cost: u32) -> FleetDecided {
        let charge = SharedCharge { rule: &self.rule, key: &self.key, cost };
        match cost {
            0 => self.fleet.peek(&[charge]).await,
            _ => self.fleet.decide(&[charge]).await,
        }
    }

    /// What is left by an answer. A node's share is not to be mixed with what Redis has said.
    fn heard(&self, decided: &FleetDecided) -> Option<Told> {
        let is_comparable = !decided.by.is_fallback() || decided.by == self.by;
        let decision = decided.each.first().copied().filter(|_| is_comparable)?;
        Some(Told { decision, at: self.clock.now() })
    }

    fn stands(&self) -> MutexGuard<'_, Stands> {
        self.stands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stands {
    fn settle(&mut self, wanted: u32, charged: u32, told: Option<Told>) {
        // Otherwise something else is wanted meanwhile, and somebody is about to see to it.
        if self.wanted == wanted {
            self.wanted = charged;
        }
        (self.charged, self.told) = (charged, told.or(self.told));
    }
}

/// Gives back what a request was charged that gives up before its start, but for permits; see
/// [`FleetReceipts::give_up`].
pub(crate) async fn give_up(ledgers: Vec<Arc<Ledger>>) {
    let is_queue = |ledger: &Arc<Ledger>| ledger.rule.policy().kind() == Kind::LeakyQueue;
    let (queues, others): (Vec<_>, Vec<_>) = ledgers.into_iter().partition(is_queue);
    let mut slots = FleetReceipts::default();
    for queue in &queues {
        for charged in queue.receipts.lock().await.drain(..) {
            slots.append(charged.receipts);
        }
    }
    let is_back = matches!(slots.give_up().await, Ok(true));
    let mut tellings: Vec<Telling> = Vec::new();
    for ledger in queues.into_iter().chain(others) {
        tellings.push(if is_back { Box::pin(ledger.settle(0)) } else { Box::pin(ledger.look()) });
    }
    poll_fn(|context| poll_all(&mut tellings, context)).await;
}

/// Gives back so many cells, the latest first.
async fn give_back(mut cells: u32, receipts: &mut Vec<Placed>) {
    while 0 < cells
        && let Some(last) = receipts.last_mut()
    {
        let back = last.receipts.take_cells(last.place, cells);
        cells -= back.cells(last.place).min(cells);
        if last.receipts.is_empty() {
            receipts.pop();
        }
        let _ = back.refund().await;
    }
}
