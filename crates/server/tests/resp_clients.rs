//! Real clients of the Redis protocol, unchanged, against the door.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tidegate_gate::Gate;
use tidegate_redis::{Fleet, RedisStore};
use tidegate_server::{Ended, Guard, Server, Settings, Tokens};
use tidegate_store::{Clock, ManualClock};
use tidegate_testbed::{Program, Server as Redis};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const POLICY: &str = "rules: [{ name: per-user, key: 'attribute:user', limit: 2/min }]";

/// A server in this process, by a clock that stands still.
struct Stand {
    runtime: Runtime,
    gate: Gate,
    at: SocketAddr,
    running: Option<Running>,
}

struct Running {
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Ended>,
}

impl Stand {
    fn new(guard: Guard) -> Stand {
        let clock = Arc::new(ManualClock::new());
        let gate = Gate::builder().text(POLICY).clock(clock).open().expect("a good policy");
        Stand::on(Runtime::new().expect("a runtime"), gate, guard)
    }

    /// A stand as `new` makes it, but with the counts in a Redis.
    fn on_redis(redis: &Redis, guard: Guard) -> Stand {
        let runtime = Runtime::new().expect("a runtime");
        let clock = Arc::new(ManualClock::new()) as Arc<dyn Clock>;
        let address = tidegate_redis::Settings::from_url(&redis.url()).expect("a good address");
        let store = RedisStore::builder(address).deadline(Duration::from_secs(20));
        let store = runtime.block_on(store.judged_by(Arc::clone(&clock)).connect());
        let fleet = Fleet::new(store.expect("Redis is there"));
        let gate = Gate::builder().text(POLICY).store(fleet).clock(clock).open();
        Stand::on(runtime, gate.expect("a good policy"), guard)
    }

    fn on(runtime: Runtime, gate: Gate, guard: Guard) -> Stand {
        let at = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut stand = Stand { runtime, gate, at, running: None };
        stand.start(guard);
        stand
    }

    fn start(&mut self, guard: Guard) {
        let _inside = self.runtime.enter();
        let settings = Settings { resp: Some(self.at), guard, ..Settings::default() };
        let server = Server::bind(self.gate.clone(), settings).expect("a free port");
        self.at = server.addresses().resp.expect("the door is open");
        let (stop, stopped) = oneshot::channel();
        let stopped = async move { drop(stopped.await) };
        let ended = async move { server.run(stopped).await.expect("it runs") };
        self.running = Some(Running { stop, ended: self.runtime.spawn(ended) });
    }

    /// Stops and starts again at the same address, with what was counted.
    fn restart(&mut self) {
        let Running { stop, ended } = self.running.take().expect("it runs");
        stop.send(()).expect("it waits for that");
        assert_eq!(self.runtime.block_on(ended).expect("no panic"), Ended::Cleanly);
        self.start(Guard::default());
    }

