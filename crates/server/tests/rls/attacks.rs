//! Clients that try to get around a limit by what they write, through a real Envoy that lets pass
//! whatever it gets an error about.

use tidegate_server::rls::RlsSettings;
use tokio::task::block_in_place;

use crate::proxy::{ALLOWS, Proxy, is_there, server_at};
use crate::stand::{Files, NO_RULES, Stand, descriptor, request};

const LIMIT: u16 = 9;

const POLICY: &str = "rules: [{ name: everybody, limit: 9/day, algorithm: fixed-window }]";

const FILES: &str = "
- { key: all, rate_limit: { unit: year, requests_per_unit: 9 } }
- { key: path }
- { key: query }
- { key: plan, rate_limit: { unit: year, requests_per_unit: 4000000 } }
- { key: many, rate_limit: { unit: year, requests_per_unit: 4000000 } }
";

/// What Envoy tells of each request: many descriptors of a header, if it is there.
fn actions() -> String {
    let header = |name: &str, key: &str| {
        format!("request_headers: {{ header_name: {name:?}, descriptor_key: {key} }}")
    };
    let all = "generic_key: { descriptor_key: all, descriptor_value: all }";
    let query = "query_parameters: { query_parameter_name: pad, descriptor_key: query }";
    let own = "header_value_match: { descriptor_key: own, descriptor_value: x, \
               headers: [{ name: x-limit, present_match: true }] }";
    let mut each: Vec<String> =
        [all.to_owned(), header(":path", "path"), query.to_owned(), header("x-plan", "plan")]
            .into_iter()
            .map(|action| format!("{{ actions: [{{ {action} }}] }}"))
            .collect();
    for number in 0..24 {
        let many = header("x-many", "many");
        let number =
            format!("generic_key: {{ descriptor_key: at, descriptor_value: at-{number} }}");
        each.push(format!("{{ actions: [{{ {many} }}, {{ {number} }}] }}"));
    }
    let limit =
        "limit: { dynamic_metadata: { metadata_key: { key: limits, path: [{ key: own }] } } }";
    each.push(format!("{{ actions: [{{ {own} }}], {limit} }}"));
    format!("[{}]", each.join(", "))
}

fn plain() -> Vec<u8> {
    get(b"/", "", b"")
}

fn get(target: &[u8], name: &str, value: &[u8]) -> Vec<u8> {
    let mut request = [b"GET ", target, b" HTTP/1.1\r\nhost: a.example\r\n"].concat();
    if !name.is_empty() {
        request.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
    }
    request.extend(b"\r\n");
    request
}

/// Requests that were answered with an error once, and so went through.
fn attacks() -> Vec<(&'static str, Vec<u8>)> {
    let long = "x".repeat(50_000);
    vec![
        ("many long descriptors", get(b"/", "x-many", long.as_bytes())),
        ("a long query", get(format!("/?pad={}", &long[..1_025]).as_bytes(), "", b"")),
        ("a very long query", get(format!("/?pad={long}").as_bytes(), "", b"")),
        ("a header that is long", get(b"/", "x-plan", &long.as_bytes()[..1_025])),
        ("a header that is very long", get(b"/", "x-plan", long.as_bytes())),
        ("a header with bytes that are no text", get(b"/", "x-plan", b"a\xff\xfe")),
        ("many descriptors", get(b"/", "x-many", b"1")),
    ]
}

