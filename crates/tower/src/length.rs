//! How long the body of a request is, where the layer knows of what type bodies are.

use std::cell::Cell;
use std::net::IpAddr;

use tidegate_core::Span;
use tidegate_gate::{Length, Request};

use crate::body::Wrapped;
use crate::seen::Seen;

/// What the layer can tell of the bodies of requests, of type `B`.
pub trait Lengths<B> {
    /// How long a body is; nothing if only headers say.
    fn length(body: &B) -> Option<Length>;
}

/// Requests of any type, whether it is a body or not.
impl<B> Lengths<B> for Wrapped {
    #[inline]
    fn length(_: &B) -> Option<Length> {
        None
    }
}

/// A request with its body, which is looked at only by rules that count its length.
#[derive(Debug)]
pub(crate) struct Asked<'a, B> {
    seen: Seen<'a>,
    body: &'a B,
    length: fn(&B) -> Option<Length>,
    lacks_address: Cell<bool>,
}

impl<'a, B> Asked<'a, B> {
    pub(crate) fn new(request: &'a http::Request<B>, length: fn(&B) -> Option<Length>) -> Self {
        let (seen, body) = (Seen::new(request), request.body());
        Asked { seen, body, length, lacks_address: Cell::new(false) }
    }

    /// Whether the policy asked for the address of the client, and nobody knows it.
    pub(crate) fn lacks_address(&self) -> bool {
        self.lacks_address.get()
    }
}

impl<B> Request for Asked<'_, B> {
    fn method(&self) -> &str {
        self.seen.method()
    }

    fn host(&self) -> &str {
        self.seen.host()
    }

    fn path(&self) -> &str {
        self.seen.path()
    }

    fn query(&self) -> Option<&str> {
        self.seen.query()
    }

    fn header(&self, name: &str) -> Option<&[u8]> {
        Request::header(&self.seen, name)
    }

    fn header_lines<'b>(&'b self, name: &str, each: &mut dyn FnMut(&'b [u8])) {
        self.seen.header_lines(name, each);
    }

    fn peer(&self) -> Option<IpAddr> {
        let peer = self.seen.peer();
        if peer.is_none() {
            self.lacks_address.set(true);
        }
        peer
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        self.seen.attribute(name)
    }

    fn length(&self) -> Length {
        match (self.length)(self.body) {
            None => self.seen.length(),
            // There is a body, whatever the method: only a header may still know.
            Some(Length::Unknown) => self.seen.said_length().unwrap_or(Length::Unknown),
            Some(known) => known,
        }
    }

    fn patience(&self) -> Option<Span> {
        self.seen.patience()
    }
}
