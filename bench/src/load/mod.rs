//! The load: one thread, some connections, and one of two ways to ask.
//!
//! `saturate` asks again as soon as it was answered, which finds the most that a server can do.
//! `pace` asks when it is time to, answered or not, and counts from then on: a server that stands
//! still is charged for all who would have come meanwhile.

mod connection;
pub(crate) mod talk;

use std::collections::VecDeque;
use std::mem;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use self::connection::{Connection, Scratch};
use self::talk::Start;
use crate::histogram::Histogram;
use crate::order::Random;
use crate::timer;

/// How many connections, and how much each has in flight.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) connections: usize,
    pub(crate) in_flight: usize,
    /// Whether a connection asks again only when all is answered, as a pipeline does.
    pub(crate) in_step: bool,
    /// Whether the load sleeps while nothing is there for it. Then a server has to wake it now and
    /// then, more often the slower it is.
    pub(crate) sleeps: bool,
}

/// About whom is asked.
#[derive(Debug)]
pub(crate) enum Clients {
    /// Anyone of so many.
    Any(Random, u32),
    /// One after the other.
    InTurn(u32),
}

impl Clients {
    fn next(&mut self) -> u32 {
        match self {
            Self::Any(random, count) => random.below(*count),
            Self::InTurn(next) => {
                *next += 1;
                *next - 1
            }
        }
    }
}

/// When to stop asking.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until {
    After(Duration),
    Asked(u64),
}

/// What came of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lap {
    pub(crate) replies: u64,
    pub(crate) wall: Duration,
    /// Processor time of the load.
    pub(crate) cpu: Duration,
}

pub(crate) struct Load {
    epoll: OwnedFd,
    connections: Vec<Connection>,
    shape: Shape,
    scratch: Scratch,
    events: Vec<epoll::Event>,
}

impl Load {
    pub(crate) fn open(port: u16, shape: Shape, start: &Start) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("no epoll")?;
        let mut connections = Vec::with_capacity(shape.connections);
        for place in 0..shape.connections {
            let connection = Connection::open(port, start())?;
            epoll::add(&epoll, &connection, data(place), epoll::EventFlags::IN)?;
            connections.push(connection);
        }
        let events = Vec::with_capacity(EVENTS);
        Ok(Self { epoll, connections, shape, scratch: Scratch::new(), events })
    }

    /// Asks as fast as answers come, and returns when all is answered.
    pub(crate) fn saturate(&mut self, clients: &mut Clients, until: Until) -> Result<Lap> {
        let (start, cpu) = (timer::now(), timer::own_cpu());
        let (mut asked, mut replies) = (0, 0);
        let most = if let Until::Asked(count) = until { count } else { u64::MAX };
        let patience = if self.shape.sleeps { STALL } else { Duration::ZERO };
        let mut heard = start;
        for place in 0..self.connections.len() {
            self.refill(place, clients, start, &mut asked, most)?;
        }
        while replies < asked {
            let events = self.wait(patience)?;
            let now = timer::now();
            heard = if events.is_empty() { heard } else { now };
            ensure!(now - heard < STALL, "the server did not answer for {STALL:?}");
            let over = matches!(until, Until::After(time) if now - start >= time);
            let most = if over { asked } else { most };
            for place in events.iter().copied().map(place) {
                let connection = &mut self.connections[place];
                connection.receive(&mut self.scratch, |_| replies += 1)?;
                self.refill(place, clients, now, &mut asked, most)?;
            }
            self.events = events;
        }
        Ok(Lap { replies, wall: start.elapsed(), cpu: timer::own_cpu().saturating_sub(cpu) })
    }

    /// Asks `rate` times a second for `time`: how long after it was due each was answered.
    pub(crate) fn pace(
        &mut self,
        clients: &mut Clients,
        rate: f64,
        time: Duration,
    ) -> Result<Histogram> {
        let mut latencies = Histogram::new();
        let mut free: VecDeque<usize> =
            (0..self.shape.in_flight).flat_map(|_| 0..self.connections.len()).collect();
        let slots = free.len();
        let step = Duration::from_secs_f64(1.0 / rate);
        let start = timer::now();
        let (mut due, end) = (start, start + time);
        while due < end || free.len() < slots {
            let now = timer::now();
            ensure!(now < end + STALL, "the server does not answer");
            while due <= now && due < end {
                let Some(place) = free.pop_front() else { break };
                self.connections[place].ask(clients.next(), due);
                self.send(place)?;
                due += step;
            }
            let events = self.wait(Duration::ZERO)?;
            for place in events.iter().copied().map(place) {
                let connection = &mut self.connections[place];
                connection.receive(&mut self.scratch, |due| {
                    latencies.add(due.elapsed());
                    free.push_back(place);
                })?;
                self.send(place)?;
            }
            self.events = events;
        }
        Ok(latencies)
    }

    /// Asks as often as this connection may.
    fn refill(
        &mut self,
        place: usize,
        clients: &mut Clients,
        now: Instant,
        asked: &mut u64,
        most: u64,
    ) -> Result<()> {
        let connection = &mut self.connections[place];
        if !self.shape.in_step || connection.in_flight() == 0 {
            while connection.in_flight() < self.shape.in_flight && *asked < most {
                connection.ask(clients.next(), now);
                *asked += 1;
            }
        }
        self.send(place)
    }

    /// Sends what was written down; the rest is sent when the system takes it.
    fn send(&mut self, place: usize) -> Result<()> {
        let connection = &mut self.connections[place];
        if !connection.has_unsent() {
            return Ok(());
        }
        let waits = !connection.send()?;
        if waits != connection.waits_to_send {
            connection.waits_to_send = waits;
            let out = if waits { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
            let wanted = epoll::EventFlags::IN | out;
            epoll::modify(&self.epoll, &*connection, data(place), wanted)?;
        }
        Ok(())
    }

    /// Waits at most so long for something to happen, and says where it did.
    fn wait(&mut self, most: Duration) -> Result<Vec<epoll::Event>> {
        let timeout = Timespec::try_from(most).context("a long time")?;
        let mut events = mem::take(&mut self.events);
        events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)) {
            Ok(0) if most == STALL => bail!("the server did not answer for {STALL:?}"),
            Ok(_) | Err(Errno::INTR) => Ok(events),
            Err(error) => Err(error).context("epoll fails"),
        }
    }
}

