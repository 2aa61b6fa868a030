//! What one limit charged for a request in Redis, until it is settled, renewed or given back.

use std::sync::Arc;

use tidegate_core::{Kind, Tick};
use tidegate_store::{By, Clock, OtherCharge, Standing, StoreFailure, TextKey};

use super::permits::Permits;
use super::settlement::{Account, Opening, Placed, Settlement};
use super::{Fleet, FleetReceipts, SharedCharge, SharedRule};

/// What a limit charged in Redis.
pub(super) struct FleetCharged {
    fleet: Fleet,
    rule: SharedRule,
    key: TextKey,
    /// How many cells its request cost, and by what it was decided.
    cells: u32,
    by: By,
    receipts: FleetReceipts,
    /// Its place among the limits that were asked together.
    place: usize,
    /// Where the receipts are once it was settled.
    settlement: Option<Arc<Settlement>>,
    /// Where permits are once they were renewed: then `receipts` is empty.
    permits: Option<Arc<Permits>>,
}

impl FleetCharged {
    pub(super) fn new(
        fleet: &Fleet,
        charge: &SharedCharge<'_>,
        (receipts, place): (FleetReceipts, usize),
        by: By,
    ) -> FleetCharged {
        let (fleet, rule, key) = (fleet.clone(), charge.rule.clone(), *charge.key);
        let (cells, settlement, permits) = (charge.cost, None, None);
        FleetCharged { fleet, rule, key, cells, by, receipts, place, settlement, permits }
    }

    /// Whether it is a permit, which comes back.
    pub(super) fn lends(&self) -> bool {
        self.rule.policy().kind() == Kind::Concurrency
    }

    /// Brings what was charged to `cells`, as far as there is room.
    pub(super) fn settle(
        &mut self,
        cells: u32,
        clock: &Arc<dyn Clock>,
    ) -> impl Future<Output = Standing> + Send + 'static {
        // Renewed permits are no longer where a settlement would look for them.
        let releasing = if self.permits.is_some() { self.release() } else { None };
        // What is wanted is known from now on, whenever it is done.
        let settling = releasing.is_none().then(|| self.open(clock).settle(cells));
        async move {
            if let Some(releasing) = releasing {
                releasing.await;
            }
            match settling {
                Some(settling) => settling.await,
                None => Standing { cells: 0, left: None },
            }
        }
    }

    /// The settlement of what was charged; it is opened if there is none.
    pub(super) fn open(&mut self, clock: &Arc<dyn Clock>) -> Arc<Settlement> {
        let settlement = self.settlement.get_or_insert_with(|| {
            let (fleet, rule, key) = (self.fleet.clone(), self.rule.clone(), self.key);
            let receipts = std::mem::take(&mut self.receipts);
            let charged = Placed { receipts, place: self.place };
            let opening = Opening { cells: self.cells, by: self.by, clock: Arc::clone(clock) };
            Arc::new(Settlement::new(Account { fleet, rule, key }, charged, opening))
        });
        Arc::clone(settlement)
    }

    /// Renews permits, if there are any; whether they are still held.
    pub(super) fn renew(
        &mut self,
    ) -> Option<impl Future<Output = Result<bool, StoreFailure>> + Send + 'static> {
        if self.permits.is_none() && self.receipts.is_empty() {
            return None;
        }
        let receipts = std::mem::take(&mut self.receipts);
        let permits = self.permits.get_or_insert_with(|| Arc::new(Permits::new(receipts)));
        Some(Permits::renew(Arc::clone(permits)))
    }

    /// When the first permit lapses, by `clock`, whatever the server's says; nothing if none is
    /// held.
    pub(super) fn permits_lapse_at(&self, clock: &dyn Clock) -> Option<Tick> {
        let left = self.lapse_there()?.since(self.fleet.server_now());
        Some(clock.now().after(left))
    }

    /// When the first permit lapses, by the server's clock.
    fn lapse_there(&self) -> Option<Tick> {
        self.permits.as_ref().map_or_else(|| self.receipts.lapse_at(), |it| it.lapse_at())
    }

    /// Gives back permits, if there are any.
    pub(super) fn release(&mut self) -> Option<impl Future<Output = ()> + Send + use<>> {
        self.lapse_there()?;
        // To renew them afterwards finds none.
        let renewed = self.permits.replace(Arc::default());
        let receipts = std::mem::take(&mut self.receipts);
        Some(async move {
            let _ = receipts.release().await;
            if let Some(permits) = renewed {
                permits.release().await;
            }
        })
    }
}

impl OtherCharge for FleetCharged {
    fn standing(&self) -> Option<Standing> {
        self.settlement.as_ref().map(|settlement| settlement.standing())
    }

    fn stand(&mut self) {
        std::mem::take(&mut self.receipts).keep();
    }
}

impl std::fmt::Debug for FleetCharged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("FleetCharged");
        debug.field("rule", &self.rule).field("key", &self.key).finish_non_exhaustive()
    }
}
