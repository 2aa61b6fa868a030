//! The HTTP door against its own description, by a program that reads it and tries everything.

use std::fs;

use tidegate_testbed::Program;

use crate::stand::{Tidegate, policy};

#[test]
fn the_http_door_is_as_its_description_says() {
    if !Program::Schemathesis.is_there() {
        println!("skipped: schemathesis is not installed; see `cargo xtask servers`");
        return;
    }
    let server = Tidegate::start(&policy(1_000), &["--clock", "manual"]).unwrap();
    let url = format!("http://127.0.0.1:{}/openapi.json", server.http);
    let mut command = Program::Schemathesis.command().unwrap();
    command.args(["run", &url, "--checks", "all", "--max-examples", "12", "--seed", "1"]);
    command.args(["--max-time", "20", "--no-color", "--workers", "1"]);
    // It keeps what it has found before in the folder that it runs in.
    command.current_dir(server.daemon.folder());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let _ = fs::remove_dir_all(server.daemon.folder().join(".hypothesis"));
}
