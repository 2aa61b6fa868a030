//! What a request must be before anybody is asked about it.

use tonic::Status;

use super::proto::{RateLimitDescriptor, RateLimitRequest};
use crate::limits::{
    RLS_DESCRIPTORS_MAX, RLS_ENTRIES_MAX, RLS_NAME_CHARS_MAX, RLS_VALUE_CHARS_MAX,
};
use tidegate_gate::PlainCharge;

/// Refuses what cannot be meant, and what is too much.
pub(super) fn check(request: &RateLimitRequest) -> Result<(), Status> {
    if request.domain.is_empty() {
        return Err(wrong("the domain is empty: set it in Envoy's rate limit filter"));
    }
    is_short("the domain", &request.domain, RLS_NAME_CHARS_MAX)?;
    if request.descriptors.is_empty() {
        return Err(wrong("there are no descriptors: add rate limit actions to the route"));
    }
    is_few("descriptors", request.descriptors.len(), RLS_DESCRIPTORS_MAX)?;
    request.descriptors.iter().try_for_each(|one| check_one(&request.domain, one))
}

fn check_one(domain: &str, descriptor: &RateLimitDescriptor) -> Result<(), Status> {
    if descriptor.entries.is_empty() {
        return Err(wrong("a descriptor has no entries"));
    }
    is_few("entries in a descriptor", descriptor.entries.len(), RLS_ENTRIES_MAX)?;
    let mut bytes = domain.len();
    for entry in &descriptor.entries {
        if entry.key.is_empty() {
            return Err(wrong("an entry has an empty key"));
        }
        is_short("the key of an entry", &entry.key, RLS_NAME_CHARS_MAX)?;
        is_short("the value of an entry", &entry.value, RLS_VALUE_CHARS_MAX)?;
        bytes += entry.key.len() + entry.value.len();
    }
    if PlainCharge::KEY_BYTES_MAX < bytes {
        let max = PlainCharge::KEY_BYTES_MAX;
        return Err(wrong(format!("a descriptor has {bytes} bytes: at most {max} are counted by")));
    }
    if descriptor.is_negative_hits {
        let message = "hits cannot be taken back: a refusal costs nothing here, and there is no \
                       receipt of what passed";
        return Err(Status::unimplemented(message));
    }
    if descriptor.hits_addend.is_some_and(|hits| u32::try_from(hits).is_err()) {
        return Err(wrong(format!("a descriptor adds more than {} hits", u32::MAX)));
    }
    Ok(())
}

/// How many hits a descriptor adds, if somebody said so; with zero it only looks.
pub(super) fn hits(request: &RateLimitRequest, descriptor: &RateLimitDescriptor) -> Option<u32> {
    // Zero in the request is as good as nothing.
    let of_all = (0 < request.hits_addend).then_some(request.hits_addend);
    let own = descriptor.hits_addend.map(|hits| u32::try_from(hits).unwrap_or(u32::MAX));
    own.or(of_all)
}

fn is_few(what: &str, count: usize, max: usize) -> Result<(), Status> {
    if count <= max {
        return Ok(());
    }
    Err(wrong(format!("there are {count} {what}: at most {max} are judged together")))
}

fn is_short(what: &str, text: &str, max: usize) -> Result<(), Status> {
    // A character has a byte at least: most names need not be counted.
    if text.len() <= max {
        return Ok(());
    }
    match text.chars().count() {
        chars if chars <= max => Ok(()),
        chars => Err(wrong(format!("{what} has {chars} characters: at most {max} are accepted"))),
    }
}

fn wrong(message: impl Into<String>) -> Status {
    Status::invalid_argument(message)
}
