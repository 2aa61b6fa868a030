//! Opens a connection: TCP, TLS if asked for, and the handshake.
//!
//! The stream is ours and only the protocol on it is the client library's, so that we see at once
//! when it ends, in either protocol, and install nothing for the whole process.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, ProtocolVersion, RedisConnectionInfo, RedisError};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

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

/// Reads answers and writes calls for as long as the connection lives.
pub(super) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Whom a connection leads to: they know us by different names.
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
    ) -> Result<(MultiplexedConnection, Driver), ConnectError> {
        if peer == Peer::Sentinel || self.protocol == Protocol::Resp2 {
            return self.open_as(address, peer, ProtocolVersion::RESP2).await;
        }
        match self.open_as(address, peer, ProtocolVersion::RESP3).await {
            // What is wrong with the handshake may be that there is one.
            Err(ConnectError::Unexpected { .. }) => {
                self.open_as(address, peer, ProtocolVersion::RESP2).await
            }
            opened => opened,
        }
    }

    async fn open_as(
        &self,
        address: &Address,
        peer: Peer,
        protocol: ProtocolVersion,
    ) -> Result<(MultiplexedConnection, Driver), ConnectError> {
        let unreachable =
            |reason: String| ConnectError::Unreachable { address: address.to_string(), reason };
        let tcp = TcpStream::connect((&*address.host, address.port))
            .await
            .and_then(|tcp| tcp.set_nodelay(true).map(|()| tcp))
            .map_err(|error| unreachable(error.to_string()))?;
        let info = self.introduction(peer, protocol);
        let Some(tls) = &self.tls else {
            return shake_hands(&info, tcp, address).await;
        };
        let name = ServerName::try_from(address.host.clone())
            .map_err(|error| unreachable(error.to_string()))?;
        let stream =
            tls.connect(name, tcp).await.map_err(|error| unreachable(error.to_string()))?;
        shake_hands(&info, stream, address).await
    }

    fn introduction(&self, peer: Peer, protocol: ProtocolVersion) -> RedisConnectionInfo {
        let mut info = RedisConnectionInfo::default()
            .set_protocol(protocol)
            .set_lib_name("tidegate", env!("CARGO_PKG_VERSION"));
        let credentials = match peer {
            Peer::Server => &self.credentials,
            Peer::Sentinel => &self.sentinel_credentials,
        };
        if let Some(Credentials { user, password }) = credentials {
            info = info.set_password(password);
            if let Some(user) = user {
                info = info.set_username(user);
            }
        }
        if peer == Peer::Server { info.set_db(self.database) } else { info }
    }
}

/// As many calls may stand before the socket; more wait for their turn.
const QUEUE_MAX: usize = 1024;

async fn shake_hands<S>(
    info: &RedisConnectionInfo,
    stream: S,
    address: &Address,
) -> Result<(MultiplexedConnection, Driver), ConnectError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // Whoever calls has a deadline of its own.
    let config =
        AsyncConnectionConfig::new().set_response_timeout(None).set_pipeline_buffer_size(QUEUE_MAX);
    let (connection, driver) = MultiplexedConnection::new_with_config(info, stream, config)
        .await
        .map_err(|error| failed(&error, address))?;
    Ok((connection, Box::pin(driver)))
}

fn failed(error: &RedisError, address: &Address) -> ConnectError {
    let address = address.to_string();
    let reason = error.to_string();
    match (error.code(), error.kind()) {
        (Some("NOPERM"), _) => ConnectError::NoPermission { address, reason },
        (Some("LOADING"), _) => ConnectError::Loading { address },
        (Some("NOAUTH" | "WRONGPASS"), _) | (None, ErrorKind::AuthenticationFailed) => {
            ConnectError::Unauthorized { address, reason }
        }
        // A server that closes the connection on a question has not understood it, or is gone:
        // the next try will tell.
        (None, ErrorKind::Io) => ConnectError::Unreachable { address, reason },
        _ => ConnectError::Unexpected { address, reason },
    }
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
