//! A span that is over, and how it is sent to a collector.

use std::borrow::Cow;

use ring::rand::{SecureRandom as _, SystemRandom};
use tidegate_core::Tick;

use super::notes::Noted;
use super::parent::Parent;
use super::wire::{self, KeyValue};

/// Names of a span, of its trace and of its parent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Ids {
    trace: [u8; 16],
    span: [u8; 8],
    parent: Option<[u8; 8]>,
}

/// How a request ended.
#[derive(Debug)]
pub(crate) struct Ending {
    /// What was asked for: one of few.
    pub(crate) name: Cow<'static, str>,
    pub(crate) begun: Tick,
    pub(crate) ended: Tick,
    pub(crate) outcome: Outcome,
}

/// What came of a request, by door.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    Http { status: u16 },
    Grpc { code: i32 },
    Resp { commands: u64 },
}

/// A span that is over.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) ids: Ids,
    pub(super) noted: Noted,
    pub(super) ending: Ending,
}

impl Ids {
    /// A new span below this parent, or of a trace of its own; none, should the system have no
    /// random numbers.
    pub(super) fn of(parent: Option<Parent>) -> Option<Ids> {
        let span = random()?;
        Some(match parent {
            Some(parent) => Ids { trace: parent.trace, span, parent: Some(parent.span) },
            None => Ids { trace: random()?, span, parent: None },
        })
    }
}

/// Random bytes. All zeros would name nothing.
pub(super) fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).ok()?;
    (bytes != [0; N]).then_some(bytes)
}

impl Outcome {
    const fn door(self) -> &'static str {
        match self {
            Outcome::Http { .. } => "http",
            Outcome::Grpc { .. } => "grpc",
            Outcome::Resp { .. } => "resp",
        }
    }

    fn attribute(self) -> KeyValue {
        match self {
            Outcome::Http { status } => KeyValue::int("http.response.status_code", status.into()),
            Outcome::Grpc { code } => KeyValue::int("rpc.grpc.status_code", code.into()),
            Outcome::Resp { commands } => KeyValue::int("tidegate.commands", clamped(commands)),
        }
    }

    /// Whether it is our fault that nothing was decided: by OpenTelemetry's list for servers.
    const fn is_error(self) -> bool {
        match self {
            Outcome::Http { status } => 500 <= status,
            Outcome::Grpc { code } => matches!(code, 2 | 4 | 12 | 13 | 14 | 15),
            Outcome::Resp { .. } => false,
        }
    }
}

impl Finished {
    pub(super) fn into_wire(self) -> wire::Span {
        let Finished { ids, noted, ending } = self;
        let Ending { name, begun, ended, outcome } = ending;
        let remote = if ids.parent.is_some() { wire::PARENT_IS_REMOTE } else { 0 };
        let error = || wire::Status { message: String::new(), code: wire::STATUS_ERROR };
        wire::Span {
            trace_id: ids.trace.to_vec(),
            span_id: ids.span.to_vec(),
            parent_span_id: ids.parent.map(Vec::from).unwrap_or_default(),
            name: name.into_owned(),
            kind: wire::KIND_SERVER,
            start_time_unix_nano: begun.get().saturating_mul(1_000),
            end_time_unix_nano: ended.get().max(begun.get()).saturating_mul(1_000),
            attributes: attributes(noted, outcome),
            status: outcome.is_error().then(error),
            flags: wire::SAMPLED | wire::PARENT_IS_KNOWN | remote,
        }
    }
}

fn attributes(noted: Noted, outcome: Outcome) -> Vec<KeyValue> {
    let mut attributes = vec![KeyValue::text("tidegate.door", outcome.door()), outcome.attribute()];
    if let Some(said) = noted.said {
        let word = |(name, word)| KeyValue::text(&format!("tidegate.{name}"), word);
        attributes.extend(said.words.map(word));
        attributes.extend([
            KeyValue::int("tidegate.cost", clamped(noted.cost)),
            KeyValue::int("tidegate.decisions", clamped(noted.decisions)),
            KeyValue::texts("tidegate.rules", noted.rules),
        ]);
    }
    attributes
}

fn clamped(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