    /// What `redis-cli` prints.
    fn cli(&self, args: &[&str]) -> String {
        let mut command = Program::RedisCli.command().expect("redis-cli is installed");
        let output = command.args(["-p", &self.at.port().to_string()]).args(args).output();
        let output = output.expect("redis-cli starts");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Runs a client, which asks for a restart in the middle.
    #[expect(clippy::print_stdout, reason = "a test says that it was skipped")]
    fn run(&mut self, program: Program, script: &str) {
        if !program.is_there() {
            println!("skipped: there is no {program:?}; `cargo xtask servers` installs it");
            return;
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(script);
        let mut command = program.command().expect("it is there");
        command.arg(script).arg(self.at.port().to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut client = Ends(command.spawn().expect("the client starts"));
        let said = client.0.stdout.take().expect("it is piped");
        let mut said = BufReader::new(said).lines().map_while(Result::ok);
        assert_eq!(said.next().as_deref(), Some("restart"));
        self.restart();
        let mut stdin = client.0.stdin.take().expect("it is piped");
        stdin.write_all(b"go on\n").expect("the client listens");
        assert_eq!(said.next().as_deref(), Some("done"));
        assert!(client.0.wait().expect("it ends").success());
    }
}

/// A client that does not outlive its test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn redis_cli_throttles() {
    let stand = Stand::new(Guard::default());
    let throttle = ["CL.THROTTLE", "user:1", "1", "30", "60"];
    assert_eq!(stand.cli(&throttle), "0\n2\n1\n-1\n2");
    assert_eq!(stand.cli(&throttle), "0\n2\n0\n-1\n4");
    assert_eq!(stand.cli(&throttle), "1\n2\n0\n2\n4");
    assert_eq!(stand.cli(&["-3", "THROTTLE", "user:1", "2", "30", "60"]), "1\n2\n1\n2\n0");
    assert_eq!(stand.cli(&["PING"]), "PONG");
    assert!(stand.cli(&["INFO"]).contains("redis_version:"));
    assert!(stand.cli(&["COMMAND", "DOCS", "cl.throttle"]).contains("redis-cell"));
    let unknown = "ERR unknown command 'GET', with args beginning with: 'a'";
    assert_eq!(stand.cli(&["GET", "a"]), unknown);
}

#[test]
fn redis_cli_checks_by_the_policy() {
    let (guard, token) = Guard::with_own_token();
    let stand = Stand::new(guard);
    let check = ["-3", "--json", "TIDEGATE.CHECK", "ATTRIBUTE", "user", "ada"];
    let told: serde_json::Value = serde_json::from_str(&stand.cli(&check)).expect("it is JSON");
    assert_eq!((&told["verdict"], &told["remaining"]), (&"allow".into(), &1.into()));
    assert_eq!(told["rules"][0]["name"], "per-user");
    assert_eq!(told["rules"][0]["shadow"], false);
    let reset = ["TIDEGATE.RESET", "ATTRIBUTE", "user", "ada"];
    assert!(stand.cli(&reset).starts_with("NOPERM"), "nobody knows who asks");
    let shown = ["-a", &*token, "--no-auth-warning"];
    assert_eq!(stand.cli(&[&shown[..], &reset].concat()), "per-user");
}

#[test]
fn redis_cli_shows_a_token() {
    let tokens = Tokens::from_text("check aaaaaaaaaaaaaaaa\n").expect("a good file");
    let stand = Stand::new(Guard::with_tokens(tokens));
    let ping = |args: &[&str]| stand.cli(&[args, &["--no-auth-warning", "PING"]].concat());
    assert_eq!(ping(&[]), "NOAUTH Authentication required.");
    assert_eq!(ping(&["-a", "aaaaaaaaaaaaaaaa"]), "PONG");
    assert_eq!(ping(&["-3", "--user", "me", "--pass", "aaaaaaaaaaaaaaaa"]), "PONG");
}

#[test]
fn redis_cli_pipes_a_thousand_commands() {
    let stand = Stand::new(Guard::default());
    let mut command = Program::RedisCli.command().expect("redis-cli is installed");
    command.args(["-p", &stand.at.port().to_string(), "--pipe", "--pipe-timeout", "30"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = Ends(command.spawn().expect("redis-cli starts"));
    let line = "CL.THROTTLE pipe 1000000 1 1\r\n".repeat(100_000);
    let mut stdin = client.0.stdin.take().expect("it is piped");
    let writer = std::thread::spawn(move || stdin.write_all(line.as_bytes()));
    let said = client.0.stdout.take().expect("it is piped");
    let said: Vec<String> = BufReader::new(said).lines().map_while(Result::ok).collect();
    writer.join().expect("no panic").expect("all of it is taken");
    assert_eq!(said.last().map(String::as_str), Some("errors: 0, replies: 100000"), "{said:?}");
}

#[test]
fn redis_py_connects_unchanged() {
    Stand::new(Guard::default()).run(Program::Python, "redis_py.py");
}

#[test]
fn ioredis_connects_unchanged() {
    Stand::new(Guard::default()).run(Program::Node, "ioredis.js");
}

#[test]
fn node_redis_connects_unchanged() {
    Stand::new(Guard::default()).run(Program::Node, "node_redis.js");
}

#[test]
fn a_restart_answers_what_was_asked_before_it() {
    let mut stand = Stand::new(Guard::default());
    let mut stream = std::net::TcpStream::connect(stand.at).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a time");
    let mut replies = BufReader::new(stream.try_clone().expect("a handle")).lines();
    stream.write_all(b"PING\r\n").expect("it listens");
    assert_eq!(replies.next().expect("an answer").expect("in time"), "+PONG");
    stream.write_all(b"ECHO last\r\n*1\r\n$4\r\nPI").expect("it listens");
    stand.restart();
    let rest: Vec<String> = replies.map_while(Result::ok).collect();
    assert_eq!(rest, ["$4", "last"]);
}

#[test]
fn with_redis_behind_it_a_pipeline_is_answered_in_order() {
    let redis = Redis::start().expect("redis-server is installed");
    let (guard, token) = Guard::with_own_token();
    let mut stand = Stand::on_redis(&redis, guard);
    let mut stream = std::net::TcpStream::connect(stand.at).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time");
    let mut replies = BufReader::new(stream.try_clone().expect("a handle")).lines();
    let mut next = |lines: usize| -> Vec<String> {
        replies.by_ref().take(lines).map(|line| line.expect("in time")).collect()
    };
    // Looks see what was taken before them, whatever is asked of Redis at the same time.
    let mut pipeline = format!("AUTH {token}\r\n");
    for number in 0..200 {
        let key = number % 2;
        write!(pipeline, "CL.THROTTLE key:{key} 999 1 60\r\nECHO {number}\r\n").unwrap();
    }
    pipeline += "CL.THROTTLE key:0 999 1 60 0\r\nTIDEGATE.CHECK ATTRIBUTE user ada\r\n";
    pipeline += "TIDEGATE.PEEK ATTRIBUTE user ada\r\nTIDEGATE.RESET ATTRIBUTE user ada\r\nPING\r\n";
    stream.write_all(pipeline.as_bytes()).expect("it listens");
    assert_eq!(next(1), ["+OK"]);
    let mut left = [Vec::new(), Vec::new()];
    for number in 0..200 {
        let decided = next(6);
        assert_eq!(decided[..3], ["*5", ":0", ":1000"]);
        left[number % 2].push(decided[3][1..].parse::<u32>().expect("a number"));
        let echo = number.to_string();
        assert_eq!(next(2), [format!("${}", echo.len()), echo]);
    }
    for mut left in left {
        left.sort_unstable();
        assert_eq!(left, (900..1_000).collect::<Vec<_>>(), "each takes one");
    }
    assert_eq!(next(6)[3], ":900");
    let remaining = |lines: &[String]| {
        let at = lines.iter().position(|line| line == "remaining").expect("a field");
        lines[at + 1].clone()
    };
    let (check, peek) = (next(74), next(74));
    assert_eq!((remaining(&check), remaining(&peek)), (":1".to_owned(), ":1".to_owned()));
    assert_eq!(next(4), ["*1", "$8", "per-user", "+PONG"]);
    stand.restart();
}
