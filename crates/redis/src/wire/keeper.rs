//! Keeps a lane connected: one background task for each, which ends with the lane.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_store::{Clock, SystemClock};
use tokio::time::{sleep, timeout};

use super::backoff::{Backoff, up_to};
use super::dial::{Dialer, Peer, within};
use super::info::{Info, Wanted};
use super::link::{Link, Task};
use super::node::Node;
use super::sentinel::Sentinels;
use crate::error::ConnectError;
use crate::settings::Address;

/// What a keeper needs to find and open a connection.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) dialer: Dialer,
    pub(super) wanted: Wanted,
    pub(super) sentinels: Option<Sentinels>,
}

impl Way {
    /// One try to connect the lane: find the server, open, ask what it is, take it into use.
    pub(super) async fn connect(&self, lane: &Arc<Node>) -> Result<(), ConnectError> {
        let address = match &self.sentinels {
            Some(sentinels) => sentinels.primary(&self.dialer).await?,
            None => lane.address(),
        };
        self.connect_to(lane, address).await
    }

    async fn connect_to(&self, lane: &Arc<Node>, address: Address) -> Result<(), ConnectError> {
        let (link, info) =
            within(self.dialer.timeout(), &address, self.reach(lane, &address)).await?;
        lane.arrive(address, &link, info);
        Ok(())
    }

    async fn reach(
        &self,
        lane: &Arc<Node>,
        address: &Address,
    ) -> Result<(Link, Info), ConnectError> {
        let (pipe, drive) = self.dialer.open(address, Peer::Server).await?;
        let link = Link::start(lane, pipe, drive);
        let info = Info::ask(link.pipe(), address).await?;
        info.check(self.wanted, address)?;
        Ok((link, info))
    }

    /// Moves to another primary if the sentinels know one. A primary that stands still does not
    /// close its connections, so nothing else would tell.
    async fn follow(&self, lane: &Arc<Node>) {
        let Some(sentinels) = &self.sentinels else { return };
        let Ok(address) = sentinels.primary(&self.dialer).await else { return };
        if address != lane.address() {
            // A sentinel that lags behind names a server that is no primary any more: that fails,
            // and the connection that we have stays.
            if let Err(error) = self.connect_to(lane, address).await {
                tracing::debug!("cannot move to the new primary yet: {error}");
            }
        }
    }
}

/// Keeps `lane` connected from now on.
pub(super) fn keep(lane: &Arc<Node>, way: &Arc<Way>) {
    let work = keep_on(Arc::downgrade(lane), Arc::clone(way));
    lane.set_keeper(Task::start(work));
}

/// How often the sentinels are asked, at most.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);

async fn keep_on(lane: Weak<Node>, way: Arc<Way>) {
    let clock = SystemClock::new();
    let mut backoff = Backoff::default();
    backoff.connected(clock.now());
    while let Some(strong) = lane.upgrade() {
        if !strong.needs_link() {
            let work = Arc::clone(&strong.work);
            drop(strong);
            rest(&work, way.sentinels.is_some()).await;
            if let Some(strong) = lane.upgrade().filter(|lane| !lane.needs_link()) {
                way.follow(&strong).await;
            }
            continue;
        }
        drop(strong);
        sleep(backoff.next(clock.now())).await;
        let Some(strong) = lane.upgrade() else { return };
        match way.connect(&strong).await {
            Ok(()) => backoff.connected(clock.now()),
            Err(error) => strong.fail(&error),
        }
    }
}

/// Until there may be something to do.
async fn rest(work: &tokio::sync::Notify, has_sentinels: bool) {
    if has_sentinels {
        let wait = FOLLOW_EVERY * 3 / 4 + up_to(FOLLOW_EVERY / 4);
        let _ = timeout(wait, work.notified()).await;
    } else {
        work.notified().await;
    }
}
