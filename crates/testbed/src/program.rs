//! Proxies, tools and clients that tests run beside servers: which there are, and where.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::installed;

/// A program that `cargo xtask servers` installs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Program {
    /// The proxy that asks its rate limit service over gRPC.
    Envoy,
    /// nginx with `auth_request`.
    Nginx,
    /// `HAProxy` with Lua.
    Haproxy,
    /// Caddy 2.
    Caddy,
    /// Checks the configuration of Prometheus and runs the tests of its rules.
    Promtool,
    /// Makes HTTP requests as a shell would.
    Curl,
    /// The command line of Redis.
    RedisCli,
    /// Python with redis-py.
    Python,
    /// Tries an HTTP API by what its `OpenAPI` document says.
    Schemathesis,
    /// Node with ioredis and node-redis.
    Node,
}

impl Program {
    /// Where the program is: in the folder that `TIDEGATE_SERVERS` names, in cargo's target folder
    /// where `cargo xtask servers` puts it, or in `PATH`.
    pub fn binary(self) -> Result<PathBuf> {
        installed::find(self.name())
    }

    /// Whether it is here. A test that wants it and goes on without says so, by
    /// `println!("skipped: …")`.
    pub fn is_there(self) -> bool {
        self.command().is_ok()
    }

    /// A call of the program, which finds its libraries.
    pub fn command(self) -> Result<Command> {
        let mut command = Command::new(self.binary()?);
        if self == Program::Node {
            command.env(
                "NODE_PATH",
                installed::find("node/package.json")?.with_file_name("node_modules"),
            );
        }
        Ok(command)
    }

    const fn name(self) -> &'static str {
        match self {
            Program::Envoy => "envoy",
            Program::Nginx => "nginx",
            Program::Haproxy => "haproxy",
            Program::Caddy => "caddy",
            Program::Promtool => "promtool",
            Program::Curl => "curl",
            Program::RedisCli => "redis-cli",
            Program::Python => "python/bin/python",
            Program::Schemathesis => "python/bin/schemathesis",
            Program::Node => "node",
        }
    }
}
