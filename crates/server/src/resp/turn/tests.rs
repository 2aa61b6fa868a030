//! Conversations under a manual clock: what is said, byte for byte.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tidegate_core::Span;
use tidegate_gate::Gate;
use tidegate_store::ManualClock;

use super::super::RespDoor;
use super::super::throttle::{Dialect, Parameters};
use super::*;
use crate::auth::{Guard, Tokens, Visitor};
use crate::limits::{NAMED_EACH_MAX, NAMED_MAX};
use crate::settings::Bounds;

const POLICY: &str = "rules: [{ name: per-user, key: 'attribute:user', limit: 2/min }]";

struct Client {
    desk: Arc<Desk>,
    clock: Arc<ManualClock>,
    conversation: Conversation,
}

impl Client {
    fn new() -> Client {
        Client::with_guard(Guard::default(), Ipv4Addr::LOCALHOST.into())
    }

    fn with_guard(guard: Guard, peer: IpAddr) -> Client {
        Client::by(POLICY, guard, peer)
    }

    fn by(policy: &str, guard: Guard, peer: IpAddr) -> Client {
        let clock = Arc::new(ManualClock::new());
        let gate = Gate::builder().text(policy).clock(Arc::clone(&clock) as _).open().unwrap();
        let desk = Arc::new(Desk::new(gate, guard, None, None, Bounds::default()));
        let door = RespDoor { desk: Arc::clone(&desk), ids: Arc::new(AtomicU64::new(7)) };
        let session = Session::new(&door, Visitor { peer, certified: None, certificate: None });
        Client { desk, clock, conversation: Conversation::new(session) }
    }

    /// Another client of the same server.
    fn beside(&self, peer: &str) -> Client {
        let door = RespDoor { desk: Arc::clone(&self.desk), ids: Arc::new(AtomicU64::new(9)) };
        let peer = peer.parse().unwrap();
        let session = Session::new(&door, Visitor { peer, certified: None, certificate: None });
        let (desk, clock) = (door.desk, Arc::clone(&self.clock));
        Client { desk, clock, conversation: Conversation::new(session) }
    }

    /// What is replied to lines, with `|` for line breaks.
    fn say(&mut self, lines: &str) -> String {
        let (mut out, input) = (Vec::new(), lines.replace('|', "\r\n"));
        let turn =
            self.conversation.turn(&self.desk, input.as_bytes(), &mut out, &mut Notes::default());
        assert!(turn.waiting.is_empty(), "the store is here");
        String::from_utf8(out).unwrap().replace("\r\n", "|")
    }
}

#[test]
fn redis_cell_is_answered_in_five_integers() {
    let mut client = Client::new();
    let line = "CL.THROTTLE user:1 1 30 60|";
    assert_eq!(client.say(line), "*5|:0|:2|:1|:-1|:2|");
    assert_eq!(client.say(line), "*5|:0|:2|:0|:-1|:4|");
    assert_eq!(client.say(line), "*5|:1|:2|:0|:2|:4|");
    client.clock.advance(Span::from_micros(500_000));
    assert_eq!(client.say(line), "*5|:1|:2|:0|:2|:4|", "waits are rounded up");
    client.clock.advance(Span::from_micros(1_500_000));
    assert_eq!(client.say(line), "*5|:0|:2|:0|:-1|:4|", "it passes exactly then");
    assert_eq!(client.say("CL.THROTTLE user:1 1 30 60 3|"), "*5|:1|:2|:0|:-1|:4|", "never");
    assert_eq!(client.say("CL.THROTTLE user:1 1 30 60 0|"), "*5|:0|:2|:0|:-1|:4|", "a look");
}

