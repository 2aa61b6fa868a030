//! A server with a gRPC door and a manual clock, and a client that speaks real HTTP/2.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tidegate_core::Span;
use tidegate_gate::{Gate, GateBuilder};
use tidegate_server::rls::RlsSettings;
use tidegate_server::rls::proto::{
    Code, DescriptorStatus, Entry, RateLimitDescriptor, RateLimitRequest, RateLimitResponse,
    rate_limit_service_client::RateLimitServiceClient,
};
use tidegate_server::{Ended, Server, Settings};
use tidegate_store::ManualClock;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::Status;
use tonic::body::Body;
use tower_service::Service;

/// A server that runs, and a client of it.
pub(crate) struct Stand {
    pub(crate) client: RateLimitServiceClient<Wire>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    server: JoinHandle<Ended>,
}

impl Stand {
    /// Decides by a policy.
    pub(crate) async fn by_policy(policy: &str) -> Stand {
        Stand::new(policy, None, RlsSettings::default()).await
    }

    /// Decides by envoyproxy/ratelimit's files.
    pub(crate) async fn by_files(folder: &Path) -> Stand {
        Stand::new(NO_RULES, Some(folder), RlsSettings::default()).await
    }

    pub(crate) async fn new(policy: &str, folder: Option<&Path>, rls: RlsSettings) -> Stand {
        Stand::at(SocketAddr::from(([127, 0, 0, 1], 0)), policy, folder, rls).await
    }

    /// A stand as `new` makes it, but at the given address.
    pub(crate) async fn at(
        grpc: SocketAddr,
        policy: &str,
        folder: Option<&Path>,
        rls: RlsSettings,
    ) -> Stand {
        Stand::with(grpc, policy, folder, |settings| settings.rls = rls).await
    }

    /// A stand as `at` makes it, but with other settings.
    pub(crate) async fn with(
        grpc: SocketAddr,
        policy: &str,
        folder: Option<&Path>,
        change: impl FnOnce(&mut Settings),
    ) -> Stand {
        Stand::on(Gate::builder().text(policy), clock(), grpc, folder, change).await
    }

    /// A stand as `with` makes it, but with states where the given gate keeps them.
    pub(crate) async fn on(
        gate: GateBuilder,
        clock: Arc<ManualClock>,
        grpc: SocketAddr,
        folder: Option<&Path>,
        change: impl FnOnce(&mut Settings),
    ) -> Stand {
        let gate = gate.clock(Arc::clone(&clock) as Arc<_>);
        let gate = gate.open().expect("a policy that is right");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut settings = Settings {
            grpc: Some(grpc),
            http: Some(any),
            manual: Some(Arc::clone(&clock)),
            envoy_config: folder.map(Path::to_owned),
            ..Settings::default()
        };
        change(&mut settings);
        let server = Server::bind(gate, settings).expect("a server");
        let at = server.addresses();
        let (stop, stopped) = oneshot::channel();
        let running = server.run(async {
            let _ = stopped.await;
        });
        let server = tokio::spawn(async { running.await.expect("it runs") });
        let (grpc, http) = (at.grpc.expect("a door"), at.http.expect("a door"));
        let client = RateLimitServiceClient::with_origin(Wire::to(grpc).await, origin());
        Stand { client, clock, grpc, http, stop: Some(stop), server }
    }

    pub(crate) async fn ask(
        &mut self,
        descriptors: &[&[(&str, &str)]],
    ) -> Result<RateLimitResponse, Status> {
        self.send(request("web", descriptors)).await
    }

    pub(crate) async fn send(
        &mut self,
        request: RateLimitRequest,
    ) -> Result<RateLimitResponse, Status> {
        self.client.should_rate_limit(request).await.map(tonic::Response::into_inner)
    }

    /// How many of `count` alike are let pass.
    pub(crate) async fn passed(&mut self, count: u32, descriptors: &[&[(&str, &str)]]) -> u32 {
        let mut passed = 0;
        for _ in 0..count {
            let response = self.ask(descriptors).await.expect("an answer");
            passed += u32::from(response.overall_code() == Code::Ok);
        }
        passed
    }

    /// Asks it to stop, without waiting.
    pub(crate) fn ask_to_stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    /// Stops it, and says how it ended.
    pub(crate) async fn stop(mut self) -> Ended {
        self.ask_to_stop();
        drop(self.client);
        self.server.await.expect("it ends")
    }
}

/// A clock in the middle of a minute, an hour and a day.
pub(crate) fn clock() -> Arc<ManualClock> {
    let clock = Arc::new(ManualClock::new());
    clock.advance(Span::from_micros(1_700_000_000_000_000));
    clock
}

pub(crate) const NO_RULES: &str = "rules: [{ name: unused, match: { host: nowhere }, limit: 1/s }]";
pub(crate) fn origin() -> http::Uri {
    http::Uri::from_static("http://tidegate")
}

pub(crate) fn request(domain: &str, descriptors: &[&[(&str, &str)]]) -> RateLimitRequest {
    RateLimitRequest {
        domain: domain.to_owned(),
        descriptors: descriptors.iter().map(|it| descriptor(it)).collect(),
        hits_addend: 0,
    }
}

pub(crate) fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).into(), value: (*value).into() };
    let entries = entries.iter().map(entry).collect();
    RateLimitDescriptor { entries, ..RateLimitDescriptor::default() }
}

pub(crate) fn codes(response: &RateLimitResponse) -> Vec<Code> {
    response.statuses.iter().map(DescriptorStatus::code).collect()
}

/// The value of a field that the response adds.
pub(crate) fn field<'a>(response: &'a RateLimitResponse, name: &str) -> Option<&'a str> {
    let fields = response.response_headers_to_add.iter();
    fields.filter(|it| it.key == name).map(|it| it.value.as_str()).next()
}

/// One connection of HTTP/2.
#[derive(Clone)]
pub(crate) struct Wire(SendRequest<Body>);

impl Wire {
    pub(crate) async fn to(address: SocketAddr) -> Wire {
        let stream = TcpStream::connect(address).await.expect("it listens");
        stream.set_nodelay(true).expect("a socket");
        let stream = TokioIo::new(stream);
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), stream)
                .await
                .expect("it speaks HTTP/2");
        tokio::spawn(connection);
        Wire(sender)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

impl Service<http::Request<Body>> for Wire {
    type Response = http::Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

/// A folder of envoyproxy/ratelimit's files, removed with its owner.
pub(crate) struct Files(PathBuf);

impl Files {
    pub(crate) fn new(web: &str) -> Files {
        use std::hash::{BuildHasher as _, RandomState};
        let name = format!("tidegate-rls-{:016x}", RandomState::new().hash_one(()));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).expect("a folder");
        let files = Files(folder);
        files.write(web);
        files
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Replaces the file of the domain `web` by another, all at once.
    pub(crate) fn write(&self, descriptors: &str) {
        let text = format!("domain: web\ndescriptors:\n{descriptors}");
        let beside = self.0.join(".web.new");
        fs::write(&beside, text).expect("a file");
        fs::rename(beside, self.0.join("web.yaml")).expect("a file");
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Waits until `done` says so, for a few seconds.
pub(crate) async fn until(what: &str, mut done: impl AsyncFnMut() -> bool) {
    for _ in 0..1_000 {
        if done().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("waited in vain until {what}");
}
