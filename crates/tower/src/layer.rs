//! The layer: a gate, and what refusals look like.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_gate::Gate;
use tower_layer::Layer;

use crate::body::Wrapped;
use crate::refusal::Refusal;
use crate::service::TidegateService;

/// Puts a gate in front of a service.
///
/// ```
/// use bytes::Bytes;
/// use tidegate_tower::{Gate, TidegateLayer};
///
/// let gate = Gate::from_text("rules: [{ name: per-client, key: ip, limit: 100/min }]")?;
/// let layer = TidegateLayer::new(gate).on_refusal(|refusal| {
///     let mut response = http::Response::new(Bytes::from_static(b"slow down"));
///     *response.status_mut() = refusal.status();
///     response
/// });
/// # let _ = layer;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TidegateLayer<P = Wrapped> {
    shared: Arc<Shared>,
    bodies: PhantomData<fn() -> P>,
}

/// What all clones of a layer and its services have together. Away from the count of those, which
/// is written to with every request.
#[repr(align(64))]
pub(crate) struct Shared {
    pub(crate) gate: Gate,
    pub(crate) on_refusal: Option<OnRefusal>,
}

type OnRefusal = Arc<dyn Fn(&Refusal<'_>) -> http::Response<Bytes> + Send + Sync>;

impl TidegateLayer {
    /// A layer that asks `gate` about every request.
    pub fn new(gate: Gate) -> TidegateLayer {
        TidegateLayer::sharing(Shared { gate, on_refusal: None })
    }

    /// The layer for axum: the bodies of responses are axum's own, which costs less, and a router
    /// that this layer was put around can be served: see axum's `ServiceExt`.
    #[cfg(feature = "axum")]
    pub fn for_axum(self) -> TidegateLayer<crate::axum::Axum> {
        TidegateLayer { shared: self.shared, bodies: PhantomData }
    }
}

impl<P> TidegateLayer<P> {
    fn sharing(shared: Shared) -> TidegateLayer<P> {
        TidegateLayer { shared: Arc::new(shared), bodies: PhantomData }
    }

    /// Says what a refused client gets, instead of `application/problem+json`.
    ///
    /// The fields that tell of limits are added, unless the response has them. Calls of gRPC are
    /// refused in its own way whatever this says.
    #[must_use]
    pub fn on_refusal(
        self,
        respond: impl Fn(&Refusal<'_>) -> http::Response<Bytes> + Send + Sync + 'static,
    ) -> TidegateLayer<P> {
        let (gate, on_refusal) = (self.shared.gate.clone(), Some(Arc::new(respond) as OnRefusal));
        TidegateLayer::sharing(Shared { gate, on_refusal })
    }

    /// The gate that decides.
    pub fn gate(&self) -> &Gate {
        &self.shared.gate
    }
}

impl<S, P> Layer<S> for TidegateLayer<P> {
    type Service = TidegateService<S, P>;

    fn layer(&self, inner: S) -> TidegateService<S, P> {
        TidegateService::new(inner, Arc::clone(&self.shared))
    }
}

impl<P> Clone for TidegateLayer<P> {
    fn clone(&self) -> TidegateLayer<P> {
        TidegateLayer { shared: Arc::clone(&self.shared), bodies: PhantomData }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let replaced = self.on_refusal.is_some();
        f.debug_struct("Shared").field("gate", &self.gate).field("on_refusal", &replaced).finish()
    }
}