/// What is pipelined is answered, whatever stands between.
#[test]
fn a_command_that_is_too_long_loses_none_beside_it() {
    let mut client = Client::new();
    let (line, long) = ("THROTTLE a 9 30 60|", "x".repeat(20_000));
    let too_long = format!("*5|$8|THROTTLE|$20000|{long}|$1|9|$2|30|$2|60|");
    let told = client.say(&format!("{line}{too_long}{line}PING|{too_long}{line}"));
    let refused = "-ERR an argument takes at most 16384 bytes; send the hash of a longer key|";
    let expected =
        format!("*5|:1|:9|:8|:2|:0|{refused}*5|:1|:9|:7|:4|:0|+PONG|{refused}*5|:1|:9|:6|:6|:0|");
    assert_eq!(told, expected);
}

#[test]
fn throttlecrab_is_answered_in_its_order() {
    let mut client = Client::new();
    let line = "THROTTLE user:1 2 30 60|";
    assert_eq!(client.say(line), "*5|:1|:2|:1|:2|:0|");
    assert_eq!(client.say(line), "*5|:1|:2|:0|:4|:0|");
    assert_eq!(client.say(line), "*5|:0|:2|:0|:4|:2|");
    assert_eq!(client.say("THROTTLE user:1 2 30 60 3|"), "*5|:0|:2|:0|:4|:-1|");
}

#[test]
fn the_same_numbers_are_two_limits_for_two_commands() {
    let mut client = Client::new();
    assert_eq!(client.say("THROTTLE k 1 1 60|"), "*5|:1|:1|:0|:60|:0|");
    assert_eq!(client.say("CL.THROTTLE k 1 1 60|"), "*5|:0|:2|:1|:-1|:60|");
    assert_eq!(client.say("CL.THROTTLE k 0 1 60|"), "*5|:0|:1|:0|:-1|:60|");
}

#[test]
fn a_pipeline_is_answered_in_order_whatever_is_in_it() {
    let mut client = Client::new();
    let line = "CL.THROTTLE k 1 30 60|";
    let replies = client.say(&format!("{line}PING|{line}THROTTLE k 9 9 9|nope||{line}echo x|"));
    let unknown = "-ERR unknown command 'nope', with args beginning with: |";
    let expected = "*5|:0|:2|:1|:-1|:2|+PONG|*5|:0|:2|:0|:-1|:4|*5|:1|:9|:8|:1|:0|".to_owned();
    assert_eq!(replies, expected + unknown + "*5|:1|:2|:0|:2|:4|$1|x|");
}

#[test]
fn a_long_pipeline_is_cut_and_goes_on_where_it_was() {
    let mut client = Client::new();
    let (input, mut out) = ("CL.THROTTLE k 999 30 60\r\n".repeat(700), Vec::new());
    let (mut rest, mut turns) = (input.as_bytes(), Vec::new());
    while !rest.is_empty() {
        out.clear();
        let notes = &mut Notes::default();
        let turn = client.conversation.turn(&client.desk, rest, &mut out, notes);
        rest = &rest[turn.used..];
        turns.push((turn.commands, turn.is_cut));
    }
    let most = RESP_TURN_COMMANDS_MAX;
    let (whole, left) = (700 / most, 700 % most);
    assert_eq!(turns, [vec![(most, true); whole], vec![(left, false)]].concat());
    assert!(out.ends_with(b"*5\r\n:0\r\n:1000\r\n:300\r\n:-1\r\n:1400\r\n"));
}

/// One that ends with its pipeline has nothing left to wait for.
#[test]
fn a_pipeline_that_is_as_long_as_a_turn_is_not_cut() {
    let mut client = Client::new();
    for (command, most) in [
        ("CL.THROTTLE k 999 30 60\r\n", RESP_TURN_COMMANDS_MAX),
        ("TIDEGATE.CHECK ATTRIBUTE user 1\r\n", RESP_TURN_CHECKS_MAX),
    ] {
        let mut turn = |commands: usize| {
            let (input, notes) = (command.repeat(commands), &mut Notes::default());
            let bytes = input.as_bytes();
            let turn = client.conversation.turn(&client.desk, bytes, &mut Vec::new(), notes);
            (turn.commands, turn.is_cut)
        };
        assert_eq!(turn(most), (most, false));
        assert_eq!(turn(most + 1), (most, true));
    }
}

