//! The tree is tidy: the same question as `cargo xtask tidy`, where every test run asks it.

use std::fs;
use std::path::Path;
use std::process::Command;

use xtask::tidy::Finding;

#[track_caller]
fn findings(root: &Path) -> Vec<String> {
    let (findings, _) = xtask::tidy::run(root).expect("a readable tree");
    findings.iter().map(Finding::to_string).collect()
}

#[test]
fn the_tree_is_tidy() {
    let findings = findings(&xtask::root().unwrap());
    assert!(findings.is_empty(), "{} to put right:\n{}", findings.len(), findings.join("\n"));
}

#[test]
fn an_untidy_tree_is_found_out() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("untidy");
    fs::create_dir_all(root.join("src")).unwrap();
    let manifest = "[workspace]\n[package]\nname = \"stray\"\n[dependencies]\nstray-too = \"1\"\n";
    fs::write(root.join("Cargo.toml"), manifest).unwrap();
    fs::write(root.join("src/lib.rs"), "fn main() {}\n").unwrap();
    assert!(
        Command::new("git").args(["init", "-q"]).current_dir(&root).status().unwrap().success()
    );

    let found = findings(&root);
    for expected in [
        "Cargo.toml:1: no rule says what `stray` may depend on; \
         add its row in xtask/src/tidy/arrows.rs",
        "README.md:1: the file is missing; write it",
        "src/lib.rs:1: no `//!` header; say in the first line what this file is",
    ] {
        assert!(found.iter().any(|finding| finding == expected), "{expected}: {found:#?}");
    }
}
