//! A fast path: answers whole checks itself, for as long as a connection sends nothing else.
//!
//! A reader may skip this folder: the general-purpose stack answers the same requests alike, which
//! `server/tests/http.rs` proves. That stack keeps buffers for every connection and polls each
//! request twice. Only decisions are answered here: with everything else, and with whatever is
//! wrong, the connection is handed over with what has been read, for good.

mod head;
mod rewound;

use std::fmt::Write as _;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use tidegate_core::Tick;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::SemaphorePermit;
use tokio::time::timeout;

use self::head::{Plain, Seen};
pub(super) use self::rewound::Rewound;
use super::route::Route;
use super::{HttpDoor, check};
use crate::auth::{Shown, Visitor};
use crate::limits;
use crate::listen::{self, Busy, Stream};
use crate::metrics::DoorName;
use crate::room::{Place, Room};
use crate::stop::Stop;
use crate::trace::{Ending, Outcome};

/// Serves a connection. What was read and not answered, if the general-purpose stack is to go on;
/// nothing, if the connection has ended.
pub(super) async fn serve<S: Stream>(
    door: &HttpDoor,
    stream: &mut S,
    visitor: Visitor,
    stop: &Stop,
    (room, busy): (&Arc<Room>, &Busy),
) -> Option<Vec<u8>> {
    let mut asked = stop.clone();
    let mut stopped = pin!(asked.asked());
    let (mut input, mut turn) = (Vec::new(), Turn::in_room(room));
    let mut has_rested = true;
    loop {
        let heard = poll_fn(|context| {
            if let Poll::Ready(more) = listen::poll_more(stream, context, &mut input) {
                return Poll::Ready(if more { Heard::More } else { Heard::End });
            }
            has_rested = true;
            // A silent connection holds little memory.
            for buffer in [&mut input, &mut turn.out, &mut turn.body] {
                if limits::HTTP_QUIET_BYTES_MAX < buffer.capacity() {
                    *buffer = Vec::new();
                }
            }
            stopped.as_mut().poll(context).map(|()| Heard::Stop)
        });
        match heard.await {
            Heard::More => {}
            Heard::End => return None,
            Heard::Stop => return Some(input),
        }
        let _answering = busy.begin()?;
        while !input.is_empty() {
            // A connection that goes on without a pause lets others have their turn first.
            let rested = std::mem::take(&mut has_rested);
            let slice = if rested { None } else { door.desk.turns.next().await };
            let answers = turn.answer(door, &input, visitor, stop);
            let (used, ahead) = unless_it_ends(stream, slice, answers).await?;
            timeout(door.desk.bounds.reply_time, turn.send(stream)).await.ok()?.ok()?;
            input.drain(..used);
            input.extend(ahead);
            if used == 0 && !is_completed(door, stream, &mut input, stop).await? {
                return Some(input);
            }
            has_rested |= used == 0;
        }
    }
}

/// Waits for answers, and gives up if the connection ends meanwhile. Its slice of time goes to
/// others as soon as it has to wait. What was read ahead comes with the answers.
async fn unless_it_ends<S: Stream, T>(
    stream: &mut S,
    mut slice: Option<SemaphorePermit<'_>>,
    answers: impl Future<Output = T>,
) -> Option<(T, Vec<u8>)> {
    let (mut answers, mut ahead) = (pin!(answers), Vec::new());
    poll_fn(|context| {
        if let Poll::Ready(done) = answers.as_mut().poll(context) {
            return Poll::Ready(Some((done, std::mem::take(&mut ahead))));
        }
        slice = None;
        while ahead.len() < limits::HTTP_QUIET_BYTES_MAX {
            match listen::poll_more(stream, context, &mut ahead) {
                Poll::Ready(true) => {}
                Poll::Ready(false) => return Poll::Ready(None),
                Poll::Pending => break,
            }
        }
        Poll::Pending
    })
    .await
}

/// Waits for the rest of a plain request. False if it is none, or does not come in time; nothing if
/// the connection has ended.
async fn is_completed<S: Stream>(
    door: &HttpDoor,
    stream: &mut S,
    input: &mut Vec<u8>,
    stop: &Stop,
) -> Option<bool> {
    if head::look(input) != Seen::Begun || stop.is_asked() {
        return Some(false);
    }
    // One deadline for all of it, however many bytes come meanwhile.
    let rest = async {
        while head::look(input) == Seen::Begun {
            if !poll_fn(|context| listen::poll_more(stream, context, input)).await {
                return None;
            }
        }
        Some(true)
    };
    timeout(door.desk.bounds.body_time, rest).await.unwrap_or(Some(false))
}

