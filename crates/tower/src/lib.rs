//! Rate limits for axum, tonic, hyper, and any other tower service that answers HTTP.
//!
//! A [`Gate`] decides by a policy file; [`TidegateLayer`] puts it in front of a service. Every
//! response tells the client what is left, a refusal says when to come back, and a request that is
//! to be smoothed out is held back without a task or a timer of its own.
//!
//! ```no_run
//! # #[cfg(feature = "axum")]
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! use std::net::SocketAddr;
//!
//! use axum::{Router, routing::get};
//! use tidegate_tower::{Gate, TidegateLayer};
//!
//! let gate = Gate::from_file("policy.yaml")?;
//! let app = Router::new().route("/", get(|| async { "hello" }));
//! let app = app.layer(TidegateLayer::new(gate).for_axum());
//! let app = app.into_make_service_with_connect_info::<SocketAddr>();
//! axum::serve(tokio::net::TcpListener::bind("127.0.0.1:8080").await?, app).await?;
//! # Ok(())
//! # }
//! ```
//!
//! `for_axum` (feature `axum`) leaves axum its own bodies; for everything else,
//! `TidegateLayer::new(gate)` is all.
//!
//! With Redis or Valkey, all nodes of a fleet share their limits (feature `redis`):
//!
//! ```ignore
//! let store = RedisStore::builder("redis://127.0.0.1:6379".parse()?).connect().await?;
//! let gate = Gate::builder().file("policy.yaml").fleet(Fleet::new(store)).open()?;
//! ```
//!
//! The example `fleet` is a whole program.
//!
//! Clones of a layer, and of every service that it makes, decide by the same gate: it does not
//! matter how often a framework clones them.
//!
//! # What a request is known by
//!
//! Its method, path, host, query, headers and cookies speak for themselves. What does not:
//!
//! - The address at the other end of the connection: from axum's `ConnectInfo<SocketAddr>` (feature
//!   `axum`), tonic's `TcpConnectInfo` (feature `tonic`), or [`Peer`], put into the request's
//!   extensions by the code that accepts connections. Where the policy enforces anything by `ip`
//!   and there is none, the response is a 500 that says so: to count all as one would be worse.
//! - What the application itself knows, such as who logged in: [`Attributes`], put there by a
//!   middleware in front of this one.
//! - How long its caller waits for an answer: `grpc-timeout`, or [`Deadline`]. A request that would
//!   have to be held back for longer is refused at once.
//!
//! # What a handler can do
//!
//! [`Limits`] is in the extensions of each request that passes; with axum it is an argument of the
//! handler. It tells what is left, and changes what the request costs.
//!
//! # Put it on once
//!
//! Two layers one in the other both charge, and the outer one's fields win, except where the inner
//! one refuses: it tells why, and an adaptive share around it learns nothing from that. Several
//! limits belong into one policy: then a request passes all of them or is charged to none.

#![forbid(unsafe_code)]

mod attributes;
#[cfg(feature = "axum")]
mod axum;
mod body;
mod deadline;
mod fields;
mod future;
mod grpc;
mod layer;
mod length;
mod limits;
mod no_address;
mod refusal;
mod seen;
mod service;

pub use tidegate_core::{Decision, Span, Verdict};
pub use tidegate_gate::{Admission, By, Gate, GateBuilder, OpenError, Reason};

pub use crate::attributes::{Attributes, Peer};
#[cfg(feature = "axum")]
pub use crate::axum::{Axum, NoLimits};
pub use crate::body::{Bodies, LimitedBody, Wrapped};
pub use crate::deadline::Deadline;
pub use crate::future::ResponseFuture;
pub use crate::layer::TidegateLayer;
pub use crate::length::Lengths;
pub use crate::limits::{Limits, Standing};
pub use crate::refusal::Refusal;
pub use crate::service::TidegateService;
