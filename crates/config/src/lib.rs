//! Policy files: what an API team writes down, read into rules.

#![forbid(unsafe_code)]

mod excerpt;
#[cfg_attr(not(test), expect(dead_code, reason = "used by what reads rules"))]
mod problem;
#[cfg_attr(not(test), expect(dead_code, reason = "used by what reads rules"))]
mod read;
#[cfg_attr(not(test), expect(dead_code, reason = "used by what reads rules"))]
mod report;
#[cfg_attr(not(test), expect(dead_code, reason = "used by what reads rules"))]
mod schema;
#[cfg_attr(not(test), expect(dead_code, reason = "used by what reads rules"))]
mod source;
mod suggest;

pub use self::problem::Level;
pub use self::report::{Finding, Report};
pub use self::source::{FILE_BYTES_MAX, Format};
