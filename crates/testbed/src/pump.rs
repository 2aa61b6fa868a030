//! One connection through the proxy: two sockets, and a thread for each direction.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use rustix::net::sockopt::set_socket_linger;

/// Both ends of a connection. They are closed when the last thread lets go of them.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) client: TcpStream,
    pub(crate) server: TcpStream,
    gone: AtomicBool,
}

/// What becomes of bytes that came.
pub(crate) enum Fate {
    /// All of them are passed on.
    Pass,
    /// So many are passed on, then both ends are reset.
    Cut(usize),
}

impl Pair {
    pub(crate) fn new(client: TcpStream, server: TcpStream) -> Result<Pair> {
        for stream in [&client, &server] {
            stream.set_nodelay(true)?;
            // A peer that does not read must not keep this thread from noticing a reset.
            stream.set_write_timeout(Some(WRITE_STEP))?;
        }
        Ok(Pair { client, server, gone: AtomicBool::new(false) })
    }

    /// Makes both ends break off, as if the machine between had gone.
    pub(crate) fn reset(&self) {
        self.gone.store(true, Ordering::SeqCst);
        for stream in [&self.client, &self.server] {
            // Closing then sends a reset; shutting our reading end says nothing to the peer and
            // wakes the thread that reads. Both fail only when the peer was faster.
            let _ = set_socket_linger(stream, Some(Duration::ZERO));
            drop(stream.shutdown(Shutdown::Read));
        }
    }

    /// Passes bytes on until one end closes or breaks, asking about each batch of them.
    pub(crate) fn pump(&self, way: Way, mut judge: impl FnMut(usize) -> Fate) {
        let (mut from, to) = way.ends(self);
        let mut buffer = [0; 16 * 1_024];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            match judge(count) {
                Fate::Pass if self.write(to, &buffer[..count]) => {}
                Fate::Pass => break,
                Fate::Cut(bytes) => {
                    self.write(to, &buffer[..bytes.min(count)]);
                    self.reset();
                    return;
                }
            }
        }
        // The peer may have closed already.
        drop(to.shutdown(Shutdown::Write));
    }

    fn write(&self, mut to: &TcpStream, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() && !self.gone.load(Ordering::SeqCst) {
            match to.write(bytes) {
                Ok(0) => return false,
                Ok(count) => bytes = &bytes[count..],
                Err(error) if is_late(error.kind()) => {}
                Err(_) => return false,
            }
        }
        bytes.is_empty()
    }
}

/// Which way bytes go.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    Requests,
    Replies,
}

impl Way {
    fn ends(self, pair: &Pair) -> (&TcpStream, &TcpStream) {
        match self {
            Way::Requests => (&pair.client, &pair.server),
            Way::Replies => (&pair.server, &pair.client),
        }
    }
}

fn is_late(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

const WRITE_STEP: Duration = Duration::from_millis(50);
