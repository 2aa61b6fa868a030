//! Posts what is to be exported to the collector, on one connection that is kept open.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use prost::Message as _;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::endpoint::TraceEndpoint;
use super::wire::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use crate::limits;

/// The way to a collector.
pub(super) struct Collector {
    endpoint: TraceEndpoint,
    tls: Option<TlsConnector>,
    connection: Option<Connection>,
}

/// A connection, and what drives it.
struct Connection {
    requests: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
}

/// Why spans did not get there.
#[derive(Debug)]
pub(super) enum SendError {
    Connect(std::io::Error),
    Http(hyper::Error),
    /// The answer is no answer of a collector.
    Answer,
    Refused(StatusCode),
    Slow,
}

impl Collector {
    pub(super) fn new(endpoint: TraceEndpoint) -> Result<Collector, rustls::Error> {
        let tls = if endpoint.is_tls { Some(connector(system())?) } else { None };
        Ok(Collector { endpoint, tls, connection: None })
    }

    /// Posts these spans; how many of them the collector did not want.
    pub(super) async fn send(
        &mut self,
        spans: &ExportTraceServiceRequest,
    ) -> Result<u64, SendError> {
        let body = Bytes::from(spans.encode_to_vec());
        let sent = timeout(limits::TRACE_EXPORT_TIME, self.post(body)).await;
        let sent = sent.unwrap_or(Err(SendError::Slow));
        if sent.is_err() {
            self.connection = None;
        }
        sent
    }

    async fn post(&mut self, body: Bytes) -> Result<u64, SendError> {
        let response = match self.try_post(body.clone()).await {
            // The collector closed the connection before it saw anything of it.
            Err(SendError::Http(error)) if error.is_canceled() => {
                self.connection = None;
                self.try_post(body).await?
            }
            tried => tried?,
        };
        let status = response.status();
        let body = Limited::new(response.into_body(), limits::TRACE_ANSWER_BYTES_MAX);
        let body = body.collect().await.map_err(|_| SendError::Answer)?.to_bytes();
        if !status.is_success() {
            return Err(SendError::Refused(status));
        }
        let answer = ExportTraceServiceResponse::decode(body).map_err(|_| SendError::Answer)?;
        let rejected = answer.partial_success.map_or(0, |partial| partial.rejected_spans);
        Ok(u64::try_from(rejected).unwrap_or_default())
    }

    async fn try_post(&mut self, body: Bytes) -> Result<Response<Incoming>, SendError> {
        let request = Request::post(&self.endpoint.path)
            .header(header::HOST, &self.endpoint.authority)
            .header(header::CONTENT_TYPE, "application/x-protobuf")
            .header(header::USER_AGENT, concat!("tidegate/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(body))
            .map_err(|_| SendError::Answer)?;
        let requests = &mut self.connected().await?.requests;
        requests.ready().await.map_err(SendError::Http)?;
        requests.send_request(request).await.map_err(SendError::Http)
    }

    /// The connection: the last one, if it is still good.
    async fn connected(&mut self) -> Result<&mut Connection, SendError> {
        let is_closed = |it: &mut Connection| it.requests.is_closed();
        self.connection.take_if(is_closed);
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        Ok(self.connection.insert(connection))
    }

    async fn connect(&self) -> Result<Connection, SendError> {
        let TraceEndpoint { host, port, .. } = &self.endpoint;
        let stream = TcpStream::connect((&**host, *port)).await.map_err(SendError::Connect)?;
        let Some(tls) = &self.tls else { return Connection::over(stream).await };
        let bad_name = |error| SendError::Connect(std::io::Error::other(error));
        let name = ServerName::try_from(host.clone()).map_err(bad_name)?;
        Connection::over(tls.connect(name, stream).await.map_err(SendError::Connect)?).await
    }
}

impl Connection {
    async fn over<S>(stream: S) -> Result<Connection, SendError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let shaken = http1::handshake(TokioIo::new(stream)).await;
        let (requests, connection) = shaken.map_err(SendError::Http)?;
        // How it ends is seen by who sends on it.
        let driver = tokio::spawn(async move { drop(connection.await) });
        Ok(Connection { requests, driver })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// TLS to who is known to one of these authorities.
fn connector(roots: RootCertStore) -> Result<TlsConnector, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions()?;
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The authorities that the system trusts; those that cannot be read are left out, as everybody
/// does.
fn system() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::Connect(error) => write!(f, "no connection: {error}"),
            SendError::Http(error) => error.fmt(f),
            SendError::Answer => f.write_str("the answer is none of OTLP over HTTP"),
            SendError::Refused(status) => write!(f, "it answered {status}"),
            SendError::Slow => {
                write!(f, "no answer within {} s", limits::TRACE_EXPORT_TIME.as_secs())
            }
        }
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}
