//! Many requests at once: all are sent before the first is waited for.

use tidegate_core::{Decision, Tick};

use super::{FleetCharge, Judged, RedisStore, no_decision};
use crate::call::Request;
use crate::failure::StoreError;
use crate::gather::{Answer, Decided, Reply};
use crate::plan::Does;

/// One of many: on its way, or judged already.
pub(crate) enum Flying<F> {
    Asked(Request, F),
    Judged(Result<Judged, StoreError>),
}

impl RedisStore {
    /// The most requests of a batch that are on their way at a time.
    pub(crate) const BATCH_MAX: usize = 1_024;

    /// Decides many requests, each by itself, in as few calls as they fit.
    pub async fn decide_batch(
        &self,
        charges: &[FleetCharge<'_>],
    ) -> Vec<Result<Decision, StoreError>> {
        let mut decisions = Vec::with_capacity(charges.len());
        for charges in charges.chunks(RedisStore::BATCH_MAX) {
            let deadline = self.deadline();
            let flying: Vec<_> = charges.iter().map(|it| self.send(it, deadline)).collect();
            for flight in flying {
                let judged = self.land(flight, deadline).await;
                decisions.push(judged.map(|judged| judged.into_first().decision));
            }
        }
        decisions
    }

    /// Sends one of many, or answers it at once.
    pub(crate) fn send(
        &self,
        charge: &FleetCharge<'_>,
        deadline: Tick,
    ) -> Flying<impl Future<Output = Answer> + use<>> {
        let charge = std::slice::from_ref(charge);
        if let Some(refused) = self.remembered(charge) {
            return Flying::Judged(Ok(refused));
        }
        let request = self.request(Does::Decide, charge);
        match self.gather.submit(request.clone(), deadline) {
            Ok(answer) => Flying::Asked(request, answer),
            Err(error) => Flying::Judged(Err(error)),
        }
    }

    /// Waits for one of many.
    pub(crate) async fn land(
        &self,
        flight: Flying<impl Future<Output = Answer>>,
        deadline: Tick,
    ) -> Result<Judged, StoreError> {
        let judged = match flight {
            Flying::Judged(judged) => judged,
            Flying::Asked(request, answer) => {
                self.landed(request, answer.await, deadline).await.map(Judged::from)
            }
        };
        self.gather.tally().hears(judged)
    }

    /// What an answer means; states that are elsewhere are carried over, and it is asked again.
    pub(super) async fn landed(
        &self,
        request: Request,
        answer: Answer,
        deadline: Tick,
    ) -> Result<Decided, StoreError> {
        match answer? {
            Reply::Decided(decided) => Ok(decided),
            Reply::Elsewhere { judged, kept } => {
                self.carry(&request, (judged, kept), deadline).await?;
                self.ask(request, deadline).await
            }
            Reply::Debited(_) | Reply::Renewed(_) | Reply::Refunded(_) => Err(no_decision()),
        }
    }
}
