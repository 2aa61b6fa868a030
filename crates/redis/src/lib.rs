//! Tidegate's decisions for a whole fleet, on Redis or Valkey.

mod call;
mod digest;
mod flat;
mod key;
mod plan;
mod rule;
mod script;
#[cfg(test)]
mod tests;
mod told;
mod value;

pub use crate::key::{FleetKey, KeyPart, KeyText};
pub use crate::rule::FleetRule;