#[test]
fn more_limits_than_a_connection_remembers_are_told_apart() {
    let mut client = Client::new();
    for round in 0..3_usize {
        for burst in 10..30 {
            let reply = client.say(&format!("CL.THROTTLE k {burst} 1 60|"));
            let left = burst - round;
            let reset = 60 * (round + 1);
            assert_eq!(reply, format!("*5|:0|:{}|:{left}|:-1|:{reset}|", burst + 1));
        }
    }
}

/// As many limits as one caller may name, and more. What is beyond is refused, and is no error:
/// many let pass what fails.
#[test]
fn a_caller_that_names_too_many_limits_is_refused_and_others_are_not() {
    let mut client = Client::new();
    let replies = (1..=5_000).map(|count| client.say(&format!("CL.THROTTLE k 1 {count} 60|")));
    let refused = replies.filter(|reply| reply == "*5|:1|:2|:0|:60|:60|").count();
    assert_eq!(refused, 5_000 - NAMED_EACH_MAX);
    let known = "CL.THROTTLE other 1 1 60|";
    assert_eq!(client.say(known), "*5|:0|:2|:1|:-1|:60|", "it is there already");
    let mut other = client.beside("192.0.2.7");
    assert_eq!(other.say("CL.THROTTLE k 7 7 7|"), "*5|:0|:8|:7|:-1|:1|");
    // All together do not take the room of limits that files name.
    for host in 0..40 {
        let mut other = client.beside(&format!("192.0.2.{host}"));
        (1..=200).for_each(|burst| drop(other.say(&format!("CL.THROTTLE k {burst} {host}1 9|"))));
    }
    let (_, others) = client.desk.named.most(0);
    assert!(others <= NAMED_MAX, "{others}");
    let policy = Parameters { dialect: Dialect::RedisCell, burst_max: 1, count: 1, period_secs: 9 };
    let policy = policy.policy().unwrap();
    assert!(client.desk.gate.adhoc("of a file", policy, crate::resp::WITHOUT_STORE).is_ok());
}

#[test]
fn limits_are_forgotten_when_nobody_asks_by_them_and_all_their_keys_are_fresh() {
    let mut client = Client::new();
    for count in 1..=NAMED_EACH_MAX {
        client.say(&format!("CL.THROTTLE k 1 {count} 60 2|"));
    }
    let new = "CL.THROTTLE k 8 1 60|";
    assert_eq!(client.say(new), "*5|:1|:9|:0|:60|:60|");
    client.desk.let_go();
    client.clock.advance(Span::from_secs(60 * 2 - 1));
    client.desk.let_go();
    // With two at once a key of the slowest owes for two minutes; the others owe for less.
    let held = client.desk.named.most(1).0[0].1;
    assert!((2..20).contains(&held), "{held}: those that a connection knows, and the slowest");
    assert_eq!(client.say("CL.THROTTLE k 1 1 60 2|").split('|').nth(1), Some(":1"), "it owes");
    client.conversation = client.beside("127.0.0.1").conversation;
    client.desk.let_go();
    client.clock.advance(Span::from_secs(3_600));
    client.desk.let_go();
    assert_eq!(client.desk.named.most(1), (vec![], 0));
    assert_eq!(client.say(new), "*5|:0|:9|:8|:-1|:60|");
}

/// Nothing is charged by what is refused or only looked at: then there is nothing to remember.
#[test]
fn limits_under_which_nothing_was_charged_are_forgotten_at_once() {
    let mut client = Client::new();
    for count in 1..=NAMED_EACH_MAX {
        client.say(&format!("CL.THROTTLE k 1 {count} 31622400 0|"));
    }
    for count in 1..=8 {
        client.say(&format!("CL.THROTTLE k 1 {count} 31622400 9|"));
    }
    client.conversation = client.beside("127.0.0.1").conversation;
    client.desk.let_go();
    assert_eq!(client.desk.named.most(1), (vec![], 0));
}

