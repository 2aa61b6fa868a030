//! What a client gets that is refused.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Extensions, Method, Response, StatusCode, Uri};
use tidegate_core::Verdict;
use tidegate_gate::Admission;

use crate::fields::{self, Wins};
use crate::grpc;
use crate::layer::Shared;
use crate::seen::Seen;

/// A request that was refused, and why.
#[derive(Clone, Copy, Debug)]
pub struct Refusal<'a> {
    admission: &'a Admission,
    seen: Seen<'a>,
}

impl<'a> Refusal<'a> {
    /// What was decided: which limits refused, and all their numbers.
    pub fn admission(&self) -> &'a Admission {
        self.admission
    }

    /// 429; 403 for what a rule blocks; 401 for an API key that nobody has; 503 for what a share
    /// has no turn for.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.admission.status()).unwrap_or(StatusCode::TOO_MANY_REQUESTS)
    }

    /// After how many seconds the request would pass, rounded up and never 0; nothing if waiting
    /// does not help.
    pub fn retry_after(&self) -> Option<u64> {
        match self.admission.verdict() {
            Verdict::Deny { retry_after } => Some(retry_after.as_secs_ceil().max(1)),
            _ => None,
        }
    }

    /// The message for a person.
    pub fn message(&self) -> String {
        self.admission.message()
    }

    /// The names of the limits that refused.
    pub fn violated(&self) -> Vec<String> {
        self.admission.violated().map(|answer| answer.name()).collect()
    }

    /// The request's method.
    pub fn method(&self) -> &'a Method {
        self.seen.method
    }

    /// What was asked for.
    pub fn uri(&self) -> &'a Uri {
        self.seen.uri
    }

    /// The request's headers.
    pub fn headers(&self) -> &'a HeaderMap {
        self.seen.headers
    }

    /// The request's extensions.
    pub fn extensions(&self) -> &'a Extensions {
        self.seen.extensions
    }

    /// What is sent unless somebody replaces it: `application/problem+json`.
    pub fn response(&self) -> Response<Bytes> {
        let mut response = Response::new(Bytes::from(self.admission.problem()));
        *response.status_mut() = self.status();
        let media_type = HeaderValue::from_static(Admission::PROBLEM_TYPE);
        response.headers_mut().insert(header::CONTENT_TYPE, media_type);
        response
    }
}

/// In the extensions of a refusal, for layers around this one: it says nothing about the service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IsRefusal;

/// The response to a request that is refused.
pub(crate) fn respond(shared: &Shared, admission: &Admission, seen: Seen<'_>) -> Response<Bytes> {
    if let Some(media_type) = grpc::media_type(seen.method, seen.headers) {
        let mut response = Response::new(Bytes::new());
        response.extensions_mut().insert(IsRefusal);
        grpc::write(admission, media_type, response.headers_mut());
        fields::write(admission, response.headers_mut(), Wins::Ours);
        return response;
    }
    let refusal = Refusal { admission, seen };
    let replaced = shared.on_refusal.as_ref().map(|on_refusal| on_refusal(&refusal));
    let mut response = replaced.unwrap_or_else(|| refusal.response());
    response.extensions_mut().insert(IsRefusal);
    fields::write(admission, response.headers_mut(), Wins::Theirs);
    if seen.method == Method::HEAD {
        // It tells the length of the body that a `GET` would have, and has none.
        let body = std::mem::take(response.body_mut());
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    response
}
