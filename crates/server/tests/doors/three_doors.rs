//! One decision, whichever door is asked: the library, HTTP, the Redis protocol and gRPC give the
//! same numbers digit for digit, over random policies and requests, by clocks that move alike.

use std::net::TcpStream;
use std::sync::Arc;

use prost::Message as _;
use serde_json::Value;
use tidegate_core::{Span, Verdict};
use tidegate_gate::{Admission, Gate};
use tidegate_server::rls::proto::envoy::service::ratelimit::v3::RateLimitResponse;
use tidegate_server::rls::proto::envoy::service::ratelimit::v3::rate_limit_response::Code;
use tidegate_sim::rng::Rng;
use tidegate_store::ManualClock;
use tidegate_testbed::{Http, Http2, Resp};

use crate::asked::{Asked, expected, object, policy};
use crate::world::{World, answer};

const POLICIES: u64 = 12;
const STEPS: u64 = 60;
const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// A server, and a connection to each of its doors.
struct Doors {
    http: Http,
    resp: Resp,
    grpc: Http2<TcpStream>,
    /// After its clients: a server that stops waits for those that are connected.
    world: World,
}

/// What a door has said.
#[derive(Debug)]
enum Said {
    /// All there is.
    All(Value),
    /// What gRPC has room for.
    Grpc(RateLimitResponse),
}

impl Doors {
    fn open(policy: &str) -> Doors {
        let world = World::new(policy);
        let http = Http::connect(world.http()).unwrap();
        let (resp, grpc) = (world.resp(), world.grpc());
        Doors { http, resp, grpc, world }
    }

    fn over_http(&mut self, asked: &Asked) -> Said {
        let headers = [("content-type", "application/json")];
        let body = asked.json();
        let told = self.http.send("POST", "/v1/check", &headers, body.as_bytes()).unwrap();
        let (status, told) = answer(&told);
        assert_eq!(status, 200, "{told}");
        Said::All(told)
    }

    fn over_resp(&mut self, asked: &Asked) -> Said {
        let reply = self.resp.call(&asked.command()).unwrap();
        assert!(!reply.is_error(), "{asked:?}: {reply:?}");
        Said::All(object(&reply))
    }

    fn over_grpc(&mut self, asked: &Asked) -> Said {
        let message = asked.descriptor().encode_to_vec();
        let told = self.grpc.call(METHOD, &message).unwrap();
        Said::Grpc(RateLimitResponse::decode(&*told).unwrap())
    }
}

impl Said {
    #[track_caller]
    fn is(&self, admission: &Admission, of: &str) {
        match self {
            Said::All(told) => assert_eq!(*told, expected(admission), "{of}"),
            Said::Grpc(told) => same_over_grpc(told, admission, of),
        }
    }
}

/// Everything that a response of gRPC has room for.
#[track_caller]
fn same_over_grpc(told: &RateLimitResponse, admission: &Admission, of: &str) {
    let code = if admission.verdict().passes() { Code::Ok } else { Code::OverLimit };
    assert_eq!(told.overall_code(), code, "{of}");
    let [status] = &*told.statuses else { panic!("{of}: {told:?}") };
    assert_eq!(status.code(), code, "{of}");
    let has_limits = admission.each().any(|limit| !limit.is_shadow);
    assert_eq!(status.current_limit.is_some(), has_limits, "{of}");
    if has_limits {
        let decision = admission.decision();
        assert_eq!(status.limit_remaining, decision.remaining, "{of}");
        assert_eq!(status.current_limit.as_ref().unwrap().requests_per_unit, decision.limit);
        let reset = status.duration_until_reset.as_ref().unwrap();
        let micros = reset.seconds * 1_000_000 + i64::from(reset.nanos / 1_000);
        assert_eq!(u64::try_from(micros), Ok(decision.reset_after.get()), "{of}");
        assert_eq!(reset.nanos % 1_000, 0, "{of}");
    }
    let retry = told.response_headers_to_add.iter().find(|field| field.key == "retry-after");
    let seconds = match admission.verdict() {
        Verdict::Deny { retry_after } => Some(retry_after.as_secs_ceil().max(1).to_string()),
        _ => None,
    };
    assert_eq!(retry.map(|field| field.value.clone()), seconds, "{of}");
}

fn library(policy: &str) -> (Gate, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let gate = Gate::builder().text(policy).clock(clock.clone()).open().expect("a good policy");
    (gate, clock)
}

fn pause(rng: &mut Rng) -> Span {
    Span::from_micros(match rng.below(4) {
        0 => 0,
        1 => rng.below(2_000),
        2 => rng.below(3_000_000),
        _ => rng.below(90_000_000),
    })
}

#[test]
fn four_worlds_give_the_same_answers() {
    let (mut refused, mut passed) = (0, 0);
    for seed in 0..POLICIES {
        let mut rng = Rng::new(seed);
        let policy = policy(&mut rng);
        let (gate, clock) = library(&policy);
        let [mut http, mut resp, mut grpc] = [0; 3].map(|_| Doors::open(&policy));
        for step in 0..STEPS {
            let span = pause(&mut rng);
            for clock in [&clock, &http.world.clock, &resp.world.clock, &grpc.world.clock] {
                clock.advance(span);
            }
            let asked = Asked::any(&mut rng);
            let of = format!("seed {seed}, step {step}: {asked:?} by\n{policy}");
            let admission = gate.decide(&asked.sample());
            http.over_http(&asked).is(&admission, &of);
            resp.over_resp(&asked).is(&admission, &of);
            grpc.over_grpc(&asked).is(&admission, &of);
            let count = if admission.verdict().passes() { &mut passed } else { &mut refused };
            *count += 1;
        }
    }
    let all = POLICIES * STEPS;
    assert!(all / 10 < passed && all / 10 < refused, "{passed} passed, {refused} did not");
}

#[test]
fn one_server_asked_at_all_of_its_doors_is_one_gate() {
    for seed in 100..100 + POLICIES {
        let mut rng = Rng::new(seed);
        let policy = policy(&mut rng);
        let (gate, clock) = library(&policy);
        let mut doors = Doors::open(&policy);
        for step in 0..STEPS {
            let span = pause(&mut rng);
            clock.advance(span);
            doors.world.clock.advance(span);
            let asked = Asked::any(&mut rng);
            let said = match rng.below(3) {
                0 => doors.over_http(&asked),
                1 => doors.over_resp(&asked),
                _ => doors.over_grpc(&asked),
            };
            let admission = gate.decide(&asked.sample());
            said.is(&admission, &format!("seed {seed}, step {step}: {asked:?} by\n{policy}"));
        }
    }
}
