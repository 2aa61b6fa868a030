//! The server: doors that are bound first, opened together and closed together.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_gate::{Gate, Reloaded, SaveError, Watch};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use crate::desk::Desk;
use crate::http::HttpDoor;
use crate::limits;
use crate::listen::{self, Door, Listening, Local, Trusts};
use crate::resp::RespDoor;
use crate::rls::{EnvoyConfig, EnvoyConfigError, RateLimits, RlsDoor};
use crate::secret;
use crate::settings::{Bounds, Settings};
use crate::snapshot::Snapshots;
use crate::stop::{Stop, Stopper};
use crate::tls::{Tls, TlsError};
use crate::trace::{Exporter, TraceSettings};

/// A server that is bound: who connects is kept waiting until it runs.
#[derive(Debug)]
pub struct Server {
    desk: Arc<Desk>,
    bound: Bound,
    tls: Option<Arc<Tls>>,
    envoy: Option<EnvoyConfig>,
    exporter: Option<Exporter>,
    settings: Settings,
}

/// The sockets of the doors.
#[derive(Debug)]
struct Bound {
    http: Option<TcpListener>,
    grpc: Option<TcpListener>,
    resp: Option<TcpListener>,
    admin: Option<Local>,
}

/// Where the doors are, once they are bound.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Addresses {
    /// HTTP.
    pub http: Option<SocketAddr>,
    /// Envoy's rate limit service.
    pub grpc: Option<SocketAddr>,
    /// The Redis protocol.
    pub resp: Option<SocketAddr>,
}

/// How a server ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ended {
    /// Everything that was under way was finished.
    Cleanly,
    /// Some connections had to be cut off.
    InTheMiddle,
    /// The last snapshot could not be saved: what was consumed since the one before is lost.
    Unsaved,
}

impl Server {
    /// Binds the doors. To be called within a Tokio runtime.
    pub fn bind(gate: Gate, mut settings: Settings) -> Result<Server, ServeError> {
        if let Some(snapshot) = &settings.snapshot {
            Gate::can_save(&snapshot.path).map_err(ServeError::Snapshot)?;
        }
        warn_of_open_secrets(&settings);
        settings.bounds.connections_max = connections_max(&settings);
        let tls = settings.tls.take().map(Tls::new).transpose().map_err(ServeError::Tls)?;
        let bind = |address: Option<SocketAddr>| address.map(listen::bind).transpose();
        let local = settings.admin.as_deref().map(Local::bind);
        let bound = Bound {
            http: bind(settings.http).map_err(ServeError::Bind)?,
            grpc: bind(settings.grpc).map_err(ServeError::Bind)?,
            resp: bind(settings.resp).map_err(ServeError::Bind)?,
            admin: local.transpose().map_err(ServeError::Bind)?,
        };
        let (folder, without) = (settings.envoy_config.as_ref(), settings.rls.without_store);
        let envoy = folder.map(|folder| EnvoyConfig::open(&gate, folder, without));
        let envoy = envoy.transpose().map_err(ServeError::Envoy)?;
        let (guard, manual) = (std::mem::take(&mut settings.guard), settings.manual.take());
        let mut desk = Desk::new(gate, guard, manual, settings.policy.clone(), settings.bounds);
        let exporter = traced(&mut desk, settings.traces.take())?;
        desk.warn_of_responses();
        let (desk, tls) = (Arc::new(desk), tls.map(Arc::new));
        Ok(Server { desk, bound, tls, envoy, exporter, settings })
    }

    /// Where the doors are.
    pub fn addresses(&self) -> Addresses {
        let address = |listener: &Option<TcpListener>| listener.as_ref()?.local_addr().ok();
        let Bound { http, grpc, resp, .. } = &self.bound;
        Addresses { http: address(http), grpc: address(grpc), resp: address(resp) }
    }

    /// Serves until `stop` is done, then finishes what is under way.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<Ended, ServeError> {
        let Server { desk, bound, tls, envoy, exporter, settings } = self;
        let (stopper, asked) = Stopper::new();
        let _watch = watch(&desk)?;
        let _watch_too = watch_envoy(&desk, envoy.as_ref())?;
        let limits = RateLimits::new(desk.gate.clone(), envoy, settings.rls);
        let limits = limits.map_err(ServeError::Envoy)?;
        let grpc = RlsDoor::new(Arc::clone(&desk), limits.clone()).await;
        let _chores = Chores(tokio::spawn(chores(Arc::clone(&desk), tls.clone())));
        let exporting = exporter.map(Exporter::begin);
        let snapshots = settings.snapshot.map(|settings| Snapshots::begin(&desk, settings));
        let (bounds, drain) = (settings.bounds, settings.drain);
        let gate = desk.gate.clone();
        let trusts: Trusts = Arc::new(move |address| gate.rules().trusts(address));
        let mut doors = Doors { open: JoinSet::new(), tls, asked, drain, bounds, trusts };
        // Before they open: who comes first finds it so.
        desk.set_ready(true);
        let http = HttpDoor::new(Arc::clone(&desk), Some(json(limits)));
        if let Some(local) = bound.admin {
            doors.open.spawn(listen::administer(local, http.clone(), doors.asked.clone(), drain));
        }
        doors.open(bound.http, http);
        doors.open(bound.grpc, grpc.clone());
        doors.open(bound.resp, RespDoor::new(Arc::clone(&desk)));
        stop.await;
        desk.set_ready(false);
        grpc.stops().await;
        tokio::time::sleep(settings.drain_delay).await;
        stopper.stop();
        let all_did = doors.open.join_all().await.into_iter().all(|did| did);
        let is_saved = match snapshots {
            Some(snapshots) => snapshots.end().await,
            None => true,
        };
        if let Some(exporting) = exporting {
            exporting.end().await;
        }
        Ok(match (is_saved, all_did) {
            (false, _) => Ended::Unsaved,
            (true, false) => Ended::InTheMiddle,
            (true, true) => Ended::Cleanly,
        })
    }
}

