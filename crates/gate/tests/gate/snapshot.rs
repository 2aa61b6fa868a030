//! Snapshots: a gate that is opened again goes on where it was, or says why it cannot.
//!
//! That every decision is the same digit for digit is a law of `model.rs`.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tidegate_core::{Policy, Quota, Span, Tick};
use tidegate_gate::{
    AdhocCharge, AdhocLimit, Gate, OpenError, Sample, SnapshotProblem, WithoutStore,
};
use tidegate_store::MemoryStore;

use crate::stand::{
    Folder, START, by, clock_at, gate, gate_at, looks, passed, passes, reopened, replace,
};

const POLICY: &str = "{ identify: { client: [header:x-api-key] },
    rules: [{ name: per-client, key: client, limit: 10/h },
            { name: all, limit: 100/h, algorithm: sliding-window }] }";

fn problem(opened: Result<Gate, OpenError>) -> SnapshotProblem {
    match opened {
        Err(OpenError::Snapshot(problem)) => problem,
        other => panic!("{other:?}"),
    }
}

fn names(folder: &Folder) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn a_restart_is_no_fresh_burst() {
    let (folder, (gate, clock)) = (Folder::new(), gate(POLICY));
    assert_eq!(passed(&gate, &by("ada"), 10), 10);
    assert_eq!(passed(&gate, &by("bob"), 3), 3);
    let saved = gate.save(folder.join("snapshot")).unwrap();
    assert_eq!((saved.keys, saved.at), (3, gate.now()));
    assert_eq!(saved.bytes, fs::metadata(folder.join("snapshot")).unwrap().len());
    let again = reopened(&folder, POLICY, &clock).unwrap();
    let restored = again.restored().unwrap();
    assert_eq!((restored.keys, restored.at, restored.behind), (3, saved.at, Span::ZERO));
    assert!(!passes(&again, &by("ada")));
    assert_eq!(looks(&again, &by("bob")), [7, 87]);
    assert_eq!(looks(&again, &by("eve")), [10, 87]);
    clock.advance(Span::from_secs(360));
    assert_eq!(passed(&again, &by("ada"), 9), 1, "time goes on as it did");
}

#[test]
fn without_a_file_a_gate_begins_afresh() {
    let (folder, (_, clock)) = (Folder::new(), gate(POLICY));
    let gate = reopened(&folder, POLICY, &clock).unwrap();
    assert_eq!(gate.restored(), None);
    assert_eq!(passed(&gate, &by("ada"), 20), 10);
}

