//! Traces: one span for each sampled request at a door, for a collector that speaks OTLP.
//!
//! Whether a request is traced is decided before anything is done for it: by one draw, and one look
//! for its caller's header where there can be one. For the rest nothing is built or allocated.

mod endpoint;
mod export;
mod notes;
mod parent;
mod sample;
mod send;
mod span;
mod wire;

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use tidegate_core::Tick;
use tokio::sync::mpsc;

use crate::limits;
use crate::metrics::SpanCounts;

pub use self::endpoint::{BadEndpoint, TraceEndpoint};
pub(crate) use self::export::Exporter;
pub(crate) use self::notes::{Noted, Notes};
pub use self::sample::{BadShare, TraceShare};
pub(crate) use self::span::{Ending, Outcome};

use self::parent::Parent;
use self::sample::Cap;
use self::span::{Finished, Ids};

/// Where spans go, and of how many requests.
#[derive(Clone, Debug)]
pub struct TraceSettings {
    /// The collector.
    pub endpoint: TraceEndpoint,
    /// The share of requests without a parent that are traced.
    pub share: TraceShare,
}

/// Decides which requests are traced, and takes their spans. By default there are none.
#[derive(Debug, Default)]
pub(crate) struct Traces(Option<On>);

#[derive(Debug)]
struct On {
    share: TraceShare,
    /// Spans that callers ask for, and spans that we choose: neither crowds out the other.
    followed: Cap,
    chosen: Cap,
    queue: mpsc::Sender<Finished>,
    counts: Arc<SpanCounts>,
}

/// A request that is traced, or one that is not.
#[derive(Debug, Default)]
pub(crate) struct Traced(Option<Box<Open>>);

#[derive(Debug)]
struct Open {
    ids: Ids,
    noted: Noted,
}

/// Where a caller says of which trace its request is a part.
static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

impl Traces {
    /// Takes spans of this share of requests from now on.
    fn open(share: TraceShare, counts: Arc<SpanCounts>) -> (Traces, mpsc::Receiver<Finished>) {
        let (queue, queued) = mpsc::channel(limits::TRACE_QUEUE_MAX);
        let (followed, chosen) = (Cap::default(), Cap::default());
        (Traces(Some(On { share, followed, chosen, queue, counts })), queued)
    }

    /// A request that begins, from a caller that may say of which trace it is a part.
    #[inline]
    pub(crate) fn begin_of(&self, begun: Tick, headers: &HeaderMap) -> Traced {
        let said = || headers.get(&TRACEPARENT).map(HeaderValue::as_bytes);
        self.0
            .as_ref()
            .map_or_else(Traced::default, |on| on.begin(begun, said(), || parent(headers)))
    }

    /// A request that begins, from a caller that says at most once of which trace it is a part.
    #[inline]
    pub(crate) fn begin_by(&self, begun: Tick, said: Option<&[u8]>) -> Traced {
        let parent = || said.and_then(Parent::read);
        self.0.as_ref().map_or_else(Traced::default, |on| on.begin(begun, said, parent))
    }

    /// A request that begins, where nobody can say so.
    #[inline]
    pub(crate) fn begin(&self, begun: Tick) -> Traced {
        self.0.as_ref().map_or_else(Traced::default, |on| on.begin(begun, None, || None))
    }

    /// A request that has ended. Should there be no room for its span, that is dropped.
    #[inline]
    pub(crate) fn end(&self, traced: Traced, ending: impl FnOnce() -> Ending) {
        if let (Some(open), Some(on)) = (traced.0, &self.0) {
            let Open { ids, noted } = *open;
            let span = Finished { ids, noted, ending: ending() };
            if on.queue.try_send(span).is_err() {
                on.counts.dropped(1);
            }
        }
    }
}

impl On {
    #[inline]
    fn begin(
        &self,
        begun: Tick,
        said: Option<&[u8]>,
        parent: impl FnOnce() -> Option<Parent>,
    ) -> Traced {
        let is_drawn = self.share.draws();
        // What is not drawn is only looked at further if its caller may want it.
        if !is_drawn && !said.is_some_and(Parent::may_be_sampled) {
            return Traced::default();
        }
        self.begin_slowly(begun, is_drawn, parent())
    }

