//! Decisions by envoyproxy/ratelimit's own files.

use tidegate_core::Span;
use tidegate_gate::Headers;
use tidegate_server::rls::RlsSettings;
use tidegate_server::rls::proto::{Code, RateLimitOverride, Unit};

use crate::stand::{Files, NO_RULES, Stand, codes, field, request, until};

const WEB: &str = "
- key: path
  rate_limit: { unit: minute, requests_per_unit: 3, name: per-path }
- key: path
  value: /blocked
  rate_limit: { unit: minute, requests_per_unit: 0 }
- key: path
  value: /free
  rate_limit: { unlimited: true }
- key: plan
  value: free
  descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 2 }
";

#[tokio::test]
async fn requests_are_counted_in_windows_of_a_unit() {
    let files = Files::new(WEB);
    let mut stand = Stand::by_files(files.path()).await;
    let path = [("path", "/a")];
    let response = stand.ask(&[&path]).await.unwrap();
    let [status] = &*response.statuses else { panic!("{response:?}") };
    let limit = status.current_limit.as_ref().unwrap();
    assert_eq!(
        (&*limit.name, limit.requests_per_unit, limit.unit()),
        ("per-path", 3, Unit::Minute)
    );
    assert_eq!((status.limit_remaining, status.duration_until_reset.unwrap().seconds), (2, 40));
    assert_eq!(stand.passed(5, &[&path]).await, 2);
    assert_eq!(stand.passed(5, &[&[("path", "/b")]]).await, 3, "every value has its own count");
    stand.clock.advance(Span::from_micros(39_999_999));
    assert_eq!(stand.passed(1, &[&path]).await, 0);
    stand.clock.advance(Span::from_micros(1));
    assert_eq!(stand.passed(5, &[&path]).await, 3);
}

#[tokio::test]
async fn an_unknown_domain_and_no_matching_limit_are_ok_with_an_empty_status() {
    let files = Files::new(WEB);
    let mut stand = Stand::by_files(files.path()).await;
    for asked in [request("api", &[&[("path", "/a")]]), request("web", &[&[("nobody", "")]])] {
        let response = stand.send(asked).await.unwrap();
        assert_eq!((response.overall_code(), codes(&response)), (Code::Ok, vec![Code::Ok]));
        assert_eq!(response.statuses[0].current_limit, None);
        assert!(response.response_headers_to_add.is_empty());
    }
}

#[tokio::test]
async fn zero_blocks_and_unlimited_reports_the_most_there_is() {
    let files = Files::new(WEB);
    let mut stand = Stand::by_files(files.path()).await;
    let blocked = stand.ask(&[&[("path", "/blocked")]]).await.unwrap();
    assert_eq!((blocked.overall_code(), codes(&blocked)), (Code::OverLimit, vec![Code::OverLimit]));
    let free = stand.ask(&[&[("path", "/free")]]).await.unwrap();
    assert_eq!((free.overall_code(), free.statuses[0].limit_remaining), (Code::Ok, u32::MAX));
    assert_eq!(free.statuses[0].current_limit, None);
}

#[tokio::test]
async fn a_refusal_burns_nothing() {
    let files = Files::new(WEB);
    let mut stand = Stand::by_files(files.path()).await;
    let (path, user) = ([("path", "/a")], [("plan", "free"), ("user", "ada")]);
    assert_eq!(stand.passed(2, &[&user]).await, 2);
    for _ in 0..5 {
        let response = stand.ask(&[&path, &user]).await.unwrap();
        assert_eq!(response.overall_code(), Code::OverLimit);
        assert_eq!(codes(&response), [Code::Ok, Code::OverLimit]);
        assert_eq!(response.statuses[0].limit_remaining, 3);
    }
    assert_eq!(stand.passed(5, &[&path]).await, 3);
    let blocked = stand.ask(&[&[("path", "/c")], &[("path", "/blocked")]]).await.unwrap();
    assert_eq!(codes(&blocked), [Code::Ok, Code::OverLimit]);
    assert_eq!(stand.passed(5, &[&[("path", "/c")]]).await, 3);
}

#[tokio::test]
async fn keys_that_look_alike_when_joined_are_not_the_same() {
    let files = Files::new(
        "
- { key: a, descriptors: [{ key: b, rate_limit: { unit: day, requests_per_unit: 1 } }] }
",
    );
    let mut stand = Stand::by_files(files.path()).await;
    let joined =
        [[("a", "x_b_y"), ("b", "z")], [("a", "x"), ("b", "y_b_z")], [("a", "x_b"), ("b", "y_z")]];
    for entries in &joined {
        assert_eq!(stand.passed(2, &[entries]).await, 1, "{entries:?}");
    }
}

