//! A fleet's limiter on a server that is well: rules, costs, keys, permits and changes.

use std::sync::Arc;

use tidegate_core::{Quota, Span, Verdict};
use tidegate_redis::{By, Fleet, RedisStore, Settings};
use tidegate_store::{BuildError, ChangeError, Limiter, LimiterBuilder};
use tidegate_testbed::{Server, until};

use crate::stand::{LONG, Node, calls, names, permits, still, still_store, store_by};

const SECOND: Span = Span::from_secs(1);

fn denied(retry_after: Span) -> Verdict {
    Verdict::Deny { retry_after }
}

#[tokio::test]
async fn several_rules_pass_together_or_are_not_charged_at_all() {
    let (_server, limiter, _clock) = still(
        Limiter::builder()
            .each("client", Quota::per_second(1).burst(2))
            .remember_refusals(false)
            .all("everyone", Quota::per_minute(6).burst(3)),
    )
    .await;
    for left in [1, 0] {
        let answer = limiter.decide("ada").await;
        assert_eq!((answer.verdict(), answer.by()), (Verdict::Allow, By::Store));
        let each: Vec<(&str, u32)> = answer.each().map(|(name, it)| (name, it.remaining)).collect();
        assert_eq!(each, [("client", left), ("everyone", left + 1)]);
        assert_eq!(answer.decision().remaining, left);
    }
    let answer = limiter.decide("ada").await;
    assert_eq!(answer.verdict(), denied(SECOND));
    let violated: Vec<&str> = answer.violated().map(|(name, _)| name).collect();
    assert_eq!(violated, ["client"]);
    // The other rule was not charged for it.
    assert_eq!(answer.of("everyone").unwrap().remaining, 1);
    assert!(answer.of("nobody").is_none());
    assert_eq!(limiter.decide("bob").await.of("everyone").unwrap().remaining, 0);
    let answer = limiter.decide("carol").await;
    assert_eq!(answer.verdict(), denied(Span::from_secs(10)));
    // The longest wait of all that refuse: now there are two.
    assert_eq!(limiter.decide("ada").await.verdict(), denied(Span::from_secs(10)));
    assert_eq!(limiter.decide("ada").await.violated().count(), 2);
    assert_eq!(limiter.key("carol").cost(0).peek().await.of("client").unwrap().remaining, 2);
}

#[tokio::test]
async fn refusals_leave_nothing_behind() {
    let builder = Limiter::builder().each("client", Quota::per_second(1).burst(5));
    let (server, limiter, clock) = still(builder.remember_refusals(false)).await;
    assert!(limiter.key("ada").cost(4).decide().await.verdict().passes());
    let before = limiter.key("ada").peek().await.decision();
    let kept = server.must(&["GET", &names(&server)[0]]).unwrap();
    for cost in [2, 5, 6, 1_000] {
        assert!(!limiter.key("ada").cost(cost).decide().await.verdict().passes());
        // Nor does a key come into being by being refused.
        assert_eq!(limiter.key("bob").cost(6).decide().await.verdict(), Verdict::Never);
    }
    assert_eq!(limiter.key("ada").peek().await.decision(), before);
    assert_eq!(server.must(&["GET", &names(&server)[0]]).unwrap(), kept);
    assert_eq!(names(&server).len(), 1);
    clock.advance(SECOND);
    assert!(limiter.key("ada").cost(2).decide().await.verdict().passes());
}

#[tokio::test]
async fn costs_are_counted_and_nothing_costs_nothing() {
    let builder = Limiter::builder().each("tokens", Quota::per_second(10));
    let (server, limiter, _clock) = still(builder).await;
    let look = limiter.key("ada").cost(0).decide().await;
    assert_eq!((look.verdict(), look.decision().remaining), (Verdict::Allow, 10));
    assert!(names(&server).is_empty(), "a look leaves nothing");
    assert_eq!(limiter.key("ada").cost(7).decide().await.decision().remaining, 3);
    assert_eq!(limiter.key("ada").cost(7).peek().await.verdict(), denied(Span::from_millis(400)));
    assert_eq!(limiter.key("ada").cost(3).decide().await.decision().remaining, 0);
    assert_eq!(limiter.key("ada").cost(11).decide().await.verdict(), Verdict::Never);
}

