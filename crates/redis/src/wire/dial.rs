//! Opens a connection: TCP, TLS if asked for, and the handshake.
//!
//! The stream is ours, and so is what runs on it: we see at once when it ends, and install nothing
//! for the whole process.

use std::future::Future;
use std::io::ErrorKind;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::hello::Hello;
use super::join;
use super::pipe::{Drive, Pipe, Stream};
use super::tls;
use crate::error::ConnectError;
use crate::settings::{Address, Credentials, Protocol, Settings};

/// Opens connections as the settings say.
pub(super) struct Dialer {
    tls: Option<TlsConnector>,
    credentials: Option<Credentials>,
    sentinel_credentials: Option<Credentials>,
    database: i64,
    protocol: Protocol,
    timeout: Duration,
}

/// What a connection leads to: a server and a Sentinel know us by different names.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Peer {
    Server,
    Sentinel,
}

impl Dialer {
    pub(super) fn new(settings: &Settings) -> Result<Dialer, ConnectError> {
        Ok(Dialer {
            tls: settings.tls.as_ref().map(tls::connector).transpose()?,
            credentials: settings.credentials.clone(),
            sentinel_credentials: settings.sentinel_credentials.clone(),
            database: settings.database,
            protocol: settings.protocol,
            timeout: settings.connect_timeout,
        })
    }

    /// How long one try may take, with all that is asked of the new connection.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Opens a connection. The caller bounds the time.
    pub(super) async fn open(
        &self,
        address: &Address,
        peer: Peer,
    ) -> Result<(Pipe, Drive), ConnectError> {
        if peer == Peer::Sentinel || self.protocol == Protocol::Resp2 {
            return self.open_as(address, peer, false).await;
        }
        match self.open_as(address, peer, true).await {
            // What is wrong with the handshake may be that there is one.
            Err(ConnectError::Unexpected { .. }) => self.open_as(address, peer, false).await,
            opened => opened,
        }
    }

    async fn open_as(
        &self,
        address: &Address,
        peer: Peer,
        is_newest: bool,
    ) -> Result<(Pipe, Drive), ConnectError> {
        let unreachable =
            |reason: String| ConnectError::Unreachable { address: address.to_string(), reason };
        let tcp = TcpStream::connect((&*address.host, address.port))
            .await
            .and_then(|tcp| tcp.set_nodelay(true).map(|()| tcp))
            .map_err(|error| unreachable(error.to_string()))?;
        let hello = self.hello(peer, is_newest);
        let Some(tls) = &self.tls else {
            return shake_hands(hello, tcp, address).await;
        };
        let untrusted =
            |reason: String| ConnectError::Untrusted { address: address.to_string(), reason };
        let name = ServerName::try_from(address.host.clone())
            .map_err(|error| untrusted(error.to_string()))?;
        let stream = tls.connect(name, tcp).await.map_err(|error| match error.kind() {
            // What the other side said is wrong, and not that it went away.
            ErrorKind::InvalidData => untrusted(error.to_string()),
            _ => unreachable(error.to_string()),
        })?;
        shake_hands(hello, stream, address).await
    }

    fn hello(&self, peer: Peer, is_newest: bool) -> Hello<'_> {
        match peer {
            Peer::Server => {
                Hello { is_newest, credentials: self.credentials.as_ref(), database: self.database }
            }
            Peer::Sentinel => {
                Hello { is_newest, credentials: self.sentinel_credentials.as_ref(), database: 0 }
            }
        }
    }
}

async fn shake_hands(
    hello: Hello<'_>,
    stream: impl Stream + 'static,
    address: &Address,
) -> Result<(Pipe, Drive), ConnectError> {
    let (pipe, mut drive) = Pipe::open(stream);
    let mut said = Ok(());
    // Whatever ends the connection is what the first words hear.
    join::beside(&mut drive, async { said = hello.say(&pipe, address).await }).await;
    said.map(|()| (pipe, drive))
}

impl std::fmt::Debug for Dialer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dialer").field("tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}

/// Bounds a try to connect.
pub(super) async fn within<T>(
    timeout: Duration,
    address: &Address,
    work: impl Future<Output = Result<T, ConnectError>>,
) -> Result<T, ConnectError> {
    tokio::time::timeout(timeout, work).await.unwrap_or_else(|_| {
        Err(ConnectError::Unreachable {
            address: address.to_string(),
            reason: format!("no answer within {} ms", timeout.as_millis()),
        })
    })
}
