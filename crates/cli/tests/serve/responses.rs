//! Rules of a policy that need the response: no door receives it, and the server says so.

use std::fs;

use tidegate_testbed::until;

use crate::stand::{SOON, Tidegate};

const NAME: &str = "needs-response";

#[test]
fn a_policy_that_needs_the_response_is_warned_about_when_it_is_put_in_force() {
    let logins = "rules: [{ name: logins, limit: 5/h, counts_when: { status: 401 } }]";
    let server = Tidegate::start(logins, &[]).unwrap();
    let log = server.daemon.log();
    assert!(log.contains(NAME) && log.contains("rule `logins`"), "{log}");
    let tokens = "rules: [{ name: tokens, limit: 5/h, cost: { from: response:x-tokens } }]";
    fs::write(server.daemon.folder().join("policy.yaml"), tokens).unwrap();
    let is_said = || server.daemon.log().contains("rule `tokens`");
    until(SOON, "the new policy is warned about", is_said).unwrap();
}

#[test]
fn a_policy_that_needs_none_or_allows_it_is_not() {
    for policy in [
        "rules: [{ name: a, limit: 5/h, cost: { from: query:limit } }]",
        "rules: [{ name: a, limit: 5/h, counts_when: { status: 401 }, allow: needs-response }]",
    ] {
        let server = Tidegate::start(policy, &[]).unwrap();
        let log = server.daemon.log();
        assert!(!log.contains(NAME), "{log}");
    }
}
