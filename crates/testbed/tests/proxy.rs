//! The proxy: connections that break where a test wants them broken.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use tidegate_testbed::{Proxy, Server, until};

const SOON: Duration = Duration::from_secs(10);
const VALUE_BYTES: usize = 50_000;

fn server_with_a_value() -> Server {
    let server = Server::start().expect("a server starts");
    server.must(&["SET", "a", &"x".repeat(VALUE_BYTES)]).expect("it takes a value");
    server
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).expect("it accepts");
    stream.set_read_timeout(Some(SOON)).expect("a deadline is set");
    stream
}

/// Asks for the value, and gives what came before the reply ended or broke off.
fn ask(mut stream: &TcpStream) -> Vec<u8> {
    let whole = "$50000\r\n".len() + VALUE_BYTES + "\r\n".len();
    let (mut reply, mut buffer) = (Vec::new(), [0; 4_096]);
    if stream.write_all(b"GET a\r\n").is_err() {
        return reply;
    }
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        reply.extend_from_slice(&buffer[..count]);
        if reply.len() == whole {
            break;
        }
    }
    reply
}

#[test]
fn replies_pass_and_are_counted() {
    let server = server_with_a_value();
    let proxy = Proxy::start(&server).unwrap();
    assert_eq!((proxy.connections(), proxy.bytes_up()), (0, 0));
    let stream = connect(&proxy);
    assert!(ask(&stream).ends_with(b"x\r\n"));
    assert!(ask(&stream).ends_with(b"x\r\n"));
    assert_eq!((proxy.connections(), proxy.connections_open()), (1, 1));
    assert_eq!((proxy.bytes_up(), proxy.writes_up()), (14, 2));
    drop(stream);
    until(SOON, "the proxy notices", || proxy.connections_open() == 0).unwrap();
}

#[test]
fn a_reply_is_cut_where_it_was_asked_for_and_only_once() {
    let server = server_with_a_value();
    let proxy = Proxy::start(&server).unwrap();
    for bytes in [0, 1, 7, 100, 40_000] {
        let stream = connect(&proxy);
        proxy.cut_replies_after(bytes);
        assert_eq!(ask(&stream).len(), bytes);
        assert_eq!(ask(&stream).len(), 0, "the connection lives on");
        assert!(!proxy.is_cut_due());
        assert!(ask(&connect(&proxy)).ends_with(b"x\r\n"));
    }
}

#[test]
fn all_connections_can_be_dropped_and_new_ones_refused() {
    let server = server_with_a_value();
    let proxy = Proxy::start(&server).unwrap();
    let streams = [connect(&proxy), connect(&proxy)];
    assert!(streams.iter().all(|stream| ask(stream).ends_with(b"x\r\n")));
    proxy.drop_all().unwrap();
    assert!(streams.iter().all(|stream| ask(stream).is_empty()));
    proxy.refuse(true);
    assert!(ask(&connect(&proxy)).is_empty());
    proxy.refuse(false);
    assert!(ask(&connect(&proxy)).ends_with(b"x\r\n"));
}

#[test]
fn replies_are_held_back() {
    let server = server_with_a_value();
    let proxy = Proxy::start(&server).unwrap();
    let mut stream = connect(&proxy);
    proxy.delay(Duration::from_millis(400));
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    let mut reply = [0; 7];
    assert!(stream.read(&mut reply).is_err(), "it came at once");
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
}

#[test]
fn a_server_that_is_down_and_comes_back_is_reached_again() {
    let mut server = server_with_a_value();
    let proxy = Proxy::start(&server).unwrap();
    assert!(ask(&connect(&proxy)).ends_with(b"x\r\n"));
    server.kill();
    assert!(ask(&connect(&proxy)).is_empty());
    server.restart().unwrap();
    assert_eq!(&ask_for_nothing(&connect(&proxy)), b"$-1\r\n");
}

fn ask_for_nothing(mut stream: &TcpStream) -> [u8; 5] {
    let mut reply = [0; 5];
    stream.write_all(b"GET a\r\n").expect("the command is taken");
    stream.read_exact(&mut reply).expect("the reply is whole");
    reply
}
