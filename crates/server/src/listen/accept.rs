//! Accepts connections for a door, each as a task of its own.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::pace::Paced;
use super::seats::Seats;
use super::shakes::Shakes;
use super::{Busy, Door, Listening};
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
    let seats = Arc::new(Seats::new(bounds.connections_max, Arc::clone(&trusts)));
    let shakes = Arc::new(Shakes::new(trusts, bounds.handshake_time));
    let tasks = JoinSet::new();
    let (mut failures, mut accepted) = (0_u64, 0_usize);
    let mut room = Room { door, tls, bounds, stop: stop.clone(), tasks, seats, shakes };
    loop {
        // One that has to make room is gone before another is let in: there may be no more files.
        let has_room = room.tasks.len() <= room.bounds.connections_max;
        tokio::select! {
            biased;
            () = stop.asked() => break,
            Some(_) = room.tasks.join_next(), if !room.tasks.is_empty() => {}
            next = listener.accept(), if has_room => match next {
                Ok((stream, peer)) => {
                    room.hear_of_those_who_left(peer).await;
                    room.welcome(stream, peer);
                    accepted += 1;
                    if accepted.is_multiple_of(limits::ACCEPTED_IN_A_ROW_MAX) {
                        yield_now().await;
                    }
                }
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
    seats: Arc<Seats>,
    shakes: Arc<Shakes>,
}

impl<D: Door> Room<D> {
    /// Talks to somebody, if there is a seat left or one is given up; otherwise the connection is
    /// closed at once.
    fn welcome(&mut self, stream: TcpStream, peer: SocketAddr) {
        let peer = peer.ip().to_canonical();
        let Some(seat) = self.seats.take(peer) else { return };
        let of = self.seats.counted(peer);
        // Answers are written in one go, and are wanted at once.
        let _ = stream.set_nodelay(true);
        let (door, tls, stop) = (self.door.clone(), self.tls.clone(), self.stop.clone());
        let shakes = Arc::clone(&self.shakes);
        self.tasks.spawn(async move {
            let _counted = Counted::taken(&door);
            let visitor = Visitor { peer, certified: None, certificate: None };
            let busy = seat.busy();
            let (stream, pace) = Paced::new(stream);
            let (lines, stops) = (door.lines(), stop.clone());
            // Pinned here, since a future that is handed on is there twice.
            let serving = pin!(async {
                match tls {
                    None => door.serve(stream, visitor, stop, busy).await,
                    Some(tls) => {
                        encrypted(&door, stream, visitor, stop, busy, (&tls, &shakes)).await;
                    }
                }
            });
            tokio::select! {
                biased;
                () = busy.left() => {}
                () = pace.keep(lines, of, &stops, serving) => {}
            }
        });
    }

    /// Where there is no room, lets connections run that may have ended already and have not been
    /// heard of: nobody has to leave for these.
    async fn hear_of_those_who_left(&self, peer: SocketAddr) {
        let peer = peer.ip().to_canonical();
        for _ in 0..limits::ROUNDS_BEFORE_ROOM_IS_MADE {
            if self.seats.has_room(peer) {
                return;
            }
            yield_now().await;
        }
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
pub(super) struct Counted<'d, D: Door>(&'d D);

impl<'d, D: Door> Counted<'d, D> {
    pub(super) fn taken(door: &'d D) -> Counted<'d, D> {
        door.connections(1);
        Counted(door)
    }
}

impl<D: Door> Drop for Counted<'_, D> {
    fn drop(&mut self) {
        self.0.connections(-1);
    }
}

async fn encrypted<D: Door>(
    door: &D,
    stream: Paced,
    mut visitor: Visitor,
    stop: Stop,
    busy: &Busy,
    (tls, shakes): (&Tls, &Shakes),
) {
    // Handshakes have bounds of their own.
    let Some(shaking) = busy.begin() else { return };
    let Some(line) = shakes.line_up(visitor.peer) else { return };
    let shake = async {
        let _turn = line.turn().await?;
        TlsAcceptor::from(tls.config(D::OFFER)).accept(stream).await.ok()
    };
    let Ok(Some(stream)) = timeout(shakes.time, shake).await else { return };
    drop((line, shaking));
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    visitor.certified = certificate.map(|certificate| tls.role(certificate));
    visitor.certificate = certificate.map(|certificate| known_by(certificate));
    door.serve(stream, visitor, stop, busy).await;
}