#[test]
fn a_file_is_replaced_as_a_whole_and_is_its_owners_alone() {
    let (folder, (gate, _)) = (Folder::new(), gate(POLICY));
    // Left by a process that was killed.
    folder.write("snapshot.partial", "half of it");
    for _ in 0..3 {
        gate.save(folder.join("snapshot")).unwrap();
        assert_eq!(names(&folder), ["snapshot"]);
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(folder.join("snapshot")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn a_snapshot_that_cannot_be_written_leaves_the_last_one() {
    let (folder, (gate, clock)) = (Folder::new(), gate(POLICY));
    passed(&gate, &by("ada"), 4);
    gate.save(folder.join("snapshot")).unwrap();
    let nowhere = folder.join("nowhere/snapshot");
    let message = gate.save(&nowhere).unwrap_err().to_string();
    assert!(message.contains("nowhere/snapshot` cannot be written: "), "{message}");
    // A folder where the file is to be written.
    fs::create_dir(folder.join("snapshot.partial")).unwrap();
    gate.save(folder.join("snapshot")).unwrap_err();
    fs::remove_dir(folder.join("snapshot.partial")).unwrap();
    assert_eq!(looks(&reopened(&folder, POLICY, &clock).unwrap(), &by("ada")), [6, 96]);
}

#[test]
fn a_damaged_snapshot_is_refused_and_can_be_set_aside() {
    let (folder, (gate, clock)) = (Folder::new(), gate(POLICY));
    passed(&gate, &by("ada"), 4);
    gate.save(folder.join("snapshot")).unwrap();
    let whole = fs::read(folder.join("snapshot")).unwrap();
    for (number, length) in [0, 1, 11, 40, whole.len() - 1].into_iter().enumerate() {
        fs::write(folder.join("snapshot"), &whole[..length]).unwrap();
        let problem = problem(reopened(&folder, POLICY, &clock));
        assert!(problem.is_damaged());
        let path = folder.join("snapshot").display().to_string();
        let message = problem.to_string();
        let start = format!("`{path}`: the snapshot is damaged at byte ");
        assert!(message.starts_with(&start), "{message}");
        let aside = problem.set_aside(gate.now()).unwrap();
        let suffix = if number == 0 { String::new() } else { format!("-{number}") };
        assert_eq!(aside, Path::new(&format!("{path}.damaged-{START}{suffix}")));
        assert_eq!(fs::read(aside).unwrap(), whole[..length]);
        assert!(reopened(&folder, POLICY, &clock).unwrap().restored().is_none());
    }
    // What cannot be read is not damaged.
    fs::create_dir(folder.join("snapshot")).unwrap();
    assert!(!problem(reopened(&folder, POLICY, &clock)).is_damaged());
}

#[test]
fn a_policy_that_was_changed_meanwhile_keeps_what_was_consumed() {
    for algorithm in ["token-bucket", "fixed-window", "sliding-log"] {
        let of = |limit: &str| format!("rules: [{{ name: r, {limit} }}]");
        let (folder, (gate, clock)) =
            (Folder::new(), gate(&of(&format!("limit: 10/h, algorithm: {algorithm}"))));
        assert_eq!(passed(&gate, &by("ada"), 6), 6);
        gate.save(folder.join("snapshot")).unwrap();
        for (limit, left) in [
            ("limit: 20/h", 14),
            ("limit: 20/h, algorithm: fixed-window", 14),
            ("limit: 20/h, algorithm: sliding-log", 14),
            ("limit: 4/h", 0),
        ] {
            let again = reopened(&folder, &of(limit), &clock).unwrap();
            assert_eq!(looks(&again, &by("ada")), [left], "{algorithm} to {limit}");
        }
    }
}

#[test]
fn a_rule_that_got_tiers_meanwhile_begins_anew_and_its_limit_waits() {
    const TIERS: &str = "{ tiers: { header: x-tier, default: free, names: [free, pro] },
        rules: [{ name: r, limit: { free: 10/h, pro: 50/h } }] }";
    let (folder, (gate, clock)) = (Folder::new(), gate("rules: [{ name: r, limit: 10/h }]"));
    assert_eq!(passed(&gate, &by("ada"), 6), 6);
    gate.save(folder.join("snapshot")).unwrap();
    let again = reopened(&folder, TIERS, &clock).unwrap();
    assert_eq!(looks(&again, &by("ada")), [10]);
    again.save(folder.join("snapshot")).unwrap();
    let back = reopened(&folder, "rules: [{ name: r, limit: 10/h }]", &clock).unwrap();
    assert_eq!(looks(&back, &by("ada")), [4]);
}

/// A key that got a quota of its own, or lost it, between the snapshot and the restart.
#[test]
fn overrides_may_come_and_go_around_a_restart() {
    let of = |rest: &str| {
        format!(
            "identify: {{ client: [header:x-api-key] }}\n\
             rules: [{{ name: r, key: client, limit: 10/h{rest} }}]"
        )
    };
    let (plain, with) = (of(""), of(", overrides: { ada: 50/h }"));
    for [before, saved, after] in [
        [&plain, &plain, &with],
        [&with, &with, &plain],
        [&plain, &with, &plain],
        [&with, &plain, &with],
    ] {
        let (folder, (gate, clock)) = (Folder::new(), gate(before));
        assert_eq!(passed(&gate, &by("ada"), 6), 6);
        replace(&gate, saved);
        gate.save(folder.join("snapshot")).unwrap();
        let again = reopened(&folder, after, &clock).unwrap();
        let left = if *after == with { 44 } else { 4 };
        assert_eq!(looks(&again, &by("ada")), [left], "{before} {saved} {after}");
    }
}

#[test]
fn limits_that_the_policy_does_not_have_are_kept_until_it_has_them() {
    const ONE: &str = "rules: [{ name: a, limit: 10/h }]";
    const BOTH: &str = "rules: [{ name: a, limit: 10/h }, { name: b, limit: 5/h }]";
    let (folder, (gate, clock)) = (Folder::new(), gate(BOTH));
    assert_eq!(passed(&gate, &by("ada"), 4), 4);
    gate.save(folder.join("snapshot")).unwrap();
    // Two restarts without the rule, and a reload that brings it back.
    for _ in 0..2 {
        let without = reopened(&folder, ONE, &clock).unwrap();
        assert_eq!(looks(&without, &by("ada")), [6]);
        without.save(folder.join("snapshot")).unwrap();
    }
    let without = reopened(&folder, ONE, &clock).unwrap();
    replace(&without, BOTH);
    assert_eq!(looks(&without, &by("ada")), [6, 1]);
    // It is the policy's by now, and waits again when that is without it.
    replace(&without, ONE);
    replace(&without, BOTH);
    assert_eq!(looks(&without, &by("ada")), [6, 1]);
    // Nothing is owed any more after an hour: nothing is kept.
    let without = reopened(&folder, ONE, &clock).unwrap();
    clock.advance(Span::from_secs(3_600));
    assert_eq!(without.save(folder.join("snapshot")).unwrap().keys, 2);
    assert_eq!(without.save(folder.join("snapshot")).unwrap().keys, 1);
}

#[test]
fn windows_of_a_calendar_are_restored_in_the_same_window_only() {
    const DAILY: &str = "rules: [{ name: daily, limit: 3/day, algorithm: fixed-window,
                                   time_zone: Europe/Berlin },
                                 { name: monthly, limit: 9/month, algorithm: fixed-window }]";
    let (folder, (gate, _)) = (Folder::new(), gate_at(START, DAILY));
    assert_eq!(passed(&gate, &by("ada"), 2), 2);
    gate.save(folder.join("snapshot")).unwrap();
    let hour = 3_600;
    for (later, left) in [
        (0, [1, 7]),
        (9 * hour, [1, 7]),
        (10 * hour, [3, 7]),
        (48 * hour, [3, 7]),
        (150 * hour, [3, 9]),
    ] {
        let again = reopened(&folder, DAILY, &clock_at(START + later)).unwrap();
        assert_eq!(looks(&again, &by("ada")), left, "{later} s later");
    }
    // Another limit in the same window, and another calendar.
    let raised = DAILY.replace("3/day", "5/day");
    assert_eq!(looks(&reopened(&folder, &raised, &clock_at(START)).unwrap(), &by("ada")), [3, 7]);
    let hourly = DAILY.replace("3/day", "3/h").replace(", time_zone: Europe/Berlin", "");
    assert_eq!(looks(&reopened(&folder, &hourly, &clock_at(START)).unwrap(), &by("ada")), [1, 7]);
}