/// What a connection waits for.
enum Heard {
    End,
    More,
    Stop,
}

/// Answers on their way out.
#[derive(Debug)]
struct Turn {
    out: Vec<u8>,
    body: Vec<u8>,
    date: Date,
    /// Long answers have theirs here. The others are no more than a turn is.
    place: Place,
}

impl Turn {
    fn in_room(room: &Arc<Room>) -> Turn {
        Turn { out: Vec::new(), body: Vec::new(), date: Date::default(), place: room.nothing() }
    }

    /// Answers plain requests that `input` begins with, until others have their turn; how many
    /// bytes they are.
    async fn answer(
        &mut self,
        door: &HttpDoor,
        input: &[u8],
        visitor: Visitor,
        stop: &Stop,
    ) -> usize {
        let mut used = 0;
        // The last answer before a stop says that it is the last, which others know how to.
        while used < input.len()
            && self.out.len() < limits::HTTP_TURN_BYTES_MAX
            && !stop.is_asked()
            && let Seen::Plain(plain) = head::look(&input[used..])
            && self.answer_one(door, &plain, visitor).await
        {
            used += plain.len;
        }
        used
    }

    /// Answers a request; false, and nothing has happened, if what is to be said is no decision.
    async fn answer_one(&mut self, door: &HttpDoor, plain: &Plain<'_>, visitor: Visitor) -> bool {
        let (route, desk) = (Route::Check, &*door.desk);
        let token = route.token(plain.token, plain.authorization);
        let shown = Shown { visitor, token };
        if door.let_in(route, shown).is_err() {
            return false;
        }
        let begun = desk.metrics.begun();
        let mut traced = desk.traces.begin_by(begun, plain.traceparent);
        self.body.clear();
        let (notes, to) = (&mut traced.notes(), (&mut self.body, &mut self.place));
        if check::decide(desk, (plain.media_type, shown), plain.body, notes, to).await.is_err() {
            return false;
        }
        if self.place.is_long() {
            self.place.fit(self.out.len() + self.body.len());
        }
        let ended = desk.metrics.answered(DoorName::Http, begun, 1);
        desk.traces.end(traced, || {
            let name = route.span().unwrap_or_default().into();
            Ending { name, begun, ended, outcome: Outcome::Http { status: 200 } }
        });
        self.write(ended);
        true
    }

    async fn send<S: Stream>(&mut self, stream: &mut S) -> io::Result<()> {
        if !self.out.is_empty() {
            stream.write_all(&self.out).await?;
            stream.flush().await?;
            self.out.clear();
        }
        self.place.clear();
        Ok(())
    }

    fn write(&mut self, now: Tick) {
        const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
            cache-control: no-store\r\ncontent-length: ";
        self.out.reserve(HEAD.len() + DATE_BYTES + self.body.len());
        self.out.extend_from_slice(HEAD);
        let mut digits = itoa::Buffer::new();
        self.out.extend_from_slice(digits.format(self.body.len()).as_bytes());
        self.out.extend_from_slice(self.date.line_at(now).as_bytes());
        self.out.extend_from_slice(&self.body);
    }
}

/// The end of a head: the date, written anew once a second.
#[derive(Debug, Default)]
struct Date {
    second: u64,
    line: String,
}

impl Date {
    fn line_at(&mut self, now: Tick) -> &str {
        let second = now.get() / 1_000_000;
        if second != self.second {
            self.second = second;
            self.line.clear();
            let at = i64::try_from(second).ok().and_then(|it| Timestamp::from_second(it).ok());
            let date = at.and_then(|at| PRINTER.timestamp_to_rfc9110_string(&at).ok());
            let date = date.unwrap_or_default();
            write!(self.line, "\r\ndate: {date}\r\n\r\n").expect("a text takes every text");
        }
        &self.line
    }
}

static PRINTER: DateTimePrinter = DateTimePrinter::new();
/// More than the rest of a head takes.
const DATE_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_is_that_of_the_answer() {
        let mut date = Date::default();
        for (second, expected) in [
            (784_111_777, "\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n"),
            (784_111_778, "\r\ndate: Sun, 06 Nov 1994 08:49:38 GMT\r\n\r\n"),
        ] {
            assert_eq!(date.line_at(Tick::from_micros(second * 1_000_000 + 999_999)), expected);
        }
    }
}
