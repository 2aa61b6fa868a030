//! An unknown API key at the doors: no answer to it lets it pass.

use std::path::PathBuf;

use tidegate_testbed::{Http, Reply};

use crate::world::{World, answer};

/// A file of keys that goes with the test; `abc` is of `acme`.
struct KeyFile(PathBuf);

impl KeyFile {
    fn new(name: &str) -> KeyFile {
        let path = std::env::temp_dir().join(format!("{name}-{}.yaml", std::process::id()));
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let text = format!("names: {{ acme: {{ keys: [{{ sha256: {hash} }}] }} }}");
        std::fs::write(&path, text).expect("a folder for such files");
        KeyFile(path)
    }

    fn policy(&self, header: &str) -> String {
        format!(
            "api_keys: {{ header: {header}, file: '{}', unknown: refuse }}\n\
             identify: {{ client: [api-key, ip] }}\n\
             rules: [{{ name: per-client, key: client, limit: 2/min }}]",
            self.0.display()
        )
    }
}

impl Drop for KeyFile {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

#[test]
fn an_unknown_key_is_refused_at_every_door() {
    let file = KeyFile::new("tidegate-doors");
    let world = World::new(&file.policy("x-api-key"));
    let mut http = Http::connect(world.http()).expect("it listens");
    for path in ["/v1/forward-auth", "/v1/auth-request"] {
        for keys in [&[("x-api-key", "made-up")][..], &[("x-api-key", "abc"), ("x-api-key", "x")]] {
            let keys = [&crate::ASKS[..], keys].concat();
            for _ in 0..4 {
                let refused = http.send("GET", path, &keys, b"").expect("an answer");
                assert_eq!(refused.status, 401);
                let challenge = refused.header("www-authenticate");
                assert_eq!(challenge, Some("ApiKey header=\"x-api-key\""));
                assert_eq!(refused.header("ratelimit"), None);
                assert_eq!(answer(&refused).1["error"], "unknown_api_key");
            }
        }
        let known = [&crate::ASKS[..], &[("x-api-key", "abc")]].concat();
        let known = http.send("GET", path, &known, b"").expect("an answer");
        assert_eq!(known.status, 200);
    }
    for (key, verdict) in [("made-up", "never"), ("abc", "deny")] {
        let told = world.post("/v1/check", &format!(r#"{{"headers":{{"x-api-key":"{key}"}}}}"#));
        assert_eq!((told.0, &told.1["verdict"]), (200, &verdict.into()), "{key}");
        let reply = world.resp().call(&["TIDEGATE.CHECK", "HEADER", "X-Api-Key", key]);
        let reply = reply.expect("an answer");
        let words: Vec<String> = reply.items().iter().take(2).map(Reply::text).collect();
        assert_eq!(words, ["verdict", verdict]);
    }
    let told = world.post("/v1/check", r#"{"headers":{"x-api-key":"made-up"}}"#);
    assert_eq!(
        (told.1["reason"].as_str(), told.1["stopped_by"].as_str()),
        (Some("unknown-key"), None)
    );
}

#[test]
fn a_bearer_is_asked_for_another() {
    let file = KeyFile::new("tidegate-bearer");
    let world = World::new(&file.policy("Authorization"));
    let mut http = Http::connect(world.http()).expect("it listens");
    let mut ask = |value: &str| {
        let headers = [&crate::ASKS[..], &[("authorization", value)]].concat();
        let sent = http.send("GET", "/v1/forward-auth", &headers, b"");
        let told = sent.expect("an answer");
        (told.status, told.header("www-authenticate").map(str::to_owned))
    };
    assert_eq!(ask("bEaReR abc"), (200, None));
    let challenge = Some("Bearer error=\"invalid_token\"".to_owned());
    assert_eq!(ask("Bearer ABC"), (401, challenge));
}
