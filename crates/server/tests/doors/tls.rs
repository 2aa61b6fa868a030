//! TLS and client certificates at every door, and certificates that change while it runs.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::json;
use tidegate_server::TlsFiles;
use tidegate_server::rls::proto::envoy::service::ratelimit::v3::RateLimitResponse;
use tidegate_server::rls::proto::envoy::service::ratelimit::v3::rate_limit_response::Code;
use tidegate_sim::rng::Rng;
use tidegate_testbed::{Certificates, Http, Http2, Resp, until};

use crate::asked::Asked;
use crate::world::{SOON, World, answer, connected};

const POLICY: &str = "rules: [{ name: all, limit: 1000/min }]";
const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const JSON: [(&str, &str); 1] = [("content-type", "application/json")];
const HTTP1: &[u8] = b"http/1.1";
const HTTP2: &[u8] = b"h2";

pub(crate) type Secret = StreamOwned<ClientConnection, TcpStream>;
pub(crate) type Identity = (PathBuf, PathBuf);

fn files(certificates: &Certificates) -> TlsFiles {
    TlsFiles {
        certificate: certificates.server_certificate(),
        key: certificates.server_key(),
        client_authorities: None,
        admins: Vec::new(),
    }
}

fn chain(path: &Path) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_file_iter(path).unwrap().collect::<Result<_, _>>().unwrap()
}

/// A client that trusts the authority, and may have a certificate of its own.
pub(crate) struct Client {
    config: ClientConfig,
}

impl Client {
    pub(crate) fn new(certificates: &Certificates, identity: Option<&Identity>) -> Client {
        let mut roots = RootCertStore::empty();
        for authority in chain(&certificates.ca()) {
            roots.add(authority).unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots);
        let config = match identity {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::from_pem_file(key).unwrap();
                config.with_client_auth_cert(chain(certificate), key).unwrap()
            }
        };
        Client { config }
    }

    /// A connection after its handshake, if that went well, and the protocol that was chosen.
    fn connect(&self, to: SocketAddr, offer: &[&[u8]]) -> std::io::Result<Secret> {
        self.over(connected(to), offer)
    }

    /// Connects as `connect` does, but over a socket that is already connected.
    pub(crate) fn over(&self, mut socket: TcpStream, offer: &[&[u8]]) -> std::io::Result<Secret> {
        let mut config = self.config.clone();
        config.alpn_protocols = offer.iter().map(|it| it.to_vec()).collect();
        let name = ServerName::try_from("localhost").unwrap();
        let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        Ok(StreamOwned::new(connection, socket))
    }

    fn http(&self, world: &World) -> Http<Secret> {
        let stream = self.connect(world.at.http.unwrap(), &[HTTP1]).unwrap();
        assert_eq!(stream.conn.alpn_protocol(), Some(HTTP1));
        Http::over(stream, "localhost")
    }

    fn http2(&self, world: &World) -> Http2<Secret> {
        let stream = self.connect(world.at.http.unwrap(), &[HTTP2, HTTP1]).unwrap();
        assert_eq!(stream.conn.alpn_protocol(), Some(HTTP2));
        Http2::over(stream).unwrap()
    }

    fn grpc(&self, world: &World) -> Http2<Secret> {
        let stream = self.connect(world.at.grpc.unwrap(), &[HTTP2]).unwrap();
        assert_eq!(stream.conn.alpn_protocol(), Some(HTTP2));
        Http2::over(stream).unwrap()
    }

    fn resp(&self, world: &World) -> Resp<Secret> {
        Resp::over(self.connect(world.at.resp.unwrap(), &[]).unwrap())
    }

    /// The certificate that a new connection is shown.
    fn shown(&self, to: SocketAddr) -> CertificateDer<'static> {
        let stream = self.connect(to, &[]).expect("a handshake");
        stream.conn.peer_certificates().unwrap()[0].clone().into_owned()
    }
}

fn post(http: &mut Http<Secret>, path: &str) -> u16 {
    http.send("POST", path, &JSON, b"{}").unwrap().status
}

fn call(grpc: &mut Http2<Secret>) -> Code {
    let message = Asked::any(&mut Rng::new(1)).descriptor().encode_to_vec();
    let told = grpc.call(METHOD, &message).unwrap();
    RateLimitResponse::decode(&*told).unwrap().overall_code()
}

/// Every door answers a client.
fn all_answer(client: &Client, world: &World) {
    assert_eq!(post(&mut client.http(world), "/v1/check"), 200);
    let body = client.http2(world).post("/v1/check", &JSON, b"{}").unwrap();
    let told: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(told["verdict"], "allow");
    assert_eq!(call(&mut client.grpc(world)), Code::Ok);
    assert_eq!(client.resp(world).call(&["PING"]).unwrap().text(), "PONG");
}

