//! How the connections are: for a health page, a log line, or a person in a hurry.

/// How the connections to all servers are.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Health {
    /// One for every server that keys are kept on.
    pub nodes: Vec<NodeHealth>,
}

/// How the connection to one server is.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct NodeHealth {
    /// Host and port.
    pub address: String,
    /// Whether calls can be sent right now.
    pub connected: bool,
    /// What the server says it is, as `redis 7.2.4` or `valkey 8.0.1`.
    pub server: String,
    /// `master` or `slave`, in the server's own word.
    pub role: String,
    /// What to change if the server may evict our keys; an evicted key is a free reset.
    pub eviction_warning: Option<String>,
    /// Whether there was a connection at all, now or before.
    pub seen: bool,
    /// How often a connection was made anew after the first.
    pub reconnects: u64,
    /// Why the last connection ended, or the last try failed.
    pub last_error: Option<String>,
}

impl Health {
    /// Whether every server can be reached.
    pub fn is_connected(&self) -> bool {
        !self.nodes.is_empty() && self.nodes.iter().all(|node| node.connected)
    }

    /// Whether any server was ever reached.
    pub fn is_seen(&self) -> bool {
        self.nodes.iter().any(|node| node.seen)
    }
}
