//! Rate limits for any tower service that answers HTTP.

#![forbid(unsafe_code)]
