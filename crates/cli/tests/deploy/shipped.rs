//! The proxies, each with the files that ship for it; none if the program is not installed.

use tidegate_testbed::{Daemon, DaemonBuilder, Program};

use crate::application;
use crate::stand::{Standing, Tidegate, local, swap};

fn builder() -> DaemonBuilder {
    Daemon::builder().expect("a folder can be had")
}

#[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
fn is_there(program: Program) -> Option<()> {
    let is_there = program.is_there();
    if !is_there {
        println!("skipped: {program:?} is not installed");
    }
    is_there.then_some(())
}

pub(crate) fn nginx(tidegate: &Tidegate) -> Option<Standing> {
    nginx_asking(tidegate.http)
}

/// Starts nginx as `nginx` does, but with another program at the port that it asks.
pub(crate) fn nginx_asking(port_asked: u16) -> Option<Standing> {
    is_there(Program::Nginx)?;
    let args = ["-p", ".", "-c", "nginx.conf", "-e", "stderr"];
    let nginx = Standing::start(builder(), Program::Nginx, &args, |_, port| {
        let shipped = include_str!("../../../../deploy/nginx/tidegate.conf");
        let text = swap(shipped, "127.0.0.1:8080", &local(port_asked));
        let text = swap(&text, "127.0.0.1:3000", &local(application::start()));
        let text = swap(&text, "listen 8000", &format!("listen {}", local(port)));
        vec![("tidegate.conf", text), ("nginx.conf", NGINX.to_owned())]
    });
    Some(nginx.expect("it starts"))
}

/// What stands around the shipped file, with nothing outside of its folder.
const NGINX: &str = "
daemon off;
pid nginx.pid;
error_log stderr;
events {}
http {
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  include tidegate.conf;
}";

pub(crate) fn haproxy(tidegate: &Tidegate) -> Option<Standing> {
    haproxy_asking(tidegate.http)
}

/// Starts `HAProxy` as `haproxy` does, but with another program at the port that it asks.
pub(crate) fn haproxy_asking(port_asked: u16) -> Option<Standing> {
    is_there(Program::Haproxy)?;
    let args = ["-db", "-f", "haproxy.cfg"];
    let haproxy = Standing::start(builder(), Program::Haproxy, &args, |at, port| {
        let shipped = include_str!("../../../../deploy/haproxy/haproxy.cfg");
        let text = swap(shipped, "127.0.0.1:8080", &local(port_asked));
        let text = swap(&text, "127.0.0.1:3000", &local(application::start()));
        let text = swap(&text, "bind :8000", &format!("bind {}", local(port)));
        let text = swap(&text, "/etc/haproxy", &at.folder().display().to_string());
        let script = include_str!("../../../../deploy/haproxy/tidegate.lua");
        vec![("haproxy.cfg", text), ("tidegate.lua", script.to_owned())]
    });
    Some(haproxy.expect("it starts"))
}

pub(crate) fn caddy(tidegate: &Tidegate) -> Option<Standing> {
    caddy_asking(tidegate.http)
}

/// Starts Caddy as `caddy` does, but with another program at the port that it asks.
pub(crate) fn caddy_asking(port_asked: u16) -> Option<Standing> {
    is_there(Program::Caddy)?;
    let args = ["run", "--config", "Caddyfile"];
    let caddy = Standing::start(builder(), Program::Caddy, &args, |_, port| {
        let shipped = include_str!("../../../../deploy/caddy/Caddyfile");
        let text = swap(shipped, "127.0.0.1:8080", &local(port_asked));
        let text = swap(&text, "127.0.0.1:3000", &local(application::start()));
        let text = swap(&text, "\n:8000 ", &format!("\nhttp://{} ", local(port)));
        // Its own interface has a fixed port.
        vec![("Caddyfile", format!("{{\n\tadmin off\n}}\n{text}"))]
    });
    Some(caddy.expect("it starts"))
}

pub(crate) fn envoy(tidegate: &Tidegate) -> Option<Standing> {
    is_there(Program::Envoy)?;
    let args = ["-c", "envoy.yaml", "--concurrency", "1", "--disable-hot-restart", "-l", "warn"];
    let envoy = Standing::start(builder(), Program::Envoy, &args, |_, port| {
        let shipped = include_str!("../../../../deploy/envoy/envoy.yaml");
        let text = swap(shipped, "port_value: 8081", &format!("port_value: {}", tidegate.grpc));
        let application = application::start();
        let text = swap(&text, "port_value: 3000", &format!("port_value: {application}"));
        let listener = format!("address: 127.0.0.1, port_value: {port}");
        vec![("envoy.yaml", swap(&text, "address: 0.0.0.0, port_value: 8000", &listener))]
    });
    Some(envoy.expect("it starts"))
}
