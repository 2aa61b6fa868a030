//! Policy files: what an API team writes down, read into rules.

#![forbid(unsafe_code)]

#[cfg_attr(not(test), expect(dead_code, reason = "used by the rules"))]
mod address;
mod misread;
#[cfg_attr(not(test), expect(dead_code, reason = "used by the rules"))]
mod path;
#[cfg_attr(not(test), expect(dead_code, unused_imports, reason = "used by the rules"))]
mod quantity;
#[cfg_attr(not(test), expect(dead_code, reason = "used by the rules"))]
mod token;
#[cfg_attr(not(test), expect(dead_code, reason = "used by the rules"))]
mod zone;

#[cfg(test)]
mod chance;