/// Each attack is counted while there is room, and refused when there is none.
async fn check(stand: Stand) {
    let envoy = block_in_place(|| Proxy::start(stand.grpc, &actions(), ALLOWS)).expect("Envoy");
    let mut passed = 0;
    let mut counted = attacks();
    // One is too long for any message: it is refused, whatever room there is.
    let (name, too_long) = counted.remove(0);
    // It is answered before all of it has come, and on a connection that has to go on: of HTTP/2.
    for _ in 0..20 {
        assert_eq!(envoy.status(&too_long), 429, "{name}");
    }
    for (name, attack) in &counted {
        assert_eq!(envoy.status(attack), 200, "{name}");
        passed += 1;
    }
    for _ in passed..LIMIT {
        assert_eq!(envoy.status(&plain()), 200);
    }
    for (name, attack) in attacks() {
        assert_eq!(envoy.status(&attack), 429, "{name}");
    }
    // Envoy itself refuses such a path.
    let odd = envoy.status(&get(b"/\xff", "", b""));
    assert!([400, 429].contains(&odd), "{odd}");
    assert_eq!(envoy.status(&plain()), 429);
    stand.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_a_client_writes_gets_around_a_policy() {
    if is_there() {
        check(server_at(0, POLICY, None).await).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_a_client_writes_gets_around_the_files_of_ratelimit() {
    if is_there() {
        let files = Files::new(FILES);
        check(server_at(0, NO_RULES, Some(files.path())).await).await;
    }
}

/// A client that may choose its limit has one count, whatever it chooses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_limits_that_come_along_is_one_count() {
    if !is_there() {
        return;
    }
    let files = Files::new("- { key: other }");
    for folder in [None, Some(files.path())] {
        let stand = server_at(0, NO_RULES, folder).await;
        let envoy = block_in_place(|| Proxy::start(stand.grpc, &actions(), ALLOWS)).unwrap();
        let status = |limit: u32| envoy.status(&get(b"/", "x-limit", limit.to_string().as_bytes()));
        let statuses: Vec<u16> = (1..=300).rev().map(status).collect();
        // One by one the count rises and the limit falls, until they meet.
        assert!(statuses[..150].iter().all(|status| *status == 200), "{statuses:?}");
        assert!(statuses[150..].iter().all(|status| *status == 429), "{statuses:?}");
        assert_eq!((status(150), status(151), status(151), status(0)), (429, 200, 429, 429));
        stand.stop().await;
    }
}

/// In JSON as well: what is too long, no text or too many is judged.
#[tokio::test]
async fn nothing_that_a_client_writes_is_an_error_in_json() {
    let policy = "rules: [{ name: each, key: 'attribute:k', limit: 1/day }]";
    let stand = Stand::new(policy, None, RlsSettings::default()).await;
    let http = stand.http.port();
    let asked = move |value: Vec<u8>, more: String| async move {
        let body = [
            br#"{"domain":"web","descriptors":[{"entries":[{"key":"k","value":""#,
            &*value,
            br#""}]"#,
            more.as_bytes(),
            b"}]}",
        ]
        .concat();
        let headers = [("content-type", "application/json")];
        let send = move || {
            let mut client = tidegate_testbed::Http::connect(http)?;
            client.send("POST", "/json", &headers, &body)
        };
        tokio::task::spawn_blocking(send).await.unwrap().unwrap()
    };
    let none = String::new;
    for value in ["x".repeat(5_000).into_bytes(), b"\xff\xfe".to_vec(), br"\ud800a".to_vec()] {
        let statuses =
            (asked(value.clone(), none()).await.status, asked(value, none()).await.status);
        assert_eq!(statuses, (200, 429));
    }
    let hits = r#","hitsAddend":"18446744073709551616""#.to_owned();
    assert_eq!(asked(b"hits".to_vec(), hits).await.status, 429);
    let unit = r#","limit":{"requestsPerUnit":5,"unit":"EON"}"#.to_owned();
    assert_eq!(asked(b"unit".to_vec(), unit).await.status, 429);
    let many = r#"},{"entries":[{"key":"other"}]"#.repeat(70);
    assert_eq!(asked(b"many".to_vec(), many).await.status, 429);
    for bytes in [(1 << 20) + 1, 3 << 20] {
        let refused = asked(vec![b'x'; bytes], none()).await;
        assert_eq!(refused.text(), r#"{"overallCode":"OVER_LIMIT"}"#);
        assert_eq!(refused.status, 429);
    }
    assert_eq!(asked(b"plain".to_vec(), none()).await.status, 200);
    stand.stop().await;
}

/// A message that is too large gets an answer, and not an error.
#[tokio::test]
async fn a_message_that_is_too_large_is_over_the_limit() {
    use tidegate_server::rls::proto::Code;
    let mut stand =
        Stand::by_policy("rules: [{ name: each, key: 'attribute:k', limit: 1/day }]").await;
    let mut asked = request("web", &[]);
    asked.descriptors = vec![descriptor(&[("k", &"x".repeat(30_000))]); 40];
    for _ in 0..2 {
        let response = stand.send(asked.clone()).await.unwrap();
        assert_eq!(response.overall_code(), Code::OverLimit);
    }
    assert_eq!(stand.passed(2, &[&[("k", "v")]]).await, 1, "the connection goes on");
    stand.stop().await;
}
