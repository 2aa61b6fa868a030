//! Envoy's rate limit service: by our policy file, or by envoyproxy/ratelimit's own files.
//!
//! Both ways end in the same response: a status for each descriptor in order, the fields for the
//! client, and metadata if it is wanted. What cannot be decided is an error, never an `OK`.

mod answer;
mod checked;
mod described;
mod envoy;
mod fields;
mod grpc;
mod json;
mod metadata;
mod overrides;
mod policy;
pub mod proto;
mod serve;
#[doc(hidden)]
pub mod trial;

use std::sync::{Arc, Once};

use http::StatusCode;
use tidegate_core::WithoutStore;
use tidegate_gate::{Gate, Headers};
use tonic::Status;
use tracing::warn;

pub use self::envoy::{EnvoyConfig, EnvoyConfigError};
pub(crate) use self::json::too_long as json_too_long;
pub(crate) use self::serve::RlsDoor;

use self::overrides::Overrides;
use self::proto::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use crate::trace::Notes;

/// Decides as Envoy asks. Clones are the same.
#[derive(Clone, Debug)]
pub struct RateLimits(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    gate: Gate,
    envoy: Option<EnvoyConfig>,
    overrides: Overrides,
    settings: RlsSettings,
    /// So that too much in a request is logged once, and not for each.
    complained: Once,
}

/// What responses carry beside the decision.
#[derive(Clone, Copy, Debug)]
pub struct RlsSettings {
    /// The fields that clients see, where limits are from envoyproxy/ratelimit's files; our policy
    /// file says it itself.
    pub fields: Headers,
    /// Whether responses carry dynamic metadata: the descriptors, and what their limits say.
    pub dynamic_metadata: bool,
    /// What such limits do while Redis does not answer. Nothing: the caller gets an error, and
    /// Envoy does what its filter says about errors.
    pub without_store: Option<WithoutStore>,
}

impl Default for RlsSettings {
    fn default() -> RlsSettings {
        RlsSettings { fields: Headers::Draft, dynamic_metadata: false, without_store: None }
    }
}

impl RateLimits {
    /// Decides by the gate's policy, or by `envoy`, if there is such a configuration.
    ///
    /// It fails where the store has no room for the limits that requests bring along.
    pub fn new(
        gate: Gate,
        envoy: Option<EnvoyConfig>,
        settings: RlsSettings,
    ) -> Result<RateLimits, EnvoyConfigError> {
        let without = settings.without_store.unwrap_or(WithoutStore::Closed);
        let overrides = Overrides::new(&gate, without).map_err(EnvoyConfigError::Store)?;
        let complained = Once::new();
        Ok(RateLimits(Arc::new(Inner { gate, envoy, overrides, settings, complained })))
    }

    /// Decides about a request.
    pub async fn decide(&self, request: &RateLimitRequest) -> Result<RateLimitResponse, Status> {
        self.decide_noting(request, &mut Notes::default()).await
    }

    async fn decide_noting(
        &self,
        request: &RateLimitRequest,
        notes: &mut Notes<'_>,
    ) -> Result<RateLimitResponse, Status> {
        checked::check(request)?;
        if let Some(config) = &self.0.envoy {
            return config.decide(self, request, notes).await;
        }
        if let Some(excess) = checked::excess(request) {
            self.0.complained.call_once(|| warn!("Envoy's requests are refused: {excess}"));
            return Ok(answer::refused(request.descriptors.len()));
        }
        self.by_policy(request, notes).await
    }

    /// Decides about a request in JSON: 200, 429, or 400 for what cannot be read.
    pub async fn json(&self, body: &[u8]) -> (StatusCode, Vec<u8>) {
        json::answer(self, body).await
    }
}