#[tokio::test]
async fn a_limit_of_the_request_overrides_the_configured_one() {
    let files = Files::new(WEB);
    let mut stand = Stand::by_files(files.path()).await;
    let mut own = request("web", &[&[("path", "/a")]]);
    own.descriptors[0].limit =
        Some(RateLimitOverride { requests_per_unit: 1, unit: Unit::Day.into() });
    let first = stand.send(own.clone()).await.unwrap();
    assert_eq!(first.statuses[0].current_limit.as_ref().unwrap().unit(), Unit::Day);
    assert_eq!(stand.send(own.clone()).await.unwrap().overall_code(), Code::OverLimit);
    own.descriptors[0].limit = Some(RateLimitOverride { requests_per_unit: 9, unit: 0 });
    assert_eq!(stand.send(own).await.unwrap().overall_code(), Code::OverLimit, "of no known unit");
}

/// A client that may choose a limit has no fresh count under each; there is no end of limits.
#[tokio::test]
async fn different_limits_that_come_along_have_one_count() {
    let files = Files::new(WEB);
    let mut stand = Stand::by_files(files.path()).await;
    let mut passed = 0;
    for requests_per_unit in (1..=600).rev() {
        let mut own = request("web", &[&[("path", "/a")]]);
        own.descriptors[0].limit =
            Some(RateLimitOverride { requests_per_unit, unit: Unit::Day.into() });
        let response = stand.send(own).await.unwrap();
        let status = &response.statuses[0];
        assert_eq!(status.current_limit.as_ref().unwrap().requests_per_unit, requests_per_unit);
        if response.overall_code() == Code::Ok {
            passed += 1;
            assert_eq!(status.limit_remaining, requests_per_unit - passed);
        }
    }
    assert_eq!(passed, 300);
    assert_eq!(stand.passed(5, &[&[("path", "/a")]]).await, 3, "the configured limit is another");
}

#[tokio::test]
async fn a_limit_that_comes_along_is_never_passed_by_many_at_once() {
    let files = Files::new(WEB);
    let stand = Stand::by_files(files.path()).await;
    let mut asking = tokio::task::JoinSet::new();
    for number in 0..200 {
        let mut client = stand.client.clone();
        let mut own = request("web", &[&[("path", "/a")]]);
        let limit = RateLimitOverride { requests_per_unit: 40 + number % 3, unit: 4 };
        own.descriptors[0].limit = Some(limit);
        asking.spawn(async move { client.should_rate_limit(own).await.unwrap().into_inner() });
    }
    let answers = asking.join_all().await;
    let passed = answers.iter().filter(|it| it.overall_code() == Code::Ok).count();
    assert!((40..=42).contains(&passed), "{passed}");
}

#[tokio::test]
async fn fields_are_those_of_ratelimit_if_that_is_wanted() {
    let files = Files::new(WEB);
    let mut stand = Stand::by_files(files.path()).await;
    let response = stand.ask(&[&[("path", "/a")]]).await.unwrap();
    assert_eq!(field(&response, "ratelimit-policy"), Some("\"per-path\";q=3;w=60"));
    assert_eq!(field(&response, "ratelimit"), Some("\"per-path\";r=2;t=40"));
    let rls = RlsSettings { fields: Headers::RateLimit, ..RlsSettings::default() };
    let mut stand = Stand::new(NO_RULES, Some(files.path()), rls).await;
    let asked: [&[(&str, &str)]; 2] = [&[("path", "/a")], &[("plan", "free"), ("user", "ada")]];
    let response = stand.ask(&asked).await.unwrap();
    assert_eq!(field(&response, "ratelimit-limit"), Some("2"), "the closest is told");
    assert_eq!(field(&response, "ratelimit-remaining"), Some("1"));
    assert_eq!(field(&response, "ratelimit-reset"), Some("2800"));
}

#[tokio::test]
async fn a_changed_file_is_in_force_within_seconds_and_counts_survive() {
    let files = Files::new(WEB);
    let mut stand = Stand::by_files(files.path()).await;
    let path = [("path", "/a")];
    assert_eq!(stand.passed(5, &[&path]).await, 3);
    files.write(&WEB.replace("requests_per_unit: 3", "requests_per_unit: 5"));
    let mut look = request("web", &[&path]);
    look.descriptors[0].hits_addend = Some(0);
    until("the new limit is in force", async || {
        let seen = stand.send(look.clone()).await.unwrap();
        seen.statuses[0].current_limit.as_ref().unwrap().requests_per_unit == 5
    })
    .await;
    assert_eq!(stand.passed(5, &[&path]).await, 2, "a raise grants the difference");
    // A file that is wrong changes nothing, and the next one that is right does.
    files.write("- { key: '' }");
    files.write(&WEB.replace("requests_per_unit: 3", "requests_per_unit: 6"));
    until("the next limit is in force", async || {
        let seen = stand.send(look.clone()).await.unwrap();
        seen.statuses[0].current_limit.as_ref().unwrap().requests_per_unit == 6
    })
    .await;
    assert_eq!(stand.passed(5, &[&path]).await, 1);
}
