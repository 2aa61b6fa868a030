//! What a file of tests is read as, and what is said about mistakes. Runs are tested in the gate.

use super::*;
use crate::request::Request as _;

fn read(text: &str) -> Result<Suite, Report> {
    Suite::from_bytes("a.tests.yaml", text.as_bytes(), Format::Yaml)
}

/// A test with these steps.
fn steps(steps: &str) -> String {
    format!("tests: [{{ name: a, steps: [{steps}] }}]")
}

fn refuses(text: &str, messages: &[&str]) {
    let report = read(text).map(|_| ()).expect_err(text);
    let found: Vec<&str> = report.problems().map(|found| found.message.as_str()).collect();
    assert_eq!(found, messages, "{text}");
}

#[test]
fn times_are_since_the_start() {
    let suite = read(&steps(
        "{ send: GET /, expect: allow, times: 3, every: 2s }, { wait: 1s }, \
         { wait: 500ms, send: GET /, expect: deny }, { at: 1min, send: /, expect: block }, \
         { wait: 7us, send: /, expect: never }",
    ));
    let suite = suite.unwrap();
    let [test] = suite.tests() else { panic!("one test") };
    assert_eq!(test.start, Tick::from_micros(1_767_225_600_000_000));
    let after: Vec<u64> = test.steps.iter().map(|step| step.after.get()).collect();
    assert_eq!(after, [0, 5_500_000, 60_000_000, 60_000_007]);
    let ends: Vec<Ends> = test.steps.iter().map(|step| step.expect.value).collect();
    assert_eq!(ends, [Ends::Allow, Ends::Deny, Ends::Block, Ends::Never]);
}

#[test]
fn a_step_says_only_what_is_different() {
    let suite = read(
        "tests: [{ name: a, start: 2026-03-29T00:30:00+01:00, send: POST /login?a=b, \
         from: 192.0.2.1, header: { X-A: 1, x-b: [2, 3] }, attribute: { user: ada }, \
         steps: [{ expect: allow, header: { x-b: 4 } }, \
         { expect: allow, send: /, from: '2001:db8::1', attribute: { user: bob } }] }]",
    );
    let suite = suite.unwrap();
    assert_eq!(suite.tests()[0].start, Tick::from_micros(1_774_740_600_000_000));
    let [first, second] = &suite.tests()[0].steps[..] else { panic!("two steps") };
    let lines = |request: &Sample, name: &str| {
        let mut lines = Vec::new();
        request.header_lines(name, &mut |line| lines.push(String::from_utf8_lossy(line)));
        lines.join(",")
    };
    let request = &first.request;
    assert_eq!(
        (request.method(), request.path(), request.query()),
        ("POST", "/login", Some("a=b"))
    );
    assert_eq!((lines(request, "x-a"), lines(request, "x-b")), ("1".into(), "4".into()));
    assert_eq!(
        (request.peer(), request.attribute("user")),
        ("192.0.2.1".parse().ok(), Some("ada"))
    );
    let request = &second.request;
    assert_eq!((request.method(), request.path(), request.query()), ("GET", "/", None));
    assert_eq!(lines(request, "x-b"), "2,3");
    assert_eq!(request.peer(), "2001:db8::1".parse().ok());
    assert_eq!(request.attribute("user"), Some("bob"));
}

#[test]
fn a_response_is_answered_with() {
    let text = "{ send: /, expect: allow, respond: { status: 404, header: { X-Cost: 7 } } }, \
                { send: /, expect: allow, respond: { header: { a: b } } }";
    let suite = read(&steps(text)).unwrap();
    let [first, second] = &suite.tests()[0].steps[..] else { panic!("two steps") };
    let response = first.response.as_ref().unwrap();
    assert_eq!((response.status(), response.header("x-cost")), (404, Some(&b"7"[..])));
    assert_eq!(response.header("x-other"), None);
    assert_eq!(second.response.as_ref().unwrap().status(), 200);
}

#[test]
fn what_says_nothing_is_a_mistake() {
    for (text, message) in [
        ("{ send: /, expect: allow, by: a }", "a request that passes is refused by nobody"),
        ("{ send: /, expect: never, retry_after: 1s }", "only `expect: deny` has a `retry_after`"),
        ("{ send: /, expect: allow, delay: 1s }", "only `expect: delay` has a `delay`"),
        (
            "{ send: /, expect: deny, respond: { status: 200 } }",
            "a request that is refused is not answered",
        ),
        ("{ send: /, expect: block, takes: 1s }", "a request that is refused is never under way"),
        ("{ wait: 1s, at: 1s }", "`at` and `wait` both say when"),
        ("{ wait: 2s }, { at: 1s }", "`1s` is over: the step above is at `2s`"),
        ("{ expect: allow }", "nothing says what is sent"),
        ("{ send: / }", "`expect` is missing in a step"),
        ("{}", "`expect` is missing in a step"),
        ("{ send: search, expect: allow }", "`search` is no request"),
        ("{ send: GET /a b, expect: allow }", "`GET /a b` is no request"),
        ("{ send: /, expect: allow, from: localhost }", "`localhost` is no address"),
        ("{ send: /, expect: allow, takes: 5 }", "`5` has no unit"),
    ] {
        let expected = [message, "nothing says what is sent"];
        refuses(&steps(text), if text == "{}" { &expected } else { &expected[..1] });
    }
    refuses("policy: a.yaml", &["`tests` is missing in a file of tests"]);
    refuses("tests: [{ name: a }]", &["`steps` is missing in a test"]);
    let start = "tests: [{ name: a, start: 2026-03-29, steps: [{ wait: 1s }] }]";
    refuses(start, &["`2026-03-29` is no time since 1970"]);
}

