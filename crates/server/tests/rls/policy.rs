//! Decisions by our own policy file: descriptors as requests.

use tidegate_server::rls::RlsSettings;
use tidegate_server::rls::proto::{Code, RateLimitOverride, Unit};

use crate::stand::{Stand, codes, descriptor, field, request};

const PER_PLAN: &str = "
rules:
  - name: per-plan
    key: attribute:plan
    limit: 2/min
    algorithm: fixed-window
    if_missing: skip
  - { name: per-address, key: ip, limit: 3/min, algorithm: fixed-window, if_missing: skip }
";

#[tokio::test]
async fn entries_are_attributes_and_addresses_are_addresses() {
    let mut stand = Stand::by_policy(PER_PLAN).await;
    assert_eq!(stand.passed(4, &[&[("plan", "free")]]).await, 2);
    assert_eq!(stand.passed(4, &[&[("plan", "paid")]]).await, 2);
    assert_eq!(stand.passed(5, &[&[("remote_address", "192.0.2.1")]]).await, 3);
    assert_eq!(stand.passed(1, &[&[("remote_address", "192.0.2.2")]]).await, 1);
}

/// Envoy knows no other refusal than that of a limit.
#[tokio::test]
async fn an_unknown_key_is_over_the_limit() {
    let file = std::env::temp_dir().join(format!("tidegate-rls-{}.yaml", std::process::id()));
    std::fs::write(&file, "names: {}").unwrap();
    let mut stand = Stand::by_policy(&format!(
        "api_keys: {{ header: x-api-key, file: '{}', unknown: refuse }}{PER_PLAN}",
        file.display()
    ))
    .await;
    std::fs::remove_file(&file).unwrap();
    let key = ("header:x-api-key", "made-up");
    for descriptors in [&[&[key][..]][..], &[&[("plan", "free")], &[("plan", "free"), key]]] {
        let response = stand.ask(descriptors).await.unwrap();
        assert_eq!(response.overall_code(), Code::OverLimit);
    }
    assert_eq!(stand.passed(4, &[&[("plan", "free")]]).await, 2, "nothing was charged");
}

#[tokio::test]
async fn a_status_says_what_the_limit_is_and_what_is_left() {
    let mut stand = Stand::by_policy(PER_PLAN).await;
    let response = stand.ask(&[&[("plan", "free")]]).await.unwrap();
    assert_eq!(response.overall_code(), Code::Ok);
    let [status] = &*response.statuses else { panic!("{response:?}") };
    let limit = status.current_limit.as_ref().unwrap();
    assert_eq!(
        (&*limit.name, limit.requests_per_unit, limit.unit()),
        ("per-plan", 2, Unit::Minute)
    );
    assert_eq!(status.limit_remaining, 1);
    // 1,700,000,000 is 20 seconds into its minute.
    let reset = status.duration_until_reset.unwrap();
    assert_eq!((reset.seconds, reset.nanos), (40, 0));
    assert_eq!(field(&response, "ratelimit"), Some("\"per-plan\";r=1;t=40"));
    assert_eq!(field(&response, "ratelimit-policy"), Some("\"per-plan\";q=2;w=60"));
}

#[tokio::test]
async fn statuses_are_in_the_order_of_descriptors_and_a_refusal_burns_nothing() {
    let mut stand = Stand::by_policy(PER_PLAN).await;
    let (free, address) = ([("plan", "free")], [("remote_address", "192.0.2.1")]);
    assert_eq!(stand.passed(2, &[&free]).await, 2);
    for _ in 0..5 {
        let response = stand.ask(&[&address, &free, &[("else", "")]]).await.unwrap();
        assert_eq!(response.overall_code(), Code::OverLimit);
        assert_eq!(codes(&response), [Code::Ok, Code::OverLimit, Code::Ok]);
        assert_eq!(field(&response, "retry-after"), Some("40"));
    }
    assert_eq!(stand.passed(4, &[&address]).await, 3, "five refusals cost nothing");
}

#[tokio::test]
async fn hits_count_and_zero_only_looks() {
    let mut stand = Stand::by_policy(PER_PLAN).await;
    let mut two = request("web", &[&[("plan", "free")]]);
    two.hits_addend = 2;
    let mut look = request("web", &[&[("plan", "free")]]);
    look.descriptors[0].hits_addend = Some(0);
    let seen = stand.send(look.clone()).await.unwrap();
    assert_eq!(seen.statuses[0].limit_remaining, 2);
    let taken = stand.send(two.clone()).await.unwrap();
    assert_eq!((taken.overall_code(), taken.statuses[0].limit_remaining), (Code::Ok, 0));
    assert_eq!(stand.send(look).await.unwrap().statuses[0].limit_remaining, 0);
    assert_eq!(stand.send(two).await.unwrap().overall_code(), Code::OverLimit);
}

#[tokio::test]
async fn a_limit_that_comes_along_stands_in_for_the_policy() {
    let mut stand = Stand::by_policy(PER_PLAN).await;
    let mut own = request("web", &[&[("plan", "free")]]);
    own.descriptors[0].limit =
        Some(RateLimitOverride { requests_per_unit: 4, unit: Unit::Hour.into() });
    for left in [3, 2, 1, 0] {
        let response = stand.send(own.clone()).await.unwrap();
        assert_eq!(
            (response.overall_code(), response.statuses[0].limit_remaining),
            (Code::Ok, left)
        );
    }
    // Joint with a descriptor of the policy: all or nothing.
    own.descriptors.push(descriptor(&[("plan", "paid")]));
    for _ in 0..3 {
        let response = stand.send(own.clone()).await.unwrap();
        assert_eq!(response.overall_code(), Code::OverLimit);
        assert_eq!(codes(&response), [Code::OverLimit, Code::Ok]);
    }
    assert_eq!(stand.passed(3, &[&[("plan", "paid")]]).await, 2, "what was charged came back");
    assert_eq!(stand.passed(3, &[&[("plan", "free")]]).await, 2, "the policy was not asked");
}

#[tokio::test]
async fn metadata_names_the_rules() {
    let rls = RlsSettings { dynamic_metadata: true, ..RlsSettings::default() };
    let mut stand = Stand::new(PER_PLAN, None, rls).await;
    let response = stand.ask(&[&[("plan", "free")]]).await.unwrap();
    let metadata = format!("{:?}", response.dynamic_metadata.unwrap());
    for word in ["web", "plan=free", "per-plan"] {
        assert!(metadata.contains(word), "{metadata}");
    }
}
