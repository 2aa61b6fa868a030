//! What envoyproxy/ratelimit's files can say beside a limit: shadow, quota, replaces, sharing.

use tidegate_server::rls::RlsSettings;
use tidegate_server::rls::proto::Code;

use crate::stand::{Files, NO_RULES, Stand, codes};

fn limited(key: &str, requests: u32, more: &str) -> String {
    format!(
        "- {{ key: {key}, {more} rate_limit: {{ unit: day, requests_per_unit: {requests} }} }}\n"
    )
}

#[tokio::test]
async fn shadow_is_counted_and_never_refuses() {
    let files = Files::new(&(limited("a", 1, "shadow_mode: true,") + &limited("b", 3, "")));
    let mut stand = Stand::by_files(files.path()).await;
    let (a, b): ([_; 1], [_; 1]) = ([("a", "")], [("b", "")]);
    let first = stand.ask(&[&a, &b]).await.unwrap();
    assert_eq!((codes(&first), first.statuses[0].limit_remaining), (vec![Code::Ok; 2], 0));
    let second = stand.ask(&[&a, &b]).await.unwrap();
    assert_eq!((second.overall_code(), codes(&second)), (Code::Ok, vec![Code::Ok; 2]));
    assert_eq!(stand.passed(3, &[&a, &b]).await, 1);
}

#[tokio::test]
async fn quotas_refuse_only_when_all_of_them_do() {
    let quota = "quota_mode: true,";
    let files =
        Files::new(&(limited("a", 1, quota) + &limited("b", 3, quota) + &limited("c", 9, "")));
    let mut stand = Stand::by_files(files.path()).await;
    let asked: [&[(&str, &str)]; 3] = [&[("a", "")], &[("b", "")], &[("c", "")]];
    let first = stand.ask(&asked).await.unwrap();
    assert_eq!((first.overall_code(), codes(&first)), (Code::Ok, vec![Code::Ok; 3]));
    for left in [1, 0] {
        let response = stand.ask(&asked).await.unwrap();
        assert_eq!(response.overall_code(), Code::Ok);
        assert_eq!(codes(&response), [Code::OverLimit, Code::Ok, Code::Ok]);
        assert_eq!(response.statuses[1].limit_remaining, left);
    }
    let over = stand.ask(&asked).await.unwrap();
    assert_eq!(over.overall_code(), Code::OverLimit);
    assert_eq!(codes(&over), [Code::OverLimit, Code::OverLimit, Code::Ok]);
    assert_eq!(over.statuses[2].limit_remaining, 6, "the refusal cost nothing");
}

#[tokio::test]
async fn a_normal_limit_refuses_whatever_quotas_say() {
    let files = Files::new(&(limited("a", 9, "quota_mode: true,") + &limited("b", 1, "")));
    let mut stand = Stand::by_files(files.path()).await;
    let asked: [&[(&str, &str)]; 2] = [&[("a", "")], &[("b", "")]];
    assert_eq!(stand.passed(3, &asked).await, 1);
    let over = stand.ask(&asked).await.unwrap();
    assert_eq!(codes(&over), [Code::Ok, Code::OverLimit]);
    assert_eq!(over.statuses[0].limit_remaining, 8);
}

#[tokio::test]
async fn a_limit_that_is_replaced_is_not_asked_where_both_match() {
    let files = Files::new(
        "
- key: user
  rate_limit: { unit: day, requests_per_unit: 1, name: everybody }
- key: plan
  rate_limit: { unit: day, requests_per_unit: 4, name: plan, replaces: [{ name: everybody }] }
",
    );
    let mut stand = Stand::by_files(files.path()).await;
    let (user, plan): ([_; 1], [_; 1]) = ([("user", "ada")], [("plan", "paid")]);
    let response = stand.ask(&[&user, &plan]).await.unwrap();
    assert_eq!(response.statuses[0].current_limit, None);
    assert_eq!(stand.passed(5, &[&user, &plan]).await, 3);
    assert_eq!(stand.passed(2, &[&user]).await, 1);
}

#[tokio::test]
async fn values_share_a_count_under_their_pattern_if_the_file_says_so() {
    let limit = "rate_limit: { unit: day, requests_per_unit: 2 }";
    let files = Files::new(&format!(
        "
- {{ key: file, value: shared/*, share_threshold: true, {limit} }}
- {{ key: file, value: own/*, {limit} }}
"
    ));
    let mut stand = Stand::by_files(files.path()).await;
    assert_eq!(stand.passed(2, &[&[("file", "shared/a")]]).await, 2);
    assert_eq!(stand.passed(2, &[&[("file", "shared/b")]]).await, 0);
    assert_eq!(stand.passed(3, &[&[("file", "own/a")]]).await, 2);
    assert_eq!(stand.passed(3, &[&[("file", "own/b")]]).await, 2);
}

#[tokio::test]
async fn metadata_of_what_let_pass_is_told() {
    let files = Files::new(&limited("a", 1, "metadata: { tier: gold },"));
    let rls = RlsSettings { dynamic_metadata: true, ..RlsSettings::default() };
    let mut stand = Stand::new(NO_RULES, Some(files.path()), rls).await;
    let asked: [&[(&str, &str)]; 1] = [&[("a", "x")]];
    let told = |response: Option<prost_types::Struct>| format!("{:?}", response.unwrap());
    let passed = told(stand.ask(&asked).await.unwrap().dynamic_metadata);
    assert!(passed.contains("gold") && passed.contains("a=x"), "{passed}");
    let refused = told(stand.ask(&asked).await.unwrap().dynamic_metadata);
    assert!(!refused.contains("gold"), "{refused}");
}
