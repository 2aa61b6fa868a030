//! A process that is killed gives back what it held when its lease is over, and not before.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod stand;

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

use tidegate_core::{Span, Verdict};
use tidegate_store::Limiter;
use tidegate_testbed::Server;

use self::stand::{LONG, Node, permits, store};

/// Where the holder finds Redis; without it, it holds nothing.
const HOLDS_ON: &str = "TIDEGATE_TEST_HOLDS_ON";
const LEASE: Span = Span::from_millis(1_500);

async fn limiter(url: &str) -> Node {
    let builder = Limiter::builder().each("each", permits(1, LEASE));
    Node::on(store(url).await, builder.all("all", permits(1, LEASE)))
}

/// The other process: holds a permit until it is killed.
#[tokio::test]
async fn holds_a_permit_until_it_is_killed() {
    let Ok(url) = std::env::var(HOLDS_ON) else { return };
    let _held = limiter(&url).await.key("ada").enter().await.unwrap();
    println!("held");
    // Until our owner ends.
    let _ = std::io::stdin().read(&mut [0]);
}

fn holder(url: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "holds_a_permit_until_it_is_killed", "--nocapture"]);
    let piped = command.env(HOLDS_ON, url).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.ends_with("held")), "it ended");
    child
}

#[tokio::test]
async fn a_killed_holders_permits_come_back_after_their_lease() {
    let server = Server::start().unwrap();
    let here = limiter(&server.url()).await;
    let mut child = holder(&server.url());
    let refused = here.key("ada").enter().await.unwrap_err();
    assert_eq!(refused.violated().count(), 2, "both are held: the key's, and that of all");
    assert!(matches!(refused.verdict(), Verdict::Deny { .. }));
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = here.key("ada").cost(1).peek().await;
    let Verdict::Deny { retry_after } = killed.verdict() else { panic!("its lease is not over") };
    assert!(retry_after <= LEASE);
    let free = async || here.key("bob").enter().await;
    let entered = async {
        loop {
            if let Ok(pass) = free().await {
                break pass;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let pass = tokio::time::timeout(LONG, entered).await.unwrap();
    assert!(here.key("ada").enter().await.is_err(), "bob has the one of all");
    pass.release().await;
    assert!(here.key("ada").enter().await.is_ok());
}
