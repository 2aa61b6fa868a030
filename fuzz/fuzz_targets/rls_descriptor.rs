//! Any bytes as a request of Envoy's rate limit service: read, checked, matched, judged.
//!
//! Two services are asked, one by a policy and one by envoyproxy/ratelimit's files; neither may
//! panic, and a request that is answered has a status for each of its descriptors. The tests of
//! `crates/server` run the seeds of the corpus in the same way.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_server::rls::trial;

fuzz_target!(|bytes: &[u8]| trial::request(bytes));
