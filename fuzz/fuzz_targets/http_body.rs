//! Any bytes as the body of an HTTP call: they are refused, or what they ask can be answered.
//!
//! `crates/server` runs the seeds of the corpus in the same way.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_server::read_body;

fuzz_target!(|bytes: &[u8]| {
    let understood = read_body(bytes);
    let is_text = std::str::from_utf8(bytes).is_ok();
    assert!(is_text || understood.is_empty(), "JSON is text");
});
