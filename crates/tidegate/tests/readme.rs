//! The README's program runs, and refuses as the README shows.

use std::fs;
use std::path::Path;
use std::process::Command;

use tidegate_testbed::{Daemon, Http, Ready};

/// The README, and what stands in its first block of a language.
fn block(language: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("README.md")).expect("the README");
    let (_, rest) = text.split_once(&format!("```{language}\n")).expect("a block");
    rest.split_once("```").expect("its end").0.to_owned()
}

#[test]
fn its_program_is_the_example() {
    let example = include_str!("../examples/quickstart.rs");
    let (_, program) = example.split_once("\n\n").expect("a header");
    assert_eq!(block("rust,no_run"), program);
}

#[test]
fn its_program_refuses_as_it_is_shown() {
    let path = std::env::current_exe().expect("the test's own path");
    let profile = path.parent().and_then(|deps| deps.parent()).expect("…/<profile>/deps/test");
    let mut builder = Daemon::builder().expect("a folder");
    let port = builder.port().expect("a free port");
    let mut command = Command::new(profile.join("examples/quickstart"));
    command.arg(format!("127.0.0.1:{port}"));
    let _daemon = builder.start(command, Ready::Answers(port, "/".to_owned())).expect("it starts");
    let mut http = Http::connect(port).expect("it listens");
    // Time goes on meanwhile, and some more may pass than at once.
    let refused = (0..1_000).find_map(|_| {
        let reply = http.send("GET", "/", &[], b"").expect("an answer");
        (reply.status != 200).then_some(reply)
    });
    let refused = refused.expect("a refusal");
    let shown = block("http");
    let (head, body) = shown.trim_end().split_once("\n\n").expect("a head and a body");
    let mut lines = head.lines();
    assert_eq!(lines.next(), Some(&*format!("HTTP/1.1 {} Too Many Requests", refused.status)));
    for line in lines {
        let (name, value) = line.split_once(": ").expect("a field");
        assert_eq!(refused.header(name), Some(value), "{name}");
    }
    assert_eq!(refused.text().trim_end(), body.replace("\n ", ""));
}
