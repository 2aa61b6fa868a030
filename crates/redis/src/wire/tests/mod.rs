//! The wire against real servers.

mod single;
mod stand;
