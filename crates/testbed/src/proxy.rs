//! A proxy in front of a server, which breaks connections where a test wants them broken.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::net::sockopt::set_socket_linger;

use crate::pump::{Fate, Pair, Way};
use crate::{Server, wait};

/// A port that leads to a server, with faults on demand. Closed, with its connections, on drop.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    target: u16,
    stopped: AtomicBool,
    refusing: AtomicBool,
    delay_us: AtomicU64,
    accepted: AtomicU64,
    requests_bytes: AtomicU64,
    requests_reads: AtomicU64,
    /// How many bytes of replies may still pass before the cut, if one was asked for.
    replies_left: Mutex<Option<usize>>,
    pairs: Mutex<Vec<Weak<Pair>>>,
}

impl Proxy {
    /// A proxy in front of a server.
    pub fn start(server: &Server) -> Result<Proxy> {
        Proxy::to_port(server.port())
    }

    /// A proxy in front of whatever listens on that port of the loopback.
    pub fn to_port(target: u16) -> Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free")?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(State { target, ..State::default() });
        let theirs = Arc::clone(&state);
        thread::spawn(move || accept(&listener, &theirs));
        Ok(Proxy { port, state })
    }

    /// Where to connect.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where to connect.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Lets that many more bytes of replies through, over all connections, and then resets the
    /// connection that the last of them was for; once. With zero, the next reply is lost whole.
    pub fn cut_replies_after(&self, bytes: usize) {
        *lock(&self.state.replies_left) = Some(bytes);
    }

    /// Whether the cut that was asked for is still to come.
    pub fn is_cut_due(&self) -> bool {
        lock(&self.state.replies_left).is_some()
    }

    /// Resets all connections, and waits until they are closed.
    pub fn drop_all(&self) -> Result<()> {
        let pairs = self.state.reset_all();
        wait::until(CLOSE_WITHIN, "all connections are closed", || {
            pairs.iter().all(|pair| pair.strong_count() == 0)
        })
    }

    /// Resets new connections as soon as they are made, until told otherwise.
    pub fn refuse(&self, refusing: bool) {
        self.state.refusing.store(refusing, Ordering::SeqCst);
    }

    /// Holds every batch of replies back for that long.
    pub fn delay(&self, span: Duration) {
        let span_us = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        self.state.delay_us.store(span_us, Ordering::SeqCst);
    }

    /// How many connections were made so far, those that were refused included.
    pub fn connections(&self) -> u64 {
        self.state.accepted.load(Ordering::SeqCst)
    }

    /// How many connections are open.
    pub fn connections_open(&self) -> usize {
        lock(&self.state.pairs).iter().filter(|pair| 0 < pair.strong_count()).count()
    }

    /// How many bytes of requests came so far.
    pub fn bytes_up(&self) -> u64 {
        self.state.requests_bytes.load(Ordering::SeqCst)
    }

    /// In how many pieces they came: at most as many as were written by the clients.
    pub fn writes_up(&self) -> u64 {
        self.state.requests_reads.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts, which then ends.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
        self.state.reset_all();
    }
}

impl State {
    fn reset_all(&self) -> Vec<Weak<Pair>> {
        let pairs = std::mem::take(&mut *lock(&self.pairs));
        pairs.iter().filter_map(Weak::upgrade).for_each(|pair| pair.reset());
        pairs
    }

    fn judge_requests(&self, count: usize) -> Fate {
        self.requests_bytes.fetch_add(count as u64, Ordering::SeqCst);
        self.requests_reads.fetch_add(1, Ordering::SeqCst);
        Fate::Pass
    }

    fn judge_replies(&self, count: usize) -> Fate {
        let delay = Duration::from_micros(self.delay_us.load(Ordering::SeqCst));
        if !delay.is_zero() {
            wait::hold(delay);
        }
        let mut left = lock(&self.replies_left);
        match *left {
            None => Fate::Pass,
            Some(bytes) if count < bytes => {
                *left = Some(bytes - count);
                Fate::Pass
            }
            Some(bytes) => {
                *left = None;
                Fate::Cut(bytes)
            }
        }
    }
}

fn accept(listener: &TcpListener, state: &Arc<State>) {
    for client in listener.incoming() {
        if state.stopped.load(Ordering::SeqCst) {
            return;
        }
        let Ok(client) = client else { continue };
        state.accepted.fetch_add(1, Ordering::SeqCst);
        // A server that is down shows as a connection that is reset at once.
        if state.refusing.load(Ordering::SeqCst) || connect(&client, state).is_err() {
            // Fails only when the client was faster.
            let _ = set_socket_linger(&client, Some(Duration::ZERO));
        }
    }
}

fn connect(client: &TcpStream, state: &Arc<State>) -> Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, state.target))?;
    let pair = Arc::new(Pair::new(client.try_clone()?, server)?);
    let mut pairs = lock(&state.pairs);
    pairs.retain(|pair| 0 < pair.strong_count());
    pairs.push(Arc::downgrade(&pair));
    let (there, back) = (Arc::clone(&pair), pair);
    let (requests, replies) = (Arc::clone(state), Arc::clone(state));
    thread::spawn(move || there.pump(Way::Requests, |count| requests.judge_requests(count)));
    thread::spawn(move || back.pump(Way::Replies, |count| replies.judge_replies(count)));
    Ok(())
}

/// A panic elsewhere leaves what is behind these locks as good as it was.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const CLOSE_WITHIN: Duration = Duration::from_secs(5);
