//! Three processes together send what one may: measured where it arrives, with a real Redis.
#![cfg(feature = "redis")]

use std::process::Command;

use tidegate_testbed::Server;

/// When each call came, in milliseconds since the first.
fn arrivals(redis: &str) -> (Vec<u64>, String) {
    let path = std::env::current_exe().expect("the test's own path");
    let profile = path.parent().and_then(|deps| deps.parent()).expect("…/<profile>/deps/test");
    let mut example = Command::new(profile.join("examples/webhooks"));
    let output = example.arg(redis).output().expect("it was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).expect("text");
    let at = |line: &str| line.split(" ms: ").next().and_then(|at| at.trim().parse().ok());
    (printed.lines().filter_map(at).collect(), printed)
}

#[test]
fn a_partner_gets_ten_a_second_from_three_processes_together() {
    let server = Server::start().expect("a server");
    let (arrivals, printed) = arrivals(&server.url());
    assert_eq!(arrivals.len(), 30, "{printed}");
    for process in 1..=3 {
        let name = format!("from process {process}");
        assert_eq!(printed.matches(&name).count(), 10, "{printed}");
    }
    // Ten a second are eleven from one to the end of the second; a busy machine may hold one up
    // for long enough to come with the next.
    for (index, first) in arrivals.iter().enumerate() {
        let inside = arrivals[index..].iter().take_while(|at| **at - first <= 1_000).count();
        assert!(inside <= 12, "{inside} in a second\n{printed}");
    }
    // Evenly spaced: neither in bursts nor slower than it must be.
    let mut gaps: Vec<u64> = arrivals.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    assert!((85..=115).contains(&gaps[gaps.len() / 2]), "{gaps:?}\n{printed}");
    assert!(2_800 <= arrivals[29], "{printed}");
}
