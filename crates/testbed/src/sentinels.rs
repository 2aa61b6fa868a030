//! A primary, its replica, and three sentinels that watch over them.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::settings::Mode;
use crate::{Flavor, Server, ServerBuilder, wait};

/// Five servers. Which of the two that keep data is the primary may change; the names do not.
#[derive(Debug)]
pub struct Sentinels {
    watchers: Vec<Server>,
    primary: Server,
    replica: Server,
}

impl Sentinels {
    /// Redis servers, once every sentinel knows the replica and the other sentinels.
    pub fn start() -> Result<Sentinels> {
        Sentinels::start_with(Flavor::Redis)
    }

    /// Servers as `start` makes them, but of the given program.
    pub fn start_with(flavor: Flavor) -> Result<Sentinels> {
        let server = Server::builder().flavor(flavor);
        Sentinels::launch(server, |port| sentinel(flavor, port))
    }

    /// Redis servers that want a password, and sentinels that want another.
    pub fn start_guarded(servers: &str, sentinels: &str) -> Result<Sentinels> {
        let server =
            Server::builder().setting("masterauth", servers).setting("requirepass", servers);
        Sentinels::launch(server, |port| {
            sentinel(Flavor::Redis, port)
                .setting("sentinel", &format!("auth-pass {NAME} {servers}"))
                .setting("sentinel", &format!("sentinel-pass {sentinels}"))
                .setting("requirepass", sentinels)
        })
    }

    fn launch(server: ServerBuilder, sentinel: impl Fn(u16) -> ServerBuilder) -> Result<Sentinels> {
        let primary = server.clone().start()?;
        let of = format!("127.0.0.1 {}", primary.port());
        // Replication was called so before 5.0, and still understands it.
        let replica = server.setting("slaveof", &of).start()?;
        wait::for_some(LINK_WITHIN, "the replica follows", || follows(&replica))?;
        let sentinels = (0..SENTINELS).map(|_| sentinel(primary.port()).start());
        let sentinels = Sentinels { watchers: sentinels.collect::<Result<_>>()?, primary, replica };
        sentinels.hurry();
        sentinels.wait_until_ok()?;
        Ok(sentinels)
    }

    /// The name under which the sentinels know the primary.
    pub fn name(&self) -> &str {
        NAME
    }

    /// The server that was the primary at the start.
    pub fn primary(&self) -> &Server {
        &self.primary
    }

    /// The server that was the primary at the start, to kill and restart.
    pub fn primary_mut(&mut self) -> &mut Server {
        &mut self.primary
    }

    /// The server that was the replica at the start.
    pub fn replica(&self) -> &Server {
        &self.replica
    }

    /// The sentinels themselves.
    pub fn sentinels(&self) -> &[Server] {
        &self.watchers
    }

    /// The sentinels themselves, to kill and restart.
    pub fn sentinels_mut(&mut self) -> &mut [Server] {
        &mut self.watchers
    }

    /// Where the first sentinel that answers says the primary is.
    pub fn current_primary_port(&self) -> Result<u16> {
        let mut ports = self.watchers.iter().filter_map(|sentinel| primary_by(sentinel).ok());
        ports.next().context("no sentinel answers; restart one")
    }

    /// Waits until all sentinels that are up name another primary than the one on that port, and
    /// that one takes itself for a primary; says where it is.
    pub fn wait_for_failover(&self, from_port: u16) -> Result<u16> {
        self.other_primary_within(FAILOVER_WITHIN, from_port)
    }

    /// Has the sentinels choose another primary; says where it is.
    ///
    /// On a busy machine a sentinel gives up on what it was asked for, and does not try again by
    /// itself, since nobody is down. So it is asked again.
    pub fn fail_over(&self) -> Result<u16> {
        let (first, from_port) = (&self.watchers[0], self.current_primary_port()?);
        for _ in 0..ATTEMPTS {
            if primary_by(first)? == from_port {
                // Also refused where it is under way.
                drop(first.run(&["SENTINEL", "FAILOVER", NAME]));
            }
            if let Ok(port) = self.other_primary_within(ASKED_AGAIN_AFTER, from_port) {
                return Ok(port);
            }
        }
        self.wait_for_failover(from_port)
    }

