//! Decides by our policy file: each descriptor is a request, and all of them are judged as one.

use smallvec::SmallVec;
use tidegate_core::Verdict;
use tidegate_gate::{AdhocCharge, AdhocDecided, AdhocLimit, Admission, By, Field, Joint, Request};
use tonic::Status;

use super::described::Described;
use super::fields::{OVERRIDE, field};
use super::overrides::{Asked, Override, ask};
use super::proto::{
    DescriptorStatus, HeaderValue, RateLimit, RateLimitDescriptor, RateLimitRequest,
    RateLimitResponse,
};
use super::{RateLimits, answer, checked, metadata};
use crate::trace::Notes;

/// A descriptor that brings its limit along.
struct Brought<'a> {
    said: Override,
    parts: Vec<&'a [u8]>,
    cost: u32,
    decided: Option<AdhocDecided>,
}

impl RateLimits {
    pub(super) async fn by_policy(
        &self,
        request: &RateLimitRequest,
        notes: &mut Notes<'_>,
    ) -> Result<RateLimitResponse, Status> {
        let mut brought = Vec::new();
        let mut described = Vec::new();
        for descriptor in &request.descriptors {
            let own = self.brought(request, descriptor);
            if own.is_none() {
                let cost = checked::hits(request, descriptor);
                described.push(Described::new(&request.domain, &descriptor.entries, cost));
            }
            brought.push(own);
        }
        let deciding = {
            let asked: SmallVec<[&dyn Request; 4]> =
                described.iter().map(|it| it as &dyn Request).collect();
            self.0.gate.admit_jointly(&asked)
        };
        let mut together = deciding.await;
        let has_brought = brought.iter().any(Option::is_some);
        let passes = if has_brought {
            self.with_brought(&mut together, &mut brought).await?
        } else {
            together.verdict.passes()
        };
        together.each.iter().for_each(|admission| notes.admission(admission));
        brought.iter().flatten().for_each(|it| it.note(notes));
        Ok(self.respond(request, &together, &brought, passes))
    }

    fn brought<'a>(
        &self,
        request: &'a RateLimitRequest,
        descriptor: &'a RateLimitDescriptor,
    ) -> Option<Brought<'a>> {
        let said = self.0.overrides.limit(descriptor.limit?);
        let cost = checked::hits(request, descriptor).unwrap_or(1);
        let mut parts = vec![request.domain.as_bytes()];
        for entry in &descriptor.entries {
            parts.extend([&*entry.key, &*entry.value]);
        }
        Some(Brought { said, parts, cost, decided: None })
    }

    /// Judges limits that came along after those of the policy; if they refuse, what the policy
    /// charged is given back. Whether all pass.
    async fn with_brought(
        &self,
        together: &mut Joint,
        brought: &mut [Option<Brought<'_>>],
    ) -> Result<bool, Status> {
        let is_open = brought.iter().flatten().all(|it| it.said.limit.is_some());
        let charges: Vec<(usize, &AdhocLimit)> = brought
            .iter()
            .enumerate()
            .filter_map(|(at, it)| Some((at, it.as_ref()?.said.limit.as_ref()?)))
            .collect();
        let asked: Vec<Asked<'_>> = charges
            .iter()
            .filter_map(|(at, limit)| {
                let Brought { said, parts, cost, .. } = brought[*at].as_ref()?;
                let charge = AdhocCharge { limit, key: parts, cost: *cost };
                Some(Asked { charge, own: Some((said.requests_per_unit, said.unit)) })
            })
            .collect();
        let may_pass = is_open && together.verdict.passes();
        let decided = ask(&self.0.gate, &asked, may_pass).await;
        if decided.by.is_fallback() && self.0.settings.without_store.is_none() {
            give_back(together).await;
            return Err(no_store());
        }
        let passes = may_pass && decided.verdict.passes();
        if together.verdict.passes() && !passes {
            give_back(together).await;
        }
        let places: Vec<usize> = charges.into_iter().map(|(at, _)| at).collect();
        for (at, decision) in places.into_iter().zip(&decided.each) {
            let one = AdhocDecided { each: [*decision].into_iter().collect(), ..decided.clone() };
            if let Some(it) = &mut brought[at] {
                it.decided = Some(one);
            }
        }
        Ok(passes)
    }

    fn respond(
        &self,
        request: &RateLimitRequest,
        together: &Joint,
        brought: &[Option<Brought<'_>>],
        passes: bool,
    ) -> RateLimitResponse {
        let now = self.0.gate.now();
        let mut admissions = together.each.iter();
        let statuses = brought.iter().map(|it| match it {
            Some(it) => it.status(now),
            None => admissions.next().map_or_else(answer::free, status),
        });
        let names = || {
            let answers = together.each.iter().flat_map(Admission::each);
            let mut names: Vec<String> = answers.map(|answer| answer.name()).collect();
            names.dedup();
            names.into_iter()
        };
        let wants = self.0.settings.dynamic_metadata;
        RateLimitResponse {
            overall_code: answer::code(passes),
            statuses: statuses.collect(),
            response_headers_to_add: fields(&together.each),
            dynamic_metadata: wants.then(|| metadata::of(request, names(), &[])),
            ..RateLimitResponse::default()
        }
    }
}

impl Brought<'_> {
    fn note(&self, notes: &mut Notes<'_>) {
        notes.rule(OVERRIDE);
        let (verdict, by) = match &self.decided {
            Some(decided) => (decided.decision().verdict, decided.by),
            // A limit of nothing.
            None => (Verdict::Never, By::Store),
        };
        notes.decided(verdict, by, self.cost);
    }

    fn status(&self, now: tidegate_core::Tick) -> DescriptorStatus {
        let Override { requests_per_unit, unit, .. } = self.said;
        let decision = self.decided.as_ref().map(AdhocDecided::decision);
        let passes = decision.is_some_and(|it| it.verdict.passes());
        let remaining = decision.map_or(0, |it| it.remaining);
        let limit = RateLimit {
            name: OVERRIDE.to_owned(),
            requests_per_unit,
            unit: answer::to_proto(unit).into(),
        };
        answer::limited(passes, limit, remaining, answer::window_left(unit, now))
    }
}

