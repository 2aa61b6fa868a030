//! Judges all descriptors of a request as one: what is refused is charged to nothing.
//!
//! Limits in quota mode refuse only if all of them do. Which of them fit is only known when the
//! store is asked; so it is asked again without those that do not, until the rest fits.

use smallvec::SmallVec;
use tidegate_core::{Decision, Tick, Verdict};
use tidegate_gate::ratelimit_field::ShownLimit;
use tidegate_gate::{AdhocCharge, AdhocDecided, By, Gate};
use tonic::Status;

use super::EnvoyConfig;
use super::matched::{Limited, Matched, Mode, all};
use crate::rls::overrides::{Asked, ask, span};
use crate::rls::policy::no_store;
use crate::rls::proto::{DescriptorStatus, RateLimit, RateLimitRequest, RateLimitResponse};
use crate::rls::{RateLimits, answer, fields, metadata};
use crate::trace::Notes;

/// What has been decided so far.
struct Judging<'j, 'a> {
    gate: &'j Gate,
    matched: &'j [Matched<'a>],
    /// For each descriptor what its limit said last.
    said: SmallVec<[Option<Decision>; 4]>,
    by: By,
    now: Tick,
}

impl EnvoyConfig {
    pub(crate) async fn decide(
        &self,
        limits: &RateLimits,
        request: &RateLimitRequest,
        notes: &mut Notes<'_>,
    ) -> Result<RateLimitResponse, Status> {
        let config = self.current.load_full();
        let matched = all(limits, &config, request);
        let mut judging = Judging {
            gate: &self.gate,
            matched: &matched,
            said: matched.iter().map(|_| None).collect(),
            by: By::Store,
            now: self.gate.now(),
        };
        let verdict = judging.judge().await;
        if judging.by.is_fallback() && limits.0.settings.without_store.is_none() {
            return Err(no_store());
        }
        judging.note(verdict, notes);
        Ok(judging.respond(limits, request, verdict))
    }
}

impl<'j, 'a> Judging<'j, 'a> {
    async fn judge(&mut self) -> Verdict {
        let verdict = self.enforced().await;
        // One by one: what does not fit in shadow is no reason for others not to be charged.
        for at in self.places(|it| it.mode == Mode::Shadow) {
            let _ = self.ask(&[at], verdict.passes()).await;
        }
        verdict
    }

    async fn enforced(&mut self) -> Verdict {
        let normal = self.places(|it| it.mode == Mode::Normal);
        let mut quotas = self.places(|it| it.mode == Mode::Quota);
        let has_quotas = !quotas.is_empty();
        let is_blocked = |it: &Limited<'_>| it.plain.is_none();
        let blocks = self.limited().any(|(_, it)| it.mode == Mode::Normal && is_blocked(it));
        if blocks {
            let everything: SmallVec<[usize; 4]> = normal.into_iter().chain(quotas).collect();
            let _ = self.ask(&everything, false).await;
            return Verdict::Never;
        }
        quotas.retain(|at| self.get(*at).is_some_and(|it| !is_blocked(it)));
        loop {
            if has_quotas && quotas.is_empty() {
                return self.refused_by_quotas(&normal).await;
            }
            let asked: SmallVec<[usize; 4]> = normal.iter().chain(&quotas).copied().collect();
            if asked.is_empty() {
                return Verdict::Allow;
            }
            let verdict = self.ask(&asked, true).await;
            let passes = |at: &usize| self.said[*at].is_some_and(|it| it.verdict.passes());
            if verdict.passes() || !normal.iter().all(passes) {
                return verdict;
            }
            let before = quotas.len();
            let fit: SmallVec<[usize; 4]> = quotas.iter().copied().filter(passes).collect();
            quotas = fit;
            if quotas.len() == before {
                // Nobody refuses, but all together do: there are more than are judged at once.
                return verdict;
            }
        }
    }

    /// All quotas are used up: the answer has what the others would say, and nobody is charged.
    async fn refused_by_quotas(&mut self, normal: &[usize]) -> Verdict {
        let _ = self.ask(normal, false).await;
        let quotas = self.limited().filter(|(_, it)| it.mode == Mode::Quota);
        // It passes again as soon as one of them lets it.
        let waits = quotas.map(|(at, _)| self.said[at].map_or(Verdict::Never, |it| it.verdict));
        waits.fold(Verdict::Never, |soonest, verdict| match (soonest, verdict) {
            (Verdict::Deny { retry_after: a }, Verdict::Deny { retry_after: b }) => {
                Verdict::Deny { retry_after: a.min(b) }
            }
            (Verdict::Deny { .. }, _) => soonest,
            (_, it) => it,
        })
    }