    fn other_primary_within(&self, most: Duration, from_port: u16) -> Result<u16> {
        wait::for_some(most, "the sentinels have chosen another primary", || {
            let up = self.watchers.iter().filter(|sentinel| sentinel.is_up());
            let ports: Vec<u16> = up.map(primary_by).collect::<Result<_>>()?;
            let agreed = ports.first().copied().context("no sentinel is up; restart one")?;
            let all = ports.iter().all(|&port| port == agreed) && agreed != from_port;
            Ok((all && self.is_primary(agreed)?).then_some(agreed))
        })
    }

    /// Waits until every sentinel that is up sees the primary, its replica and the other sentinels.
    pub fn wait_until_ok(&self) -> Result<()> {
        for sentinel in self.watchers.iter().filter(|sentinel| sentinel.is_up()) {
            wait::for_some(LINK_WITHIN, "the sentinels know each other", || is_well(sentinel))?;
        }
        Ok(())
    }

    /// Makes sentinels look around more often than once in seconds, where they can be told to.
    fn hurry(&self) {
        for sentinel in &self.watchers {
            for period in ["info-period", "publish-period", "ping-period", "ask-period"] {
                // Before 7.0 they cannot, and it takes some seconds longer.
                drop(sentinel.run(&["SENTINEL", "DEBUG", period, PERIOD_MS]));
            }
        }
    }

    fn is_primary(&self, port: u16) -> Result<bool> {
        let mut servers = [&self.primary, &self.replica].into_iter();
        let server = servers.find(|server| server.port() == port);
        let server = server.with_context(|| format!("no server of ours has the port `{port}`"))?;
        let info = server.run_within(LOOK_WITHIN, &["INFO", "replication"])?;
        Ok(info.field("role").as_deref() == Some("master"))
    }
}

fn sentinel(flavor: Flavor, primary_port: u16) -> ServerBuilder {
    let monitor = format!("monitor {NAME} 127.0.0.1 {primary_port} {QUORUM}");
    ServerBuilder::new(Mode::Sentinel)
        .flavor(flavor)
        .setting("sentinel", &monitor)
        .setting("sentinel", &format!("down-after-milliseconds {NAME} 500"))
        .setting("sentinel", &format!("failover-timeout {NAME} 2000"))
}

fn follows(replica: &Server) -> Result<Option<()>> {
    let info = replica.must(&["INFO", "replication"])?;
    Ok((info.field("master_link_status").as_deref() == Some("up")).then_some(()))
}

fn primary_by(sentinel: &Server) -> Result<u16> {
    let call = ["SENTINEL", "get-master-addr-by-name", NAME];
    let address = sentinel.run_within(LOOK_WITHIN, &call)?;
    Ok(address.items().get(1).context("the sentinel knows no primary")?.text().parse()?)
}

fn is_well(sentinel: &Server) -> Result<Option<()>> {
    let info = sentinel.run_within(LOOK_WITHIN, &["INFO", "sentinel"])?;
    let line = info.field("master0").unwrap_or_default();
    let wanted = format!("slaves=1,sentinels={SENTINELS}");
    ensure!(line.contains("status=ok") && line.contains(&wanted), "it sees `{line}`");
    Ok(Some(()))
}

const NAME: &str = "mymaster";
const SENTINELS: usize = 3;
const QUORUM: usize = 2;
const PERIOD_MS: &str = "200";
const LOOK_WITHIN: Duration = Duration::from_millis(500);
const LINK_WITHIN: Duration = Duration::from_secs(20);
const FAILOVER_WITHIN: Duration = Duration::from_secs(30);
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(8);
const ATTEMPTS: usize = 4;
