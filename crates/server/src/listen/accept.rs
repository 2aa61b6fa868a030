//! Accepts connections for a door, each as a task of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::shakes::Shakes;
use super::{Door, Listening};
use crate::auth::{Visitor, known_by};
use crate::limits;
use crate::settings::Bounds;
use crate::stop::Stop;
use crate::tls::Tls;

/// Accepts until it is time to stop, then lets connections finish, for at most `drain`. Whether all
/// did.
pub(crate) async fn accept<D: Door>(
    listening: Listening,
    door: D,
    mut stop: Stop,
    drain: Duration,
) -> bool {
    let Listening { listener, tls, bounds, trusts } = listening;
    let shakes = Arc::new(Shakes::new(trusts, bounds.handshake_time));
    let tasks = JoinSet::new();
    let mut failures = 0_u64;
    let mut room = Room { door, tls, bounds, stop: stop.clone(), tasks, shakes };
    loop {
        tokio::select! {
            biased;
            () = stop.asked() => break,
            Some(_) = room.tasks.join_next(), if !room.tasks.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => room.welcome(stream, peer),
                // Mostly that there are no descriptors left; those that wait are kept waiting.
                Err(error) => {
                    if failures.is_multiple_of(limits::ACCEPT_TOLD_EACH) {
                        tracing::warn!(%error, failures, "a connection could not be accepted");
                    }
                    failures += 1;
                    sleep(limits::ACCEPT_PAUSE).await;
                }
            },
        }
    }
    room.welcome_those_who_wait(&listener).await;
    drop(listener);
    let all = async { while room.tasks.join_next().await.is_some() {} };
    let all_did = timeout(drain, all).await.is_ok();
    room.tasks.shutdown().await;
    all_did
}

/// Where the connections of a door are.
struct Room<D> {
    door: D,
    tls: Option<Arc<Tls>>,
    bounds: Bounds,
    stop: Stop,
    tasks: JoinSet<()>,
    shakes: Arc<Shakes>,
}

impl<D: Door> Room<D> {
    /// Talks to somebody, if there is a seat left; otherwise the connection is closed at once.
    fn welcome(&mut self, stream: TcpStream, peer: SocketAddr) {
        if self.bounds.connections_max <= self.tasks.len() {
            return;
        }
        // Answers are written in one go, and are wanted at once.
        let _ = stream.set_nodelay(true);
        let (door, tls, stop) = (self.door.clone(), self.tls.clone(), self.stop.clone());
        let shakes = Arc::clone(&self.shakes);
        self.tasks.spawn(async move {
            let _seat = Seat::taken(&door);
            let peer = peer.ip().to_canonical();
            let visitor = Visitor { peer, certified: None, certificate: None };
            match tls {
                None => door.serve(stream, visitor, stop).await,
                Some(tls) => encrypted(&door, stream, visitor, stop, &tls, &shakes).await,
            }
        });
    }

    /// Who was in the system's queue when it was time to stop gets an answer, too.
    async fn welcome_those_who_wait(&mut self, listener: &TcpListener) {
        for _ in 0..limits::BACKLOG {
            let next = std::future::poll_fn(|context| match listener.poll_accept(context) {
                Poll::Ready(Ok(accepted)) => Poll::Ready(Some(accepted)),
                Poll::Ready(Err(_)) | Poll::Pending => Poll::Ready(None),
            });
            let Some((stream, peer)) = next.await else { return };
            self.welcome(stream, peer);
        }
    }
}

/// A connection that is counted for as long as it is there.
pub(super) struct Seat<'d, D: Door>(&'d D);

impl<'d, D: Door> Seat<'d, D> {
    pub(super) fn taken(door: &'d D) -> Seat<'d, D> {
        door.connections(1);
        Seat(door)
    }
}

impl<D: Door> Drop for Seat<'_, D> {
    fn drop(&mut self) {
        self.0.connections(-1);
    }
}

async fn encrypted<D: Door>(
    door: &D,
    stream: TcpStream,
    mut visitor: Visitor,
    stop: Stop,
    tls: &Tls,
    shakes: &Shakes,
) {
    let Some(line) = shakes.line_up(visitor.peer) else { return };
    let shake = async {
        let _turn = line.turn().await?;
        TlsAcceptor::from(tls.config(D::OFFER)).accept(stream).await.ok()
    };
    let Ok(Some(stream)) = timeout(shakes.time, shake).await else { return };
    drop(line);
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    visitor.certified = certificate.map(|certificate| tls.role(certificate));
    visitor.certificate = certificate.map(|certificate| known_by(certificate));
    door.serve(stream, visitor, stop).await;
}
