//! Who administers, and who does not: neighbours on this machine, web pages in somebody's browser,
//! names that lead here by somebody else's wish.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use serde_json::json;
use tidegate_gate::Gate;
use tidegate_server::{Ended, Guard, Server, Settings, Tokens};
use tidegate_testbed::{Http, HttpAnswer};

use crate::world::{World, answer};

const POLICY: &str = "rules: [{ name: all, limit: 1/h, adaptive: 50% }]";
const JSON: (&str, &str) = ("content-type", "application/json");

/// Everything that administrators ask for.
const ASKED: [(&str, &str, &str); 4] = [
    ("POST", "/v1/reset", "{}"),
    ("POST", "/v1/reload", ""),
    ("POST", "/v1/clock", r#"{"advance_us":3600000000}"#),
    ("PUT", "/v1/load", r#"{"source":"page","load":1000}"#),
];

/// Sends a request as it is, and to `host` if there is one among the headers.
fn send(world: &World, asked: (&str, &str, &str), headers: &[(&str, &str)]) -> HttpAnswer {
    let (method, path, body) = asked;
    let mut http = Http::connect(world.http()).unwrap();
    http.send(method, path, headers, body.as_bytes()).unwrap()
}

/// A world in which the only request has been made.
fn used_up(set: impl FnOnce(&mut Settings)) -> World {
    let world = World::with(POLICY, set);
    assert_eq!(world.post("/v1/check", "{}").1["verdict"], "allow");
    world
}

#[track_caller]
fn nothing_has_happened(world: &World) {
    let told = world.post("/v1/check", "{}").1;
    assert_eq!((&told["verdict"], &told["limit"]), (&json!("deny"), &json!(1)));
}

#[test]
fn who_is_on_this_machine_proves_nothing_by_that() {
    let worlds = [used_up(|settings| settings.guard = Guard::default()), used_up(|_| {})];
    for world in worlds {
        for asked in ASKED {
            let told = send(&world, asked, &[JSON]);
            assert_eq!(told.status, 403, "{asked:?}");
            assert!(told.text().contains("token"), "{}", told.text());
            // A guess is no better than nothing.
            let guess = ("authorization", "Bearer 0123456789abcdef");
            assert_eq!(send(&world, asked, &[JSON, guess]).status, 403, "{asked:?}");
        }
        let refused = world.resp().call(&["TIDEGATE.RESET"]).unwrap();
        assert!(refused.text().starts_with("NOPERM"), "{refused:?}");
        nothing_has_happened(&world);
    }
}

/// What a page can have a browser send to this machine, with whatever the browser adds by itself:
/// should the page know a token, or the browser have a certificate, that is not enough.
#[test]
fn a_web_page_administers_nothing() {
    let world = used_up(|_| {});
    let token = ("x-tidegate-token", &*world.token);
    let origin = ("origin", "http://127.0.0.1:3000");
    for asked in ASKED {
        for said in [
            &[("content-type", "text/plain"), origin][..],
            &[("content-type", "text/plain"), origin, ("sec-fetch-site", "cross-site")],
            &[JSON, ("sec-fetch-site", "same-site")],
            &[JSON, ("sec-fetch-site", "same-origin")],
            &[JSON, ("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")],
            &[JSON, ("origin", "null")],
        ] {
            assert_eq!(send(&world, asked, said).status, 403, "{asked:?} {said:?}");
            let told = send(&world, asked, &[said, &[token]].concat());
            assert_eq!(told.status, 403, "{asked:?} {said:?}");
            assert!(told.text().contains("no web page"), "{}", told.text());
        }
        // A form that says nothing of where it comes from.
        for form in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
            let told = send(&world, asked, &[("content-type", form), token]);
            assert_eq!(told.status, 415, "{asked:?} {form}");
        }
    }
    nothing_has_happened(&world);
}

#[test]
fn a_browser_that_asks_first_is_not_let() {
    let world = World::new(POLICY);
    let paths = ASKED.iter().map(|(_, path, _)| *path).chain(["/v1/check", "/v1/acquire", "/json"]);
    for path in paths {
        let preflight = [
            ("origin", "http://127.0.0.1:3000"),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "content-type"),
        ];
        let told = send(&world, ("OPTIONS", path, ""), &preflight);
        assert_eq!(told.status, 405, "{path}");
        let agrees = told.headers.iter().any(|(name, _)| name.starts_with("access-control-"));
        assert!(!agrees, "{told:?}");
    }
}

