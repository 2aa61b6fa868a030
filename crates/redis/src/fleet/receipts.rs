//! What was charged, and where it is given back.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::{Kind, Receipt, Shape, Tick};
use tidegate_store::{Key, Rule};

use super::judge::Part;
use super::returns::Return;
use super::{Fleet, SharedCharge};
use crate::failure::StoreError;
use crate::wire::ServerRun;

/// The receipts of a request that has passed: one for each limit that was charged, in their order.
///
/// They own what they need, so they may outlive the caller. A limit is called by its place among
/// the charges of the request, counted from zero, also after others were taken out. A limit that
/// cost nothing, or that let pass without counting because Redis did not answer, has none.
///
/// Dropped, they give back permits; what was charged otherwise stands.
#[derive(Default)]
#[must_use = "dropping them gives back permits at once"]
pub struct FleetReceipts {
    /// Nothing only where nothing was charged.
    fleet: Option<Fleet>,
    entries: Entries,
}

pub(super) type Entries = SmallVec<[Entry; 1]>;

/// What was charged to one limit.
pub(super) struct Entry {
    pub(super) place: usize,
    pub(super) charged: Charged,
}

pub(super) enum Charged {
    Store(Return),
    Local {
        rule: Arc<Rule>,
        key: Key,
        receipt: Receipt,
        /// That charge as it is to be reported to Redis.
        owed: Option<(Arc<Rule>, Key, Receipt)>,
    },
}

impl FleetReceipts {
    pub(super) fn new(fleet: &Fleet, entries: Entries) -> FleetReceipts {
        let fleet = (!entries.is_empty()).then(|| fleet.clone());
        FleetReceipts { fleet, entries }
    }

