//! The scripts: the core's transitions once more, in Lua, where the states are.
//!
//! They judge and charge, and hand back the state that they found; what to tell the caller is then
//! worked out from it by the core itself. So the numbers of an answer are the core's own, and every
//! single answer checks that script and core agree on what passed.

/// Decides many requests in one call.
pub(crate) const DECIDE: &str = concat!(
    include_str!("line.lua"),
    include_str!("fixed_window.lua"),
    include_str!("sliding_window.lua"),
    include_str!("log.lua"),
    include_str!("decide.lua"),
);

/// Moves a state from a former policy's key to the present one's.
pub(crate) const CARRY: &str = include_str!("carry.lua");
