//! What a web page can have somebody's browser send: no page administers.
//!
//! A browser says whose page it sends for. By a name that first leads to the page and then to this
//! server it is fooled about that, but not about the name.

use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderValue, StatusCode};

use super::reply::Problem;
use crate::auth::Guard;

const FETCH_SITE: &str = "sec-fetch-site";

/// Refuses what a browser sends for a page, and what is sent to a name that may be anybody's.
pub(super) fn refuse(guard: &Guard, head: &Parts) -> Result<(), Problem> {
    let by_user = |site: &HeaderValue| site.as_bytes() == b"none";
    let sites = head.headers.get_all(FETCH_SITE);
    if head.headers.contains_key(ORIGIN) || !sites.iter().all(by_user) {
        let wrong = "no web page administers this server: leave out `origin` and `sec-fetch-site`";
        return Err(Problem::new(StatusCode::FORBIDDEN, wrong));
    }
    let named = head.headers.get_all(HOST).iter().map(HeaderValue::as_bytes);
    let asked = head.uri.authority().map(|it| it.as_str().as_bytes());
    let mut hosts = named.chain(asked).peekable();
    if hosts.peek().is_some() && hosts.all(|host| is_known(guard, host)) {
        return Ok(());
    }
    let wrong = "administration is asked for by an address, as `localhost`, or by a name that \
                 `--admin-names` has";
    Err(Problem::new(StatusCode::FORBIDDEN, wrong))
}

/// Whether a host, with or without its port, is this server.
fn is_known(guard: &Guard, host: &[u8]) -> bool {
    let authority = Authority::try_from(host);
    authority.is_ok_and(|authority| guard.is_known_as(authority.host()))
}
