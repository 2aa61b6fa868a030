//! Tidegate in virtual time: traffic, naive oracles, conformance and pictures.

pub mod adapt;
pub mod busiest;
pub mod chart;
pub mod conformance;
mod grid;
pub mod oracle;
#[cfg(doctest)]
mod pages;
mod report;
pub mod rng;
mod run;
mod shape;
pub mod shaping;
pub mod sharing;
mod trace;

pub use crate::grid::Grid;
pub use crate::report::{Comparison, Lane, LaneReport, Report, Standing};
pub use crate::run::{Outcome, Pass, run};
pub use crate::shape::{Scenario, Shape, UnknownShape};
pub use crate::trace::{Request, Trace, TraceError};