#[test]
fn every_door_speaks_tls() {
    let certificates = Certificates::new().unwrap();
    let world = World::with(POLICY, |settings| settings.tls = Some(files(&certificates)));
    all_answer(&Client::new(&certificates, None), &world);
    // And nothing else.
    for door in [world.at.http, world.at.grpc, world.at.resp] {
        let mut plain = connected(door.unwrap());
        plain.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
        let mut said = Vec::new();
        let _ = plain.read_to_end(&mut said);
        assert!(!said.starts_with(b"HTTP"), "{said:?}");
    }
}

#[test]
fn garbage_after_the_handshake_ends_its_own_connection_only() {
    let certificates = Certificates::new().unwrap();
    let world = World::with(POLICY, |settings| settings.tls = Some(files(&certificates)));
    let client = Client::new(&certificates, None);
    let mut rng = Rng::new(7);
    for door in [world.at.http, world.at.grpc, world.at.resp].map(Option::unwrap) {
        for round in 0..20 {
            let noise: Vec<u8> = (0..512).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
            let mut stream = client.connect(door, &[]).unwrap();
            // Inside the encryption, or instead of it. Who is closed already cannot be written to.
            let _ = match round % 2 {
                0 => stream.write_all(&noise),
                _ => stream.sock.write_all(&noise),
            };
            let _ = stream.sock.shutdown(Shutdown::Write);
            let ended = stream.sock.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
            let in_vain = [Err(ErrorKind::WouldBlock), Err(ErrorKind::TimedOut)];
            assert!(!in_vain.contains(&ended), "it is not let go at {door}");
        }
    }
    all_answer(&client, &world);
}

#[test]
fn who_has_no_certificate_is_refused_and_names_make_administrators() {
    let certificates = Certificates::new().unwrap();
    let operator = certificates.client_named("operator.example").unwrap();
    let service = certificates.client_named("service.example").unwrap();
    let elsewhere = Certificates::new().unwrap();
    let stranger = elsewhere.client_named("operator.example").unwrap();
    let world = World::with(POLICY, |settings| {
        settings.tls = Some(TlsFiles {
            client_authorities: Some(certificates.ca()),
            admins: vec!["operator.example".to_owned()],
            ..files(&certificates)
        });
    });
    for identity in [None, Some(&stranger)] {
        let nobody = Client::new(&certificates, identity);
        for door in [world.at.http, world.at.grpc, world.at.resp] {
            // The client is done with the handshake before the server says no.
            let refused = nobody.connect(door.unwrap(), &[]).and_then(|mut stream| {
                stream.write_all(b"PING\r\n")?;
                stream.read(&mut [0; 16])
            });
            assert!(matches!(refused, Err(_) | Ok(0)), "{refused:?}");
        }
    }
    let operator = Client::new(&certificates, Some(&operator));
    let service = Client::new(&certificates, Some(&service));
    all_answer(&operator, &world);
    all_answer(&service, &world);
    assert_eq!(post(&mut operator.http(&world), "/v1/reset"), 200);
    assert_eq!(post(&mut service.http(&world), "/v1/reset"), 403);
    assert!(!operator.resp(&world).call(&["TIDEGATE.RESET"]).unwrap().is_error());
    let refused = service.resp(&world).call(&["TIDEGATE.RESET"]).unwrap();
    assert!(refused.text().starts_with("NOPERM"), "{refused:?}");
}

#[test]
fn certificates_are_replaced_while_connections_go_on() {
    let certificates = Certificates::new().unwrap();
    let world = World::with(POLICY, |settings| settings.tls = Some(files(&certificates)));
    let client = Client::new(&certificates, None);
    let doors = [world.at.http, world.at.grpc, world.at.resp].map(Option::unwrap);
    let before = client.shown(doors[0]);
    let (mut http, mut grpc, mut resp) =
        (client.http(&world), client.grpc(&world), client.resp(&world));
    let mut go_on = || {
        assert_eq!(post(&mut http, "/v1/check"), 200);
        assert_eq!(call(&mut grpc), Code::Ok);
        assert_eq!(resp.call(&["PING"]).unwrap().text(), "PONG");
    };
    go_on();

    let (certificate, key) = certificates.another_server("second").unwrap();
    fs::rename(key, certificates.server_key()).unwrap();
    fs::rename(certificate, certificates.server_certificate()).unwrap();
    for door in doors {
        until(SOON, "the new certificate is shown", || client.shown(door) != before).unwrap();
    }
    go_on();

    // What cannot be used changes nothing, for as long as it lies there.
    let second = client.shown(doors[0]);
    let whole = fs::read(certificates.server_certificate()).unwrap();
    fs::write(certificates.server_certificate(), "-----BEGIN CERTIFICATE-----\nno").unwrap();
    let looks = Duration::from_millis(2_500);
    let _ = until(looks, "two looks at the files are over", || {
        assert_eq!(client.shown(doors[2]), second);
        false
    });
    go_on();
    fs::write(certificates.server_certificate(), whole).unwrap();
    assert_eq!(client.shown(doors[1]), second);
    let ready = client.http(&world).send("GET", "/readyz", &[], b"").unwrap();
    assert_eq!((ready.status, answer(&ready).1), (200, json!("ready\n")));
}
