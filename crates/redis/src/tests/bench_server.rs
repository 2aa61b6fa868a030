//! A real server with the script loaded, and a plain way to call it.

use std::io::Write as _;
use std::net::TcpStream;

use redis::Connection;
use tidegate_core::Tick;
use tidegate_testbed::{Flavor, Server};

use crate::call::{self, Outcome, Run};
use crate::wire::Reply;

/// A day: states must outlive a test that runs in virtual time.
pub(super) const SLACK_MILLIS: u64 = 86_400_000;

pub(super) struct Bench {
    pub(super) connection: Connection,
    scripts: TcpStream,
    _server: Server,
}

impl Bench {
    pub(super) fn start(flavor: Flavor) -> Bench {
        let server = Server::builder().flavor(flavor).start().unwrap();
        let client = redis::Client::open(server.url()).unwrap();
        let connection = client.get_connection().unwrap();
        let scripts = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        scripts.set_nodelay(true).unwrap();
        Bench { connection, scripts, _server: server }
    }

    /// Decides `runs` at `now` by the script.
    pub(super) fn decide<'a>(&mut self, runs: &[Run<'a>], now: Tick) -> Vec<Outcome<'a>> {
        let call = call::write(runs, 0, Some(now), SLACK_MILLIS);
        self.scripts.write_all(&call.with_text()).unwrap();
        let reply = Reply::read(&mut self.scripts);
        let (at, outcomes) =
            call::read(runs, &reply).unwrap_or_else(|_| panic!("not an answer: {reply:?}"));
        assert_eq!(at, now);
        outcomes
    }

    /// The server's clock, in milliseconds.
    pub(super) fn millis(&mut self) -> u64 {
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut self.connection).unwrap();
        seconds * 1_000 + micros / 1_000
    }

    /// For how many milliseconds a key is still kept, if it is there.
    pub(super) fn lives(&mut self, key: &[u8]) -> Option<u64> {
        let left: i64 = redis::cmd("PTTL").arg(key).query(&mut self.connection).unwrap();
        assert_ne!(left, -1, "a state is never kept for ever");
        u64::try_from(left).ok()
    }

    pub(super) fn value(&mut self, key: &[u8]) -> Vec<u8> {
        redis::cmd("GET")
            .arg(key)
            .query::<Option<Vec<u8>>>(&mut self.connection)
            .unwrap()
            .unwrap_or_default()
    }
}