/// A proxy asks for others: one of them takes no place of another's.
#[test]
fn behind_a_proxy_the_key_counts() {
    let policy = format!("identify: {{ trusted_proxies: [127.0.0.0/8] }}\n{POLICY}");
    let mut client = Client::by(&policy, Guard::default(), Ipv4Addr::LOCALHOST.into());
    for count in 1..=NAMED_EACH_MAX {
        client.say(&format!("CL.THROTTLE mallory 1 {count} 60|"));
    }
    assert_eq!(client.say("CL.THROTTLE mallory 9 1 60|"), "*5|:1|:10|:0|:60|:60|");
    assert_eq!(client.say("CL.THROTTLE ada 9 2 60|"), "*5|:0|:10|:9|:-1|:30|");
}

#[test]
fn a_check_tells_everything_in_either_version() {
    let mut client = Client::new();
    let flat = "*20|$7|verdict|$5|allow|$5|limit|:2|$9|remaining|:1|$14|reset_after_us|:30000000|\
                $14|retry_after_us|$-1|$8|delay_us|$-1|$6|reason|$6|judged|$2|by|$5|store|\
                $10|stopped_by|$-1|$5|rules|*1|*24|$4|name|$8|per-user|$7|verdict|$5|allow|\
                $5|limit|:2|$9|remaining|:1|$14|reset_after_us|:30000000|$14|retry_after_us|$-1|\
                $8|delay_us|$-1|$4|cost|:1|$9|window_us|:60000000|$7|credits|$-1|\
                $4|unit|$8|requests|$6|shadow|:0|";
    assert_eq!(client.say("TIDEGATE.CHECK ATTRIBUTE user ada|"), flat);
    assert!(client.say("HELLO 3|").starts_with("%7|$6|server|$8|tidegate|"));
    let map = "%10|$7|verdict|$4|deny|$5|limit|:2|$9|remaining|:1|$14|reset_after_us|:30000000|\
               $14|retry_after_us|:30000000|$8|delay_us|_|$6|reason|$6|judged|$2|by|$5|store|\
               $10|stopped_by|_|$5|rules|*1|%12|$4|name|$8|per-user|";
    let denied = client.say("TIDEGATE.CHECK COST 2 ATTRIBUTE user ada|");
    assert!(denied.starts_with(map) && denied.ends_with("$6|shadow|#f|"), "{denied}");
}

#[test]
fn a_peek_charges_nothing_and_a_reset_forgets() {
    let guard = Guard::with_tokens(Tokens::from_text("admin bbbbbbbbbbbbbbbb").unwrap());
    let mut client = Client::with_guard(guard, Ipv4Addr::LOCALHOST.into());
    assert_eq!(client.say("AUTH bbbbbbbbbbbbbbbb|"), "+OK|");
    let remaining = |reply: String| {
        let (_, rest) = reply.split_once("remaining|:").unwrap();
        rest.split('|').next().unwrap().to_owned()
    };
    for _ in 0..3 {
        assert_eq!(remaining(client.say("TIDEGATE.PEEK ATTRIBUTE user ada|")), "2");
    }
    assert_eq!(remaining(client.say("tidegate.check attribute user ada|")), "1");
    assert_eq!(remaining(client.say("tidegate.check attribute user ada|")), "0");
    assert_eq!(client.say("TIDEGATE.RESET RULE other ATTRIBUTE user ada|"), "*0|");
    assert_eq!(client.say("TIDEGATE.RESET ATTRIBUTE user ada|"), "*1|$8|per-user|");
    assert_eq!(remaining(client.say("tidegate.check attribute user ada|")), "1");
}

