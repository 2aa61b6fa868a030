//! Every example runs to its end on a real server, and prints what it promises.

use std::process::Command;

use tidegate_testbed::Server;

#[track_caller]
fn prints(name: &str, lines: &[&str]) {
    let server = Server::start().expect("a server");
    let path = std::env::current_exe().expect("the test's own path");
    let profile = path.parent().and_then(|deps| deps.parent()).expect("…/<profile>/deps/test");
    let mut example = Command::new(profile.join("examples").join(name));
    let output = example.arg(server.url()).output().expect("it was built");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).expect("text");
    for line in lines {
        assert!(printed.lines().any(|it| it == *line), "no line `{line}` in:\n{printed}");
    }
}

#[test]
fn fleet() {
    let lines = ["request 3: passes", "request 4: no", "again: by remembered", "bob has 3 left"];
    prints("fleet", &lines);
}

#[test]
fn permits() {
    let lines = ["first: true, second: true", "third: false", "after the first is done: true"];
    prints("permits", &lines);
}