#[test]
fn everything_has_an_end() {
    let many = "{ wait: 1ms }, ".repeat(STEPS_MAX + 1);
    refuses(&steps(&many), &["a file has at most 100000 steps"]);
    assert!(read(&steps(&"{ wait: 1ms }, ".repeat(STEPS_MAX))).is_ok());
    let send = "{ send: /, expect: allow, times: 1000000 }, ";
    refuses(&steps(&send.repeat(11)), &["a file sends at most 10000000 requests"]);
    assert!(read(&steps(&send.repeat(10))).is_ok());
    let slow = "{ send: /, expect: allow, times: 1000000, every: 366day }";
    refuses(&steps(slow), &["a test lasts at most 100 years"]);
    let lines = |count: usize| vec!["b"; count].join(", ");
    let headers = |count| {
        steps(&format!("{{ send: /, expect: allow, header: {{ a: [{}] }} }}", lines(count)))
    };
    refuses(&headers(1_001), &["there are more than 1000 lines of headers"]);
    assert!(read(&headers(1_000)).is_ok());
    let attributes: Vec<String> = (0..=1_000).map(|at| format!("a{at}: b")).collect();
    let attributes = attributes.join(", ");
    let step = format!("{{ send: /, expect: allow, attribute: {{ {attributes} }} }}");
    refuses(&steps(&step), &["there are more than 1000 attributes"]);
    let giant = vec![b' '; crate::FILE_BYTES_MAX + 1];
    assert!(Suite::from_bytes("a", &giant, Format::Yaml).is_err());
}

/// What a test says of all its steps stands in the file once, but each of them has it.
#[test]
fn what_is_said_of_all_steps_has_an_end() {
    let long = "b".repeat(10_000);
    for said in [
        format!("send: /, header: {{ a: [{}] }}", vec!["b"; 1_000].join(", ")),
        format!("send: /, header: {{ a: {long} }}"),
        format!("send: /, attribute: {{ a: {long} }}"),
        format!("send: /{long}"),
    ] {
        let steps = "{ expect: allow }, ".repeat(50_000);
        let text = format!("tests: [{{ name: a, {said}, steps: [{steps}] }}]");
        refuses(&text, &["the requests of a file have at most 256 MiB together"]);
    }
}

#[test]
fn rules_that_the_policy_does_not_have_are_found() {
    let rules = Rules::from_text("rules: [{ name: per-client, limit: 1/s }]").unwrap().rules;
    let good = "{ send: /, expect: deny, by: per-client, shadow: none, cost: { per-client: 1 } }";
    assert_eq!(read(&steps(good)).unwrap().check(&rules), Ok(()));
    let bad = "{ send: /, expect: deny, by: per-clint, shadow: [a], rules: [b, none], \
               remaining: { c: 1 }, cost: { d: 1 } }";
    let bursty = "rules: [{ name: bursty, limit: 1/s, credits: { for: 9s, rate: 2x } }]";
    let bursty = Rules::from_text(bursty).unwrap().rules;
    let both = "{ send: /, expect: deny, by: bursty-peak, rules: [bursty, bursty-peak] }";
    assert_eq!(read(&steps(both)).unwrap().check(&bursty), Ok(()));
    let report = read(&steps(bad)).unwrap().check(&rules).unwrap_err();
    let found: Vec<&str> = report.problems().map(|found| found.message.as_str()).collect();
    let wanted = ["per-clint", "a", "b", "none", "c", "d"];
    assert_eq!(found, wanted.map(|name| format!("the policy has no rule `{name}`")));
    let help = report.problems().next().and_then(|found| found.help.as_deref());
    assert_eq!(help, Some("did you mean `per-client`?"));
}

#[test]
fn a_place_is_shown_with_its_line() {
    let suite = read("tests:\n  - name: a\n    steps:\n      - { wait: 1s }\n").unwrap();
    let finding = suite.finding(suite.tests()[0].at, "wrong", "at the start");
    assert_eq!((finding.line, finding.column), (2, 11));
    assert!(finding.to_string().contains("2 |   - name: a"), "{finding}");
}
