//! Takes spans from the queue and sends them on, in batches, beside everything else.
//!
//! What cannot be sent is counted and forgotten: a span is not worth the memory to try again.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Tick;
use tidegate_store::{Clock as _, SystemClock};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::send::{Collector, SendError};
use super::span::{Finished, random};
use super::wire::{
    ExportTraceServiceRequest, KeyValue, Resource, ResourceSpans, Scope, ScopeSpans,
};
use super::{TraceSettings, Traces};
use crate::limits;
use crate::metrics::SpanCounts;

/// Sends spans on, once it has begun.
#[derive(Debug)]
pub(crate) struct Exporter {
    collector: Collector,
    queued: mpsc::Receiver<Finished>,
    counts: Arc<SpanCounts>,
    resource: Resource,
    complained: Option<Tick>,
    hint: &'static str,
}

/// What sends spans on, until it is stopped.
#[derive(Debug)]
pub(crate) struct Exporting {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Exporter {
    /// Where requests leave their spans, and what sends them on.
    pub(crate) fn open(
        settings: TraceSettings,
        counts: &Arc<SpanCounts>,
    ) -> Result<(Traces, Exporter), rustls::Error> {
        let (traces, queued) = Traces::open(settings.share, Arc::clone(counts));
        let hint = settings.endpoint.hint();
        let exporter = Exporter {
            collector: Collector::new(settings.endpoint)?,
            queued,
            counts: Arc::clone(counts),
            resource: resource(),
            complained: None,
            hint,
        };
        Ok((traces, exporter))
    }

    /// Begins to send.
    pub(crate) fn begin(self) -> Exporting {
        let (stop, stopped) = oneshot::channel();
        Exporting { stop, task: tokio::spawn(self.run(stopped)) }
    }

    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        let mut batch = Vec::new();
        let mut is_stopped = false;
        loop {
            tokio::select! {
                () = gather(&mut self.queued, &mut batch) => {
                    // Nobody adds to it any more, and nothing is left.
                    if is_stopped && batch.is_empty() {
                        return;
                    }
                }
                _ = &mut stopped, if !is_stopped => {
                    is_stopped = true;
                    self.queued.close();
                }
            }
            if !batch.is_empty() {
                self.export(std::mem::take(&mut batch)).await;
            }
        }
    }

    async fn export(&mut self, batch: Vec<Finished>) {
        let count = batch.len() as u64;
        let spans = batch.into_iter().map(Finished::into_wire).collect();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let scope = Some(Scope { name: "tidegate".to_owned(), version });
        let scope_spans = vec![ScopeSpans { scope, spans }];
        let spans = ResourceSpans { resource: Some(self.resource.clone()), scope_spans };
        let request = ExportTraceServiceRequest { resource_spans: vec![spans] };
        match self.collector.send(&request).await {
            Ok(rejected) => {
                let rejected = rejected.min(count);
                self.counts.exported(count - rejected);
                self.counts.failed(rejected);
            }
            Err(error) => {
                self.counts.failed(count);
                self.complain(&error, count);
            }
        }
    }

    /// Says what is wrong, but not again and again.
    fn complain(&mut self, error: &SendError, spans: u64) {
        let now = SystemClock::new().now();
        let every = limits::TRACE_COMPLAIN_EVERY;
        let is_soon = |last: Tick| Duration::from_micros(now.since(last).get()) < every;
        if self.complained.is_some_and(is_soon) {
            return;
        }
        self.complained = Some(now);
        let hint = self.hint;
        tracing::warn!(spans, "the collector of traces did not take them: {error}{hint}");
    }
}

/// Takes what is queued: a whole batch, or what has come a second after the first.
async fn gather(queued: &mut mpsc::Receiver<Finished>, batch: &mut Vec<Finished>) {
    const MOST: usize = limits::TRACE_BATCH_MAX;
    queued.recv_many(batch, MOST).await;
    let more = async {
        while batch.len() < MOST && queued.recv_many(batch, MOST - batch.len()).await != 0 {}
    };
    let _ = timeout(limits::TRACE_EXPORT_EVERY, more).await;
}

impl Exporting {
    /// Sends what is left, as far as there is time for it.
    pub(crate) async fn end(mut self) {
        drop(self.stop);
        if timeout(limits::TRACE_FLUSH_TIME, &mut self.task).await.is_err() {
            self.task.abort();
            tracing::warn!("the last spans were not exported: the collector was too slow");
        }
    }
}

/// What is said of this process.
fn resource() -> Resource {
    let mut attributes = vec![
        KeyValue::text("service.name", "tidegate"),
        KeyValue::text("service.version", env!("CARGO_PKG_VERSION")),
    ];
    if let Some(id) = random::<16>() {
        attributes.push(KeyValue::text("service.instance.id", &uuid(id)));
    }
    Resource { attributes }
}

/// A random UUID, of version 4.
fn uuid(bytes: [u8; 16]) -> String {
    let bits = u128::from_be_bytes(bytes) & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{bits:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::super::{Ending, Outcome};
    use super::*;

    /// Many spans for a collector that never answers.
    #[tokio::test]
    async fn stopping_waits_for_a_silent_collector_but_not_for_long() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let at = silent.local_addr().expect("it is bound");
        let endpoint = format!("http://{at}").parse().expect("an endpoint");
        let settings = TraceSettings { endpoint, share: "1".parse().expect("a share") };
        let counts = Arc::default();
        let (traces, exporter) = Exporter::open(settings, &counts).expect("no TLS is needed");
        for second in 0..limits::TRACE_QUEUE_MAX as u64 {
            let at = Tick::from_micros(second * 1_000_000);
            let outcome = Outcome::Resp { commands: 1 };
            let ending = || Ending { name: "PING".into(), begun: at, ended: at, outcome };
            traces.end(traces.begin(at), ending);
        }
        let (exporting, clock) = (exporter.begin(), SystemClock::new());
        let before = clock.now();
        exporting.end().await;
        let took = Duration::from_micros(clock.now().since(before).get());
        // Eight exports would take 24 s.
        assert!(took < 2 * limits::TRACE_FLUSH_TIME, "{took:?}");
        let (most, read) = (limits::TRACE_BATCH_MAX as u64, counts.read());
        assert_eq!((read.exported, read.failed), (0, most), "one was tried, to its end");
    }

    #[test]
    fn an_instance_is_named_by_a_uuid() {
        assert_eq!(uuid([0xff; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(uuid([0; 16]), "00000000-0000-4000-8000-000000000000");
    }
}
