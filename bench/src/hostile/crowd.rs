//! The peers of an attack: one thread, and as many connections as the attack has.
//!
//! They come from several addresses, as strangers would. Whoever is let go comes back, but not
//! more often than a stranger could.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rustix::net::{self, AddressFamily, SocketType};

use super::attack::Attack;
use super::stand::Ports;
use crate::timer;

/// Peers that are at it.
pub(super) struct Crowd {
    stop: Sender<()>,
    /// How much of a processor it takes.
    thread: JoinHandle<f64>,
}

impl Crowd {
    /// Lets the peers come, and returns when all are there.
    pub(super) fn begin(attack: &'static Attack, ports: Ports) -> Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut peers = peers(attack, ports);
            let _ = tell.send(());
            go_on(attack, &mut peers, &stopped)
        });
        told.recv().context("the peers cannot connect")?;
        Ok(Self { stop, thread })
    }

    /// Ends the attack with all of its connections; how much of a processor it took.
    pub(super) fn end(self) -> Result<f64> {
        drop(self.stop);
        self.thread.join().map_err(|_| anyhow!("the peers have panicked"))
    }
}

/// A connection, and what could not be sent on it yet.
struct Peer {
    number: usize,
    /// The place of its door among those of the attack.
    door: usize,
    port: u16,
    stream: Option<TcpStream>,
    unsent: Vec<u8>,
    sent: usize,
    times: u32,
}

fn peers(attack: &Attack, ports: Ports) -> Vec<Peer> {
    let doors = (attack.doors)(ports);
    let places = doors.iter().enumerate();
    let mut peers: Vec<Peer> = places
        .flat_map(|(door, port)| (0..attack.connections).map(move |number| (number, door, *port)))
        .map(|(number, door, port)| Peer {
            number,
            door,
            port,
            stream: None,
            unsent: Vec::new(),
            sent: 0,
            times: 0,
        })
        .collect();
    for peer in &mut peers {
        peer.come(attack);
    }
    peers
}

/// Does what the attack does until it is stopped.
fn go_on(attack: &Attack, peers: &mut [Peer], stopped: &Receiver<()>) -> f64 {
    let (start, cpu) = (timer::now(), timer::own_cpu());
    let mut scratch = vec![0; 64 << 10];
    loop {
        let mut has_moved = false;
        let mut may_come = COME_BACK_AT_ONCE;
        for peer in peers.iter_mut() {
            if peer.stream.is_none() {
                if may_come > 0 {
                    may_come -= 1;
                    peer.come(attack);
                }
            } else {
                has_moved |= peer.speak(attack, &mut scratch);
            }
        }
        let pause = if has_moved { Duration::ZERO } else { PAUSE };
        if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    timer::own_cpu().saturating_sub(cpu).as_secs_f64() / start.elapsed().as_secs_f64()
}

impl Peer {
    fn come(&mut self, attack: &Attack) {
        let host = u8::try_from(2 + self.number % HOSTS).expect("few hosts");
        // A peer that is not let in tries again later.
        self.stream = connected(Ipv4Addr::new(127, 0, 0, host), self.port).ok();
        (self.unsent, self.sent, self.times) = ((attack.hello)(self.door), 0, 0);
    }

    /// Sends and reads as much as the system takes and has; whether that was anything.
    fn speak(&mut self, attack: &Attack, scratch: &mut [u8]) -> bool {
        let Some(mut stream) = self.stream.as_ref() else { return false };
        if self.sent == self.unsent.len() {
            (self.unsent, self.sent) = ((attack.again)(self.times), 0);
            self.times += 1;
        }
        let sent = match stream.write(&self.unsent[self.sent..]) {
            Ok(sent) => sent,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(_) => {
                self.stream = None;
                return true;
            }
        };
        self.sent += sent;
        if !attack.reads {
            return sent > 0;
        }
        match stream.read(scratch) {
            Ok(read @ 1..) => sent + read > 0,
            Err(error) if error.kind() == ErrorKind::WouldBlock => sent > 0,
            Ok(_) | Err(_) => {
                self.stream = None;
                true
            }
        }
    }
}

fn connected(from: Ipv4Addr, port: u16) -> Result<TcpStream> {
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    net::bind(&socket, &SocketAddrV4::new(from, 0))?;
    net::connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Addresses that they come from.
const HOSTS: usize = 8;
/// How many come back between two looks.
const COME_BACK_AT_ONCE: usize = 16;
const PAUSE: Duration = Duration::from_millis(5);