#[tokio::test]
async fn a_rule_can_have_a_key_of_its_own() {
    let (server, limiter, _clock) = still(
        Limiter::builder().each("client", Quota::per_second(5)).each("route", Quota::per_second(2)),
    )
    .await;
    let ask = |client: &'static str| limiter.key(client).key_for("route", "/search").unwrap();
    assert!(ask("ada").decide().await.verdict().passes());
    assert!(ask("bob").decide().await.verdict().passes());
    let answer = ask("carol").decide().await;
    assert_eq!(answer.violated().map(|(name, _)| name).collect::<Vec<_>>(), ["route"]);
    // The last key for a rule is the one that counts.
    let once = limiter.key("dora").key_for("route", "/search").unwrap();
    let twice = once.key_for("route", "/other").unwrap();
    assert!(twice.decide().await.verdict().passes());
    // In a tenant, all is under its tag.
    let ask = limiter.key("x").in_tenant("acme", "eve");
    let ask = ask.key_in_tenant_for("route", "acme", "/").unwrap();
    assert!(ask.decide().await.verdict().passes());
    let names = names(&server);
    assert_eq!(names.iter().filter(|name| name.starts_with("tg:{acme}")).count(), 2);
    assert_eq!(names.iter().filter(|name| name.starts_with("tg:{%2fsearch}")).count(), 1);
}

#[tokio::test]
async fn keys_of_different_tenants_count_apart() {
    let builder = Limiter::builder().each("user", Quota::per_second(1));
    let (_server, limiter, _clock) = still(builder).await;
    for tenant in ["acme", "umbrella"] {
        let ask = || limiter.key("").in_tenant(tenant, "ada");
        assert!(ask().decide().await.verdict().passes());
        assert!(!ask().decide().await.verdict().passes());
    }
    assert!(limiter.decide("ada").await.verdict().passes());
    assert!(limiter.decide("acme").await.verdict().passes());
}

#[tokio::test]
async fn what_cannot_be_asked_never_passes() {
    let (server, limiter, _clock) = still(
        Limiter::builder().each("client", Quota::per_second(5)).all("all", Quota::per_second(5)),
    )
    .await;
    let before = calls(&server);
    let long = "x".repeat(4_097);
    assert_eq!(limiter.decide(long.as_str()).await.verdict(), Verdict::Never);
    assert_eq!(limiter.decide("").await.verdict(), Verdict::Allow);
    let ask = limiter.key("ada").key_for("client", &long).unwrap();
    assert_eq!(ask.decide().await.verdict(), Verdict::Never);
    let error = limiter.key("ada").key_for("clinet", "x").unwrap_err();
    assert_eq!(error.to_string(), "no rule is called `clinet`; the limiter has `client`, `all`");
    assert_eq!(calls(&server), before + 1 + 1, "only the empty key, with the script's text");
}

#[tokio::test]
async fn mistakes_in_building_are_named() {
    let server = Server::start().unwrap();
    let fleet = Fleet::connect(&server.url()).await.unwrap();
    let built = |builder: LimiterBuilder| builder.build_on(Arc::new(fleet.clone()));
    let refusal = |builder: LimiterBuilder| built(builder).unwrap_err().to_string();
    let new = Limiter::builder;
    assert_eq!(built(new()).unwrap_err(), BuildError::NoRules);
    let one = Quota::per_second(1);
    let text = refusal(new().each("a", one).all("a", one));
    assert_eq!(text, "two rules are called `a`: give each a name of its own");
    let text = refusal(new().each("a", one).each("b", Quota::per_second(0)));
    assert!(text.starts_with("rule `b`: "), "{text}");
    let many = (0..=RedisStore::LIMITS_MAX).fold(new(), |all, it| all.each(&it.to_string(), one));
    assert_eq!(built(many).unwrap_err(), BuildError::TooMany);
    let text = refusal(new().all(&"x".repeat(4_097), one));
    assert!(text.contains("4096") || text.contains("4_096"), "{text}");
    let text = Fleet::connect("http://x").await.unwrap_err().to_string();
    assert!(text.contains("redis://"), "{text}");
    let nobody = Settings::from_url("redis://127.0.0.1:1").unwrap();
    let text = RedisStore::builder(nobody).required().connect().await.unwrap_err().to_string();
    assert!(text.starts_with("nobody answers at `127.0.0.1:1`"), "{text}");
}