/// How many connections each door may have; said, if the system allows fewer than we would.
fn connections_max(settings: &Settings) -> usize {
    let connections = settings.connections_max();
    if connections < settings.bounds.connections_max {
        let files = settings.open_files_max.unwrap_or_default();
        let wanted = settings.bounds.connections_max;
        tracing::warn!(
            "this process may have {files} open files: each door takes {connections} connections \
             at a time, where it would take {wanted}; raise the hard limit of open files \
             (`ulimit -Hn`, `LimitNOFILE=`)"
        );
    }
    connections
}

/// Warns of secrets that others on this machine may read.
fn warn_of_open_secrets(settings: &Settings) {
    if let Some(tls) = &settings.tls {
        secret::warn_if_open(&tls.key, "the private key");
    }
    if let Some(snapshot) = &settings.snapshot {
        secret::warn_if_open(&snapshot.path, "the snapshot, which has keys in it");
    }
}

/// The doors that are open.
struct Doors {
    open: JoinSet<bool>,
    tls: Option<Arc<Tls>>,
    asked: Stop,
    drain: Duration,
    bounds: Bounds,
    trusts: Trusts,
}

impl Doors {
    fn open(&mut self, listener: Option<TcpListener>, door: impl Door) {
        let Some(listener) = listener else { return };
        let (tls, trusts) = (self.tls.clone(), Arc::clone(&self.trusts));
        let listening = Listening { listener, tls, bounds: self.bounds, trusts };
        self.open.spawn(listen::accept(listening, door, self.asked.clone(), self.drain));
    }
}

/// Lets requests be traced, if they should be; what sends their spans on.
fn traced(
    desk: &mut Desk,
    settings: Option<TraceSettings>,
) -> Result<Option<Exporter>, ServeError> {
    let Some(settings) = settings else { return Ok(None) };
    let opened = Exporter::open(settings, &desk.metrics.spans);
    let (traces, exporter) = opened.map_err(ServeError::Traces)?;
    desk.traces = traces;
    Ok(Some(exporter))
}

/// Watches the policy's file, if there is one.
fn watch(desk: &Arc<Desk>) -> Result<Option<Watch>, ServeError> {
    let Some(policy) = &desk.policy else { return Ok(None) };
    if !Watch::can_be_of(policy) {
        tracing::info!(
            "the policy is from a pipe: it stays as it is until the server is restarted"
        );
        return Ok(None);
    }
    let told = Arc::clone(desk);
    let watch = desk.gate.watch(policy, move |reloaded| told.reloaded(reloaded));
    watch.map(Some).map_err(ServeError::Watch)
}

/// Watches envoyproxy/ratelimit's files, if there are any.
fn watch_envoy(
    desk: &Arc<Desk>,
    config: Option<&EnvoyConfig>,
) -> Result<Option<Watch>, ServeError> {
    let Some(config) = config else { return Ok(None) };
    let told = Arc::clone(desk);
    let watch = config.watch(move |reloaded| {
        told.metrics.reloaded(matches!(reloaded, Reloaded::Done { .. }));
    });
    watch.map(Some).map_err(ServeError::Watch)
}

/// What the HTTP door asks for Envoy's requests in JSON: doors do not know each other.
fn json(limits: RateLimits) -> crate::http::Json {
    Arc::new(move |body| {
        let limits = limits.clone();
        Box::pin(async move { limits.json(&body).await })
    })
}

/// What has to be done again and again, until it is dropped.
struct Chores(JoinHandle<()>);

impl Drop for Chores {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn chores(desk: Arc<Desk>, tls: Option<Arc<Tls>>) {
    let mut turn = tokio::time::interval(limits::CHORES_EVERY);
    let mut last_error = String::new();
    loop {
        turn.tick().await;
        desk.let_go();
        let Some(tls) = &tls else { continue };
        match tls.look_again() {
            Ok(true) => tracing::info!("the certificates were reloaded"),
            // Once, not every second.
            Err(error) if error.to_string() != last_error => {
                last_error = error.to_string();
                tracing::error!(error = last_error, "the old certificates stay in use");
            }
            Ok(false) | Err(_) => {}
        }
    }
}

/// Why a server cannot run.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServeError {
    /// A door cannot be bound.
    Bind(io::Error),
    /// The folder of envoyproxy/ratelimit's files cannot be used.
    Envoy(EnvoyConfigError),
    /// Snapshots cannot be saved where they are wanted.
    Snapshot(SaveError),
    /// TLS cannot be had.
    Tls(TlsError),
    /// The way to the collector of traces cannot be made safe.
    Traces(rustls::Error),
    /// The policy's file cannot be watched.
    Watch(io::Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::Bind(error) => error.fmt(f),
            ServeError::Envoy(error) => error.fmt(f),
            ServeError::Snapshot(error) => write!(f, "{error}; give --snapshot another place"),
            ServeError::Tls(error) => error.fmt(f),
            ServeError::Traces(error) => write!(f, "no TLS to the collector of traces: {error}"),
            ServeError::Watch(error) => write!(f, "the policy cannot be watched: {error}"),
        }
    }
}

impl std::error::Error for ServeError {}
