//! The three protocols as load speaks them: requests copied from a pattern, replies only counted.
//!
//! Nothing is understood that need not be, so that the load is no sooner at its end than a server;
//! but every reply is looked at: one that refuses or complains ends the measurement.

mod grpc;
mod http;
mod pattern;
mod resp;

use anyhow::Result;

pub(crate) use self::grpc::Grpc;
pub(crate) use self::http::Http;
pub(crate) use self::resp::Resp;

/// One connection's side of a talk.
pub(crate) trait Talk {
    /// What comes before the first request.
    fn hello(&mut self, out: &mut Vec<u8>);

    /// One request about a client; the ticket by which its reply will be known.
    fn ask(&mut self, client: u32, out: &mut Vec<u8>) -> u32;

    /// Reads as many replies as `bytes` hold, adds their tickets to `answered`, and says how many
    /// bytes that took. What the protocol itself wants to be said goes to `out`.
    fn hear(&mut self, bytes: &[u8], answered: &mut Vec<u32>, out: &mut Vec<u8>) -> Result<usize>;
}

/// What starts a talk on a new connection.
pub(crate) type Start = Box<dyn Fn() -> Box<dyn Talk>>;

/// The beginning of what was said, to be shown in an error.
fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned()
}