#[tokio::test]
async fn permits_come_back() {
    let builder = Limiter::builder()
        .each("flights", permits(2, Span::from_secs(30)))
        .each("starts", Quota::per_second(100));
    let (_server, limiter, clock) = still(builder).await;
    let enter = async || limiter.key("ada").enter().await;
    let starts = async || limiter.key("ada").cost(0).peek().await.of("starts").unwrap().remaining;
    let (one, two) = (enter().await.unwrap(), enter().await.unwrap());
    assert_eq!((two.by(), two.decision().remaining), (By::Store, 0));
    let answer = enter().await.unwrap_err();
    assert_eq!(answer.violated().map(|(name, _)| name).collect::<Vec<_>>(), ["flights"]);
    // Released: the permit is there again, and what else was charged stands.
    one.release().await;
    assert_eq!(starts().await, 98);
    let three = enter().await.unwrap();
    // Refunded: all is as if it had not been.
    three.refund().await;
    assert_eq!(starts().await, 98);
    let four = enter().await.unwrap();
    assert!(enter().await.is_err());
    // Dropped: it comes back without anybody waiting for it.
    drop(four);
    let free = async || limiter.key("ada").peek().await.verdict().passes();
    tokio::time::timeout(LONG, async { while !free().await {} }).await.unwrap();
    // A caller that vanishes keeps it until its lease is over, and not for longer.
    let five = enter().await.unwrap();
    std::mem::forget((two, five));
    clock.advance(Span::from_micros(29_999_999));
    assert!(!free().await);
    clock.advance(Span::from_micros(1));
    assert_eq!(limiter.key("ada").cost(2).peek().await.verdict(), Verdict::Allow);
}

#[tokio::test]
async fn permits_of_one_key_and_of_all_are_taken_and_given_back_together() {
    let lease = Span::from_secs(30);
    let builder = Limiter::builder().each("each", permits(2, lease));
    let (_server, limiter, clock) = still(builder.all("all", permits(3, lease))).await;
    let left = async |key: &str| {
        let answer = limiter.key(key).cost(0).peek().await;
        ["each", "all"].map(|rule| answer.of(rule).unwrap().remaining)
    };
    let enter = async |key: &'static str| limiter.key(key).enter().await;
    let one = enter("ada").await.unwrap();
    let (two, three) = (enter("ada").await.unwrap(), enter("bob").await.unwrap());
    assert!(enter("cleo").await.is_err() && enter("ada").await.is_err());
    assert_eq!((left("cleo").await, left("ada").await), ([2, 0], [0, 0]));
    one.release().await;
    assert_eq!((left("ada").await, left("bob").await), ([1, 1], [1, 1]));
    drop(two);
    tokio::time::timeout(LONG, async { while left("ada").await != [2, 2] {} }).await.unwrap();
    // A caller that vanishes gives back both when the lease is over.
    std::mem::forget(three);
    clock.advance(Span::from_micros(29_999_999));
    assert_eq!(left("bob").await, [1, 2]);
    clock.advance(Span::from_micros(1));
    assert_eq!(left("bob").await, [2, 3]);
}

#[tokio::test]
async fn a_permit_is_given_back_once() {
    let builder = Limiter::builder().each("flights", permits(3, Span::from_secs(30)));
    let (_server, limiter, _clock) = still(builder).await;
    let held = limiter.key("ada").enter().await.unwrap();
    let released = limiter.key("ada").enter().await.unwrap();
    released.release().await;
    let refunded = limiter.key("ada").enter().await.unwrap();
    refunded.refund().await;
    let left = async || limiter.key("ada").cost(0).peek().await.decision().remaining;
    assert_eq!(left().await, 2, "both were dropped after they were given back");
    drop(held);
    tokio::time::timeout(LONG, async { while left().await < 3 {} }).await.unwrap();
    // Decided without being entered, it stands until its lease ends.
    assert!(limiter.decide("ada").await.verdict().passes());
    assert_eq!((left().await, left().await), (2, 2));
}

