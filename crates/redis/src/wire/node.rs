//! One server's place: its address, its connection while there is one, and how it has been.
//!
//! A caller takes a copy of the link and goes; nothing is locked while a call is under way.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::{Notify, watch};

use super::info::Info;
use super::link::{Link, Task};
use super::refusal::Refusal;
use super::run::Runs;
use crate::error::ConnectError;
use crate::settings::Address;
use tidegate_store::NodeHealth;

/// One server's place.
#[derive(Debug)]
pub(super) struct Node {
    link: watch::Sender<Option<Link>>,
    record: Mutex<Record>,
    /// Whether it holds slots, or is the only one.
    is_wanted: AtomicBool,
    /// Told whenever the keeper may have something to do.
    pub(super) work: Arc<Notify>,
    /// Told when a connection is lost: the map may be out of date.
    alarm: Option<Arc<Notify>>,
    keeper: OnceLock<Task>,
    ids: AtomicU64,
    runs: Runs,
}

#[derive(Debug)]
struct Record {
    address: Address,
    info: Info,
    connects: u64,
    last_error: Option<Arc<str>>,
    /// What to tell those who wait in vain.
    refusal: Refusal,
    has_warned: bool,
    /// Whether the log says that no connection can be made, and why.
    complaint: Option<Arc<str>>,
}

impl Node {
    pub(super) fn new(address: Address, alarm: Option<Arc<Notify>>, runs: Runs) -> Node {
        let record = Record {
            address,
            info: Info::default(),
            connects: 0,
            last_error: None,
            refusal: Refusal::NotConnected("not connected yet".into()),
            has_warned: false,
            complaint: None,
        };
        Node {
            link: watch::Sender::new(None),
            record: Mutex::new(record),
            is_wanted: AtomicBool::new(true),
            work: Arc::new(Notify::new()),
            alarm,
            keeper: OnceLock::new(),
            ids: AtomicU64::new(0),
            runs,
        }
    }

    /// The connection, if there is one.
    pub(super) fn link(&self) -> Option<Link> {
        self.link.borrow().clone()
    }

    /// Waits for a connection, and asks for one.
    pub(super) async fn wait(&self) {
        let mut link = self.link.subscribe();
        self.work.notify_one();
        // The sender is ours, so it cannot be gone.
        let _ = link.wait_for(Option::is_some).await;
    }

    pub(super) fn address(&self) -> Address {
        self.record().address.clone()
    }

    /// Gives the lane to another server.
    pub(super) fn move_to(&self, address: Address) {
        let mut record = self.record();
        if record.address != address {
            record.address = address;
            record.info = Info::default();
            drop(record);
            self.give_up("the server has moved");
        }
    }

    /// Says whether there are calls for this server; without, a lost connection is not replaced.
    pub(super) fn want(&self, is_wanted: bool) {
        if self.is_wanted.swap(is_wanted, Ordering::Relaxed) != is_wanted {
            self.work.notify_one();
        }
    }

    pub(super) fn needs_link(&self) -> bool {
        !self.is_idle() && self.link.borrow().is_none()
    }

    /// Nobody has calls for this server, and nobody waits for it.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_wanted.load(Ordering::Relaxed) && self.link.receiver_count() == 0
    }

    /// What to tell those who wait in vain.
    pub(super) fn refusal(&self) -> Refusal {
        self.record().refusal.clone()
    }

    /// Takes a new connection into use.
    pub(super) fn arrive(&self, address: Address, link: &Link, info: Info) {
        let mut record = self.record();
        record.connects += 1;
        if let Some(warning) = &info.eviction
            && !std::mem::replace(&mut record.has_warned, true)
        {
            tracing::warn!(server = %address, "{warning}");
        }
        record.address = address;
        let is_another = info.run_id.is_empty() || info.run_id != record.info.run_id;
        record.info = info;
        if record.complaint.take().is_some() {
            tracing::info!(server = %record.address, "connected");
        }
        drop(record);
        self.link.send_modify(|present| {
            // Nobody has this link before, nor the old one after.
            if is_another {
                self.runs.begin();
            }
            *present = Some(link.clone());
        });
        // It may have ended before it was here to be lost.
        if link.has_ended() {
            self.lose(link, Refusal::NotConnected("connection closed".into()));
        }
    }

    /// The connection of that link is of no more use.
    pub(super) fn lose(&self, link: &Link, refusal: Refusal) {
        self.lose_id(link.id(), refusal);
    }

    /// The present connection is of no more use, whichever it is.
    pub(super) fn give_up(&self, why: &str) {
        let id = self.link.borrow().as_ref().map(Link::id);
        if let Some(id) = id {
            self.lose_id(id, Refusal::NotConnected(why.into()));
        }
        self.work.notify_one();
    }

    /// A try to connect has failed.
    pub(super) fn fail(&self, error: &ConnectError) {
        let refusal = match error {
            ConnectError::Loading { .. } => Refusal::Loading,
            ConnectError::OnlyReplica { .. } => Refusal::ReadOnly,
            other => Refusal::NotConnected(other.to_string().into()),
        };
        let text = error.to_string();
        self.note(refusal, &text);
        let mut record = self.record();
        // Once for each reason, however often it is tried.
        if record.complaint.as_deref() != Some(&*text) {
            record.complaint = Some(text.into());
            tracing::warn!(server = %record.address, %error, "cannot connect, and goes on trying");
        }
    }

    pub(super) fn set_keeper(&self, keeper: Task) {
        // A lane is given its keeper once, by the code that made the lane.
        let _ = self.keeper.set(keeper);
    }

    pub(super) fn health(&self) -> NodeHealth {
        let connected = self.link.borrow().is_some();
        let record = self.record();
        let mut health = NodeHealth::default();
        health.address = record.address.to_string();
        health.connected = connected;
        health.server.clone_from(&record.info.server);
        health.role.clone_from(&record.info.role);
        health.eviction_warning.clone_from(&record.info.eviction);
        health.seen = 0 < record.connects;
        health.reconnects = record.connects.saturating_sub(1);
        health.last_error = record.last_error.as_deref().map(str::to_owned);
        health
    }

    /// A number that no connection of this lane has had.
    pub(super) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn lose_id(&self, id: u64, refusal: Refusal) {
        let is_current = self.link.send_if_modified(|link| {
            let is_current = link.as_ref().is_some_and(|link| link.id() == id);
            if is_current {
                *link = None;
            }
            is_current
        });
        if is_current {
            let text = refusal.to_string();
            tracing::warn!(server = %self.address(), "connection given up: {text}");
            self.note(refusal, &text);
            self.work.notify_one();
            if let Some(alarm) = &self.alarm {
                alarm.notify_one();
            }
        }
    }

    fn note(&self, refusal: Refusal, text: &str) {
        let mut record = self.record();
        record.refusal = refusal;
        record.last_error = Some(text.into());
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        // Nothing that is done under this lock can leave it half done.
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
