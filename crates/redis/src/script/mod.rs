//! The scripts: the core's transitions once more, in Lua, where the states are.
//!
//! They judge and charge, and hand back the state that they found; what to tell the caller is then
//! worked out from it by the core itself. So the numbers of an answer are the core's own, and every
//! single answer checks that script and core agree on what passed.

use std::sync::LazyLock;

use crate::wire::Script;

/// Decides many requests in one call.
pub(crate) static DECIDE: LazyLock<Script> = LazyLock::new(|| Script::new(DECIDE_TEXT));

/// Moves a state from a former policy's key to the present one's.
pub(crate) static CARRY: LazyLock<Script> = LazyLock::new(|| Script::new(CARRY_TEXT));

pub(crate) const DECIDE_TEXT: &str = concat!(
    include_str!("line.lua"),
    include_str!("fixed_window.lua"),
    include_str!("sliding_window.lua"),
    include_str!("log.lua"),
    include_str!("decide.lua"),
);

const CARRY_TEXT: &str = include_str!("carry.lua");
