//! A signal asks for a reload. Alone in its process: everybody in it would hear it.

#![cfg(unix)]

mod stand;

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_gate::{Gate, Reloaded};
use tidegate_testbed::until;

use self::stand::Folder;

/// Longer than any machine takes.
const LONG: Duration = Duration::from_secs(20);

fn policy(name: &str) -> String {
    format!("rules: [{{ name: {name}, limit: 5/min }}]\n")
}

#[test]
fn a_signal_reloads_and_a_dropped_watch_is_gone() {
    let folder = Folder::new();
    let path = folder.write("policy.yaml", &policy("one"));
    let gate = Gate::from_file(&path).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&told);
    let tell = move |reloaded: &Reloaded| hears.lock().unwrap().push(reloaded.clone());
    let watch = gate.watch(&path, tell).unwrap();
    let name = || gate.rules().rules()[0].name().to_owned();
    let hang_up = || {
        let id = std::process::id().to_string();
        assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
    };
    hang_up();
    until(LONG, "a signal is heard", || !told.lock().unwrap().is_empty()).unwrap();
    assert!(matches!(told.lock().unwrap()[0], Reloaded::Done { .. }));
    drop(watch);
    assert_eq!(Arc::strong_count(&told), 1, "the thread has ended");
    folder.write("policy.yaml", &policy("two"));
    hang_up();
    assert_eq!(name(), "one");
    // What was changed while nobody watched is seen by the next who does.
    let _watch = gate.watch(&path, |_| {}).unwrap();
    assert_eq!(name(), "two");
}
