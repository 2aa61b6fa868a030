//! TLS handshakes that nobody goes on with, beside one that somebody means.
//!
//! The silent ones are given no end while a test runs: what does not wait for them is not in their
//! way.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tidegate_server::{Bounds, Settings, TlsFiles};
use tidegate_testbed::{Certificates, Resp, until};
use tokio::net::TcpSocket;
use tokio::runtime::Runtime;

use crate::tls::Client;
use crate::world::{SOON, World};

const POLICY: &str = "
identify: { trusted_proxies: [127.0.0.99/32] }
rules: [{ name: all, limit: 1000/min }]
";

/// Far longer than anybody here waits.
const NEVER: Duration = Duration::from_hours(1);

fn world(certificates: &Certificates) -> World {
    World::with(POLICY, |settings: &mut Settings| {
        settings.bounds = Bounds { handshake_time: NEVER, ..Bounds::default() };
        settings.tls = Some(TlsFiles {
            certificate: certificates.server_certificate(),
            key: certificates.server_key(),
            ..TlsFiles::default()
        });
        settings.drain = Duration::ZERO;
    })
}

/// A connection from one of the addresses of this machine.
fn connected_from(runtime: &Runtime, host: u8, to: SocketAddr) -> TcpStream {
    let from = SocketAddr::from(([127, 0, 0, host], 0));
    let stream = runtime.block_on(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(from).unwrap();
        socket.connect(to).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

/// A client that means it, from an address of its own.
#[track_caller]
fn is_served(runtime: &Runtime, client: &Client, host: u8, to: SocketAddr) {
    let stream = connected_from(runtime, host, to);
    let secret = client.over(stream, &[]).expect("a handshake beside the silent ones");
    assert_eq!(Resp::over(secret).call(&["PING"]).unwrap().text(), "PONG");
}

#[test]
fn silent_handshakes_of_one_address_are_in_nobody_elses_way() {
    let (certificates, runtime) = (Certificates::new().unwrap(), Runtime::new().unwrap());
    let world = world(&certificates);
    let client = Client::new(&certificates, None);
    let to = world.at.resp.unwrap();
    let silent: Vec<TcpStream> = (0..500).map(|_| connected_from(&runtime, 1, to)).collect();
    for host in [2, 3] {
        is_served(&runtime, &client, host, to);
    }
    // What waits is bounded as well: of one address, the last are let go at once.
    let is_closed = |stream: &TcpStream| {
        stream.set_nonblocking(true).unwrap();
        matches!(stream.peek(&mut [0]), Ok(0))
    };
    until(SOON, "those for whom there is no room are let go", || {
        silent.iter().filter(|stream| is_closed(stream)).count() == 500 - 256
    })
    .unwrap();
    is_served(&runtime, &client, 2, to);
}

#[test]
fn silent_handshakes_of_many_addresses_leave_the_last_places_to_others() {
    let (certificates, runtime) = (Certificates::new().unwrap(), Runtime::new().unwrap());
    let world = world(&certificates);
    let client = Client::new(&certificates, None);
    let to = world.at.resp.unwrap();
    // Thrice as many as there are places.
    let hosts = (10..42).flat_map(|host| [host; 24]);
    let _silent: Vec<TcpStream> = hosts.map(|host| connected_from(&runtime, host, to)).collect();
    for host in [2, 3] {
        is_served(&runtime, &client, host, to);
    }
}

/// Behind a proxy there are many, and each of its connections may be another's.
#[test]
fn a_proxy_that_is_configured_is_not_counted_as_one_address() {
    let (certificates, runtime) = (Certificates::new().unwrap(), Runtime::new().unwrap());
    let world = world(&certificates);
    let client = Client::new(&certificates, None);
    let to = world.at.resp.unwrap();
    let _silent: Vec<TcpStream> = (0..100).map(|_| connected_from(&runtime, 99, to)).collect();
    is_served(&runtime, &client, 99, to);
}
