//! What all calls share: the lanes, and who holds which slot.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::{Notify, watch};

use super::keeper::{Way, keep};
use super::link::Link;
use super::node::Node;
use super::refusal::{Lost, Refusal};
use super::run::Runs;
use super::slots::Slots;
use crate::settings::Address;

/// More servers than this are not known at any one time.
pub(crate) const LANES_MAX: usize = 1024;

/// What all calls share.
#[derive(Debug)]
pub(super) struct Shared {
    /// Filled from the front and never emptied, so that a number stays good without a lock.
    lanes: Box<[OnceLock<Arc<Node>>]>,
    numbers: Mutex<HashMap<Address, usize>>,
    pub(super) slots: Option<Slots>,
    /// Counts the changes of the slot map.
    pub(super) changes: watch::Sender<u64>,
    /// Told when the slot map seems to be out of date.
    pub(super) stale: Arc<Notify>,
    pub(super) way: Arc<Way>,
    pub(super) runs: Runs,
}

impl Shared {
    pub(super) fn new(way: Way, slots: Option<Slots>) -> Shared {
        let lanes_max = if slots.is_some() { LANES_MAX } else { 1 };
        Shared {
            lanes: (0..lanes_max).map(|_| OnceLock::new()).collect(),
            numbers: Mutex::new(HashMap::new()),
            slots,
            changes: watch::Sender::new(0),
            stale: Arc::new(Notify::new()),
            way: Arc::new(way),
            runs: Runs::default(),
        }
    }

    pub(super) fn lane(&self, number: usize) -> &Arc<Node> {
        let lane = self.lanes.get(number).and_then(OnceLock::get);
        // Numbers are only handed out for lanes that are there.
        lane.expect("a lane's number comes from `lane_of`")
    }

    pub(super) fn lanes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.lanes.iter().map_while(OnceLock::get)
    }

    /// Puts the first lane into place, without a keeper: its first connection is being made.
    pub(super) fn first_lane(&self, address: Address) -> &Arc<Node> {
        self.lanes[0].get_or_init(|| Arc::new(Node::new(address, None, self.runs.clone())))
    }

    pub(super) fn lane_of(&self, slot: u16) -> usize {
        self.slots.as_ref().map_or(0, |slots| slots.lane_of(slot))
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The lane of a server, new if need be. `None` if there are too many.
    pub(super) fn lane_for(&self, address: &Address) -> Option<usize> {
        let slots = self.slots.as_ref()?;
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = numbers.get(address) {
            return Some(*number);
        }
        let free = self.lanes.iter().position(|lane| lane.get().is_none());
        let number = if let Some(free) = free {
            let alarm = Some(Arc::clone(&self.stale));
            let lane = Arc::new(Node::new(address.clone(), alarm, self.runs.clone()));
            keep(&lane, &self.way);
            self.lanes[free].get_or_init(|| lane);
            free
        } else {
            // All are taken: servers come and go, and one that holds no slot has gone.
            let gone = (0..self.lanes.len())
                .find(|number| self.lane(*number).is_idle() && !slots.holds_any(*number))?;
            numbers.retain(|_, number| *number != gone);
            self.lane(gone).move_to(address.clone());
            self.lane(gone).want(true);
            gone
        };
        numbers.insert(address.clone(), number);
        Some(number)
    }

    /// The lane of a server that another one named; without a host it is on that one's own.
    pub(super) fn neighbour(&self, lane: usize, mut address: Address) -> Option<usize> {
        if matches!(&*address.host, "" | "?") {
            address.host = self.lane(lane).address().host;
        }
        self.lane_for(&address)
    }

    /// A server says that another one owns the slot.
    pub(super) fn moved(&self, slot: u16, lane: usize, address: Address) -> Option<usize> {
        let owner = self.neighbour(lane, address)?;
        if self.slots.as_ref().is_some_and(|slots| slots.set(slot, owner)) {
            self.changes.send_modify(|count| *count += 1);
        }
        self.stale.notify_one();
        Some(owner)
    }

    /// The connection is gone.
    pub(super) fn lost(&self, lane: usize, link: &Link, lost: &Lost) {
        self.lane(lane).lose(link, Refusal::NotConnected(lost.to_string().into()));
    }

    /// The server that answered is no primary, or not yet.
    pub(super) fn elsewhere(&self, lane: usize, link: &Link, refusal: Refusal) {
        if self.slots.is_some() {
            // It is a good connection; only the map has to be looked at again.
            self.stale.notify_one();
        } else {
            self.lane(lane).lose(link, refusal);
        }
    }
}
