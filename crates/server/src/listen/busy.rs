//! Whether anything is asked on a connection: who stops waits for that, and not for silent peers.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::service::{Service, service_fn};
use tokio::time::timeout;

use crate::limits;

/// How many requests of a connection are being answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Busy(Arc<AtomicUsize>);

/// A request that is being answered, until it is dropped.
#[derive(Debug)]
pub(super) struct Answering(Arc<AtomicUsize>);

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
            let (answering, response) = (busy.begin(), respond(request));
            async move {
                let response = response.await;
                drop(answering);
                Ok(response)
            }
        })
    }

    /// There is a request more.
    pub(super) fn begin(&self) -> Answering {
        self.0.fetch_add(1, Ordering::Relaxed);
        Answering(Arc::clone(&self.0))
    }

    fn is_idle(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Lets a connection that was told to end do so: all that was asked is answered, but for a peer
    /// that neither asks nor goes nobody waits for long.
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
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
