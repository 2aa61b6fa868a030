//! Every example runs to its end, and prints what it promises.

use std::process::Command;

/// Runs an example that `cargo test` has just built, and returns what it printed.
fn run(name: &str) -> String {
    let path = std::env::current_exe().expect("the test's own path");
    let profile = path.parent().and_then(|deps| deps.parent()).expect("…/<profile>/deps/test");
    let output = Command::new(profile.join("examples").join(name)).output().expect("it was built");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[track_caller]
fn prints(name: &str, lines: &[&str]) {
    let printed = run(name);
    for line in lines {
        assert!(printed.lines().any(|it| it == *line), "no line `{line}` in:\n{printed}");
    }
}

#[test]
fn one_limit() {
    prints("one_limit", &["1: passes, 2 left", "3: passes, 0 left"]);
    assert!(run("one_limit").contains("4: come back in "));
}

#[test]
fn several_limits() {
    prints("several_limits", &["  refused by `per-second`, which has 0 of 2"]);
    prints("several_limits", &["left for everyone: Some(998)"]);
}

#[test]
fn costs_and_refunds() {
    prints("costs_and_refunds", &["reserved 4,000: 6000 left", "20,000 at once: Never"]);
}

#[test]
fn tiers() {
    prints("tiers", &["free: 2 of 100 pass at once", "pro: 100 of 100 pass at once"]);
}

#[test]
fn waiting() {
    assert_eq!(run("waiting").matches("passed: true").count(), 5);
    assert_eq!(run("waiting_threads").matches("true after").count(), 6);
}

#[test]
fn smooth_output() {
    prints("smooth_output", &["call 1: now"]);
    assert!(run("smooth_output").contains("call 6: the queue is full for "));
}

#[test]
fn in_flight() {
    prints("in_flight", &["first: true, second: true", "after the first is done: true"]);
}

#[test]
fn live_change() {
    let lines = ["of 100: 20 left", "of 150: 70 left", "of 50: 0 left"];
    prints("live_change", &lines);
}

#[test]
fn bounded_memory() {
    prints("bounded_memory", &["ada has 10 left"]);
}

#[test]
fn batches_and_testing() {
    prints("batches", &["cleo: passes"]);
    prints("testing", &["an hour's worth of tests, in no time"]);
}