fn place(event: epoll::Event) -> usize {
    usize::try_from(event.data.u64()).expect("it was made of one")
}

fn data(place: usize) -> epoll::EventData {
    epoll::EventData::new_u64(place as u64)
}

const EVENTS: usize = 256;
/// The longest that a server may leave everybody without an answer.
const STALL: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::mpsc;
    use std::thread;

    use tidegate_testbed::Server;

    use super::talk::Resp;
    use super::*;

    fn pinging() -> Start {
        Box::new(|| Box::new(Resp::new(&["ECHO", "#######"], "$7\r\n", 2)))
    }

    #[test]
    fn as_many_are_asked_as_wanted_in_every_shape() {
        let server = Server::start().unwrap();
        let shapes = [(1, 1, true), (3, 16, true), (2, 8, false)];
        for (connections, in_flight, in_step) in shapes {
            let shape = Shape { connections, in_flight, in_step, sleeps: in_step };
            let mut load = Load::open(server.port(), shape, &pinging()).unwrap();
            let lap = load.saturate(&mut Clients::InTurn(0), Until::Asked(1_001)).unwrap();
            assert_eq!(lap.replies, 1_001);
            let time = Duration::from_millis(20);
            let lap = load.saturate(&mut Clients::InTurn(0), Until::After(time)).unwrap();
            assert!(lap.replies > 0 && time <= lap.wall, "{lap:?}");
        }
    }

    /// Answers one connection, but the first time only after a pause.
    fn pauses_once(listener: &TcpListener, pause: Duration) {
        let (mut stream, _) = listener.accept().unwrap();
        let (_end, never) = mpsc::channel::<()>();
        let mut bytes = [0; 1_000];
        let mut pause = Some(pause);
        while stream.read(&mut bytes).is_ok_and(|count| count > 0) {
            if let Some(pause) = pause.take() {
                assert!(never.recv_timeout(pause).is_err());
            }
            stream.write_all(b"$7\r\n0000000\r\n").unwrap();
        }
    }

    #[test]
    fn a_pause_is_charged_to_all_who_were_due_meanwhile() {
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || pauses_once(&listener, Duration::from_millis(100)));
        let shape = Shape { connections: 1, in_flight: 1, in_step: true, sleeps: true };
        let mut load = Load::open(port, shape, &pinging()).unwrap();
        let time = Duration::from_millis(200);
        let latencies = load.pace(&mut Clients::InTurn(0), 1_000.0, time).unwrap();
        // Half of them came during the pause, and half of those in its first half.
        assert!(latencies.all_but(5) >= Duration::from_millis(30));
        drop(load);
        server.join().unwrap();
    }
}
