//! Ours: the Redis store with one rule, as its documentation shows it.

use std::sync::Arc;

use ::tidegate::{Clock, Kind, Policy, Span};
use anyhow::Result;
use tidegate_redis::{FleetKey, FleetRule, RedisStore, Settings};

use super::plain::PATIENCE;
use super::time::Time;
use crate::setting::Quota;

/// One rule, kept by our store. Clones share the connection.
#[derive(Clone)]
pub(super) struct Ours {
    store: RedisStore,
    rule: FleetRule,
}

impl Ours {
    pub(super) async fn connect(url: &str, kind: Kind, quota: Quota, time: Time) -> Result<Self> {
        let mut builder = RedisStore::builder(Settings::from_url(url)?).deadline(PATIENCE);
        if let Time::Set(clock) = time {
            builder = builder.judged_by(clock as Arc<dyn Clock>);
        }
        let store = builder.connect().await?;
        let per = Span::from(quota.per);
        let quota = if kind.has_burst() {
            ::tidegate::Quota::new(1, per).burst(quota.burst)
        } else {
            ::tidegate::Quota::new(quota.burst, per)
        };
        let rule = store.rule("per-client", Policy::new(kind, quota)?);
        Ok(Self { store, rule })
    }

    /// Whether the request of that client passes.
    pub(super) async fn decide(&self, client: u32) -> Result<bool> {
        let key = FleetKey::new(("client", client))?;
        Ok(self.store.decide(&self.rule, &key, 1).await?.verdict.passes())
    }
}
