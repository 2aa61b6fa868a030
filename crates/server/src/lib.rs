//! One decision, three doors: HTTP, Envoy's rate limit service and the Redis protocol.

#![forbid(unsafe_code)]