    /// What Redis has charged, limit by limit.
    pub(super) fn of_store(
        fleet: &Fleet,
        parts: &[Part<'_>],
        run: ServerRun,
        receipts: impl Iterator<Item = Option<Receipt>>,
    ) -> FleetReceipts {
        let mut entries = Entries::new();
        for ((place, part), receipt) in parts.iter().enumerate().zip(receipts) {
            if let Some(receipt) = receipt.filter(|receipt| 0 < receipt.cost()) {
                let (rule, key) = (part.rule.clone(), *part.key);
                let charged = Charged::Store(Return { rule, key, receipt, run });
                entries.push(Entry { place, charged });
            }
        }
        FleetReceipts::new(fleet, entries)
    }

    /// Whether there is nothing to give back.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many limits there is something to give back of.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// How many cells there are to give back of one limit.
    pub fn cells(&self, place: usize) -> u32 {
        let entry = self.entries.iter().find(|entry| entry.place == place);
        entry.map_or(0, |entry| entry.charged.cells())
    }

    /// Takes the receipt of one limit out, to refund it by itself.
    pub fn take(&mut self, place: usize) -> FleetReceipts {
        self.take_cells(place, u32::MAX)
    }

    /// Takes the receipt of some cells of one limit out, or of as many as there are.
    pub fn take_cells(&mut self, place: usize, cells: u32) -> FleetReceipts {
        let Some(index) = self.entries.iter().position(|entry| entry.place == place) else {
            return FleetReceipts::default();
        };
        let mut taken = Entries::new();
        if self.entries[index].charged.cells() <= cells {
            taken.push(self.entries.remove(index));
        } else if 0 < cells {
            let charged = self.entries[index].charged.split(cells);
            taken.push(Entry { place, charged });
        }
        FleetReceipts { fleet: self.fleet.clone(), entries: taken }
    }

    /// Gives back everything, as if it had never been asked: never above full, never into another
    /// window, never to a server that was restarted since.
    ///
    /// Whatever comes of it, the receipts are used up. After an error that is
    /// [certain](StoreError::is_certain) it is kept, and sent when Redis answers again; what may
    /// have been given back is never given back again.
    pub async fn refund(mut self) -> Result<(), StoreError> {
        self.give_back(|_| true).await
    }

    /// Gives back what a request was charged that gives up before its start. Whether all of it.
    ///
    /// A slot of a queue that cannot come back, because others stand behind it, is paid for by
    /// every limit: then only permits are given back. It is the same where Redis does not say
    /// whether the slot came back: the error says why.
    pub async fn give_up(mut self) -> Result<bool, StoreError> {
        let (mut others, mut came_back) = (Entries::new(), Vec::new());
        let (mut local, mut far) = (Vec::new(), Vec::new());
        for entry in self.entries.drain(..) {
            match entry.charged {
                Charged::Store(back) if back.is_slot() => far.push(back),
                charged if charged.kind() == Kind::LeakyQueue => local.push(charged),
                charged => others.push(Entry { place: entry.place, charged }),
            }
        }
        // From here on they give back permits, whatever becomes of this.
        self.entries = others;
        let Some(fleet) = self.fleet.clone() else { return Ok(true) };
        let mut is_back = Ok(true);
        for back in far {
            let (rule, key, cost) = (back.rule.clone(), back.key, back.receipt.cost());
            is_back = fleet.give_back(back).await;
            if !matches!(is_back, Ok(true)) {
                break;
            }
            came_back.push((rule, key, cost));
        }
        if let Ok(true) = is_back {
            is_back = Ok(fleet.leave_here(local));
        }
        if let Ok(true) = is_back {
            return self.refund().await.map(|()| true);
        }
        // Another slot stays empty, and these pay for it, too.
        for (rule, key, cost) in came_back {
            let _ = fleet.debit(SharedCharge { rule: &rule, key: &key, cost }).await;
        }
        let released = self.release().await;
        is_back.and_then(|is_back| released.map(|()| is_back))
    }

    /// Adds what was charged by others of the same fleet, to be given back together. From then on
    /// no limit can be told by its place.
    pub fn append(&mut self, mut others: FleetReceipts) {
        self.entries.extend(others.entries.drain(..));
        self.fleet = self.fleet.take().or_else(|| others.fleet.take());
    }

    /// Gives back permits, and waits until that is done; the rest stands. Dropping does the same
    /// without waiting.
    pub async fn release(mut self) -> Result<(), StoreError> {
        self.give_back(|kind| kind == Kind::Concurrency).await
    }

    /// Renews all permits: each lapses one period from now. Whether all of them are still held.
    ///
    /// One that has lapsed is taken out: there is nothing to give back of it. After an error the
    /// others were renewed all the same. One for which Redis did not answer may have been renewed,
    /// too, without our knowing its new receipt: then it comes back when its lease ends, and to
    /// renew it again finds it lapsed.
    pub async fn renew(&mut self) -> Result<bool, StoreError> {
        let Some(fleet) = &self.fleet else { return Ok(true) };
        let mut is_held = Ok(true);
        let mut index = 0;
        while let Some(Entry { charged, .. }) = self.entries.get_mut(index) {
            match charged.renew(fleet).await {
                Ok(true) => index += 1,
                Ok(false) => {
                    self.entries.remove(index);
                    is_held = is_held.map(|_| false);
                }
                Err(error) => {
                    is_held = Err(error);
                    index += 1;
                }
            }
        }
        is_held
    }

    /// When the first of its permits lapses unless it is renewed; nothing if it has none. By the
    /// server's clock: see [`Fleet::server_now`].
    pub fn lapse_at(&self) -> Option<Tick> {
        let fleet = self.fleet.as_ref()?;
        self.entries.iter().filter_map(|entry| entry.charged.lapses_at(fleet)).min()
    }

    /// Lets everything stand: permits come back when their lease ends.
    pub fn keep(mut self) {
        self.entries.clear();
    }

    async fn give_back(&mut self, which: impl Fn(Kind) -> bool) -> Result<(), StoreError> {
        let Some(fleet) = &self.fleet else { return Ok(()) };
        let mut done = Ok(());
        // One by one: if this is given up half-way, dropping them does the rest.
        while let Some(Entry { charged, .. }) = self.entries.pop() {
            if !which(charged.kind()) {
                continue;
            }
            match charged {
                Charged::Store(back) => done = done.and(fleet.give_back(back).await.map(drop)),
                local @ Charged::Local { .. } => local.give_back_here(fleet),
            }
        }
        done
    }
}

impl Charged {
    fn kind(&self) -> Kind {
        match self {
            Charged::Store(charged) => charged.rule.policy().kind(),
            Charged::Local { rule, .. } => rule.policy().kind(),
        }
    }

    fn cells(&self) -> u32 {
        match self {
            Charged::Store(Return { receipt, .. }) | Charged::Local { receipt, .. } => {
                receipt.cost()
            }
        }
    }

