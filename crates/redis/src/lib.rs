//! Tidegate's decisions for a whole fleet, on Redis or Valkey.

mod error;
mod health;
mod settings;
#[cfg_attr(not(test), expect(dead_code, unused_imports, reason = "the store is yet to come"))]
mod wire;

pub use crate::error::ConnectError;
pub use crate::health::{Health, NodeHealth};
pub use crate::settings::{ClientCertificate, Credentials, Protocol, Settings};
