//! envoyproxy/ratelimit's files mean the same in Redis as in memory, number for number, also where
//! a limit stands twice in a request and one addend fits and another does not.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Span;
use tidegate_gate::Gate;
use tidegate_redis::{Fleet, RedisStore, Settings};
use tidegate_server::rls::proto::RateLimitRequest;
use tidegate_sim::rng::Rng;
use tidegate_testbed::Server;

use crate::stand::{Files, NO_RULES, Stand, clock, request};

const CASES: u32 = 2_000;
const FILE: &str = "
- { key: tried, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 4 } }
- { key: user, rate_limit: { unit: minute, requests_per_unit: 9 } }
- { key: plan, quota_mode: true, rate_limit: { unit: minute, requests_per_unit: 6 } }
- { key: group, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 50 } }
- { key: second, shadow_mode: true, rate_limit: { unit: second, requests_per_unit: 3 } }
";

async fn in_redis(server: &Server, files: &Files) -> Stand {
    let clock = clock();
    let store = RedisStore::builder(Settings::from_url(&server.url()).expect("a URL"));
    let store = store.deadline(Duration::from_secs(20)).judged_by(Arc::clone(&clock) as Arc<_>);
    let fleet = Fleet::new(store.connect().await.expect("a server"));
    let gate = Gate::builder().text(NO_RULES).store(fleet).beat_every(None);
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    Stand::on(gate, clock, any, Some(files.path()), |_| {}).await
}

/// Up to four descriptors; often the last is the first once more, with another addend.
fn any_request(rng: &mut Rng) -> RateLimitRequest {
    let pick = |rng: &mut Rng, most| usize::try_from(rng.below(most)).unwrap_or(0);
    let mut entry = || {
        let key = ["tried", "user", "plan", "group", "second", "none"][pick(rng, 6)];
        (key, ["ada", "bob"][pick(rng, 2)])
    };
    let entries = [[entry()], [entry()], [entry()]];
    let asked: Vec<&[(&str, &str)]> = entries.iter().map(|it| &it[..]).collect();
    let mut request = request("web", &asked[..=pick(rng, 3)]);
    request.hits_addend = [0, 1, 2][pick(rng, 3)];
    for descriptor in &mut request.descriptors {
        descriptor.hits_addend = [None, Some(0), Some(1), Some(5)][pick(rng, 4)];
    }
    if rng.one_in(2) {
        let mut twice = request.descriptors[0].clone();
        twice.hits_addend = [Some(1), Some(5)][pick(rng, 2)];
        request.descriptors.push(twice);
    }
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_stands_twice_is_the_same_in_redis_and_in_memory() {
    let (server, files) = (Server::start().expect("a server"), Files::new(FILE));
    let mut there = in_redis(&server, &files).await;
    let mut here = Stand::by_files(files.path()).await;
    let mut rng = Rng::new(1);
    let (mut passed, mut refused) = (0, 0);
    for case in 0..CASES {
        let span = Span::from_micros(rng.below(3_000_000));
        there.clock.advance(span);
        here.clock.advance(span);
        let asked = any_request(&mut rng);
        let far = there.send(asked.clone()).await.expect("an answer");
        let near = here.send(asked.clone()).await.expect("an answer");
        assert_eq!(far, near, "case {case}: {asked:?}");
        if near.overall_code() == tidegate_server::rls::proto::Code::Ok {
            passed += 1;
        } else {
            refused += 1;
        }
    }
    assert!(100 < passed && 100 < refused, "{passed} passed, {refused} were refused");
}
