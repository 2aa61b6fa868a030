//! Which host a request is for: it says so, and once.
//!
//! A reader that takes the first of two and a reader that takes the last see different requests.

use http::Version;
use http::header::HOST;
use http::request::Parts;

use super::reply::Problem;

/// Refuses what has no host, or more than one. Only HTTP/1.0 has none, as some proxies' checks.
pub(super) fn check(head: &Parts) -> Result<(), Problem> {
    let lines = head.headers.get_all(HOST).iter().count();
    let is_said = match head.version {
        Version::HTTP_09 | Version::HTTP_10 => true,
        Version::HTTP_11 => lines == 1,
        _ => lines == 1 || head.uri.authority().is_some(),
    };
    if is_said && lines <= 1 {
        return Ok(());
    }
    Err(Problem::bad(format!("send one `host` header: there are {lines}")))
}
