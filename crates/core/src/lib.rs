//! Rate limiting as arithmetic.
//!
//! Every algorithm here is one pure function:
//!
//! ```text
//! (state, now, cost) -> (state, decision)
//! ```
//!
//! Nothing in this crate reads a clock, takes a lock, does I/O, or rounds what it remembers. A
//! store keeps the states; a clock says what time it is; this crate only decides. The same code
//! therefore runs inside the in-memory store, inside the simulator, and as the reference that every
//! other store is checked against.
//!
//! ```
//! use tidegate_core::{Policy, Quota, Span, Tick, Verdict};
//!
//! let policy = Policy::token_bucket(Quota::per_second(3))?;
//! let mut state = policy.fresh();
//! let now = Tick::from_micros(0);
//!
//! for left in [2, 1, 0] {
//!     let decision = policy.decide(&mut state, now, 1);
//!     assert_eq!((decision.verdict, decision.remaining), (Verdict::Allow, left));
//! }
//! // The fourth has to wait for a third of a second, rounded up to the next microsecond.
//! let refused = policy.decide(&mut state, now, 1);
//! assert_eq!(refused.verdict, Verdict::Deny { retry_after: Span::from_micros(333_334) });
//! # Ok::<(), tidegate_core::QuotaError>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

extern crate alloc;

pub mod adapt;
mod algorithm;
mod all;
mod credits;
mod debit;
mod decision;
mod events;
pub mod fair;
mod kind;
mod policy;
mod quota;
mod shape;
mod tick;
mod without;

pub use crate::all::{Limit, decide_all};
pub use crate::credits::Credits;
pub use crate::debit::{Debited, NothingToDebit, Overdraft, Refused};
pub use crate::decision::{Decision, Receipt, Verdict};
pub use crate::kind::{Kind, UnknownKind};
pub use crate::policy::{Applied, Policy, State};
pub use crate::quota::{Grains, Quota, QuotaError};
pub use crate::shape::Shape;
pub use crate::tick::{Span, Tick};
pub use crate::without::WithoutStore;
