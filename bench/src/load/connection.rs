//! One connection of the load: what was asked on it, and what could not be sent or read yet.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::talk::Talk;

pub(super) struct Connection {
    stream: TcpStream,
    talk: Box<dyn Talk>,
    /// The beginning of a reply.
    unread: Vec<u8>,
    unsent: Vec<u8>,
    /// Tickets without a reply, and when each request was due. Few.
    asked: VecDeque<(u32, Instant)>,
    /// Whether the system is to say when it takes more.
    pub(super) waits_to_send: bool,
}

/// What all connections share, so that ten thousand of them take little.
pub(super) struct Scratch {
    bytes: Vec<u8>,
    answered: Vec<u32>,
}

impl Scratch {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; 256 * 1024], answered: Vec::new() }
    }
}

impl Connection {
    pub(super) fn open(port: u16, mut talk: Box<dyn Talk>) -> Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).context("cannot connect")?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut unsent = Vec::new();
        talk.hello(&mut unsent);
        Ok(Self {
            stream,
            talk,
            unread: Vec::new(),
            unsent,
            asked: VecDeque::new(),
            waits_to_send: false,
        })
    }

    pub(super) fn in_flight(&self) -> usize {
        self.asked.len()
    }

    /// Writes a request down; [`Connection::send`] sends all that were.
    pub(super) fn ask(&mut self, client: u32, due: Instant) {
        let ticket = self.talk.ask(client, &mut self.unsent);
        self.asked.push_back((ticket, due));
    }

    /// Sends as much as the system takes, and says whether that was all.
    pub(super) fn send(&mut self) -> Result<bool> {
        let mut sent = 0;
        while sent < self.unsent.len() {
            match self.stream.write(&self.unsent[sent..]) {
                Ok(bytes) => sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("the server takes no more"),
            }
        }
        self.unsent.drain(..sent);
        Ok(self.unsent.is_empty())
    }

    /// Reads what has come, and tells of each reply when its request was due.
    pub(super) fn receive(
        &mut self,
        scratch: &mut Scratch,
        mut reply: impl FnMut(Instant),
    ) -> Result<()> {
        let count = match self.stream.read(&mut scratch.bytes) {
            Ok(0) => bail!("the server closed a connection"),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error).context("the server closed a connection"),
        };
        let fresh = &scratch.bytes[..count];
        scratch.answered.clear();
        if self.unread.is_empty() {
            let read = self.talk.hear(fresh, &mut scratch.answered, &mut self.unsent)?;
            self.unread.extend_from_slice(&fresh[read..]);
        } else {
            self.unread.extend_from_slice(fresh);
            let read = self.talk.hear(&self.unread, &mut scratch.answered, &mut self.unsent)?;
            self.unread.drain(..read);
        }
        for ticket in &scratch.answered {
            // Replies come in the order of their requests, or nearly so: it is among the first.
            let place = self.asked.iter().position(|(asked, _)| asked == ticket);
            let asked = place.and_then(|place| self.asked.remove(place));
            reply(asked.context("a reply that nobody asked for")?.1);
        }
        Ok(())
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
