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

/// Spellings of a parameter, each of which some applications read and others do not.
const ODD: [&str; 9] = [
    "DRY=1",
    "x;dry=1",
    "dry[]=1",
    "dry[x]=1",
    "dry%00=1",
    "+dry=1",
    "dry=1;x",
    "dry=1&dry[]=1",
    "DRY=1&dry=1",
];

#[test]
fn a_parameter_exempts_by_its_own_name_and_restricts_by_any() {
    let rules = rules(
        "costs: [{ match: { path: /b, query: { dry: '1' } }, cost: 1 }, { path: /b, cost: 50 }]
rules:
  - { name: free, match: { path: /a, query: { dry: '1' } }, unlimited: true }
  - { name: easy, match: { path: /c, query: { dry: '1' } }, last: true, limit: 1000/min }
  - { name: not, match: { path: /d, not: { query: { dry: '*' } } }, limit: 2/min }
  - { name: hard, match: { path: /e, query: { dry: '1' } }, limit: 2/min }
  - { name: rest, limit: 90/min }",
    );
    for query in ["dry=1", "x=2&dry=1", "dry=%31", "d%72y=1", "dry=1&dry=1", "dry=1&x;y"] {
        for (path, expected) in [
            ("/a", "passed"),
            ("/b", "rest=1"),
            ("/c", "easy=1"),
            ("/d", "rest=1"),
            ("/e", "hard=1 rest=1"),
        ] {
            assert_eq!(plan(&rules, &request(&format!("{path}?{query}"))), expected, "{query}");
        }
    }
    for query in ODD {
        for (path, expected) in [
            ("/a", "rest=1"),
            ("/b", "rest=50"),
            ("/c", "easy=1 rest=1"),
            ("/d", "not=1 rest=1"),
            ("/e", "hard=1 rest=1"),
        ] {
            assert_eq!(plan(&rules, &request(&format!("{path}?{query}"))), expected, "{query}");
        }
    }
    let dotted = "rules:
  - { name: free, match: { query: { dry_run: '1' } }, unlimited: true }
  - { name: rest, limit: 9/min }";
    assert_eq!(plan(&self::rules(dotted), &request("/?dry.run=1")), "rest=1");
}

#[test]
fn a_cookie_exempts_by_its_value_as_it_is_sent() {
    let rules = rules(
        "rules:
  - { name: free, match: { cookie: { dry: ['1', 'a%20b'] } }, unlimited: true }
  - { name: any, match: { path: /any, cookie: { dry: '*' } }, unlimited: true }
  - { name: hard, match: { cookie: { dry: ['1', 'a b'] } }, limit: 2/min }
  - { name: rest, limit: 90/min }",
    );
    for (line, cookie, expected) in [
        ("/", "dry=1", "passed"),
        ("/", "x=2;  dry=1 ; dry=1", "passed"),
        ("/", "dry=a%20b", "passed"),
        ("/", "dry=%31", "hard=1 rest=1"),
        ("/", "dry=\"1\"", "hard=1 rest=1"),
        ("/", "dry=1; dry=%31", "hard=1 rest=1"),
        ("/any", "dry=%31", "passed"),
        ("/any", "dry=s%3Aabc", "passed"),
        ("/any", "dry=", "rest=1"),
    ] {
        assert_eq!(
            plan(&rules, &request(line).with_header("cookie", cookie)),
            expected,
            "{cookie}"
        );
    }
}

#[test]
fn of_several_tiers_the_one_that_gives_least_counts() {
    let head = "tiers: { header: x-tier, default: pro, names: [free, trial, pro] }";
    let by_match = rules(&format!(
        "{head}
rules:
  - {{ name: trial, match: {{ tier: trial }}, limit: 5/min }}
  - {{ name: path, match: {{ path: /, tier: [trial, free] }}, limit: 5/min }}
  - {{ name: not, match: {{ not: {{ tier: pro }} }}, limit: 5/min }}
  - {{ name: pro, match: {{ tier: pro }}, unlimited: true }}"
    ));
    let by_limit = rules(&format!(
        "{head}
rules: [{{ name: a, limit: {{ pro: 100/min, trial: 5/min, free: block }} }}]"
    ));
    let variant = |sample: &Sample| {
        let facts = by_limit.facts(sample, NOW);
        let plan = by_limit.plan(&facts);
        let charge = plan.charges.first();
        charge.map_or("blocked".into(), |it| it.rule.variants()[it.variant].id().to_owned())
    };
    for (tiers, matched, charged) in [
        (&[][..], "passed", "pro"),
        (&["pro"], "passed", "pro"),
        (&["pro", "pro"], "passed", "pro"),
        (&["trial"], "trial=1 path=1 not=1", "trial"),
        (&["trial", "x"], "trial=1 path=1 not=1", "trial"),
        (&["x", "trial"], "trial=1 path=1 not=1", "trial"),
        (&["trial", ""], "trial=1 path=1 not=1", "trial"),
        (&["pro", "trial"], "trial=1 path=1 not=1", "trial"),
        (&["pro", "free", "trial"], "trial=1 path=1 not=1", "blocked"),
        (&["x", "y"], "passed", "pro"),
    ] {
        let sample = tiers.iter().fold(request("/"), |it, tier| it.with_header("x-tier", tier));
        assert_eq!(plan(&by_match, &sample), matched, "{tiers:?}");
        assert_eq!(variant(&sample), charged, "{tiers:?}");
    }
}

#[test]
fn more_tokens_than_are_looked_at_may_be_of_any_tier() {
    let rules = rules(
        "jwt: { secret_env: SECRET }
tiers: { from: jwt:plan, default: pro, names: [pro, trial] }
rules: [{ name: a, limit: { pro: 9/s, trial: block } }]",
    );
    let junk = ["!1", "!2", "!3", "!4", "!5"];
    for (count, expected) in [(1, "a=1"), (4, "a=1"), (5, "blocked")] {
        let sample =
            junk[..count].iter().fold(request("/"), |it, one| it.with_header("authorization", one));
        assert_eq!(plan(&rules, &sample), expected, "{count}");
    }
}
