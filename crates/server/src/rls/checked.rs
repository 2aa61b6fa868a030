//! What is wrong with a request, and what is too much of it.
//!
//! Only what an operator gets wrong is an error. Unless it is configured otherwise, Envoy lets a
//! request pass that it gets an error about: so everything that a client can write is judged,
//! however long or odd.

use tonic::Status;

use super::proto::{RateLimitDescriptor, RateLimitRequest};
use crate::limits::{RLS_DESCRIPTORS_MAX, RLS_ENTRIES_MAX};

/// Refuses what no configuration of Envoy's can mean.
pub(super) fn check(request: &RateLimitRequest) -> Result<(), Status> {
    if request.domain.is_empty() {
        return Err(wrong("the domain is empty: set it in Envoy's rate limit filter"));
    }
    if request.descriptors.is_empty() {
        return Err(wrong("there are no descriptors: add rate limit actions to the route"));
    }
    if request.descriptors.iter().any(|it| it.is_negative_hits) {
        let message = "hits cannot be taken back: a refusal costs nothing here, and there is no \
                       receipt of what passed";
        return Err(Status::unimplemented(message));
    }
    Ok(())
}

/// What of a request is more than rules of a policy file are asked about; nothing, if nothing is.
pub(super) fn excess(request: &RateLimitRequest) -> Option<String> {
    let entries = request.descriptors.iter().map(|it| it.entries.len()).max();
    let counts = [
        ("descriptors in a request", request.descriptors.len(), RLS_DESCRIPTORS_MAX),
        ("entries in a descriptor", entries.unwrap_or_default(), RLS_ENTRIES_MAX),
    ];
    let (name, count, max) = counts.into_iter().find(|(_, count, max)| max < count)?;
    Some(format!("there are {count} {name}: at most {max} are judged by a policy"))
}

/// How many hits a descriptor adds, if somebody said so; with zero it only looks. What no limit can
/// hold is as much as the largest can.
pub(super) fn hits(request: &RateLimitRequest, descriptor: &RateLimitDescriptor) -> Option<u32> {
    // Zero in the request is as good as nothing.
    let of_all = (0 < request.hits_addend).then_some(request.hits_addend);
    let own = descriptor.hits_addend.map(|hits| u32::try_from(hits).unwrap_or(u32::MAX));
    own.or(of_all)
}

fn wrong(message: impl Into<String>) -> Status {
    Status::invalid_argument(message)
}
