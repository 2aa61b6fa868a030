//! The HTTP door against its own description, by a program that reads it and tries everything.

use std::fs;
use std::path::Path;

use tidegate_testbed::Program;

use crate::stand::{Tidegate, policy};

/// Proxies ask about requests of any method, and some of them by that method: no list of methods in
/// a description says this. Every other call refuses the methods that are not described.
const SETTINGS: &str = r#"
[checks]
# A batch that is too long is refused as such: 413 is what the program does not expect by itself.
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 429]

[[operations]]
include-path-regex = "^/v1/(forward-auth|auth-request)$"
[operations.checks]
unsupported_method.enabled = false
"#;

#[test]
fn the_http_door_is_as_its_description_says() {
    if !Program::Schemathesis.is_there() {
        println!("skipped: schemathesis is not installed; see `cargo xtask servers`");
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openapi");
    fs::create_dir_all(&folder).unwrap();
    let tokens = folder.join("tokens");
    fs::write(&tokens, "admin fedcba9876543210\n").unwrap();
    let tokens = tokens.to_str().unwrap();
    let flags = ["--clock", "manual", "--token-file", tokens];
    let server = Tidegate::start(&policy(1_000), &flags).unwrap();
    let url = format!("http://127.0.0.1:{}/openapi.json", server.http);
    let settings = server.daemon.folder().join("schemathesis.toml");
    fs::write(&settings, SETTINGS).unwrap();
    let mut command = Program::Schemathesis.command().unwrap();
    command.arg("--config-file").arg(settings);
    command.args(["run", &url, "--max-examples", "12", "--seed", "1"]);
    command.args(["--header", "Authorization: Bearer fedcba9876543210"]);
    command.args(["--max-time", "20", "--no-color", "--workers", "1"]);
    // It keeps what it has found before in the folder that it runs in.
    command.current_dir(server.daemon.folder());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
}
