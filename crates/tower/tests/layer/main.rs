//! The layer around services that need no framework, in one program: to link one takes as long as
//! to run it.

#[path = "../support/mod.rs"]
mod support;
#[path = "../wire/mod.rs"]
mod wire;

mod bodies;
mod fleet;
mod handlers;
mod headers;
mod no_address;
mod permits;
mod plain_hyper;
mod readings;
mod refusals;
mod sharing;
mod spellings;
mod waiting;
