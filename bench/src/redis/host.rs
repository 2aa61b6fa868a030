//! The real server that both sides ask, and what it says of itself.

use std::time::Duration;

use anyhow::{Context, Result};
use tidegate_testbed::{Reply, Server};

use crate::statistics::float;

/// One server, on loopback, that keeps nothing on disk.
pub(super) struct Host(Server);

impl Host {
    pub(super) fn start() -> Result<Self> {
        Ok(Self(Server::start().context("needs a server; `cargo xtask servers` installs one")?))
    }

    pub(super) fn url(&self) -> String {
        self.0.url()
    }

    /// Such as `Redis 7.0.15`.
    pub(super) fn describe(&self) -> Result<String> {
        let info = self.0.must(&["INFO", "server"])?;
        Ok(format!("Redis {}", field(&info, "redis_version")?))
    }

    /// Drops all keys, and has done so when it returns.
    pub(super) fn flush(&self) -> Result<()> {
        self.0.run_within(FLUSHED_WITHIN, &["FLUSHALL", "SYNC"]).map(drop)
    }

    /// The processor time of the thread that decides, sockets included.
    pub(super) fn cpu(&self) -> Result<Duration> {
        let info = self.0.must(&["INFO", "cpu"])?;
        let part = |name| anyhow::Ok(field(&info, name)?.parse::<f64>()?);
        let seconds = part("used_cpu_user_main_thread")? + part("used_cpu_sys_main_thread")?;
        Ok(Duration::from_secs_f64(seconds))
    }

    /// All that it has allocated.
    pub(super) fn used_bytes(&self) -> Result<u64> {
        let info = self.0.must(&["INFO", "memory"])?;
        Ok(field(&info, "used_memory")?.parse()?)
    }

    /// What its keys take by its own account, if one of them stands for all.
    pub(super) fn keys_bytes(&self) -> Result<f64> {
        let keys: u64 = self.0.must(&["DBSIZE"])?.text().parse()?;
        let key = self.0.must(&["RANDOMKEY"])?.text();
        let usage = self.0.must(&["MEMORY", "USAGE", &key, "SAMPLES", "0"])?;
        Ok(float(usage.text().parse()?) * float(keys))
    }
}

fn field(info: &Reply, name: &str) -> Result<String> {
    info.field(name).with_context(|| format!("the server does not say `{name}`"))
}

const FLUSHED_WITHIN: Duration = Duration::from_secs(30);
