//! What a server is started with.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::{Certificates, Flavor, Server};

/// A server's settings, collected before it starts.
#[derive(Clone, Debug)]
pub struct ServerBuilder {
    pub(crate) flavor: Flavor,
    pub(crate) mode: Mode,
    lines: Vec<(String, String)>,
    pub(crate) greeting: Vec<String>,
    tls: Option<Vec<(String, String)>>,
}

/// What the program is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    Alone,
    Node,
    Sentinel,
}

/// Where a server listens.
#[derive(Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) plain: u16,
    pub(crate) bus: u16,
    pub(crate) tls: Option<u16>,
}

impl ServerBuilder {
    pub(crate) fn new(mode: Mode) -> ServerBuilder {
        ServerBuilder {
            flavor: Flavor::Redis,
            mode,
            lines: Vec::new(),
            greeting: Vec::new(),
            tls: None,
        }
    }

    /// Which program to run.
    #[must_use]
    pub fn flavor(mut self, flavor: Flavor) -> ServerBuilder {
        self.flavor = flavor;
        self
    }

    /// One line of the configuration file; may be given again and again, and overrides defaults.
    ///
    /// A password under `requirepass` is also used by [`Server::run`].
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> ServerBuilder {
        if name == "requirepass" {
            self = self.greeting(&["AUTH", value]);
        }
        self.lines.push((name.to_owned(), value.to_owned()));
        self
    }

    /// What [`Server::run`] sends before its command, such as `AUTH name password`.
    #[must_use]
    pub fn greeting(mut self, args: &[&str]) -> ServerBuilder {
        self.greeting = args.iter().map(ToString::to_string).collect();
        self
    }

    /// Listens for TLS on another port besides. A client certificate is welcome and not required;
    /// the setting `tls-auth-clients` says otherwise.
    #[must_use]
    pub fn tls(mut self, certificates: &Certificates) -> ServerBuilder {
        let path = |path: &Path| path.display().to_string();
        self.tls = Some(vec![
            ("tls-cert-file".to_owned(), path(&certificates.server_certificate())),
            ("tls-key-file".to_owned(), path(&certificates.server_key())),
            ("tls-ca-cert-file".to_owned(), path(&certificates.ca())),
            ("tls-auth-clients".to_owned(), "optional".to_owned()),
        ]);
        self
    }

    /// Makes the server a node of a cluster.
    #[must_use]
    pub(crate) fn node(mut self) -> ServerBuilder {
        self.mode = Mode::Node;
        self
    }

    /// Starts it, and waits until it answers.
    pub fn start(self) -> Result<Server> {
        Server::launch(&self)
    }

    pub(crate) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    pub(crate) fn write(&self, file: &Path, ports: Ports) -> Result<()> {
        let mut text = String::new();
        for (name, value) in self.all(ports)? {
            let value = if value.is_empty() { "\"\"" } else { &value };
            writeln!(text, "{name} {value}")?;
        }
        fs::write(file, text).with_context(|| format!("cannot write `{}`", file.display()))
    }

    /// Defaults first: of two lines of one name the later counts.
    fn all(&self, ports: Ports) -> Result<Vec<(String, String)>> {
        let port = ports.plain.to_string();
        let mut all = owned(&[("bind", "127.0.0.1"), ("port", &port), ("daemonize", "no")]);
        if self.mode != Mode::Sentinel {
            all.extend(owned(ALONE));
            if CONFIGURES_DEBUG <= self.flavor.version()?.0 {
                all.extend(owned(&[("enable-debug-command", "yes")]));
            }
        }
        if self.mode == Mode::Node {
            all.extend(owned(NODE));
            if CONFIGURES_BUS <= self.flavor.version()?.0 {
                all.extend(owned(&[("cluster-port", &ports.bus.to_string())]));
            }
        }
        if let (Some(lines), Some(port)) = (&self.tls, ports.tls) {
            all.extend(owned(&[("tls-port", &port.to_string())]));
            all.extend(lines.clone());
        }
        all.extend(self.lines.clone());
        Ok(all)
    }
}

impl From<Flavor> for ServerBuilder {
    fn from(flavor: Flavor) -> ServerBuilder {
        Server::builder().flavor(flavor)
    }
}

fn owned(lines: &[(&str, &str)]) -> Vec<(String, String)> {
    lines.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Nothing is written to disk, and a replica does not wait for others before it is given the data.
const ALONE: &[(&str, &str)] =
    &[("save", ""), ("appendonly", "no"), ("repl-diskless-sync-delay", "0")];

const NODE: &[(&str, &str)] = &[
    ("cluster-enabled", "yes"),
    ("cluster-node-timeout", "1000"),
    ("cluster-require-full-coverage", "no"),
    // A replica may take over however long it was cut off.
    ("cluster-slave-validity-factor", "0"),
];

/// The first major versions that know these settings.
const CONFIGURES_DEBUG: u16 = 7;
const CONFIGURES_BUS: u16 = 7;
