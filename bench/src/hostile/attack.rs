//! What hostile peers do: how many they are at which doors, what they say first, and what they say
//! again and again.

use tidegate_testbed::Frame;

use super::stand::Ports;

/// One kind of attack.
pub(super) struct Attack {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// How many connections are kept open at each of these doors.
    pub(super) connections: usize,
    pub(super) doors: fn(Ports) -> Vec<u16>,
    /// What the peer of that number says first, by the place of its door.
    pub(super) hello: fn(usize) -> Vec<u8>,
    /// What it says then, for the time of that number; nothing, if it falls silent.
    pub(super) again: fn(u32) -> Vec<u8>,
    pub(super) reads: bool,
}

impl Attack {
    pub(super) const ALL: [Self; 7] = [
        Self {
            name: "idle",
            about: "3,000 connections a door that say nothing",
            connections: 3_000,
            doors: all,
            hello: |_| Vec::new(),
            again: silence,
            reads: false,
        },
        Self {
            name: "half-sent",
            about: "3,000 connections a door that stop in the middle of a request",
            connections: 3_000,
            doors: all,
            hello: |door| HALVES[door].to_vec(),
            again: silence,
            reads: false,
        },
        Self {
            name: "unread",
            about: "2,000 pipelines of `TIDEGATE.CHECK` whose replies nobody reads",
            connections: 2_000,
            doors: |ports| vec![ports.resp],
            hello: |_| Vec::new(),
            again: |_| b"TIDEGATE.CHECK ATTRIBUTE peer hostile\r\n".repeat(400),
            reads: false,
        },
        Self {
            name: "window-0",
            about: "4 connections of HTTP/2 with a window of 0 and 200 batches of 256 checks",
            connections: 4,
            doors: |ports| vec![ports.http],
            hello: |_| shut_window(),
            again: silence,
            reads: false,
        },
        Self {
            name: "pings",
            about: "8 connections of HTTP/2 that send PING and read the answers",
            connections: 8,
            doors: |ports| vec![ports.http, ports.grpc],
            hello: |_| preface(&[]),
            again: |_| Frame::bytes(Frame::PING, 0, 0, b"anybody?").repeat(500),
            reads: true,
        },
        Self {
            name: "settings",
            about: "8 connections of HTTP/2 that send SETTINGS and read the answers",
            connections: 8,
            doors: |ports| vec![ports.http, ports.grpc],
            hello: |_| preface(&[]),
            again: |_| Frame::bytes(Frame::SETTINGS, 0, 0, &ENOUGH_STREAMS).repeat(500),
            reads: true,
        },
        Self {
            name: "rapid-reset",
            about: "8 connections of HTTP/2 that open streams and reset them",
            connections: 8,
            doors: |ports| vec![ports.http, ports.grpc],
            hello: |_| preface(&[]),
            again: resets,
            reads: true,
        },
    ];
}

/// `SETTINGS_MAX_CONCURRENT_STREAMS` is 9.
const ENOUGH_STREAMS: [u8; 6] = [0, 3, 0, 0, 0, 9];

fn all(ports: Ports) -> Vec<u16> {
    vec![ports.http, ports.grpc, ports.resp]
}

fn silence(_: u32) -> Vec<u8> {
    Vec::new()
}

/// By the places of the doors in [`all`].
const HALVES: [&[u8]; 3] = [
    b"POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-le",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0",
    b"*2\r\n$4\r\nECHO\r\n$1000\r\nhalf of it",
];

/// The beginning of a connection, with settings.
fn preface(settings: &[u8]) -> Vec<u8> {
    [Frame::PREFACE, &Frame::bytes(Frame::SETTINGS, 0, 0, settings)].concat()
}

/// Batches, and no room for any answer.
fn shut_window() -> Vec<u8> {
    /// `SETTINGS_INITIAL_WINDOW_SIZE` is 0.
    const SHUT: [u8; 6] = [0, 4, 0, 0, 0, 0];
    let checks = vec!["{}"; 256].join(",");
    let body = format!(r#"{{"checks":[{checks}]}}"#);
    let head = Frame::post("/v1/check", &[("content-type", "application/json")]);
    let mut bytes = preface(&SHUT);
    for stream in (1..400).step_by(2) {
        bytes.extend(Frame::bytes(Frame::HEADERS, Frame::END_HEADERS, stream, &head));
        bytes.extend(Frame::bytes(Frame::DATA, Frame::END_STREAM, stream, body.as_bytes()));
    }
    bytes
}

/// The next hundred streams, each opened and reset.
fn resets(time: u32) -> Vec<u8> {
    const STREAMS: u32 = 100;
    /// `CANCEL`.
    const WHY: [u8; 4] = [0, 0, 0, 8];
    let head = Frame::post("/v1/check", &[("content-type", "application/json")]);
    let first = time.wrapping_mul(2 * STREAMS) + 1;
    let mut bytes = Vec::new();
    for stream in (first..first.saturating_add(2 * STREAMS)).step_by(2) {
        bytes.extend(Frame::bytes(Frame::HEADERS, Frame::END_HEADERS, stream, &head));
        bytes.extend(Frame::bytes(Frame::RST_STREAM, 0, stream, &WHY));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_opened_once() {
        assert!(resets(0).windows(4).any(|it| it == 199_u32.to_be_bytes()));
        assert_eq!(resets(1)[5..9], 201_u32.to_be_bytes());
    }

    #[test]
    fn every_attack_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> = Attack::ALL.iter().map(|it| it.name).collect();
        assert_eq!(names.len(), Attack::ALL.len());
    }
}
