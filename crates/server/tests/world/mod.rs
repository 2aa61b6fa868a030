//! A server in this process, on ports that the system chose, by a clock that tests move.
#![allow(dead_code, reason = "every test uses some of it")]

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use tidegate_gate::Gate;
use tidegate_server::{Addresses, Ended, Guard, Server, Settings};
use tidegate_store::ManualClock;
use tidegate_testbed::{Http, Http2, HttpAnswer, Resp};
use tokio::sync::oneshot;

/// A server that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) at: Addresses,
    pub(crate) clock: Arc<ManualClock>,
    /// Who shows it administers, unless the test says who does.
    pub(crate) token: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Ended>>,
}

impl World {
    /// All doors, by this policy.
    pub(crate) fn new(policy: &str) -> World {
        World::with(policy, |_| {})
    }

    /// All doors, by this policy, with other settings.
    pub(crate) fn with(policy: &str, set: impl FnOnce(&mut Settings)) -> World {
        let clock = Arc::new(ManualClock::new());
        let gate = Gate::builder().text(policy).clock(clock.clone());
        World::of(gate.open().expect("a good policy"), clock, set)
    }

    /// A server around a gate.
    pub(crate) fn of(
        gate: Gate,
        clock: Arc<ManualClock>,
        set: impl FnOnce(&mut Settings),
    ) -> World {
        let free: Option<SocketAddr> = Some(([127, 0, 0, 1], 0).into());
        let manual = Some(Arc::clone(&clock));
        let (guard, token) = Guard::with_own_token();
        let mut settings =
            Settings { http: free, grpc: free, resp: free, manual, guard, ..Settings::default() };
        set(&mut settings);
        let (stop, asked) = oneshot::channel();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("threads can be had");
            runtime.block_on(async {
                let server = Server::bind(gate, settings).expect("ports are free");
                tell.send(server.addresses()).expect("somebody waits for it");
                server.run(async { drop(asked.await) }).await.expect("it runs")
            })
        });
        let at = told.recv().expect("it was bound");
        World { at, clock, token, stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn http(&self) -> u16 {
        self.at.http.expect("it has an HTTP door").port()
    }

    /// A connection to the door of the Redis protocol.
    pub(crate) fn resp(&self) -> Resp {
        let port = self.at.resp.expect("it has this door").port();
        Resp::connect(port, SOON).expect("it listens")
    }

    /// A connection to the gRPC door.
    pub(crate) fn grpc(&self) -> Http2<TcpStream> {
        Http2::over(connected(self.at.grpc.expect("it has this door"))).expect("it listens")
    }

    /// Posts JSON; the status and what was answered.
    pub(crate) fn post(&self, path: &str, body: &str) -> (u16, Value) {
        answer(&Http::post(self.http(), path, body).expect("an answer"))
    }

    /// Posts JSON as an administrator; the status and what was answered.
    pub(crate) fn administer(&self, path: &str, body: &str) -> (u16, Value) {
        let headers = [("content-type", "application/json"), ("x-tidegate-token", &*self.token)];
        let mut http = Http::connect(self.http()).expect("it listens");
        answer(&http.send("POST", path, &headers, body.as_bytes()).expect("an answer"))
    }

    pub(crate) fn get(&self, path: &str) -> HttpAnswer {
        Http::get(self.http(), path).expect("an answer")
    }

    /// Stops it, and says how it ended.
    pub(crate) fn stop(mut self) -> Ended {
        self.ask_to_stop();
        self.thread.take().expect("it runs").join().expect("it did not panic")
    }

    /// Tells it to stop, and does not wait for it.
    pub(crate) fn ask_to_stop(&mut self) {
        drop(self.stop.take());
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.ask_to_stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How long anything may take on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A connection whose reads do not last for ever.
pub(crate) fn connected(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&to, SOON).expect("it listens");
    stream.set_read_timeout(Some(SOON)).expect("a time");
    stream.set_write_timeout(Some(SOON)).expect("a time");
    stream.set_nodelay(true).expect("a plain socket");
    stream
}

/// The status of an answer, and its body as JSON.
pub(crate) fn answer(answer: &HttpAnswer) -> (u16, Value) {
    let body = String::from_utf8_lossy(&answer.body);
    let json = serde_json::from_str(&body).unwrap_or_else(|_| Value::String(body.into_owned()));
    (answer.status, json)
}