async fn give_back(together: &mut Joint) {
    for admission in &mut together.each {
        admission.refund().await;
    }
}

pub(super) fn no_store() -> Status {
    Status::unavailable("the store does not answer: nothing was decided")
}

fn status(admission: &Admission) -> DescriptorStatus {
    let passes = admission.verdict().passes();
    let Some(closest) = admission.speaks() else {
        return DescriptorStatus { code: answer::code(passes), ..DescriptorStatus::default() };
    };
    let limit = RateLimit {
        name: closest.name(),
        requests_per_unit: closest.decision.limit,
        unit: answer::unit_of(closest.window).into(),
    };
    answer::limited(passes, limit, closest.decision.remaining, closest.decision.reset_after)
}

/// The fields of all: lists are joined, and the rest are those of the admission that refuses, or is
/// closest to refusing.
fn fields(admissions: &[Admission]) -> Vec<HeaderValue> {
    let [rest @ .., _] = admissions else { return Vec::new() };
    let speaks = admissions.iter().min_by_key(|it| {
        let wait = match it.verdict() {
            Verdict::Deny { retry_after } => retry_after,
            _ => tidegate_core::Span::ZERO,
        };
        (it.verdict().passes(), std::cmp::Reverse(wait), it.decision().remaining)
    });
    let Some(speaks) = speaks else { return Vec::new() };
    let mut fields: Vec<HeaderValue> = Vec::with_capacity(8);
    speaks.fields(|name, value| fields.push(field(name.name(), value.to_owned())));
    if rest.is_empty() {
        return fields;
    }
    for other in admissions.iter().filter(|it| !std::ptr::eq(*it, speaks)) {
        other.fields(|name, value| {
            if matches!(name, Field::RateLimit | Field::RateLimitPolicy) {
                join(&mut fields, name.name(), value);
            }
        });
    }
    fields
}

fn join(fields: &mut Vec<HeaderValue>, name: &str, value: &str) {
    match fields.iter_mut().find(|it| it.key == name) {
        None => fields.push(field(name, value.to_owned())),
        Some(known) => {
            for item in value.split(", ") {
                if !known.value.split(", ").any(|it| it == item) {
                    known.value.push_str(", ");
                    known.value.push_str(item);
                }
            }
        }
    }
}