/// What needs no preflight is not even a check: a page cannot use up what others have.
#[test]
fn every_verb_in_json_needs_its_content_type() {
    let world = World::new(POLICY);
    let verbs = ["check", "peek", "refund", "acquire", "renew", "release", "reset", "clock"];
    let paths = verbs.map(|verb| format!("/v1/{verb}"));
    let token = ("x-tidegate-token", &*world.token);
    for path in paths.iter().map(String::as_str).chain(["/json"]) {
        for said in [&[token][..], &[token, ("content-type", "text/plain;application/json")]] {
            let told = send(&world, ("POST", path, "{}"), said);
            assert_eq!(told.status, 415, "{path} {said:?}");
            assert!(told.text().contains("content-type: application/json"), "{}", told.text());
        }
    }
    assert_eq!(send(&world, ("PUT", "/v1/load", "{}"), &[token]).status, 415);
    let with_charset = ("content-type", "Application/JSON; charset=utf-8");
    let told = answer(&send(&world, ("POST", "/v1/check", "{}"), &[with_charset])).1;
    assert_eq!((&told["verdict"], &told["remaining"]), (&json!("allow"), &json!(0)));
}

/// A page's own name leads to 127.0.0.1 once it has been loaded. Then its requests are its own, to
/// the browser; the name is what is left to see it by.
#[test]
fn a_name_that_somebody_else_chose_administers_nothing() {
    let names = |settings: &mut Settings| {
        let guard = std::mem::take(&mut settings.guard);
        settings.guard = guard.known_as(vec!["tidegate.internal".to_owned()]);
    };
    let world = used_up(names);
    let token = ("x-tidegate-token", &*world.token);
    for host in [
        "rebound.example",
        "rebound.example:8080",
        "127.0.0.1.rebound.example",
        "localhost.rebound.example",
        "tidegate.internal.rebound.example",
        "127.0.0.1@rebound.example",
    ] {
        for asked in ASKED {
            let told = send(&world, asked, &[JSON, token, ("host", host)]);
            assert_eq!(told.status, 403, "{host} {asked:?}");
            assert!(told.text().contains("--admin-names"), "{}", told.text());
        }
    }
    let target = "http://rebound.example/v1/reset";
    assert_eq!(send(&world, ("POST", target, "{}"), &[JSON, token]).status, 403);
    nothing_has_happened(&world);
    for host in ["127.0.0.1:80", "[::1]:8080", "localhost", "LOCALHOST:8080", "tidegate.internal"] {
        let told = send(&world, ASKED[0], &[JSON, token, ("host", host)]);
        assert_eq!(told.status, 200, "{host}: {}", told.text());
    }
}