#[test]
fn a_clock_that_was_set_back_pays_nobody_and_is_reported() {
    const EVERY: &str = "rules: [{ name: a, limit: 4/min }, { name: b, limit: 4/min,
        algorithm: fixed-window }, { name: c, limit: 4/min, algorithm: sliding-window },
        { name: d, limit: 4/min, algorithm: sliding-log },
        { name: e, limit: 4/day, algorithm: fixed-window, time_zone: UTC }]";
    let (folder, (gate, _)) = (Folder::new(), gate(EVERY));
    assert_eq!(passed(&gate, &by("ada"), 9), 4);
    gate.save(folder.join("snapshot")).unwrap();
    for back in [1, 60, 3_600, 86_400, 40 * 86_400] {
        let again = reopened(&folder, EVERY, &clock_at(START - back)).unwrap();
        assert_eq!(again.restored().unwrap().behind, Span::from_micros(back * 1_000_000));
        assert_eq!(looks(&again, &by("ada")), [0; 5], "{back} s back");
    }
}

#[test]
fn permits_lapse_after_their_lease() {
    const PERMITS: &str =
        "rules: [{ name: r, limit: 2 in flight, algorithm: concurrency, lease: 30s }]";
    let (folder, (gate, clock)) = (Folder::new(), gate(PERMITS));
    let held = (gate.decide(&by("ada")), gate.decide(&by("ada")));
    gate.save(folder.join("snapshot")).unwrap();
    let again = reopened(&folder, PERMITS, &clock).unwrap();
    // Their holders are gone.
    drop(held);
    assert!(!passes(&again, &by("ada")));
    clock.advance(Span::from_secs(30));
    assert!(passes(&again, &by("ada")));
}