#[tokio::test]
async fn a_changed_quota_keeps_what_was_consumed() {
    let builder = Limiter::builder().each("client", Quota::per_second(10));
    let (server, limiter, _clock) = still(builder).await;
    assert!(limiter.key("ada").cost(8).decide().await.verdict().passes());
    let before = names(&server);
    limiter.change("client", Quota::per_second(20)).unwrap();
    // A raise grants the difference.
    assert_eq!(limiter.key("ada").cost(0).peek().await.decision().remaining, 12);
    assert_eq!(limiter.decide("ada").await.decision().remaining, 11);
    let after = names(&server);
    assert_eq!((before.len(), after.len()), (1, 1), "{after:?}");
    assert_ne!(before, after, "the former state is gone");
    // A cut takes it, and never goes below nothing.
    limiter.change("client", Quota::per_second(5)).unwrap();
    let answer = limiter.decide("ada").await;
    assert_eq!((answer.decision().limit, answer.decision().remaining), (5, 0));
    assert!(!answer.verdict().passes());
    assert_eq!(names(&server).len(), 1);
    // Somebody who comes only now is not concerned.
    assert_eq!(limiter.decide("bob").await.decision().remaining, 4);
    let unknown = limiter.change("clinet", Quota::per_second(5));
    assert_eq!(unknown, Err(ChangeError::UnknownRule));
    let text = unknown.unwrap_err().to_string();
    assert_eq!(text, "no rule has this name: give one that the limiter was built with");
}

#[tokio::test]
async fn a_changed_quota_ends_a_remembered_refusal() {
    let builder = Limiter::builder().each("client", Quota::per_second(1));
    let (_server, limiter, _clock) = still(builder).await;
    assert!(limiter.decide("ada").await.verdict().passes());
    assert_eq!(limiter.decide("ada").await.by(), By::Store);
    assert_eq!(limiter.decide("ada").await.by(), By::Remembered);
    limiter.change("client", Quota::per_second(2)).unwrap();
    let answer = limiter.decide("ada").await;
    assert_eq!((answer.by(), answer.verdict()), (By::Store, Verdict::Allow));
}

#[tokio::test]
async fn a_reset_is_for_the_key_and_for_the_whole_fleet() {
    let server = Server::start().unwrap();
    let (store, clock) = still_store(&server.url()).await;
    let builder = || {
        let builder = Limiter::builder().each("client", Quota::per_second(2));
        builder.each("daily", Quota::per_day(9)).all("everyone", Quota::per_second(9))
    };
    let here = Node::on(store, builder());
    let there = Node::on(store_by(&server.url(), &clock).await, builder());
    for limiter in [&here, &there] {
        assert!(limiter.decide("ada").await.verdict().passes());
    }
    assert!(!here.decide("ada").await.verdict().passes());
    assert!(there.decide("bob").await.verdict().passes());
    there.reset("ada").await.unwrap();
    let look = here.key("ada").cost(0).peek().await;
    let left: Vec<u32> = look.each().map(|(_, it)| it.remaining).collect();
    assert_eq!(left, [2, 9, 6], "what counts everybody is not about one key");
    assert_eq!(here.key("bob").cost(0).peek().await.of("client").unwrap().remaining, 1);
}

#[tokio::test]
async fn every_decision_is_counted_by_what_made_it() {
    let builder = Limiter::builder().each("client", Quota::per_second(3));
    let (_server, limiter, _clock) = still(builder).await;
    for _ in 0..10 {
        let _ = limiter.decide("ada").await;
    }
    let counts = limiter.counts();
    assert_eq!((counts.store, counts.remembered), (4, 6));
    assert_eq!((counts.local, counts.open, counts.closed, counts.unanswered), (0, 0, 0, 0));
    until(LONG, "all is well", || limiter.store().health().is_connected()).unwrap();
}
