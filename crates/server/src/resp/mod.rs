//! The Redis protocol: `CL.THROTTLE`, `THROTTLE` and checks by the policy, for any Redis client.
//!
//! All complete commands of one read are decided together and answered with one write.

mod batch;
mod check;
mod command;
mod connection;
mod frame;
mod inline;
mod refused;
mod reply;
mod session;
mod table;
mod tell;
mod throttle;
mod turn;
mod waiting;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tidegate_core::WithoutStore;

pub use self::frame::{Arguments, Excess, Found, Frame, Frames, Misframed};
use self::session::Session;
use crate::auth::Visitor;
use crate::desk::{Desk, Newcomers, Turns};
use crate::listen::{Busy, Door, Stream};
use crate::metrics::DoorName;
use crate::stop::Stop;
use crate::tls::Offer;

/// What limits that a command names do while Redis does not answer: as rules that do not say.
const WITHOUT_STORE: WithoutStore = WithoutStore::Local { nodes: 1 };

/// The Redis protocol's door.
#[derive(Clone)]
pub(crate) struct RespDoor {
    desk: Arc<Desk>,
    /// Connections are numbered, from 1.
    ids: Arc<AtomicU64>,
}

impl RespDoor {
    pub(crate) fn new(desk: Arc<Desk>) -> RespDoor {
        RespDoor { desk, ids: Arc::new(AtomicU64::new(1)) }
    }
}

impl Door for RespDoor {
    const OFFER: Offer = Offer::Nothing;

    async fn serve<S: Stream>(&self, stream: S, visitor: Visitor, stop: Stop, busy: &Busy) {
        let session = Session::new(self, visitor);
        let closed = connection::serve(stream, session, &self.desk, stop, busy).await;
        tracing::debug!(client = %visitor.peer, ?closed, "a connection has ended");
    }

    fn connections(&self, change: i64) {
        self.desk.metrics.connections(DoorName::Resp, change);
    }

    fn lines(&self) -> (&Newcomers, &Turns) {
        (&self.desk.newcomers, &self.desk.turns)
    }
}

impl fmt::Debug for RespDoor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RespDoor").finish_non_exhaustive()
    }
}
