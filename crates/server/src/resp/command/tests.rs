//! Commands as clients send them, and the replies to wrong ones.

use super::super::throttle::Parameters;
use super::*;

#[track_caller]
fn check<'a>(line: &'a str, expected: Command<'a>) {
    let words: Vec<&[u8]> = line.split_ascii_whitespace().map(str::as_bytes).collect();
    assert_eq!(Command::read(&words), Ok(expected), "{line}");
}

#[track_caller]
fn refused(line: &str, expected: &str) {
    let words: Vec<&[u8]> = line.split_ascii_whitespace().map(str::as_bytes).collect();
    assert_eq!(Command::read(&words).map_err(|it| it.0.into_owned()), Err(expected.to_owned()));
}

fn throttle(dialect: Dialect, burst_max: u32, quantity: u32) -> Command<'static> {
    let parameters = Parameters { dialect, burst_max, count: 30, period_secs: 60 };
    Command::Throttle(Throttle { parameters, key: b"user:1", quantity })
}

#[test]
fn a_throttle_names_its_limit() {
    check("CL.THROTTLE user:1 15 30 60", throttle(Dialect::RedisCell, 15, 1));
    check("cl.throttle user:1 15 30 60 5", throttle(Dialect::RedisCell, 15, 5));
    check("cl.Throttle user:1 0 30 60 0", throttle(Dialect::RedisCell, 0, 0));
    check("THROTTLE user:1 16 30 60", throttle(Dialect::Throttlecrab, 16, 1));
    check("throttle user:1 16 30 60 2", throttle(Dialect::Throttlecrab, 16, 2));
}

#[test]
fn a_number_that_is_none_is_told_what_it_may_be() {
    let number = "must be a whole number from";
    refused("cl.throttle k -1 1 1", &format!("ERR max_burst {number} 0 to 4294967294: `-1`"));
    refused("throttle k 0 1 1", &format!("ERR max_burst {number} 1 to 4294967295: `0`"));
    refused("cl.throttle k 1 0 1", &format!("ERR count {number} 1 to 4294967295: `0`"));
    refused("cl.throttle k 1 1 0", &format!("ERR period {number} 1 to 31622400: `0`"));
    refused(
        "cl.throttle k 1 1 31622401",
        &format!("ERR period {number} 1 to 31622400: `31622401`"),
    );
    refused("cl.throttle k 1 1.5 1", &format!("ERR count {number} 1 to 4294967295: `1.5`"));
    for quantity in ["-1", "x", "4294967296", "99999999999999999999"] {
        let expected = format!("ERR quantity {number} 0 to 4294967295: `{quantity}`");
        refused(&format!("cl.throttle k 1 1 1 {quantity}"), &expected);
    }
}

#[test]
fn keys_are_any_bytes_and_as_many_as_an_argument_has() {
    let key = b"\x00\xff\r\n".repeat(4_000);
    let words: [&[u8]; 5] = [b"CL.THROTTLE", &key, b"15", b"30", b"60"];
    assert!(matches!(Command::read(&words), Ok(Command::Throttle(it)) if it.key == key));
}

#[test]
fn a_wrong_number_of_arguments_is_told_as_redis_tells_it() {
    let lines = [
        ("ping a b", "ping"),
        ("echo", "echo"),
        ("CL.THROTTLE key 1 1", "cl.throttle"),
        ("cl.throttle key 1 1 1 1 1", "cl.throttle"),
        ("throttle key 1 1", "throttle"),
        ("select", "select"),
        ("auth", "auth"),
        ("client", "client"),
        ("client setname", "client|setname"),
        ("config get", "config|get"),
    ];
    for (line, name) in lines {
        refused(line, &format!("ERR wrong number of arguments for '{name}' command"));
    }
}

#[test]
fn a_hello_may_say_everything_at_once() {
    check("HELLO", Command::Hello(Hello::default()));
    let hello = Hello { protocol: Some(Protocol::Three), token: Some(b"t"), name: Some(b"me") };
    check("hello 3 auth default t setname me", Command::Hello(hello));
    refused("hello 4", "NOPROTO unsupported protocol version");
    refused("hello x", "ERR Protocol version is not an integer or out of range");
    refused("hello 3 auth t", "ERR Syntax error in HELLO option 'auth'");
    refused("hello 3 foo", "ERR Syntax error in HELLO option 'foo'");
}

#[test]
fn what_clients_send_first_is_understood() {
    for noted in [
        "CLIENT SETINFO LIB-NAME redis-py",
        "client setinfo lib-ver 5.0.0",
        "CLIENT NO-EVICT on",
        "CLIENT NO-TOUCH off",
        "CLIENT REPLY ON",
        "SELECT 0",
    ] {
        check(noted, Command::Noted);
    }
    check("CLIENT SETNAME worker-1", Command::ClientNamed(b"worker-1"));
    check("CLIENT ID", Command::ClientId);
    check("CLIENT INFO", Command::ClientLine);
    check("CLIENT GETNAME", Command::ClientName);
    check("CONFIG GET save", Command::Nothing);
    check("INFO server", Command::Info);
    check("AUTH t", Command::Auth { token: b"t" });
    check("AUTH default t", Command::Auth { token: b"t" });
    check("COMMAND DOCS", Command::Commands(Listing::Docs(Names::new())));
    check("COMMAND COUNT", Command::Commands(Listing::Count));
}

#[test]
fn what_is_not_here_is_said_as_redis_says_it() {
    refused("get a", "ERR unknown command 'get', with args beginning with: 'a' ");
    refused("cluster slots", "ERR This instance has cluster support disabled");
    refused("readonly", "ERR This instance has cluster support disabled");
    refused("select 1", "ERR DB index is out of range");
    refused("select x", "ERR value is not an integer or out of range");
    refused("client kill x", "ERR unknown subcommand 'kill'. Try CLIENT HELP.");
    let name = "ERR Client names cannot contain spaces, newlines or special characters.";
    assert_eq!(Command::read(&[b"client", b"setname", b"a b"]).unwrap_err().0, name);
    let transaction = "ERR MULTI is not supported: send a pipeline without a transaction; \
                       TIDEGATE.CHECK judges by several rules at once, all or nothing";
    refused("multi", transaction);
}
