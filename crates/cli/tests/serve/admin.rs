//! `tidegate admin` beside a server that runs, and the token that one has which is tried out.

use std::fs;
use std::process::Command;

use serde_json::Value;
use tidegate_testbed::{Daemon, Http, Ready};

use crate::stand::{JSON, Tidegate, command, local};

/// What the command prints, or how it fails.
fn admin(socket: &str, args: &[&str]) -> Result<Value, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.env_remove("TIDEGATE_ADMIN").args(["admin", "--socket", socket]).args(args);
    let output = command.output().unwrap();
    if output.status.success() {
        return Ok(serde_json::from_slice(&output.stdout).unwrap());
    }
    assert_eq!(output.status.code(), Some(1));
    Err(String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_server_is_administered_over_its_socket() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli-admin");
    // A server that was killed has left its socket behind.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let socket = folder.join("a.sock");
    let socket = socket.to_str().unwrap();
    let missing = admin(socket, &["reload"]).unwrap_err();
    assert!(missing.contains(socket) && missing.contains("--admin"), "{missing}");

    let rule = "{ name: per-key, key: header:x-api-key, limit: 1/h }";
    let flags = ["--admin", socket, "--clock", "manual"];
    let server = Tidegate::start(&format!("rules: [{rule}]"), &flags).unwrap();
    let verdict = || {
        let told = Http::post(server.http, "/v1/check", r#"{"headers":{"x-api-key":"k"}}"#);
        let told: Value = serde_json::from_slice(&told.unwrap().body).unwrap();
        told["verdict"].as_str().unwrap().to_owned()
    };
    assert_eq!([verdict(), verdict()], ["allow", "deny"]);
    let other = admin(socket, &["reset", "--header", "x-api-key: other"]).unwrap();
    assert_eq!((&other["reset"][0], &*verdict()), (&Value::from("per-key"), "deny"));
    let reset = ["reset", "--request", "GET /a", "--header", "x-api-key: k", "--rule", "per-key"];
    assert_eq!(admin(socket, &reset).unwrap()["reset"][0], "per-key");
    assert_eq!([verdict(), verdict()], ["allow", "deny"]);
    assert_eq!(admin(socket, &["clock", "--advance", "1h"]).unwrap()["now_us"], 3_600_000_000_u64);
    assert_eq!(admin(socket, &["clock"]).unwrap()["manual"], true);
    assert_eq!(verdict(), "allow");
    assert_eq!(admin(socket, &["load"]).unwrap()["factor"], 1.0);

    assert!(admin(socket, &["reload"]).unwrap()["outcome"].is_string());
    let path = server.daemon.folder().join("policy.yaml");
    fs::write(path, "rules: [{ name: all, limt: 1/s }]").unwrap();
    let wrong = admin(socket, &["reload"]).unwrap_err();
    assert!(wrong.starts_with("error: ") && wrong.contains("limt"), "{wrong}");
    drop(server);
    let gone = admin(socket, &["reload"]).unwrap_err();
    assert!(gone.contains("no server listens") || gone.contains("no socket"), "{gone}");
}

#[test]
fn a_server_that_is_tried_out_prints_a_token_of_its_own() {
    let mut builder = Daemon::builder().unwrap();
    let port = builder.port().unwrap();
    let mut command = command();
    command.args(["--http", &local(port), "--grpc", "off", "--resp", "off"]);
    let daemon = builder.start(command, Ready::Answers(port, "/readyz".to_owned())).unwrap();
    let log = daemon.log();
    let token = log.split("Bearer ").nth(1).and_then(|rest| rest.split('\'').next());
    let token = token.unwrap_or_else(|| panic!("no token in {log}"));
    let mut http = Http::connect(port).unwrap();
    let status = |http: &mut Http, path: &str, token: &str| {
        let shown = ("authorization", &*format!("Bearer {token}"));
        http.send("POST", path, &[JSON[0], shown], b"{}").unwrap().status
    };
    assert_eq!(status(&mut http, "/v1/check", ""), 200, "the banner says how to try it");
    assert_eq!(status(&mut http, "/v1/reset", ""), 403);
    assert_eq!(status(&mut http, "/v1/reset", token), 200);
    // One with a policy has none: it is no sample.
    let server = Tidegate::start("rules: [{ name: all, limit: 1/s }]", &[]).unwrap();
    assert!(!server.daemon.log().contains("Bearer"), "{}", server.daemon.log());
}
