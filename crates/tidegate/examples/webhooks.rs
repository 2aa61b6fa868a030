//! A webhook sender that respects a partner's ten a second, from three processes at once.
//!
//! Give the address of a Redis or Valkey server:
//! `cargo run --example webhooks --features redis -- redis://127.0.0.1:6379`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use tidegate::redis::{Fleet, RedisStore, Settings};
use tidegate::{Clock as _, Quota, Shaper, SystemClock, Tick};

const PROCESSES: usize = 3;
const CALLS_EACH: usize = 10;

type Failed = Box<dyn Error>;

fn main() -> Result<(), Failed> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args[..] {
        [redis, partner, process] => send(redis, partner, process),
        [redis] => start(redis),
        _ => start("redis://127.0.0.1:6379"),
    }
}

/// One of the senders: takes a slot before every call.
#[tokio::main(flavor = "current_thread")]
async fn send(redis: &str, partner: &str, process: &str) -> Result<(), Failed> {
    // The partner takes ten a second. We keep up to a minute's calls waiting, and none for longer.
    let store = RedisStore::builder(Settings::from_url(redis)?);
    let fleet = Fleet::new(store.deadline(Duration::from_secs(1)).connect().await?);
    let shaper = Shaper::builder(Quota::per_second(10).burst(600))
        .longest_wait(Duration::from_mins(1))
        .build_on("webhooks", Arc::new(fleet))?;
    let mut connection = TcpStream::connect(partner)?;
    connection.set_nodelay(true)?;
    for _ in 0..CALLS_EACH {
        shaper.acquire("partner.example", 1).await?;
        connection.write_all(format!("POST /hook from process {process}\n").as_bytes())?;
    }
    Ok(())
}

/// Starts the senders, and is the partner.
fn start(redis: &str) -> Result<(), Failed> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let partner = listener.local_addr()?.to_string();
    let (calls, received) = mpsc::channel();
    let program = std::env::current_exe()?;
    let mut senders = Vec::new();
    for process in 1..=PROCESSES {
        let sender =
            Command::new(&program).args([redis, &partner, &process.to_string()]).spawn()?;
        senders.push(sender);
        let (connection, calls) = (listener.accept()?.0, calls.clone());
        std::thread::spawn(move || receive(connection, &calls));
    }
    drop(calls);

    let mut received: Vec<(Tick, String)> = received.iter().collect();
    received.sort();
    let first = received.first().map_or(Tick::default(), |(at, _)| *at);
    for (at, call) in &received {
        println!("{:>6} ms: {call}", at.since(first).get() / 1_000);
    }
    for mut sender in senders {
        sender.wait()?;
    }
    Ok(())
}

/// The partner's side: notes when each call came.
fn receive(connection: TcpStream, calls: &Sender<(Tick, String)>) {
    let clock = SystemClock::new();
    for line in BufReader::new(connection).lines().map_while(Result::ok) {
        // The receiver is gone: so are we.
        if calls.send((clock.now(), line)).is_err() {
            return;
        }
    }
}