    /// Asks the limits of these descriptors, and notes what they say.
    async fn ask(&mut self, places: &[usize], takes: bool) -> Verdict {
        let mut known: SmallVec<[usize; 4]> = SmallVec::new();
        let mut asked: SmallVec<[Asked<'_>; 4]> = SmallVec::new();
        for at in places {
            if let Some(it) = self.get(*at)
                && let Some(limit) = &it.plain
            {
                known.push(*at);
                let charge = AdhocCharge { limit, key: &it.key, cost: it.cost };
                asked.push(Asked { charge, own: it.own() });
            }
        }
        if asked.is_empty() {
            return Verdict::Allow;
        }
        let AdhocDecided { verdict, by, now, each } = ask(self.gate, &asked, takes).await;
        for (at, decision) in known.into_iter().zip(each) {
            self.said[at] = Some(decision);
        }
        if by.is_fallback() {
            self.by = by;
        }
        self.now = now;
        verdict
    }

    fn note(&self, verdict: Verdict, notes: &mut Notes<'_>) {
        self.limited().for_each(|(_, it)| notes.rule(it.shown));
        let cost = self.limited().map(|(_, it)| it.cost).max();
        notes.decided(verdict, self.by, cost.unwrap_or(0));
    }

    fn get(&self, at: usize) -> Option<&'j Limited<'a>> {
        match self.matched.get(at)? {
            Matched::Limited(limited) => Some(limited),
            Matched::Free | Matched::Unlimited(_) => None,
        }
    }

    fn limited(&self) -> impl Iterator<Item = (usize, &'j Limited<'a>)> {
        (0..self.matched.len()).filter_map(|at| Some((at, self.get(at)?)))
    }

    fn places(&self, wanted: impl Fn(&Limited<'_>) -> bool) -> SmallVec<[usize; 4]> {
        self.limited().filter(|(_, it)| wanted(it)).map(|(at, _)| at).collect()
    }

    fn respond(
        &self,
        limits: &RateLimits,
        request: &RateLimitRequest,
        verdict: Verdict,
    ) -> RateLimitResponse {
        let settings = &limits.0.settings;
        let shown = self.limited().filter(|(_, it)| it.mode != Mode::Shadow);
        let shown: SmallVec<[(Verdict, ShownLimit<'_>); 4]> =
            shown.map(|(at, it)| self.shown(it, self.said[at])).collect();
        RateLimitResponse {
            overall_code: answer::code(verdict.passes()),
            statuses: self.matched.iter().enumerate().map(|(at, it)| self.status(at, it)).collect(),
            response_headers_to_add: fields::of(settings.fields, &shown, verdict),
            dynamic_metadata: settings.dynamic_metadata.then(|| self.metadata(request)),
            ..RateLimitResponse::default()
        }
    }

    /// What a limit said, and what clients see of it.
    fn shown<'t>(&self, it: &'t Limited<'_>, said: Option<Decision>) -> (Verdict, ShownLimit<'t>) {
        let said = said.unwrap_or(Decision::of_no_limit(Verdict::Never));
        let reset_after = answer::window_left(it.unit, self.now);
        let shown = ShownLimit {
            name: it.shown,
            quota: it.requests_per_unit,
            window: span(it.unit),
            unit: None,
            limit: it.requests_per_unit,
            remaining: said.remaining,
            reset_after,
            reset_at: self.now.after(reset_after),
        };
        (said.verdict, shown)
    }

    fn status(&self, at: usize, matched: &Matched<'_>) -> DescriptorStatus {
        match matched {
            Matched::Free => answer::free(),
            Matched::Unlimited(_) => {
                DescriptorStatus { limit_remaining: u32::MAX, ..answer::free() }
            }
            Matched::Limited(it) => {
                let passes = self.said[at].is_some_and(|said| said.verdict.passes());
                let limit = RateLimit {
                    name: it.name.to_owned(),
                    requests_per_unit: it.requests_per_unit,
                    unit: answer::to_proto(it.unit).into(),
                };
                let remaining = self.said[at].map_or(0, |said| said.remaining);
                let reset_after = answer::window_left(it.unit, self.now);
                answer::limited(passes || it.mode == Mode::Shadow, limit, remaining, reset_after)
            }
        }
    }

    fn metadata(&self, request: &RateLimitRequest) -> prost_types::Struct {
        let lets_pass = |(at, it): &(usize, &Limited<'_>)| {
            let passes = self.said[*at].is_some_and(|said| said.verdict.passes());
            passes || it.mode == Mode::Shadow
        };
        let passed = self.limited().filter(lets_pass).filter_map(|(_, it)| it.limit);
        let passed: Vec<_> = passed.map(|limit| &limit.metadata).collect();
        let names = self.matched.iter().filter_map(|matched| match matched {
            Matched::Free => None,
            Matched::Unlimited(limit) => limit.name.as_deref().map(str::to_owned),
            Matched::Limited(it) => Some(it.shown.to_owned()),
        });
        metadata::of(request, names, &passed)
    }
}
