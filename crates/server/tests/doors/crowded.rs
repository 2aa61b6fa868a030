//! A door that is full: who was idle for longest makes room, and who is in the middle of a request
//! does not.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use prost::Message as _;
use tidegate_sim::rng::Rng;
use tidegate_testbed::{Http, Http2, Resp, until};
use tokio::net::TcpSocket;
use tokio::runtime::Runtime;

use crate::asked::Asked;
use crate::world::{SOON, World};

/// Connections from 127.0.0.99 are those of a proxy.
const POLICY: &str = "
identify: { trusted_proxies: [127.0.0.99/32] }
rules: [{ name: all, limit: 100000/min }]
";
const PROXY: u8 = 99;
const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

fn world(connections_max: usize) -> World {
    World::with(POLICY, |settings| settings.bounds.connections_max = connections_max)
}

/// A connection from one of the addresses of this machine.
fn from(host: u8, to: SocketAddr) -> TcpStream {
    let connected = Runtime::new().unwrap().block_on(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::new(127, 0, 0, host), 0).into()).unwrap();
        socket.connect(to).await.unwrap().into_std().unwrap()
    });
    connected.set_nonblocking(false).unwrap();
    connected.set_read_timeout(Some(SOON)).unwrap();
    connected
}

/// Whether the server has closed a connection; what else it has said is lost.
fn is_closed(mut stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let mut bytes = [0; 1_024];
    let read = std::iter::repeat_with(|| stream.read(&mut bytes)).find(|it| !matches!(it, Ok(1..)));
    stream.set_nonblocking(false).unwrap();
    match read.unwrap() {
        Ok(_) => true,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

/// Asks at any of the doors, over a connection that is there.
#[track_caller]
fn asks(world: &World, stream: &TcpStream) {
    let (to, own) = (stream.peer_addr().unwrap(), stream.try_clone().unwrap());
    if world.at.resp == Some(to) {
        assert_eq!(Resp::over(own).call(&["PING"]).unwrap().text(), "PONG");
    } else if world.at.http == Some(to) {
        let json = [("content-type", "application/json")];
        let told = Http::over(own, "localhost").send("POST", "/v1/check", &json, b"{}").unwrap();
        assert_eq!(told.status, 200);
    } else {
        let message = Asked::any(&mut Rng::new(1)).descriptor().encode_to_vec();
        assert!(Http2::over(own).unwrap().call(METHOD, &message).is_ok());
    }
}

#[test]
fn the_one_that_was_idle_for_longest_makes_room() {
    let world = world(4);
    for door in [world.at.http, world.at.grpc, world.at.resp].map(Option::unwrap) {
        let seated: Vec<TcpStream> = (0..4).map(|_| from(PROXY, door)).collect();
        asks(&world, &seated[0]);
        let next = from(PROXY, door);
        until(SOON, "the second makes room", || is_closed(&seated[1])).unwrap();
        asks(&world, &next);
        let left: Vec<usize> = (0..4).filter(|it| is_closed(&seated[*it])).collect();
        assert_eq!(left, [1], "nobody else has to");
    }
}

/// A request as these two doors have it, in two halves.
fn halves(world: &World) -> [(SocketAddr, &'static [u8], &'static [u8]); 2] {
    const HTTP: &[u8] = b"POST /v1/check HTTP/1.1\r\nhost: a\r\n\
        content-type: application/json\r\ncontent-length: 2\r\n\r\n{";
    let resp = (world.at.resp.unwrap(), &b"*2\r\n$4\r\nECHO\r\n$4\r\nha"[..], &b"lf\r\n"[..]);
    [resp, (world.at.http.unwrap(), HTTP, b"}")]
}

#[test]
fn nobody_makes_room_in_the_middle_of_a_request() {
    let world = world(4);
    for (door, half, rest) in halves(&world) {
        let mut seated: Vec<TcpStream> = (0..4).map(|_| from(PROXY, door)).collect();
        for stream in &mut seated {
            // A whole one before it: whose answer is there has been read from.
            stream.write_all(&[half, rest, half].concat()).unwrap();
            assert_ne!(stream.read(&mut [0; 1024]).unwrap(), 0);
        }
        let late = from(PROXY, door);
        until(SOON, "the fifth is turned away", || is_closed(&late)).unwrap();
        for mut stream in seated {
            stream.write_all(rest).unwrap();
            assert_ne!(stream.read(&mut [0; 1024]).unwrap(), 0, "what was begun is answered");
        }
    }
}

#[test]
fn an_address_makes_room_for_itself_only() {
    let world = world(8);
    for door in [world.at.http, world.at.grpc, world.at.resp].map(Option::unwrap) {
        let other = from(3, door);
        let own: Vec<TcpStream> = (0..6).map(|_| from(2, door)).collect();
        let closed = || (0..6).filter(|it| is_closed(&own[*it])).collect::<Vec<_>>();
        until(SOON, "the first two make room", || closed().len() == 2).unwrap();
        assert_eq!(closed(), [0, 1], "half of the door is the most for one address");
        asks(&world, &other);
    }
}

/// Behind a proxy there are many, and each of its connections may be another's.
#[test]
fn a_proxy_that_is_configured_may_fill_the_door() {
    let world = world(8);
    for door in [world.at.http, world.at.grpc, world.at.resp].map(Option::unwrap) {
        let all: Vec<TcpStream> = (0..8).map(|_| from(PROXY, door)).collect();
        for stream in &all {
            asks(&world, stream);
        }
    }
}

/// Far less than a system would keep of answers that nobody reads, which is megabytes.
#[test]
fn what_nobody_reads_is_not_computed() {
    const ANSWER: usize = 1_000;
    let world = world(4);
    let mut unread = from(PROXY, world.at.resp.unwrap());
    unread.set_nonblocking(true).unwrap();
    let pipeline = Resp::command(&["ECHO", &"a".repeat(ANSWER)]).repeat(100);
    let answered = || {
        let page = world.get("/metrics").text();
        let name = "tidegate_door_requests_total{door=\"resp\"} ";
        page.lines().find_map(|it| it.strip_prefix(name)?.parse::<usize>().ok()).unwrap()
    };
    let (mut sent, mut before, mut calm) = (0, 0, 0);
    until(SOON, "nothing more is taken", || {
        while let Ok(bytes) = unread.write(&pipeline[sent % pipeline.len()..]) {
            sent += bytes;
        }
        let now = answered();
        calm = if std::mem::replace(&mut before, now) == now && 0 < now { calm + 1 } else { 0 };
        calm == 50
    })
    .unwrap();
    let computed = answered() * ANSWER;
    assert!(computed <= 1 << 20, "{computed} bytes were computed for nobody");
    drop(unread);
}
