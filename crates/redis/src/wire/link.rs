//! A connection in use, and the tasks that end with their owners.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use redis::aio::MultiplexedConnection;

use super::dial::Driver;
use super::lane::Lane;
use super::refusal::Refusal;

/// A connection that calls can be sent on. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) connection: MultiplexedConnection,
    drive: Arc<Drive>,
}

/// The work behind a connection. It ends with the last clone of the link, so that a server that
/// never answers does not keep it for ever.
#[derive(Debug)]
struct Drive {
    /// Tells one connection of a lane from the next.
    id: u64,
    has_ended: Arc<AtomicBool>,
    _task: Task,
}

/// A background task that ends with its owner.
#[derive(Debug)]
pub(super) struct Task(tokio::task::JoinHandle<()>);

impl Link {
    /// Starts the work behind a new connection of `lane`, and tells the lane when it ends.
    pub(super) fn start(
        lane: &Arc<Lane>,
        connection: MultiplexedConnection,
        driver: Driver,
    ) -> Link {
        let id = lane.next_id();
        let has_ended = Arc::new(AtomicBool::new(false));
        let work = watch(Arc::downgrade(lane), id, driver, Arc::clone(&has_ended));
        Link { connection, drive: Arc::new(Drive { id, has_ended, _task: Task::start(work) }) }
    }

    pub(super) fn id(&self) -> u64 {
        self.drive.id
    }

    pub(super) fn has_ended(&self) -> bool {
        self.drive.has_ended.load(Ordering::Acquire)
    }
}

impl Task {
    pub(super) fn start(work: impl Future<Output = ()> + Send + 'static) -> Task {
        Task(tokio::spawn(work))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn watch(lane: Weak<Lane>, id: u64, driver: Driver, has_ended: Arc<AtomicBool>) {
    driver.await;
    // First this, then that: a lane that takes the link into use in between looks here.
    has_ended.store(true, Ordering::Release);
    if let Some(lane) = lane.upgrade() {
        lane.lose_id(id, Refusal::NotConnected("the connection was closed".into()));
    }
}