/// Proxies' requests carry the headers of the request that they ask about, from any sender.
#[test]
fn proxies_are_answered_whatever_a_browser_sent_to_them() {
    let world = World::new("rules: [{ name: all, limit: 2/h }]");
    for path in ["/v1/forward-auth", "/v1/auth-request"] {
        let page = [
            ("host", "shop.example"),
            ("origin", "https://shop.example"),
            ("sec-fetch-site", "cross-site"),
            ("content-type", "text/plain"),
            ("x-forwarded-method", "POST"),
            ("x-forwarded-uri", "/"),
            ("x-original-method", "POST"),
            ("x-original-uri", "/"),
        ];
        assert_eq!(send(&world, ("POST", path, ""), &page).status, 200, "{path}");
    }
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn the_socket_administers_for_whoever_can_open_it() {
    let path = folder("admin").join("a.sock");
    // What a server left behind that was killed.
    drop(UnixListener::bind(&path).unwrap());
    let (socket, guard) = (path.clone(), Guard::default());
    let world = used_up(|settings| (settings.admin, settings.guard) = (Some(socket), guard));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut admin = Http::over(UnixStream::connect(&path).unwrap(), "localhost");
    let mut ask = |(method, path, body): (&str, &str, &str), headers: &[(&str, &str)]| {
        admin.send(method, path, headers, body.as_bytes()).unwrap()
    };
    let page = [JSON, ("origin", "http://127.0.0.1")];
    assert_eq!(ask(ASKED[0], &page).status, 403);
    nothing_has_happened(&world);
    assert_eq!(answer(&ask(ASKED[0], &[JSON])), (200, json!({ "reset": ["all"] })));
    assert_eq!(ask(("POST", "/v1/check", "{}"), &[JSON]).status, 200, "it is a door like HTTP's");
    assert_eq!(ask(ASKED[3], &[JSON]).status, 200);
    assert_eq!(ask(("GET", "/healthz", ""), &[]).status, 200);
    drop(admin);
    assert_eq!(world.stop(), Ended::Cleanly);
    assert!(!path.exists(), "its file goes with it");
}

#[test]
fn a_socket_takes_no_place_that_is_taken() {
    let folder = folder("admin-taken");
    let (file, taken) = (folder.join("file"), folder.join("taken.sock"));
    fs::write(&file, "mine").unwrap();
    let _listens = UnixListener::bind(&taken).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let missing = folder.join("missing").join("a.sock");
    let cases = [(&file, "no socket"), (&taken, "another server"), (&missing, "another path")];
    for (path, said) in cases {
        let settings = Settings { admin: Some(path.clone()), ..Settings::default() };
        let refused = Server::bind(Gate::from_text(POLICY).unwrap(), settings).unwrap_err();
        assert!(refused.to_string().contains(said), "{refused}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    assert!(UnixStream::connect(&taken).is_ok());
}

/// A client that has a token may use it at each door; it is not the address that counts.
#[test]
fn the_redis_protocol_asks_for_a_proof_as_well() {
    let world = used_up(|_| {});
    let mut resp = world.resp();
    assert!(resp.call(&["AUTH", "0123456789abcdef"]).unwrap().text().starts_with("WRONGPASS"));
    assert!(resp.call(&["TIDEGATE.RESET"]).unwrap().text().starts_with("NOPERM"));
    nothing_has_happened(&world);
    assert_eq!(resp.call(&["AUTH", &world.token]).unwrap().text(), "OK");
    assert!(!resp.call(&["TIDEGATE.RESET"]).unwrap().is_error());
    assert_eq!(world.post("/v1/check", "{}").1["verdict"], "allow");
}

#[test]
fn who_is_refused_is_counted_by_door_and_reason() {
    let tokens = "check 0123456789abcdef\nadmin fedcba9876543210";
    let world = World::with(POLICY, |settings| {
        settings.guard = Guard::with_tokens(Tokens::from_text(tokens).unwrap());
    });
    let check = ("x-tidegate-token", "0123456789abcdef");
    let wrong = ("x-tidegate-token", "0123456789abcdeX");
    assert_eq!(send(&world, ("POST", "/v1/check", "{}"), &[JSON]).status, 401);
    assert_eq!(send(&world, ("POST", "/v1/check", "{}"), &[JSON, wrong]).status, 401);
    assert_eq!(send(&world, ASKED[0], &[JSON, check]).status, 403);
    assert_eq!(send(&world, ASKED[0], &[JSON, check, ("origin", "null")]).status, 403);
    let mut resp = world.resp();
    for command in [&["PING"][..], &["AUTH", "0123456789abcdeX"], &["HELLO", "3", "AUTH", "a", "b"]]
    {
        assert!(resp.call(command).unwrap().is_error());
    }
    assert!(world.grpc().call("/grpc.reflection.v1.ServerReflection/A", b"").is_err());
    let page = world.get("/metrics").text();
    for (door, why, count) in [
        ("http", "no-token", 1),
        ("http", "wrong-token", 1),
        ("http", "role", 1),
        ("http", "page", 1),
        ("grpc", "no-token", 1),
        ("resp", "no-token", 1),
        ("resp", "wrong-token", 2),
        ("resp", "role", 0),
    ] {
        let counts = format!("{{door=\"{door}\",why=\"{why}\"}} {count}");
        let line = format!("tidegate_refused_callers_total{counts}");
        assert!(page.lines().any(|it| it == line), "{line}\n{page}");
    }
    assert!(!page.contains("0123456789abcdeX"));
}
