//! Where the servers are and how to talk to them: a URL, and what does not fit into one.

mod url;

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use crate::error::ConnectError;

/// Where the servers are, and how to talk to them.
///
/// ```
/// use tidegate_redis::Settings;
/// let settings: Settings = "redis+sentinel://10.0.0.1:26379,10.0.0.2:26379/mymaster".parse()?;
/// # Ok::<(), tidegate_redis::ConnectError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Settings {
    pub(crate) topology: Topology,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) sentinel_credentials: Option<Credentials>,
    pub(crate) database: i64,
    pub(crate) tls: Option<TlsSettings>,
    pub(crate) connect_timeout: Duration,
    pub(crate) protocol: Protocol,
    pub(crate) is_required: bool,
}

/// Who we are to a server. Never shows the password.
#[derive(Clone, Eq, PartialEq)]
pub struct Credentials {
    /// The ACL user; the default user if there is none.
    pub user: Option<String>,
    /// The password.
    pub password: String,
}

/// A certificate of our own, for servers that want to know who calls. Both are PEM.
#[derive(Clone)]
pub struct ClientCertificate {
    /// The certificate, with those between it and the authority.
    pub certificate: Vec<u8>,
    /// Its private key.
    pub key: Vec<u8>,
}

/// Which protocol to speak.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Protocol {
    /// RESP3 if the server knows it, else RESP2.
    #[default]
    Newest,
    /// RESP2, for proxies that stumble over `HELLO`.
    Resp2,
}

/// Host and port.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// How the servers stand to each other.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Topology {
    Single(Address),
    Sentinel { sentinels: Vec<Address>, master: String },
    Cluster(Vec<Address>),
}

/// Which authority to trust and who we are.
#[derive(Clone, Default)]
pub(crate) struct TlsSettings {
    /// The authority, as PEM; those of the system if there is none.
    pub(crate) authority: Option<Vec<u8>>,
    pub(crate) client: Option<ClientCertificate>,
}

impl Settings {
    /// Reads a URL: `redis://[user[:password]@]host[:port][/db]`, `rediss://` for TLS,
    /// `redis+sentinel://host:port,host:port/master[/db]`, `redis+cluster://host:port,host:port`.
    /// `valkey` may stand for `redis` everywhere.
    pub fn from_url(url: &str) -> Result<Settings, ConnectError> {
        url::parse(url)
    }

    /// Trusts certificates of this authority only, given as PEM, and turns TLS on.
    #[must_use]
    pub fn ca_certificate(mut self, pem: impl Into<Vec<u8>>) -> Settings {
        self.tls.get_or_insert_default().authority = Some(pem.into());
        self
    }

    /// Trusts certificates of the authority in this PEM file only, and turns TLS on.
    pub fn ca_certificate_file(self, path: impl AsRef<Path>) -> Result<Settings, ConnectError> {
        Ok(self.ca_certificate(read(path.as_ref())?))
    }

    /// Shows this certificate to the server, and turns TLS on.
    #[must_use]
    pub fn client_certificate(mut self, client: ClientCertificate) -> Settings {
        self.tls.get_or_insert_default().client = Some(client);
        self
    }

    /// How long one try to connect may take, with everything that is asked of a new connection.
    /// One second unless set.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Settings {
        self.connect_timeout = timeout;
        self
    }

    /// Fails to connect while nobody answers at the address.
    ///
    /// Unless set, a store begins without its server, as it goes on without it: each rule decides
    /// as it says for that case, and the server is taken into use when it is there. A server that
    /// answers and refuses, or that will not do, is an error either way.
    #[must_use]
    pub fn required(mut self) -> Settings {
        self.is_required = true;
        self
    }

    /// Who we are to the sentinels; nobody unless set.
    #[must_use]
    pub fn sentinel_credentials(mut self, credentials: Credentials) -> Settings {
        self.sentinel_credentials = Some(credentials);
        self
    }

    /// Who we are to the servers, instead of what the URL says.
    #[must_use]
    pub fn credentials(mut self, credentials: Credentials) -> Settings {
        self.credentials = Some(credentials);
        self
    }

    /// Which protocol to speak; the newest that the server knows unless set.
    #[must_use]
    pub fn protocol(mut self, protocol: Protocol) -> Settings {
        self.protocol = protocol;
        self
    }
}

impl ClientCertificate {
    /// Reads certificate and key from one PEM file that holds both.
    pub fn from_file(path: impl AsRef<Path>) -> Result<ClientCertificate, ConnectError> {
        let pem = read(path.as_ref())?;
        Ok(ClientCertificate { certificate: pem.clone(), key: pem })
    }
}

impl FromStr for Settings {
    type Err = ConnectError;

    fn from_str(url: &str) -> Result<Settings, ConnectError> {
        Settings::from_url(url)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificate").finish_non_exhaustive()
    }
}

impl fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSettings")
            .field("own_authority", &self.authority.is_some())
            .field("client", &self.client)
            .finish()
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ConnectError> {
    std::fs::read(path).map_err(|error| ConnectError::BadCertificate {
        reason: format!("cannot read `{}`: {error}", path.display()),
    })
}
