//! `kill -9` and snapshots: nothing that passed before a snapshot passes again.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::thread;

use tidegate_testbed::until;

use crate::stand::{Door, SOON, Talk, Tidegate, policy};

const LIMIT: u32 = 1_500;
const BEFORE: u64 = 400;
const FLAGS: [&str; 6] = ["--clock", "manual", "--snapshot", "states", "--snapshot-every", "1s"];

/// The file as it is now: another one after every snapshot.
fn saved(server: &Tidegate) -> Option<u64> {
    fs::metadata(server.daemon.folder().join("states")).ok().map(|it| it.ino())
}

fn wait_for_snapshot(server: &Tidegate) {
    let last = saved(server);
    until(SOON, "a snapshot is saved", || saved(server) != last).unwrap();
}

/// Asks so often at every door at once; how often each let pass.
fn pass(server: &Tidegate, times: u64) -> [u64; 3] {
    thread::scope(|scope| {
        let asking = |door| {
            scope.spawn(move || {
                let mut talk = Talk::open(server, door).unwrap();
                (0..times).filter(|_| talk.ask().unwrap()).count() as u64
            })
        };
        Door::ALL.map(asking).map(|client| client.join().unwrap())
    })
}

#[test]
fn after_a_kill_only_that_passes_again_which_passed_since_the_last_snapshot() {
    let mut server = Tidegate::start(&policy(LIMIT), &FLAGS).unwrap();
    assert_eq!(pass(&server, BEFORE), [BEFORE; 3]);
    // The first may have been begun before the last request; the second was not.
    wait_for_snapshot(&server);
    wait_for_snapshot(&server);
    // Load goes on until the process is gone, in the middle of a request.
    let since = thread::scope(|scope| {
        let asking = |door| {
            let mut talk = Talk::open(&server, door).unwrap();
            scope.spawn(move || {
                let mut passed = 0;
                // A request without an answer may have passed as well.
                while passed < 600 {
                    let Ok(may_go) = talk.ask() else { return passed + 1 };
                    assert!(may_go, "the limit is not reached yet");
                    passed += 1;
                }
                passed
            })
        };
        let clients = Door::ALL.map(asking);
        let reached = |door| server.remaining(door) < u64::from(LIMIT) - BEFORE - 50;
        until(SOON, "there is load", || Door::ALL.into_iter().all(reached)).unwrap();
        let pid = server.daemon.pid().unwrap().to_string();
        let killed = std::process::Command::new("kill").args(["-9", &pid]).status().unwrap();
        assert!(killed.success());
        clients.map(|client| client.join().unwrap())
    });
    server.daemon.restart().unwrap();
    let again = pass(&server, u64::from(LIMIT));
    for (door, (again, since)) in Door::ALL.into_iter().zip(again.into_iter().zip(since)) {
        let all = BEFORE + since + again;
        let door = door.name();
        assert!(again <= u64::from(LIMIT) - BEFORE, "{door}: {BEFORE} were saved, {again} again");
        assert!(u64::from(LIMIT) <= all, "{door}: what was saved is no more than what passed");
        assert!(all <= u64::from(LIMIT) + since, "{door}: {since} were lost, {all} passed");
    }
}

#[test]
fn a_damaged_snapshot_is_set_aside() {
    let mut server = Tidegate::start(&policy(LIMIT), &FLAGS).unwrap();
    assert_eq!(pass(&server, 10), [10; 3]);
    assert!(server.daemon.stop(SOON).unwrap().success());
    let path = server.daemon.folder().join("states");
    let whole = fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    let wrong: [&[u8]; 4] = [&whole[..whole.len() - 1], &flipped, b"", b"something else"];
    for (damaged, number) in wrong.into_iter().zip(1..) {
        fs::write(&path, damaged).unwrap();
        server.daemon.restart().unwrap();
        let log = server.daemon.log();
        let said = log.lines().filter(|line| line.contains("a damaged snapshot")).count();
        assert_eq!(said, number, "{log}");
        assert!(log.contains("the snapshot is damaged at byte"), "{log}");
        assert_eq!(server.remaining(Door::Http), u64::from(LIMIT), "limits start afresh");
        let names = fs::read_dir(server.daemon.folder()).unwrap();
        let aside = names
            .flatten()
            .find(|it| it.file_name().to_string_lossy().starts_with("states.damaged-"));
        let aside = aside.expect("it is kept for whoever wants to know why").path();
        assert_eq!(fs::read(&aside).unwrap(), damaged);
        fs::remove_file(aside).unwrap();
        server.daemon.kill();
    }
}
