//! What one limit has charged in Redis since its request was decided, and what Redis says of it.
//!
//! Settlements may overlap, and one that nobody waits for goes on by itself. So each only says what
//! is to be charged in the end; then, one at a time, they bring what is charged to what was said
//! last.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::Kind;
use tidegate_store::{By, Clock, Later, Left, Standing, TextKey, all};

use super::{Fleet, FleetDecided, FleetReceipts, SharedCharge, SharedRule};

/// What a limit has charged, and where.
pub(super) struct Settlement {
    fleet: Fleet,
    rule: SharedRule,
    key: TextKey,
    /// By what its request was decided.
    by: By,
    clock: Arc<dyn Clock>,
    /// Locked for as long as one of them asks Redis.
    receipts: tokio::sync::Mutex<Vec<Placed>>,
    stands: Mutex<Stands>,
}

/// Where a limit is in Redis.
#[derive(Clone)]
pub(super) struct Account {
    pub(super) fleet: Fleet,
    pub(super) rule: SharedRule,
    pub(super) key: TextKey,
}

/// What was charged when its request was decided.
pub(super) struct Opening {
    pub(super) cells: u32,
    pub(super) by: By,
    pub(super) clock: Arc<dyn Clock>,
}

/// Receipts, and the limit's place among those that were asked together.
pub(super) struct Placed {
    pub(super) receipts: FleetReceipts,
    pub(super) place: usize,
}

#[derive(Clone, Copy)]
struct Stands {
    /// What is to be charged; once it is settled, what is.
    wanted: u32,
    charged: u32,
    left: Option<Left>,
}

impl Settlement {
    pub(super) fn new(account: Account, charged: Placed, opening: Opening) -> Settlement {
        let Account { fleet, rule, key } = account;
        let Opening { cells, by, clock } = opening;
        let receipts = tokio::sync::Mutex::new(vec![charged]);
        let stands = Mutex::new(Stands { wanted: cells, charged: cells, left: None });
        Settlement { fleet, rule, key, by, clock, receipts, stands }
    }

    /// How many cells are charged, or will be as far as anybody knows, and what is left since.
    pub(super) fn standing(&self) -> Standing {
        let Stands { wanted: cells, left, .. } = *self.stands();
        Standing { cells, left }
    }

    /// Brings what is charged to `cells`, as far as there is room.
    pub(super) fn settle(
        self: Arc<Settlement>,
        cells: u32,
    ) -> impl Future<Output = Standing> + Send + 'static {
        self.stands().wanted = cells;
        async move {
            let settlement = Arc::downgrade(&self);
            self.bring().await;
            // If nobody has the settlement any more, nobody asks.
            settlement.upgrade().map_or(Standing { cells, left: None }, |it| it.standing())
        }
    }

    /// Charges nothing else, and asks what is left.
    async fn look(self: Arc<Settlement>) {
        let cells = self.standing().cells;
        self.settle(cells).await;
    }

    async fn bring(self: Arc<Settlement>) {
        let mut receipts = self.receipts.lock().await;
        let Stands { wanted, charged, .. } = *self.stands();
        let charged = if charged < wanted {
            charged + self.debit(wanted - charged, &mut receipts).await
        } else {
            give_back(charged - wanted, &mut receipts).await;
            wanted
        };
        // Neither says what is left then. If nobody has the settlement any more, nobody asks.
        let is_asked = 1 < Arc::strong_count(&self);
        let charge = SharedCharge { rule: &self.rule, key: &self.key, cost: 0 };
        let left = if is_asked { self.heard(&self.fleet.peek(&[charge]).await) } else { None };
        self.stands().settle(wanted, charged, left);
    }

    /// Charges `cells` more in full: it has happened already. How many are charged.
    async fn debit(&self, cells: u32, receipts: &mut Vec<Placed>) -> u32 {
        let charge = SharedCharge { rule: &self.rule, key: &self.key, cost: cells };
        match self.fleet.debit(charge).await {
            Ok(debited) => {
                receipts.push(Placed { receipts: debited.receipts, place: 0 });
                cells
            }
            Err(_) => 0,
        }
    }

    /// What is left by an answer. A node's share is not to be mixed with what Redis has said.
    fn heard(&self, decided: &FleetDecided) -> Option<Left> {
        let is_comparable = !decided.by.is_fallback() || decided.by == self.by;
        let decision = decided.each.first().copied().filter(|_| is_comparable)?;
        Some(Left { decision, at: self.clock.now() })
    }

    fn stands(&self) -> MutexGuard<'_, Stands> {
        self.stands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stands {
    fn settle(&mut self, wanted: u32, charged: u32, left: Option<Left>) {
        // Otherwise something else is wanted meanwhile, and somebody is about to see to it.
        if self.wanted == wanted {
            self.wanted = charged;
        }
        (self.charged, self.left) = (charged, left.or(self.left));
    }
}

/// Gives back what a request was charged that gives up before its start, but for permits; see
/// [`FleetReceipts::give_up`].
pub(super) async fn give_up(settlements: Vec<Arc<Settlement>>) {
    let is_queue =
        |settlement: &Arc<Settlement>| settlement.rule.policy().kind() == Kind::LeakyQueue;
    let (queues, others): (Vec<_>, Vec<_>) = settlements.into_iter().partition(is_queue);
    let mut slots = FleetReceipts::default();
    for queue in &queues {
        for charged in queue.receipts.lock().await.drain(..) {
            slots.append(charged.receipts);
        }
    }
    let is_back = matches!(slots.give_up().await, Ok(true));
    let settle = |settlement: Arc<Settlement>| {
        Later::pending(async move {
            if is_back {
                settlement.settle(0).await;
            } else {
                settlement.look().await;
            }
        })
    };
    drop(all(queues.into_iter().chain(others).map(settle).collect()).await);
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
