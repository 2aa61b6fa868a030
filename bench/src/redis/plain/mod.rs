//! The published scripts, called as a careful user of the client library calls them.
//!
//! Each is loaded once and called by EVALSHA, over one multiplexed connection that all tasks
//! share, without Nagle's delay. Names and arguments are those that the scripts were published
//! with; only errors of theirs that would stop a run are mended.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use ::tidegate::Kind;
use anyhow::{Context, Result, bail};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, Cmd, IntoConnectionInfo as _, Value};

use super::time::Time;
use crate::setting::Quota;

/// One rule, kept by a published script. Clones share the connection.
#[derive(Clone)]
pub(super) struct Plain {
    connection: MultiplexedConnection,
    rule: Arc<Rule>,
    time: Time,
}

struct Rule {
    kind: Kind,
    quota: Quota,
    /// What the server calls the script.
    digest: String,
}

impl Plain {
    pub(super) async fn connect(url: &str, kind: Kind, quota: Quota, time: Time) -> Result<Self> {
        let tcp = TcpSettings::default().set_nodelay(true);
        let client = Client::open(url.into_connection_info()?.set_tcp_settings(tcp))?;
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let text = text(kind)?;
        let digest =
            redis::cmd("SCRIPT").arg("LOAD").arg(text).query_async(&mut connection).await?;
        Ok(Self { connection, rule: Arc::new(Rule { kind, quota, digest }), time })
    }

    /// Whether the request of that client passes.
    pub(super) async fn decide(&mut self, client: u32) -> Result<bool> {
        let call = self.rule.call(client, &self.time);
        let reply = call.query_async(&mut self.connection).await?;
        self.rule.passes(&reply).with_context(|| format!("not an answer: `{reply:?}`"))
    }
}

impl Rule {
    fn call(&self, client: u32, time: &Time) -> Cmd {
        let Quota { per, burst } = self.quota;
        let mut call = redis::cmd("EVALSHA");
        call.arg(&self.digest);
        match self.kind {
            Kind::TokenBucket => {
                let rate = 1.0 / per.as_secs_f64();
                call.arg(1).arg(name("rl:", client)).arg(time.seconds()).arg(burst).arg(rate);
            }
            Kind::Gcra => {
                let period = per.as_secs_f64();
                let offset = period * f64::from(burst);
                call.arg(1).arg(name("rl:", client)).arg(time.seconds()).arg(period).arg(offset);
            }
            Kind::FixedWindow => {
                let window = millis(per);
                let start = time.millis() / window * window;
                call.arg(1).arg(in_window("rl:fw:", client, start)).arg(start + window);
            }
            Kind::SlidingWindow => {
                let (now, window) = (time.millis(), millis(per));
                let start = now / window * window;
                call.arg(2)
                    .arg(in_window("rl:swc:", client, start))
                    .arg(in_window("rl:swc:", client, start - window))
                    .arg(burst)
                    .arg(window)
                    .arg(start)
                    .arg(now);
            }
            _ => {
                let now = time.millis();
                let start = now - millis(per);
                let kept = per.as_secs() + KEPT_LONGER_SECS;
                call.arg(1).arg(name("rl:swl:", client)).arg(now).arg(start).arg(burst).arg(kept);
            }
        }
        call
    }

    fn passes(&self, reply: &Value) -> Option<bool> {
        match reply {
            Value::Int(count) => Some(*count <= i64::from(self.quota.burst)),
            Value::Array(items) => match items.first()? {
                Value::Int(allowed) => Some(*allowed == 1),
                _ => None,
            },
            _ => None,
        }
    }
}

/// A name such as `rl:client:1234567`.
fn name(prefix: &str, client: u32) -> String {
    format!("{prefix}client:{client}")
}

/// The same with the start of a window.
fn in_window(prefix: &str, client: u32, start: u64) -> String {
    let mut name = name(prefix, client);
    write!(name, ":{start}").expect("a String takes all that is written to it");
    name
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).expect("windows are hours, not ages")
}

fn text(kind: Kind) -> Result<&'static str> {
    Ok(match kind {
        Kind::FixedWindow => include_str!("fixed_window.lua"),
        Kind::Gcra => include_str!("gcra.lua"),
        Kind::SlidingLog => include_str!("sliding_log.lua"),
        Kind::SlidingWindow => include_str!("sliding_window.lua"),
        Kind::TokenBucket => include_str!("token_bucket.lua"),
        other => bail!("no script was published for `{other}`"),
    })
}

/// As long as ours: a pause of the machine is a slow decision, not one that failed.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// How much longer than its window a log is kept, as published.
const KEPT_LONGER_SECS: u64 = 10;