#[test]
fn a_gate_of_another_size_finds_its_keys() {
    let (folder, (gate, clock)) = (Folder::new(), gate(POLICY));
    for client in 0..50 {
        assert_eq!(passed(&gate, &by(&client.to_string()), 2), 2);
    }
    gate.save(folder.join("snapshot")).unwrap();
    for keys_max in [128, 1 << 14, 1 << 23] {
        let again = Gate::builder()
            .text(POLICY)
            .memory(MemoryStore::with_keys_max(keys_max))
            .clock(Arc::clone(&clock) as Arc<dyn tidegate_store::Clock>)
            .restore(folder.join("snapshot"))
            .open();
        assert_eq!(again.unwrap().keys(), 51, "{keys_max}");
    }
}

/// A snapshot every now and then while two threads decide and policies change: what passes after
/// a restart is at most what the limit leaves beside all that had passed before the snapshot.
#[test]
fn a_snapshot_under_load_admits_again_only_what_passed_after_it() {
    const LIMIT: usize = 200_000;
    let of = |limit| format!("rules: [{{ name: r, limit: {limit}/day }}]");
    let (folder, (gate, clock)) = (Folder::new(), gate(&of(LIMIT)));
    let (passed, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    if passes(&gate, &Sample::new("GET /")) {
                        passed.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
        for turn in 0..40 {
            let before = passed.load(Ordering::SeqCst);
            gate.save(folder.join("snapshot")).unwrap();
            let after = passed.load(Ordering::SeqCst) + 2;
            let again = reopened(&folder, &of(LIMIT), &clock).unwrap();
            let left = looks(&again, &Sample::new("GET /"))[0] as usize;
            assert!(left <= LIMIT - before.min(LIMIT), "turn {turn}: {before} had passed");
            assert!(LIMIT <= left + after, "turn {turn}: {after} had passed, {left} left");
            replace(&gate, &of(LIMIT + (turn + 1) % 2));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_snapshot_of_nothing_is_a_snapshot() {
    let (folder, (gate, clock)) = (Folder::new(), gate(POLICY));
    let saved = gate.save(folder.join("snapshot")).unwrap();
    assert_eq!(saved.keys, 0);
    let again = reopened(&folder, POLICY, &clock).unwrap();
    assert_eq!(again.restored().unwrap().at, Tick::from_micros(START * 1_000_000));
    assert_eq!(passed(&again, &by("ada"), 20), 10);
}

/// A plain limit is one of its own, whatever rule has its name; it waits until somebody names it.
#[test]
fn plain_limits_outlive_a_restart() {
    const SAME_NAME: &str = "rules: [{ name: login, limit: 10/h }]";
    let (folder, (mut gate, clock)) = (Folder::new(), gate(SAME_NAME));
    let policy = |cells| Policy::token_bucket(Quota::per_hour(cells)).unwrap();
    let plain =
        |gate: &Gate, cells| gate.adhoc("login", policy(cells), WithoutStore::Open).unwrap();
    let left = |gate: &Gate, limit: &AdhocLimit, cost| {
        let charge = AdhocCharge { limit, key: &[b"ada"], cost };
        gate.decide_adhoc(&[charge]).ready().unwrap().decision().remaining
    };
    assert_eq!(left(&gate, &plain(&gate, 5), 3), 2);
    for _ in 0..3 {
        gate.save(folder.join("snapshot")).unwrap();
        gate = reopened(&folder, SAME_NAME, &clock).unwrap();
    }
    assert_eq!(left(&gate, &plain(&gate, 5), 0), 2);
    assert_eq!(left(&gate, &plain(&gate, 8), 0), 5, "a raise grants the difference");
    assert_eq!(looks(&gate, &by("ada")), [10]);
}
