//! Tidegate in virtual time: traffic, naive oracles, conformance and pictures.

pub mod oracle;
pub mod rng;
