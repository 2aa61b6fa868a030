//! Requests that say several things at once: what restricts is for any of them, and what exempts is
//! for all.

use serde_json::json;

use super::identity::{NOW, NOW_SECONDS, loaded, request, token};
use crate::request::Sample;
use crate::rules::Rules;

fn rules(policy: &str) -> Rules {
    loaded(policy).rules
}

/// The rules that count a request and what it costs there; `blocked` or `passed` where one ends it.
#[track_caller]
fn plan(rules: &Rules, sample: &Sample) -> String {
    let facts = rules.facts(sample, NOW);
    let plan = rules.plan(&facts);
    if let Some(stopped) = plan.stopped {
        return if stopped.blocks { "blocked" } else { "passed" }.to_owned();
    }
    let charges = plan.charges.iter().map(|it| format!("{}={}", it.rule.name(), it.cost));
    charges.collect::<Vec<_>>().join(" ")
}

#[test]
fn junk_in_front_of_a_token_hides_it_from_no_rule() {
    let secret = b"an example of a secret, of 32 b.";
    let claims = |plan: &str| json!({ "plan": plan, "n": 7, "exp": NOW_SECONDS + 60 });
    let [trial, paid] = ["trial", "paid"].map(|plan| token(secret, "HS256", &claims(plan)));
    let text = "rules:
  - { name: trial, match: { jwt: { plan: trial } }, limit: 5/min }
  - { name: some, match: { jwt: { plan: t* } }, limit: 5/min }
  - { name: both, match: { jwt: { plan: trial, n: '7' }, path: / }, limit: 5/min }
  - { name: not, match: { not: { jwt: { plan: paid } } }, limit: 5/min }
  - { name: paid, match: { jwt: { plan: paid } }, unlimited: true }
  - { name: rest, limit: 1000/min, cost: { from: jwt:n, max: 50 } }";
    let in_cookie = rules(&format!("jwt: {{ secret_env: SECRET, in: 'cookie:token' }}\n{text}"));
    let in_header = rules(&format!("jwt: {{ secret_env: SECRET }}\n{text}"));
    let check = |tokens: &[&str], expected: &str| {
        let cookies: Vec<String> = tokens.iter().map(|it| format!("token={it}")).collect();
        let by_cookie = request("/").with_header("cookie", cookies.join("; "));
        assert_eq!(plan(&in_cookie, &by_cookie), expected, "{tokens:?}");
        let by_header = tokens.iter().fold(request("/"), |sample, token| {
            sample.with_header("authorization", format!("Bearer {token}"))
        });
        assert_eq!(plan(&in_header, &by_header), expected, "{tokens:?}");
    };
    let all = "trial=1 some=1 both=1 not=1";
    check(&[&trial], &format!("{all} rest=7"));
    check(&[&paid], "passed");
    check(&[&trial, "!1", "!2", "!3"], &format!("{all} rest=7"));
    check(&["!1", "!2", "!3", &trial], &format!("{all} rest=7"));
    check(&[&paid, "!1"], "not=1 rest=7");
    for tokens in [
        [&trial, "!1", "!2", "!3", "!4"],
        ["!1", "!2", "!3", "!4", &trial],
        ["!1", "!2", "!3", "!4", &paid],
        [&paid, "!1", "!2", "!3", "!4"],
    ] {
        check(&tokens, &format!("{all} rest=50"));
    }
}
