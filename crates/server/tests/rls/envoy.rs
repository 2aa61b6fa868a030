//! A real Envoy asks, and clients of it see what was decided.

use tidegate_testbed::HttpAnswer;
use tokio::task::block_in_place;

use crate::proxy::{DENIES, Proxy, is_there, server_at};
use crate::stand::{Files, NO_RULES, until};

const PER_PLAN: &str = "
rules: [{ name: per-plan, key: 'attribute:plan', limit: 2/day, if_missing: skip }]
";

/// What Envoy tells of a request.
const PER_PLAN_ACTIONS: &str =
    "[{ actions: [{ request_headers: { header_name: x-plan, descriptor_key: plan } }] }]";

fn header<'a>(answer: &'a HttpAnswer, name: &str) -> Option<&'a str> {
    let mut named = answer.headers.iter().filter(|(other, _)| other == name);
    named.next().map(|(_, value)| value.as_str())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envoy_limits_by_our_policy_and_comes_back_after_a_restart() {
    if !is_there() {
        return;
    }
    let stand = server_at(0, PER_PLAN, None).await;
    let grpc = stand.grpc;
    let envoy = block_in_place(|| Proxy::start(grpc, PER_PLAN_ACTIONS, DENIES)).unwrap();
    let first = envoy.get("free");
    assert_eq!(first.status, 200, "{first:?}");
    assert_eq!(header(&first, "ratelimit-policy"), Some("\"per-plan\";q=2;w=86400"));
    assert!(header(&first, "ratelimit").unwrap().starts_with("\"per-plan\";r=1;t="));
    assert_eq!(header(&first, "x-ratelimit-remaining"), Some("1"), "by Envoy itself");
    assert_eq!(envoy.statuses("free", 3), [200, 429, 429]);
    let refused = envoy.get("free");
    assert!(header(&refused, "retry-after").is_some(), "{refused:?}");
    assert_eq!(header(&refused, "x-ratelimit-remaining"), Some("0"));
    assert_eq!(envoy.get("paid").status, 200);
    stand.stop().await;
    assert_eq!(envoy.get("paid").status, 500, "nobody decides, and Envoy is told to deny");
    let stand = server_at(grpc.port(), PER_PLAN, None).await;
    until("Envoy has connected again", async || envoy.get("other").status == 200).await;
    assert_eq!(envoy.statuses("free", 3), [200, 200, 429]);
    stand.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envoy_limits_by_the_files_of_ratelimit_as_they_change() {
    if !is_there() {
        return;
    }
    let limit = "rate_limit: { unit: year, requests_per_unit: 2 }";
    let web = format!(
        "
- {{ key: plan, {limit} }}
- {{ key: plan, value: watched, shadow_mode: true, {limit} }}
"
    );
    let files = Files::new(&web);
    let stand = server_at(0, NO_RULES, Some(files.path())).await;
    let grpc = stand.grpc;
    let envoy = block_in_place(|| Proxy::start(grpc, PER_PLAN_ACTIONS, DENIES)).unwrap();
    assert_eq!(envoy.statuses("free", 4), [200, 200, 429, 429]);
    assert_eq!(envoy.statuses("watched", 4), [200; 4]);
    let refused = envoy.get("free");
    assert_eq!(header(&refused, "x-ratelimit-limit"), Some("2, 2;w=31536000"), "{refused:?}");
    assert_eq!(header(&refused, "ratelimit-policy"), Some("\"web/plan\";q=2;w=31536000"));
    files.write(&web.replacen("requests_per_unit: 2", "requests_per_unit: 4", 1));
    until("the limit is raised", async || envoy.get("free").status == 200).await;
    assert_eq!(envoy.statuses("free", 2), [200, 429]);
    stand.stop().await;
}