    #[cold]
    fn begin_slowly(&self, begun: Tick, is_drawn: bool, parent: Option<Parent>) -> Traced {
        let (is_sampled, cap) = match &parent {
            Some(parent) => (parent.is_sampled, &self.followed),
            None => (is_drawn, &self.chosen),
        };
        if !is_sampled {
            return Traced::default();
        }
        if !cap.takes(begun) {
            self.counts.dropped(1);
            return Traced::default();
        }
        let open = |ids| Box::new(Open { ids, noted: Noted::default() });
        Traced(Ids::of(parent).map(open))
    }
}

/// What the caller says of its own span.
fn parent(headers: &HeaderMap) -> Option<Parent> {
    let mut said = headers.get_all(&TRACEPARENT).iter();
    // Who says two says nothing.
    let only = said.next().filter(|_| said.next().is_none());
    Parent::read(only?.as_bytes())
}

impl Traced {
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Where to note what is decided about it.
    pub(crate) fn notes(&mut self) -> Notes<'_> {
        Notes::new(self.0.as_mut().map(|open| &mut open.noted))
    }

    /// Takes over what was noted elsewhere.
    pub(crate) fn note(&mut self, noted: Option<Noted>) {
        if let (Some(open), Some(noted)) = (&mut self.0, noted) {
            open.noted = noted;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0102030405060708090a0b0c0d0e0f10-1112131415161718-01";

    fn traces(share: &str) -> (Traces, mpsc::Receiver<Finished>, Arc<SpanCounts>) {
        let counts = Arc::new(SpanCounts::default());
        let share = share.parse().expect("a share");
        let (traces, queued) = Traces::open(share, Arc::clone(&counts));
        (traces, queued, counts)
    }

    fn headers(parents: &[&str]) -> HeaderMap {
        let value = |it: &&str| (TRACEPARENT.clone(), it.parse().expect("a value"));
        parents.iter().map(value).collect()
    }

    fn second(seconds: u64) -> Tick {
        Tick::from_micros(seconds * 1_000_000)
    }

    fn ending() -> Ending {
        let (begun, ended) = (second(1), second(1));
        Ending { name: "check".into(), begun, ended, outcome: Outcome::Resp { commands: 1 } }
    }

    #[test]
    fn nothing_is_traced_unless_it_is_asked_for() {
        let traces = Traces::default();
        assert!(!traces.begin(second(1)).is_on());
        assert!(!traces.begin_of(second(1), &headers(&[PARENT])).is_on());
    }

    #[test]
    fn a_parent_counts_more_than_the_share() {
        let unsampled = PARENT.replace("-01", "-00");
        let malformed = PARENT.replace("00-01", "00-0G");
        for (share, said, expected) in [
            ("0", &[PARENT][..], true),
            ("1", &[&*unsampled], false),
            ("1", &[&*malformed], true),
            ("0", &[&*malformed], false),
            ("0", &[PARENT, PARENT], false),
            ("0", &[], false),
            ("1", &[], true),
        ] {
            let (all, ..) = traces(share);
            let traced = all.begin_of(second(1), &headers(said));
            assert_eq!(traced.is_on(), expected, "{share} {said:?}");
        }
    }

    #[test]
    fn callers_cannot_have_everything_traced() {
        let (traces, _queued, counts) = traces("1");
        let most = u64::from(limits::TRACE_SPANS_PER_SECOND_MAX);
        let parent = headers(&[PARENT]);
        let followed = |at| (0..most + 7).filter(|_| traces.begin_of(at, &parent).is_on()).count();
        assert_eq!(followed(second(5)) as u64, most);
        assert_eq!(counts.read().dropped, 7);
        assert!(traces.begin(second(5)).is_on(), "what we choose has room of its own");
        assert_eq!(followed(second(6)) as u64, most, "another second, another thousand");
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        let (traces, mut queued, counts) = traces("1");
        for at in 0..limits::TRACE_QUEUE_MAX as u64 + 3 {
            traces.end(traces.begin(second(at)), ending);
        }
        assert_eq!(counts.read().dropped, 3);
        assert_eq!(queued.len(), limits::TRACE_QUEUE_MAX);
        assert!(queued.try_recv().is_ok());
        traces.end(traces.begin(second(0)), ending);
        assert_eq!(counts.read().dropped, 3, "there is room again");
    }
}
