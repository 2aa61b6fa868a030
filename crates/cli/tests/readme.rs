//! The README's shell blocks, run line by line as a reader would, at the top of the repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tidegate_testbed::{Daemon, DaemonBuilder, Ready};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// The lines of all shell blocks, without what is said about them.
fn lines() -> Vec<String> {
    let text = fs::read_to_string(root().join("README.md")).expect("the README");
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split_once("```"));
    let lines = blocks.flat_map(|(block, _)| block.lines());
    lines.map(|line| line.split("  #").next().unwrap_or(line).trim().to_owned()).collect()
}

/// Runs a line by a shell that finds our command; what it printed.
#[track_caller]
fn run(line: &str) -> String {
    let ours = Path::new(env!("CARGO_BIN_EXE_tidegate")).parent().expect("a folder");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).current_dir(root());
    let output = shell.env("PATH", format!("{}:{path}", ours.display())).output().expect("a shell");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{line}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

/// A server as the line says, but for its port.
fn serve(line: &str, mut builder: DaemonBuilder) -> (Daemon, u16) {
    let port = builder.port().expect("a free port");
    let line = line.replace("127.0.0.1:8080", &format!("127.0.0.1:{port}"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    // It starts in a folder of its own.
    let line = line.replace("examples/", &format!("{}/examples/", root().display()));
    command.args(line.split_whitespace().skip(1));
    command.args(["--grpc", "off", "--resp", "off"]);
    let ready = Ready::Answers(port, "/readyz".to_owned());
    (builder.start(command, ready).expect("it starts"), port)
}

/// A crate to which our library is added: only in name, nothing is written.
fn add(line: &str) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("adds");
    fs::create_dir_all(folder.join("src")).expect("the tests' own folder");
    let manifest = "[package]\nname = \"adds\"\nedition = \"2024\"\n[workspace]\n";
    fs::write(folder.join("Cargo.toml"), manifest).expect("the tests' own folder");
    fs::write(folder.join("src/lib.rs"), "").expect("the tests' own folder");
    let ours = root().join("crates/tidegate");
    let url = "--git https://github.com/tidegate/tidegate";
    assert!(line.contains(url), "{line}");
    let line = line.replace(url, &format!("--path {}", ours.display()));
    let line = line.replace("cargo add tidegate", "cargo add --dry-run --offline");
    run(&format!("cd {} && {line}", folder.display()));
}

#[test]
fn every_shell_line_does_what_it_says() {
    let lines = lines();
    assert!(10 < lines.len(), "{lines:?}");
    let mut server = None;
    for line in &lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["cargo", "add", "axum", "tokio", ..] => {
                let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
                assert!(lock.contains("name = \"axum\"") && lock.contains("name = \"tokio\""));
            }
            ["cargo", "add", ..] => add(line),
            ["cargo", "install", .., package] => assert_eq!(package, env!("CARGO_PKG_NAME")),
            ["docker", "build", "-t", "tidegate", "-f", file, "."] => {
                assert!(root().join(file).is_file(), "{line}");
            }
            // What the first shows is a test of its own, and the second is what runs this one.
            ["cargo", "run", "--release"] => {}
            ["cargo", "xtask", "test"] => {
                let alias = fs::read_to_string(root().join(".cargo/config.toml")).unwrap();
                assert!(alias.contains("\nxtask = "), "{alias}");
            }
            ["tidegate", "serve", ..] => {
                server = Some(serve(line, Daemon::builder().expect("a folder")));
            }
            ["tidegate", ..] => assert!(!run(line).is_empty(), "{line} says nothing"),
            ["curl", ..] => {
                let (_, port) = server.as_ref().expect("a server is started before");
                let line = line.replace("localhost:8080", &format!("localhost:{port}"));
                let said = run(&format!("{line} --silent --show-error"));
                assert!(said.contains(r#""verdict":"allow""#), "{said}");
            }
            _ => panic!("nobody knows how to try `{line}`"),
        }
    }
    assert!(server.is_some());
}

#[test]
fn its_policy_has_no_warning() {
    let text = fs::read_to_string(root().join("README.md")).expect("the README");
    let (_, policy) = text.split_once("```yaml\n").expect("a policy");
    let (policy, _) = policy.split_once("```").expect("its end");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme-policy");
    fs::create_dir_all(&folder).expect("the tests' own folder");
    let keys = fs::read_to_string(root().join("examples/keys.yaml")).expect("keys");
    let keys = keys.replace("tier: enterprise", "tier: pro");
    fs::write(folder.join("keys.yaml"), keys).expect("the tests' own folder");
    fs::write(folder.join("policy.yaml"), policy).expect("the tests' own folder");
    run(&format!("tidegate check --strict {}", folder.join("policy.yaml").display()));
}

#[test]
fn the_readme_is_a_few_screens() {
    let text = fs::read_to_string(root().join("README.md")).expect("the README");
    assert!(text.lines().count() <= 120, "move detail to docs and link it");
}

/// Phrases of which a reader has to ask who is meant.
const UNCLEAR: [&str; 7] =
    ["whoever", "is told", "are told", "of before", "such as of", "of whom", "nobody is before"];

/// The README and the pages for users.
fn pages() -> Vec<(PathBuf, String)> {
    let folder = fs::read_dir(root().join("docs")).expect("the documentation");
    let pages = folder.map(|entry| entry.expect("a file").path());
    let pages = pages.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a page");
        (path, text)
    };
    pages.chain([root().join("README.md")]).map(read).collect()
}

#[test]
fn pages_are_in_plain_words() {
    for (path, text) in pages() {
        for (number, line) in (1..).zip(text.lines()) {
            let lower = line.to_lowercase();
            let found = UNCLEAR.iter().find(|phrase| lower.contains(**phrase));
            assert!(found.is_none(), "{}:{number}: say who does what: {line}", path.display());
        }
    }
}

#[test]
fn every_page_is_in_the_index() {
    let index = fs::read_to_string(root().join("docs/README.md")).expect("the index");
    for (path, _) in pages() {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        assert!(name == "README.md" || index.contains(&format!("]({name}")), "{name}");
    }
}

/// What a heading is called in a link.
fn anchor(heading: &str) -> String {
    let plain = |it: &char| it.is_alphanumeric() || [' ', '-', '_'].contains(it);
    let text: String = heading.trim_start_matches('#').trim().chars().filter(plain).collect();
    text.to_lowercase().replace(' ', "-")
}

#[test]
fn every_link_leads_somewhere() {
    for (path, text) in pages() {
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            // Names of the library are links in its documentation.
            if link.starts_with("http") || link.contains("::") {
                continue;
            }
            let (file, place) = link.split_once('#').unwrap_or((link, ""));
            let folder = path.parent().expect("a folder");
            let target = if file.is_empty() { path.clone() } else { folder.join(file) };
            assert!(target.exists(), "{}: {link}", path.display());
            if !place.is_empty() {
                let text = fs::read_to_string(&target).expect("a page");
                let mut headings = text.lines().filter(|line| line.starts_with('#'));
                let is_there = headings.any(|line| anchor(line) == place);
                assert!(is_there, "{}: {link}", path.display());
            }
        }
    }
}
