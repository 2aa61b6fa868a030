//! Whether anything is asked on a connection: who stops waits for that, and not for silent peers;
//! and who needs room takes that of a connection on which nothing is asked.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::service::{Service, service_fn};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::limits;

/// How many requests of a connection are being answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Busy(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// Requests, each as [`REQUEST`], and [`LEAVES`].
    requests: AtomicUsize,
    /// Whether a request has ended since somebody looked.
    was_used: AtomicBool,
    leaves: Notify,
}

/// In a state: the connection is about to end, and takes no more requests.
const LEAVES: usize = 1;

/// In a state: one request.
const REQUEST: usize = 2;

/// A request that is being answered, until it is dropped.
#[derive(Debug)]
pub(crate) struct Answering(Arc<State>);

impl Busy {
    /// A service that counts what it is asked until that is answered.
    pub(crate) fn counting<F, B>(
        &self,
        respond: impl Fn(Request<Incoming>) -> F + 'static,
    ) -> impl Service<
        Request<Incoming>,
        Response = Response<B>,
        Error = Infallible,
        Future: Send + 'static,
    > + 'static
    where
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body + 'static,
    {
        let busy = self.clone();
        service_fn(move |request| {
            let begun = busy.begin().map(|answering| (answering, respond(request)));
            async move {
                // The connection ends before it would look for an answer.
                let Some((answering, response)) = begun else {
                    return std::future::pending().await;
                };
                let response = response.await;
                drop(answering);
                Ok(response)
            }
        })
    }

    /// There is a request more; nothing, if the connection makes room for another: then nothing may
    /// be done about the request.
    pub(crate) fn begin(&self) -> Option<Answering> {
        let before = self.0.requests.fetch_add(REQUEST, Ordering::Relaxed);
        let answering = Answering(Arc::clone(&self.0));
        (before & LEAVES == 0).then_some(answering)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.0.requests.load(Ordering::Relaxed) < REQUEST
    }

    /// Has the connection end, unless a request is being answered; whether it will.
    pub(super) fn leave(&self) -> bool {
        let leaves =
            self.0.requests.compare_exchange(0, LEAVES, Ordering::Relaxed, Ordering::Relaxed);
        if leaves.is_ok() {
            self.0.leaves.notify_one();
        }
        leaves.is_ok()
    }

    /// Waits until the connection has to make room.
    pub(super) async fn left(&self) {
        self.0.leaves.notified().await;
    }

    /// Whether a request has ended since this was asked last.
    pub(super) fn was_used(&self) -> bool {
        self.0.was_used.swap(false, Ordering::Relaxed)
    }

    /// Lets a connection that was asked to end do so: all that was asked is answered, but nobody
    /// waits for long for a peer that neither asks nor goes.
    pub(crate) async fn finish<C: Future>(&self, mut connection: Pin<&mut C>) {
        let mut was_idle = false;
        loop {
            // Twice, so that an answer that is ready is also sent.
            let ended = timeout(limits::FAREWELL_TIME / 2, connection.as_mut()).await;
            let is_idle = self.is_idle();
            if ended.is_ok() || (was_idle && is_idle) {
                return;
            }
            was_idle = is_idle;
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.was_used.store(true, Ordering::Relaxed);
        self.0.requests.fetch_sub(REQUEST, Ordering::Relaxed);
    }
}
