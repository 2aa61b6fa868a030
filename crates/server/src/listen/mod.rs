//! Connections: bound, accepted, counted, met with TLS, and let finish when it is time to stop.
//!
//! A door only sees a stream of bytes and who is at its other end.

mod accept;
mod busy;
mod calm;
mod idle;
mod local;
mod pace;
mod seats;
mod shakes;

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket};
use tokio::time::timeout;

use crate::auth::Visitor;
use crate::desk::{Newcomers, Turns};
use crate::limits;
use crate::settings::Bounds;
use crate::stop::Stop;
use crate::tls::{Offer, Tls};

pub(crate) use self::accept::accept;
pub(crate) use self::busy::{Answering, Busy};
pub(crate) use self::calm::Calm;
pub(crate) use self::idle::Idle;
pub(crate) use self::local::{Local, administer};
pub(crate) use self::shakes::Trusts;

/// A stream of bytes, encrypted or not.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for S {}

/// Takes what has arrived; false if that was the end. It meets the stack first, so that a
/// connection on which nothing arrives needs no buffer.
pub(crate) fn poll_more<S: AsyncRead + Unpin>(
    stream: &mut S,
    context: &mut Context<'_>,
    input: &mut Vec<u8>,
) -> Poll<bool> {
    let mut bytes = [MaybeUninit::uninit(); limits::READ_BYTES_MAX];
    let mut bytes = ReadBuf::uninit(&mut bytes);
    Pin::new(stream).poll_read(context, &mut bytes).map(|read| {
        input.extend_from_slice(bytes.filled());
        read.is_ok() && !bytes.filled().is_empty()
    })
}

/// Takes what is on its way on a stream that is closed on our side, until its peer closes it too or
/// is silent for a while. To drop it before would have the system throw away answers that the peer
/// has not read yet.
pub(crate) async fn until_the_end<S: AsyncRead + Unpin>(stream: &mut S) {
    let mut unheard = Vec::new();
    loop {
        let more = timeout(
            limits::FAREWELL_TIME,
            poll_fn(|context| poll_more(stream, context, &mut unheard)),
        );
        if more.await != Ok(true) {
            return;
        }
        unheard.clear();
    }
}

/// What talks to the client at the other end of a connection.
pub(crate) trait Door: Clone + Send + Sync + 'static {
    /// What it offers in a TLS handshake.
    const OFFER: Offer;

    /// Talks until the connection ends, or until it is time to stop and nothing is under way. It
    /// says when it is busy: at any other time it may end to make room.
    fn serve<S: Stream>(
        &self,
        stream: S,
        visitor: Visitor,
        stop: Stop,
        busy: &Busy,
    ) -> impl Future<Output = ()> + Send;

    /// There is one connection more, or one less.
    fn connections(&self, change: i64);

    /// The lines of connections that have just come, and of those that go on without a pause.
    fn lines(&self) -> (&Newcomers, &Turns);
}

/// An address that a door listens on.
pub(crate) struct Listening {
    pub(crate) listener: TcpListener,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) bounds: Bounds,
    /// Whose connections and handshakes are not counted by address.
    pub(crate) trusts: Trusts,
}

/// Binds an address. Nobody is accepted yet, but who connects is kept waiting rather than refused.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let bound = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        // Those who are accepted have it from here.
        socket.set_send_buffer_size(limits::SEND_BUFFER_BYTES)?;
        socket.bind(address)?;
        socket.listen(limits::BACKLOG)
    };
    bound().map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => "; end what listens there, or give another address",
            io::ErrorKind::AddrNotAvailable => "; give another address, one of this machine",
            io::ErrorKind::PermissionDenied => "; give another address, with a port from 1024 on",
            _ => "",
        };
        io::Error::new(error.kind(), format!("cannot listen on {address}: {error}{hint}"))
    })
}
