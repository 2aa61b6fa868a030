//! Clients that go away: while a handler runs, while they wait for a turn, while they are answered.

use std::io::Read as _;

use crate::stage::{PERMITS, PLACES, Program, rest, status};

#[test]
fn who_hangs_up_while_a_handler_runs_leaves_nothing() {
    let program = Program::new();
    for _ in 0..20 {
        let held: Vec<_> = (0..PLACES).map(|_| program.begin("GET /hang")).collect();
        program.wait_for(PLACES, 0);
        drop(held);
        program.wait_for(0, 0);
    }
    program.is_over();
}

#[test]
fn who_hangs_up_while_waiting_for_a_turn_is_charged_nothing() {
    let program = Program::new();
    let held: Vec<_> = (0..PLACES).map(|_| program.begin("GET /turn")).collect();
    program.wait_for(PLACES, 0);
    for _ in 0..20 {
        let waiting: Vec<_> = (PLACES..PERMITS).map(|_| program.begin("GET /hang")).collect();
        program.wait_for(PLACES, PERMITS - PLACES);
        drop(waiting);
        program.wait_for(PLACES, 0);
    }
    assert_eq!(program.inside.begun(), PLACES);
    drop(held);
    program.is_over();
}

/// Some go while others come, and a place is on its way to somebody who has just gone.
#[test]
fn a_place_that_comes_to_one_who_has_gone_is_the_next_one_s() {
    let program = Program::new();
    for _ in 0..30 {
        let mut held: Vec<_> = (0..PLACES).map(|_| program.begin("GET /turn")).collect();
        program.wait_for(PLACES, 0);
        let mut waiting: Vec<_> = (PLACES..PERMITS).map(|_| program.begin("GET /turn")).collect();
        program.wait_for(PLACES, PERMITS - PLACES);
        let stays = waiting.split_off(1);
        program.inside.key.add_permits(1);
        drop(waiting);
        drop(held.pop());
        program.inside.key.add_permits(PERMITS as usize);
        for mut stream in stays {
            assert_eq!(status(&mut stream), 200);
        }
        drop(held);
        program.wait_for(0, 0);
        while program.inside.key.try_acquire().is_ok_and(|it| {
            it.forget();
            true
        }) {}
    }
    program.is_over();
}

/// More than one request on a connection, sent before the first is answered, and then it is gone.
#[test]
fn a_pipeline_whose_client_is_gone_is_served_or_charged_nothing() {
    let program = Program::new();
    for _ in 0..10 {
        let line = "GET /reads HTTP/1.1\r\nhost: a\r\n\r\n";
        drop(program.send(&line.repeat(50)));
        let turn = "GET /turn HTTP/1.1\r\nhost: a\r\n\r\n";
        drop(program.send(&[turn, line, line].concat()));
    }
    program.inside.key.add_permits(100);
    program.is_over();
}

#[test]
fn a_response_that_is_not_read_to_its_end_keeps_no_place() {
    let program = Program::new();
    for _ in 0..5 {
        let streams = (0..PLACES).map(|_| program.begin("GET /endless"));
        let mut streams: Vec<_> = streams.collect();
        let mut some = vec![0; 40_000];
        for stream in &mut streams {
            stream.read_exact(&mut some).unwrap();
        }
        assert_eq!(program.share(), (PLACES, 0));
        drop(streams);
        program.is_quiet();
    }
    program.is_over();
}

#[test]
fn only_half_of_a_head_is_no_request() {
    let program = Program::new();
    let halves: Vec<_> =
        (0..50).map(|_| program.send("GET / HTTP/1.1\r\nhost: a\r\nx: ")).collect();
    assert_eq!(program.server.ask("GET /").status(), 200);
    drop(halves);
    assert!(rest(program.send("GET / HTTP/9.9\r\n\r\n")).starts_with("HTTP/1.1 400"));
    assert_eq!(program.inside.begun(), 1);
    program.is_over();
}
