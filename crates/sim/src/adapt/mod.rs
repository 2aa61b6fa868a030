//! Adaptive limits in virtual time: a service that can be slowed, halved, paused and stormed, the
//! controllers that guard it, and how well they do beside one that knows everything.

mod baseline;
mod dip;
mod guard;
mod plant;
mod run;
mod scenario;
mod score;

pub use self::baseline::Baseline;
pub use self::dip::{Dip, Guarded};
pub use self::guard::{Guard, Ticket};
pub use self::run::{Run, Sample, run};
pub use self::scenario::{Clients, Profile, Scenario, Spread};
pub use self::score::{Score, latency, limit};