    /// Renews it; whether it is still held, as everything is that is no permit.
    async fn renew(&mut self, fleet: &Fleet) -> Result<bool, StoreError> {
        if self.kind() != Kind::Concurrency {
            return Ok(true);
        }
        match self {
            Charged::Store(Return { rule, key, receipt, .. }) => {
                fleet.inner.store.renew(&rule.present().rule, key, receipt).await
            }
            Charged::Local { rule, key, receipt, .. } => {
                let old = Receipt::new(receipt.at(), receipt.cost());
                let renewed = fleet.inner.local.renew(rule, *key, fleet.now(), old);
                Ok(renewed.map(|renewed| *receipt = renewed).is_some())
            }
        }
    }

    fn lapses_at(&self, fleet: &Fleet) -> Option<Tick> {
        let (policy, at) = match self {
            Charged::Store(charged) => (charged.rule.policy(), charged.receipt.at()),
            // What was taken without Redis is counted by our own clock.
            Charged::Local { rule, receipt, .. } => {
                let ago = fleet.now().since(receipt.at()).get();
                let at = Tick::from_micros(fleet.server_now().get().saturating_sub(ago));
                (*rule.policy(), at)
            }
        };
        match policy.shape() {
            Shape::Log { per, .. } if policy.kind() == Kind::Concurrency => Some(at.after(per)),
            _ => None,
        }
    }

    /// Takes `cells` of it out; there are more.
    fn split(&mut self, cells: u32) -> Charged {
        match self {
            Charged::Store(Return { rule, key, receipt, run }) => Charged::Store(Return {
                rule: rule.clone(),
                key: *key,
                receipt: split_receipt(receipt, cells),
                run: *run,
            }),
            Charged::Local { rule, key, receipt, owed } => Charged::Local {
                rule: Arc::clone(rule),
                key: *key,
                receipt: split_receipt(receipt, cells),
                owed: owed
                    .as_mut()
                    .map(|(rule, key, it)| (Arc::clone(rule), *key, split_receipt(it, cells))),
            },
        }
    }

    /// Gives back what was charged in this process.
    fn give_back_here(self, fleet: &Fleet) {
        if let Charged::Local { rule, key, receipt, owed } = self {
            let (local, now) = (&fleet.inner.local, fleet.now());
            local.refund(&rule, key, now, receipt);
            if let Some((owed, key, receipt)) = owed {
                fleet.inner.owed.refund(&owed, key, now, receipt);
            }
        }
    }
}

impl Fleet {
    /// Gives back slots of this node's own queues. Whether they came back: all of them, or none.
    fn leave_here(&self, slots: Vec<Charged>) -> bool {
        let now = self.now();
        let (mut charged, mut owing) = (Vec::new(), Vec::new());
        for slot in slots {
            if let Charged::Local { rule, key, receipt, owed } = slot {
                charged.push((rule, key, receipt));
                owing.extend(owed);
            }
        }
        let is_back = self.inner.local.give_up(now, charged);
        for (rule, key, receipt) in owing.into_iter().filter(|_| is_back) {
            self.inner.owed.refund(&rule, key, now, receipt);
        }
        is_back
    }
}

/// Makes two receipts of one.
fn split_receipt(receipt: &mut Receipt, cells: u32) -> Receipt {
    let taken = cells.min(receipt.cost());
    let at = receipt.at();
    *receipt = Receipt::new(at, receipt.cost() - taken);
    Receipt::new(at, taken)
}

impl Drop for FleetReceipts {
    /// Gives permits back. One whose release is lost, because Redis may have had it and did not say
    /// so, comes back when its lease ends.
    fn drop(&mut self) {
        let Some(fleet) = self.fleet.take() else { return };
        let entries = std::mem::take(&mut self.entries).into_iter();
        let permits = entries.filter(|entry| entry.charged.kind() == Kind::Concurrency);
        let mut far = Vec::new();
        for Entry { charged, .. } in permits {
            match charged {
                Charged::Store(back) => far.push(back),
                local @ Charged::Local { .. } => local.give_back_here(&fleet),
            }
        }
        if !far.is_empty() {
            // Receipts may be dropped on a thread that is no runtime's.
            let runtime = fleet.runtime().clone();
            drop(runtime.spawn(async move {
                for back in far {
                    let _ = fleet.give_back(back).await;
                }
            }));
        }
    }
}

impl fmt::Debug for FleetReceipts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cells = |entry: &Entry| (entry.place, entry.charged.cells());
        f.debug_map().entries(self.entries.iter().map(cells)).finish()
    }
}
