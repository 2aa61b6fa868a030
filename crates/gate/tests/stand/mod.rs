//! What the tests of this folder stand on: gates whose time stands still, requests, folders.

#![allow(dead_code, reason = "each test takes what it needs of it")]
#![allow(unreachable_pub, reason = "a module of several tests")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tidegate_core::{Span, Verdict};
use tidegate_gate::{Admission, Gate, OpenError, Request, Response, RuleCounts, Rules, Sample};
use tidegate_store::{Clock, ManualClock};
use tokio::runtime::Runtime;

/// Where clocks of tests begin: a Friday in July 2024, at noon.
pub const START: u64 = 1_721_995_200;

/// A clock that stands at [`START`].
pub fn clock() -> Arc<ManualClock> {
    clock_at(START)
}

/// A clock that stands at so many seconds of Unix time.
pub fn clock_at(seconds: u64) -> Arc<ManualClock> {
    let clock = Arc::new(ManualClock::new());
    clock.advance(Span::from_micros(seconds * 1_000_000));
    clock
}

/// A gate whose time stands still, and its clock.
#[track_caller]
pub fn gate(policy: &str) -> (Gate, Arc<ManualClock>) {
    gate_at(START, policy)
}

#[track_caller]
pub fn gate_at(seconds: u64, policy: &str) -> (Gate, Arc<ManualClock>) {
    let clock = clock_at(seconds);
    let builder = Gate::builder().rules(rules(policy));
    (builder.clock(Arc::clone(&clock) as Arc<dyn Clock>).open().unwrap(), clock)
}

/// The gate that begins with the file `snapshot` of a folder.
pub fn reopened(
    folder: &Folder,
    policy: &str,
    clock: &Arc<ManualClock>,
) -> Result<Gate, OpenError> {
    let builder = Gate::builder().rules(rules(policy)).restore(folder.join("snapshot"));
    builder.clock(Arc::clone(clock) as Arc<dyn Clock>).open()
}

#[track_caller]
pub fn rules(policy: &str) -> Rules {
    match Rules::from_text(policy) {
        Ok(loaded) => loaded.rules,
        Err(report) => panic!("{report}"),
    }
}

/// Puts another policy in force.
#[track_caller]
pub fn replace(gate: &Gate, policy: &str) {
    gate.replace(rules(policy)).unwrap();
}

/// A request with an API key.
pub fn by(key: &str) -> Sample {
    to("GET /", key)
}

pub fn to(line: &str, key: &str) -> Sample {
    Sample::new(line).with_header("x-api-key", key)
}

pub fn at(address: &str) -> Sample {
    Sample::new("GET /").from_peer(address.parse().unwrap())
}

/// A gate whose `decide` waits for its store, whichever that is.
#[derive(Clone, Debug)]
pub struct Still {
    pub gate: Gate,
    /// Where its states are, if others may have them too.
    pub place: u64,
}

impl std::ops::Deref for Still {
    type Target = Gate;

    fn deref(&self) -> &Gate {
        &self.gate
    }
}

impl Still {
    #[track_caller]
    pub fn decide(&self, request: &dyn Request) -> Admission {
        decide(&self.gate, request)
    }
}

/// Where work is done that stores elsewhere have left over, and where tests wait for them.
pub static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let builder = &mut tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
});

/// Waits until something is done. With a store in this process it is done already.
pub fn done<T>(work: impl Future<Output = T>) -> T {
    let (mut work, _entered) = (std::pin::pin!(work), RUNTIME.enter());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match work.as_mut().poll(&mut context) {
        std::task::Poll::Ready(done) => done,
        std::task::Poll::Pending => RUNTIME.block_on(work),
    }
}

/// What the gate's store decides.
#[track_caller]
pub fn decide(gate: &Gate, request: &dyn Request) -> Admission {
    if gate.store().answers_at_once() {
        return gate.decide(request);
    }
    let admission = done(gate.admit(request));
    assert!(!admission.by().is_fallback(), "by {}", admission.by());
    admission
}

/// Sees what is expected: at once with a store in this process, and soon where another has to hear
/// of what was dropped.
#[track_caller]
pub fn becomes<T, E>(gate: &Gate, look: impl Fn() -> T, expected: E)
where
    T: PartialEq<E> + std::fmt::Debug,
    E: std::fmt::Debug,
{
    if !gate.store().answers_at_once() {
        let soon = Duration::from_secs(20);
        drop(tidegate_testbed::until(soon, "it has heard", || look() == expected));
    }
    assert_eq!(look(), expected);
}

/// Whether a request passes.
#[track_caller]
pub fn passes(gate: &Gate, request: &Sample) -> bool {
    let mut admission = decide(gate, request);
    done(admission.release());
    admission.verdict().passes()
}

/// How many of `asked` requests pass.
#[track_caller]
pub fn passed(gate: &Gate, request: &Sample, asked: usize) -> usize {
    (0..asked).filter(|_| passes(gate, request)).count()
}

/// What is left under each limit, in the order of the answers.
pub fn left(admission: &Admission) -> Vec<u32> {
    admission.each().map(|answer| answer.decision.remaining).collect()
}

/// What is left under each limit for a request, which is given back at once.
#[track_caller]
pub fn looks(gate: &Gate, request: &Sample) -> Vec<u32> {
    let mut admission = decide(gate, request);
    let passes = admission.verdict().passes();
    let left = admission.each().map(|answer| {
        let taken = if passes && answer.decision.verdict.passes() { answer.cost } else { 0 };
        answer.decision.remaining + taken
    });
    let left = left.collect();
    done(admission.refund());
    done(admission.release());
    left
}

/// What is left under each limit for a request, which nobody makes.
pub fn room(gate: &Gate, request: &Sample) -> Vec<u32> {
    left(&done(gate.peek(request)))
}

pub fn retry_after(admission: &Admission) -> Option<Span> {
    match admission.verdict() {
        Verdict::Deny { retry_after } => Some(retry_after),
        _ => None,
    }
}

/// What a rule has said so far: allowed, denied, denied in shadow.
#[track_caller]
pub fn counts(gate: &Gate, rule: &str) -> (u64, u64, u64) {
    let counts = gate.counts().into_iter().find(|(name, _)| name == rule);
    let RuleCounts { allowed, denied, shadow_denied, .. } = counts.expect("the rule is there").1;
    (allowed, denied, shadow_denied)
}

/// A response with a status and a header.
#[derive(Debug)]
pub struct Answered(pub u16, pub &'static str, pub &'static str);

impl Response for Answered {
    fn status(&self) -> u16 {
        self.0
    }

    fn header(&self, name: &str) -> Option<&[u8]> {
        (name == self.1).then_some(self.2.as_bytes())
    }
}

/// A folder of a test, removed with it.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tidegate-gate-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}
