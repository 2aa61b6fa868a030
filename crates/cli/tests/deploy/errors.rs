//! Answers that are no decision: no request passes by an error that somebody may have provoked.

use crate::application::{REACHED, answering};
use crate::shipped;
use crate::stand::Standing;

/// What a server may answer that is neither a decision nor a sign that nobody is there.
const ERRORS: [u16; 10] = [302, 400, 404, 408, 411, 413, 418, 431, 500, 505];

#[track_caller]
fn lets_nobody_through(asking: fn(u16) -> Option<Standing>) {
    for status in ERRORS {
        let Some(standing) = asking(answering(status)) else { return };
        for target in ["/", "/limited"] {
            let answer = standing.send("GET", target, &[]);
            let reached = answer.text().starts_with(REACHED) && answer.status == 200;
            assert!(!reached && 300 <= answer.status, "{status}: {answer:?}");
        }
    }
}

#[test]
fn nginx_lets_nobody_through_by_an_error() {
    lets_nobody_through(shipped::nginx_asking);
}

#[test]
fn haproxy_lets_nobody_through_by_an_error() {
    lets_nobody_through(shipped::haproxy_asking);
}

#[test]
fn caddy_lets_nobody_through_by_an_error() {
    lets_nobody_through(shipped::caddy_asking);
}
