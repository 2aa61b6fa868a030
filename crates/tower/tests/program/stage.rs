//! The program, and the law that holds when an attack is over.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::any;
use bytes::Bytes;
use http_body::Frame;
use tidegate_gate::{Gate, Sample};
use tidegate_store::ManualClock;
use tidegate_tower::TidegateLayer;
use tokio::sync::Semaphore;

use crate::support;
use crate::wire::Server;

/// So many are let in: half of them are served, and the others wait for their turn.
pub const PERMITS: u32 = 8;
pub const PLACES: u32 = 4;
const QUOTA: u32 = 100_000;

pub const POLICY: &str = "
rules:
  - { name: busy, algorithm: concurrency, limit: 8 in flight }
  - { name: quota, algorithm: fixed-window, limit: 100000/day }
share: [{ name: backend, capacity: 4 in flight, by: ip, wait: 1h }]
";

/// A service that is under attack.
pub struct Program {
    pub server: Server,
    pub gate: Gate,
    pub clock: Arc<ManualClock>,
    pub inside: Arc<Inside>,
}

/// Who is being served.
pub struct Inside {
    begun: AtomicU32,
    now: AtomicU32,
    most: AtomicU32,
    /// Lets `/turn` answer.
    pub key: Semaphore,
}

impl Default for Inside {
    fn default() -> Inside {
        let [begun, now, most] = [0; 3].map(AtomicU32::new);
        Inside { begun, now, most, key: Semaphore::new(0) }
    }
}

/// One that is being served, until this is dropped.
pub struct Served(Arc<Inside>);

impl Inside {
    pub fn enter(self: &Arc<Inside>) -> Served {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let now = 1 + self.now.fetch_add(1, Ordering::SeqCst);
        self.most.fetch_max(now, Ordering::SeqCst);
        Served(Arc::clone(self))
    }

    pub fn now(&self) -> u32 {
        self.now.load(Ordering::SeqCst)
    }

    pub fn begun(&self) -> u32 {
        self.begun.load(Ordering::SeqCst)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A body that goes on until it ends as `end` says.
struct Pieces {
    left: u32,
    end: End,
    _served: Served,
}

#[derive(Clone, Copy)]
enum End {
    Error,
    Panic,
    Stall,
}

const PIECE: [u8; 16_384] = [b'x'; 16_384];

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        if 0 < self.left {
            self.left -= 1;
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&PIECE)))));
        }
        match self.end {
            End::Error => Poll::Ready(Some(Err("broken"))),
            End::Panic => panic!("in a body, as it should"),
            End::Stall => Poll::Pending,
        }
    }
}

/// Answers as the path says. A request in here is being served, until the response has been sent.
async fn answer(State(inside): State<Arc<Inside>>, request: Request) -> Response {
    let served = inside.enter();
    let pieces =
        |left, end, served| Response::new(Body::new(Pieces { left, end, _served: served }));
    match request.uri().path() {
        "/hang" => std::future::pending().await,
        "/turn" => inside.key.acquire().await.unwrap().forget(),
        "/panic" => panic!("in a handler, as it should"),
        "/error" => return pieces(2, End::Error, served),
        "/torn" => return pieces(2, End::Panic, served),
        "/endless" => return pieces(u32::MAX, End::Stall, served),
        "/stalls" => return pieces(1, End::Stall, served),
        "/reads" => {
            let read = axum::body::to_bytes(request.into_body(), usize::MAX).await;
            if read.is_err() {
                return Response::builder().status(400).body(Body::empty()).unwrap();
            }
        }
        "/upgrade" => return crate::upgrades::switch(request),
        _ => {}
    }
    Response::new("done".into())
}

impl Program {
    pub fn new() -> Program {
        Program::layered(|gate, router| router.layer(TidegateLayer::new(gate.clone())))
    }

    /// A program as `new` makes it, but with other layers.
    pub fn layered(layers: impl FnOnce(&Gate, Router) -> Router) -> Program {
        let (gate, clock) = support::gate(POLICY);
        let inside = Arc::new(Inside::default());
        let router = Router::new().fallback(any(answer)).with_state(Arc::clone(&inside));
        let app = layers(&gate, router).into_make_service_with_connect_info::<SocketAddr>();
        let server = Server::new(async move |listener| axum::serve(listener, app).await);
        Program { server, gate, clock, inside }
    }

    /// A connection on which somebody has asked for something, and reads nothing so far.
    pub fn begin(&self, line: &str) -> TcpStream {
        self.send(&format!("{line} HTTP/1.1\r\nhost: localhost\r\n\r\n"))
    }

    /// A connection with these bytes sent.
    pub fn send(&self, bytes: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(bytes.as_bytes()).unwrap();
        stream
    }

    /// In flight, and waiting for a turn.
    pub fn share(&self) -> (u32, u32) {
        let share = self.gate.stats().shares.remove(0);
        (u32::try_from(share.in_flight).unwrap(), share.waiting)
    }

    /// Waits until so many are served and so many wait.
    #[track_caller]
    pub fn wait_for(&self, served: u32, waiting: u32) {
        until(|| (self.inside.now(), self.share()), (served, (served, waiting)));
    }

    /// Waits until nobody is served and nobody waits.
    #[track_caller]
    pub fn is_quiet(&self) {
        self.wait_for(0, 0);
    }

    /// Waits until what was begun is what was charged, and nothing is in flight.
    #[track_caller]
    pub fn all_is_back(&self) {
        let is = || {
            let looked = self.gate.peek(&Sample::new("GET /")).ready().unwrap();
            let each: Vec<u32> = looked.each().map(|it| it.decision.remaining).collect();
            (self.inside.now(), self.share(), each[0], each[1] + self.inside.begun())
        };
        until(is, (0, (0, 0), PERMITS, QUOTA));
        let most = self.inside.most.load(Ordering::SeqCst);
        assert!(most <= PLACES, "{most} at a time");
    }

    /// The law, once nobody asks for anything: besides that, as many as ever can be served at a
    /// time, and no more.
    #[track_caller]
    pub fn is_over(&self) {
        self.all_is_back();
        // A request that was sent before its client went may still come.
        let full = (PLACES, (PLACES, PERMITS - PLACES));
        let are_full = || {
            let held: Vec<TcpStream> = (0..PERMITS).map(|_| self.begin("GET /hang")).collect();
            let is_full = becomes(|| (self.inside.now(), self.share()), full, 2_000).is_ok();
            assert!(!is_full || self.server.ask("GET /hang").status() == 429);
            drop(held);
            self.is_quiet();
            is_full
        };
        assert!((0..10).any(|_| are_full()), "not all places can be had");
        self.all_is_back();
    }
}

/// Waits until `is` becomes what it should be.
#[track_caller]
pub fn until<T: PartialEq + std::fmt::Debug>(is: impl Fn() -> T, wanted: T) {
    if let Err((is, wanted)) = becomes(is, wanted, 30_000) {
        panic!("in vain: {is:?}, not {wanted:?}");
    }
}

/// Looks as `until` does, but so many times; what it is and what it should be if it does not.
fn becomes<T: PartialEq>(is: impl Fn() -> T, wanted: T, looks: u32) -> Result<(), (T, T)> {
    for _ in 0..looks {
        if is() == wanted {
            return Ok(());
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
    Err((is(), wanted))
}

/// What comes until the connection ends, however it does.
pub fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The status of a reply, and the connection with what was not read of it.
pub fn status(stream: &mut TcpStream) -> u16 {
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    str::from_utf8(&head[9..]).unwrap().parse().unwrap()
}
