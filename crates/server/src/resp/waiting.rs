//! Replies that have to wait for the store, and their places among those that do not.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tidegate_gate::{AdhocLimit, Admit, DecideAdhoc, Resetting, StoreFailure};

use super::check;
use super::reply::{Protocol, Reply};
use super::throttle::Dialect;
use crate::trace::Notes;

/// A reply that is not there yet.
#[derive(Debug)]
pub(super) struct Waiting {
    /// Where it belongs among the bytes of those that are.
    at: usize,
    pending: Pending,
}

#[derive(Debug)]
pub(super) enum Pending {
    Admit(Admit, Protocol),
    /// With its limit and its cost, if it is traced.
    Plain(DecideAdhoc, Dialect, Option<(AdhocLimit, u32)>),
    Reset(Resetting, Protocol),
    Told(Vec<u8>),
}

impl Waiting {
    /// Something whose reply comes after what is in `out`.
    pub(super) fn new(out: &[u8], pending: Pending) -> Waiting {
        Waiting { at: out.len(), pending }
    }
}

/// Whether anybody waits for a turn.
pub(super) fn any_turn(waiting: &[Waiting]) -> bool {
    let awaits_turn =
        |it: &Waiting| matches!(&it.pending, Pending::Admit(it, _) if it.awaits_turn());
    waiting.iter().any(awaits_turn)
}

impl Pending {
    fn poll(&mut self, context: &mut Context<'_>, notes: &mut Notes<'_>) -> Poll<()> {
        let mut out = Vec::new();
        match self {
            Pending::Admit(admit, protocol) => {
                let admission = ready!(Pin::new(admit).poll(context));
                notes.admission(&admission);
                check::write(&admission, &mut Reply::new(&mut out, *protocol));
            }
            Pending::Plain(asked, dialect, told) => {
                let decided = ready!(Pin::new(asked).poll(context));
                if let (Some((limit, cost)), Some(decision)) = (told, decided.each.first()) {
                    notes.plain(limit.name(), decision, decided.by, *cost);
                }
                let mut reply = Reply::new(&mut out, Protocol::Two);
                match decided.each.first() {
                    Some(decision) => dialect.write(decision, &mut reply),
                    None => reply.error("ERR nothing was decided"),
                }
            }
            Pending::Reset(resetting, protocol) => {
                let done = ready!(Pin::new(resetting).poll(context));
                write_reset(&done, &mut Reply::new(&mut out, *protocol));
            }
            Pending::Told(_) => return Poll::Ready(()),
        }
        *self = Pending::Told(out);
        Poll::Ready(())
    }
}

/// The names of the limits that were reset.
pub(super) fn write_reset(done: &Result<Vec<String>, StoreFailure>, reply: &mut Reply<'_>) {
    match done {
        Ok(names) => {
            reply.array(names.len());
            for name in names {
                reply.text(name);
            }
        }
        Err(failure) => reply.error(&format!("ERR {failure}")),
    }
}

/// Waits for all of them at once, and puts their replies where they belong.
pub(super) async fn settle(mut waiting: Vec<Waiting>, out: &mut Vec<u8>, notes: &mut Notes<'_>) {
    poll_fn(|context| {
        let is_left = |it: &mut Waiting| it.pending.poll(context, notes).is_pending();
        let left = waiting.iter_mut().map(is_left).filter(|is_left| *is_left);
        if left.count() == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    let before = std::mem::take(out);
    let mut from = 0;
    for Waiting { at, pending } in waiting {
        out.extend_from_slice(&before[from..at]);
        from = at;
        if let Pending::Told(told) = pending {
            out.extend_from_slice(&told);
        }
    }
    out.extend_from_slice(&before[from..]);
}