#[test]
fn a_token_is_asked_for_before_anything_else() {
    let tokens = "check aaaaaaaaaaaaaaaa\nadmin bbbbbbbbbbbbbbbb\n";
    let guard = || Guard::with_tokens(Tokens::from_text(tokens).unwrap());
    let mut client = Client::with_guard(guard(), Ipv4Addr::LOCALHOST.into());
    let unknown = "-NOAUTH Authentication required.|";
    for line in ["PING|", "CL.THROTTLE k 1 1 1|", "TIDEGATE.CHECK|", "INFO|", "CLIENT ID|"] {
        assert_eq!(client.say(line), unknown, "{line}");
    }
    assert!(client.say("HELLO 3|").starts_with("-NOAUTH HELLO must be called"));
    assert!(client.say("AUTH wrong|").starts_with("-WRONGPASS "));
    assert!(client.say("HELLO 3 AUTH me wrong|").starts_with("-WRONGPASS "));
    assert_eq!(client.say("PING|"), unknown);
    assert_eq!(client.say("AUTH aaaaaaaaaaaaaaaa|"), "+OK|");
    assert_eq!(client.say("CL.THROTTLE k 1 1 1|"), "*5|:0|:2|:1|:-1|:1|");
    let forbidden = "-NOPERM this needs an admin's token: AUTH with one|";
    assert_eq!(client.say("TIDEGATE.RESET|"), forbidden);
    assert!(client.say("HELLO 3 AUTH me bbbbbbbbbbbbbbbb|").starts_with("%7|"));
    assert_eq!(client.say("TIDEGATE.RESET|"), "*1|$8|per-user|");
    assert_eq!(client.say("RESET|PING|"), format!("+RESET|{unknown}"));
}

#[test]
fn without_tokens_only_this_machine_may_reset() {
    let mut client = Client::with_guard(Guard::default(), Ipv4Addr::new(192, 0, 2, 1).into());
    assert!(client.say("TIDEGATE.RESET|").starts_with("-NOPERM "));
    assert!(client.say("AUTH x|").starts_with("-ERR AUTH <password> called without any password"));
    assert_eq!(client.say("PING|"), "+PONG|");
}

#[test]
fn a_connection_has_a_number_and_may_have_a_name() {
    let mut client = Client::new();
    assert_eq!(client.say("CLIENT ID|CLIENT GETNAME|"), ":7|$-1|");
    assert_eq!(client.say("CLIENT SETNAME worker|CLIENT GETNAME|"), "+OK|$6|worker|");
    let line = "id=7 addr=127.0.0.1 name=worker db=0 resp=2\n";
    assert_eq!(client.say("CLIENT INFO|"), format!("${}|{line}|", line.len()));
    assert_eq!(client.say("RESET|CLIENT GETNAME|CLIENT ID|"), "+RESET|$-1|:7|");
}

#[test]
fn the_end_of_a_conversation_is_after_the_last_reply() {
    let mut client = Client::new();
    let mut end = |input: &[u8]| {
        let mut out = Vec::new();
        let turn = client.conversation.turn(&client.desk, input, &mut out, &mut Notes::default());
        (turn.ends, String::from_utf8(out).unwrap())
    };
    assert_eq!(end(b"PING\r\nQUIT\r\nPING\r\n"), (Some(Ending::Quit), "+PONG\r\n+OK\r\n".into()));
    let misframed = (
        Some(Ending::Misframed(Misframed::Arguments)),
        "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:1\r\n-ERR Protocol error: invalid multibulk length\r\n"
            .into(),
    );
    assert_eq!(end(b"CL.THROTTLE k 1 1 1\r\n*1000000000\r\n"), misframed);
    let silent = (Some(Ending::Misframed(Misframed::CrossProtocol)), String::new());
    assert_eq!(end(b"POST / HTTP/1.1\r\n"), silent);
}
