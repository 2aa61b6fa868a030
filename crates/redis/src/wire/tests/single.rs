//! One server.
