//! The proxies, tools and clients: each runs here, answers, and ends with its owner.

use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use tidegate_testbed::{Daemon, Http, Program, Ready, until};

const SOON: Duration = Duration::from_secs(10);

/// What each says of itself.
const SAYS: [(Program, &[&str], &str); 10] = [
    (Program::Envoy, &["--version"], "version:"),
    (Program::Nginx, &["-v"], "nginx version"),
    (Program::Haproxy, &["-v"], "HAProxy version"),
    (Program::Caddy, &["version"], "2."),
    (Program::Promtool, &["--version"], "promtool, version"),
    (Program::Curl, &["--version"], "curl "),
    (Program::RedisCli, &["--version"], "redis-cli"),
    (Program::Python, &["-c", "import redis; print('redis-py', redis.__version__)"], "redis-py"),
    (Program::Schemathesis, &["--version"], "schemathesis"),
    (Program::Node, &["-e", "require('ioredis'); require('redis'); console.log('ok')"], "ok"),
];

#[test]
fn programs_run_and_what_is_not_there_is_told() {
    for (program, args, says) in SAYS {
        if !program.is_there() {
            println!("skipped: {program:?} is not installed");
            continue;
        }
        let output = program.command().unwrap().args(args).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(output.status.success() && said.contains(says), "{program:?}: {said}");
    }
}

/// nginx with a master and two workers, which answers by itself.
fn nginx() -> Option<Daemon> {
    Program::Nginx.is_there().then(|| start_nginx().expect("nginx starts"))
}

fn start_nginx() -> Result<Daemon> {
    let mut builder = Daemon::builder()?;
    let port = builder.port()?;
    builder.write("nginx.conf", &CONFIGURATION.replace("PORT", &port.to_string()))?;
    let mut command = Program::Nginx.command()?;
    command.arg("-p").arg(builder.folder()).args(["-c", "nginx.conf", "-e", "stderr"]);
    builder.start(command, Ready::Answers(port, "/".to_owned()))
}

const CONFIGURATION: &str = "
daemon off;
worker_processes 2;
pid nginx.pid;
events {}
http {
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  server { listen 127.0.0.1:PORT; location / { return 200 hello; } }
}";

fn workers_of(parent: i32) -> usize {
    let output = Command::new("ps").args(["-o", "pid=", "--ppid", &parent.to_string()]).output();
    String::from_utf8_lossy(&output.expect("`ps` starts").stdout).lines().count()
}

#[test]
fn a_daemon_is_paused_stopped_and_started_again() {
    let Some(mut nginx) = nginx() else {
        println!("skipped: nginx is not installed");
        return;
    };
    let port = nginx.ports()[0];
    let mut http = Http::connect(port).unwrap();
    for _ in 0..2 {
        assert_eq!(http.send("GET", "/", &[], b"").unwrap().text(), "hello");
    }
    nginx.pause().unwrap();
    let mut patient = Http::connect_within(port, Duration::from_millis(50)).unwrap();
    assert!(patient.send("GET", "/", &[], b"").is_err());
    nginx.resume().unwrap();
    assert_eq!(Http::get(port, "/").unwrap().status, 200);
    let ended = nginx.stop(SOON).unwrap();
    assert!(ended.success() && !nginx.is_up(), "{ended}");
    nginx.restart().unwrap();
    assert_eq!(Http::get(port, "/").unwrap().status, 200);
}

#[test]
fn children_end_with_their_daemon() {
    let Some(mut nginx) = nginx() else {
        println!("skipped: nginx is not installed");
        return;
    };
    let port = nginx.ports()[0];
    let master = nginx.pid().unwrap();
    until(SOON, "there are workers", || workers_of(master) == 2).unwrap();
    nginx.kill();
    until(SOON, "nobody listens", || TcpStream::connect(("127.0.0.1", port)).is_err()).unwrap();
}

#[test]
fn a_daemon_that_ends_at_once_says_why() {
    let mut builder = Daemon::builder().unwrap();
    let port = builder.port().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "echo no such policy; exit 2"]);
    let error = builder.start(command, Ready::Accepts(port)).expect_err("it ended");
    assert_eq!(error.to_string(), "the program ended; the end of what `sh` said:\nno such policy");
}
