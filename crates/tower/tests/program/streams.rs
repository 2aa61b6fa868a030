//! Responses that outlast everything else: leases, policies, and fields that were sent.

use std::io::Read as _;
use std::net::TcpStream;

use tidegate_core::Span;
use tidegate_gate::Rules;
use tidegate_tower::TidegateLayer;

use crate::stage::{PERMITS, PLACES, POLICY, Program, rest, until};

fn begin(program: &Program) -> Vec<TcpStream> {
    let streams: Vec<_> = (0..PLACES).map(|_| program.begin("GET /stalls")).collect();
    program.wait_for(PLACES, 0);
    streams
}

/// How many more requests could be in flight.
fn free(program: &Program) -> u32 {
    let looked = program.gate.peek(&tidegate_gate::Sample::new("GET /")).ready().unwrap();
    looked.each().next().unwrap().decision.remaining
}

#[test]
fn a_stream_has_its_permit_for_longer_than_any_lease() {
    let program = Program::new();
    let streams = begin(&program);
    for _ in 0..100 {
        program.clock.advance(Span::from_secs(45));
        assert_eq!((free(&program), program.share()), (PERMITS - PLACES, (PLACES, 0)));
    }
    drop(streams);
    program.is_over();
}

/// What holds a permit, or waits for its turn, goes on by the rules that it began with.
#[test]
fn a_stream_goes_on_through_reloads() {
    let program = Program::new();
    let streams = begin(&program);
    let waits = program.begin("GET /stalls");
    program.wait_for(PLACES, 1);
    let tighter = POLICY.replace("8 in flight", "6 in flight");
    for policy in [&*tighter, "rules: [{ name: other, limit: 5/s }]", POLICY] {
        program.gate.replace(Rules::from_text(policy).unwrap().rules).unwrap();
        program.clock.advance(Span::from_secs(45));
    }
    drop(streams);
    until(|| program.inside.now(), 1);
    drop(waits);
    program.is_quiet();
    until(|| free(&program), PERMITS);
}

/// Fields are on whatever there is: an error of the handler, of the router, a refusal, no body.
#[test]
fn every_response_tells_of_limits() {
    let program = Program::layered(|gate, _| {
        let unprocessable = || async { axum::http::StatusCode::UNPROCESSABLE_ENTITY };
        let fails = || async { axum::http::StatusCode::INTERNAL_SERVER_ERROR };
        let router = axum::Router::new().route("/fails", axum::routing::get(fails));
        let router = router.route("/not", axum::routing::get(unprocessable));
        router.layer(TidegateLayer::new(gate.clone()))
    });
    let asked = ["GET /fails", "GET /not", "HEAD /not", "GET /none", "POST /fails", "OPTIONS *"];
    for (number, line) in (1..).zip(asked) {
        let reply = program.server.ask(line);
        assert!(matches!(reply.status(), 400..=599), "{line}: {reply:?}");
        let left = format!(r#""busy";r=7;t=60, "quota";r={};t=43260"#, 100_000 - number);
        assert_eq!(reply.header("ratelimit"), Some(&*left), "{line}");
        assert_eq!(reply.header("retry-after"), None, "{line}: it was not refused");
    }
}

/// A refusal is whole, also for a client that takes it in small pieces and one after the other on
/// the same connection.
#[test]
fn refusals_are_whole_and_leave_a_connection_as_it_is() {
    let program = Program::new();
    let held: Vec<_> = (0..PERMITS).map(|_| program.begin("GET /hang")).collect();
    program.wait_for(PLACES, PERMITS - PLACES);
    let one = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    let last = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let mut stream = program.send(&[one, one, last].concat());
    let mut first = [0; 1];
    stream.read_exact(&mut first).unwrap();
    let replies = rest(stream);
    assert_eq!(replies.matches("TTP/1.1 429").count(), 3, "{replies}");
    assert_eq!(replies.matches("retry-after: ").count(), 3);
    assert_eq!(replies.matches("\"error\":\"rate_limit_exceeded\"").count(), 3);
    drop(held);
    program.is_over();
}
