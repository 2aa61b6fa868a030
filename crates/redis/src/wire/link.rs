//! A connection in use, and the tasks that end with their owners.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use super::node::Node;
use super::pipe::{Drive, Pipe};
use super::refusal::Refusal;

/// A connection that calls can be sent on. Clones share it.
///
/// The work behind it ends with the last clone, so that a server that never answers does not keep
/// it for ever.
#[derive(Clone, Debug)]
pub(super) struct Link(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pipe: Pipe,
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
    pub(super) fn start(lane: &Arc<Node>, pipe: Pipe, drive: Drive) -> Link {
        let id = lane.next_id();
        let has_ended = Arc::new(AtomicBool::new(false));
        let work = watch(Arc::downgrade(lane), id, drive, Arc::clone(&has_ended));
        Link(Arc::new(Inner { pipe, id, has_ended, _task: Task::start(work) }))
    }

    pub(super) fn pipe(&self) -> &Pipe {
        &self.0.pipe
    }

    pub(super) fn id(&self) -> u64 {
        self.0.id
    }

    pub(super) fn has_ended(&self) -> bool {
        self.0.has_ended.load(Ordering::Acquire)
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

async fn watch(lane: Weak<Node>, id: u64, drive: Drive, has_ended: Arc<AtomicBool>) {
    drive.await;
    // First this, then that: a lane that takes the link into use in between looks here.
    has_ended.store(true, Ordering::Release);
    if let Some(lane) = lane.upgrade() {
        lane.lose_id(id, Refusal::NotConnected("the connection was closed".into()));
    }
}
