//! One decision, three doors: HTTP, Envoy's rate limit service and the Redis protocol.

#![forbid(unsafe_code)]

mod answer;
mod ask;
mod auth;
mod body;
mod caller;
mod desk;
mod http;
mod legible;
mod limits;
mod listen;
mod metrics;
mod parts;
pub mod resp;
pub mod rls;
mod room;
mod secret;
mod server;
mod settings;
mod snapshot;
mod stop;
mod tls;
mod trace;

pub use crate::answer::verdict_name;
pub use crate::ask::Ask;
pub use crate::auth::{Guard, Role, TokenError, Tokens, Wrong};
#[doc(hidden)]
pub use crate::http::read_body;
pub use crate::server::{Addresses, Ended, ServeError, Server};
#[doc(hidden)]
pub use crate::settings::Bounds;
pub use crate::settings::Settings;
pub use crate::snapshot::SnapshotSettings;
pub use crate::tls::{TlsError, TlsFiles};
pub use crate::trace::{BadEndpoint, BadShare, TraceEndpoint, TraceSettings, TraceShare};
