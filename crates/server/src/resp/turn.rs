//! One turn of a connection: every complete command that was read, up to a bound.
//!
//! It is not async: with the store in this process all is said when it is over, and the future of
//! a connection does not have to hold any of it.

use super::batch::Batch;
use super::command::Command;
use super::frame::{Found, Frames, Misframed};
use super::refused::Refused;
use super::session::{After, Session};
use super::throttle::{Known, Throttle};
use super::waiting::Waiting;
use crate::desk::Desk;
use crate::limits::{
    RESP_REPLY_BYTES_MAX, RESP_TURN_CHECKS_MAX, RESP_TURN_COMMANDS_MAX, RESP_TURN_WAITING_MAX,
};
use crate::trace::Notes;

/// All that a connection remembers between two turns.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) session: Session,
    frames: Frames,
    known: Known,
}

/// What came of a turn.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Bytes of input that are dealt with.
    pub(super) used: usize,
    /// Commands that were complete.
    pub(super) commands: usize,
    /// Whether there may be more in what was read.
    pub(super) is_cut: bool,
    /// Whether the connection ends when the replies are written.
    pub(super) ends: Option<Ending>,
    /// Replies that are not there yet.
    pub(super) waiting: Vec<Waiting>,
    /// Checks among them that were decided here, each at the price of many other commands.
    checks: usize,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Ending {
    Misframed(Misframed),
    Quit,
}

/// What to do with a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Next {
    /// It is dealt with.
    Done,
    /// It has to see what those before it did: not in this turn.
    Later,
    /// It was the last.
    Ends,
}

impl Conversation {
    pub(super) fn new(session: Session) -> Conversation {
        Conversation { session, frames: Frames::default(), known: Known::default() }
    }

    /// Whether a command has come in part, of which nothing is kept.
    pub(super) fn is_passing(&self) -> bool {
        self.frames.is_passing()
    }

    /// Answers what is complete in `input`, in order.
    pub(super) fn turn(
        &mut self,
        desk: &Desk,
        input: &[u8],
        out: &mut Vec<u8>,
        notes: &mut Notes<'_>,
    ) -> Turn {
        let mut turn = Turn::default();
        let mut batch = Batch::default();
        while turn.ends.is_none() && !turn.is_cut {
            if turn.is_full(batch.len(), out.len()) {
                turn.is_cut = turn.used < input.len();
                break;
            }
            let frame = match self.frames.next(&input[turn.used..]) {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(misframed) => {
                    turn.ends = Some(Ending::Misframed(misframed));
                    break;
                }
            };
            let command = match &frame.found {
                Found::Command(arguments) => Command::read(arguments),
                Found::Part => {
                    turn.used += frame.used;
                    continue;
                }
                Found::TooLong(excess) => Err(Refused::new(format!("ERR {excess}"))),
            };
            let is_check = matches!(command, Ok(Command::Check(_) | Command::Peek(_)));
            let waiting = turn.waiting.len();
            match self.next(desk, command, &mut batch, out, &mut turn.waiting, notes) {
                Next::Done if is_check && turn.waiting.len() == waiting => turn.checks += 1,
                Next::Done => {}
                Next::Later => {
                    turn.is_cut = true;
                    break;
                }
                Next::Ends => turn.ends = Some(Ending::Quit),
            }
            turn.used += frame.used;
            turn.commands += 1;
        }
        batch.decide(&desk.gate, &self.known, out, &mut turn.waiting, notes);
        if let Some(Ending::Misframed(misframed)) = turn.ends
            && misframed != Misframed::CrossProtocol
        {
            self.session.reply(out).error(&format!("ERR {misframed}"));
        }
        turn
    }

    #[inline]
    fn next<'a>(
        &mut self,
        desk: &Desk,
        command: Result<Command<'a>, Refused>,
        batch: &mut Batch<'a>,
        out: &mut Vec<u8>,
        waiting: &mut Vec<Waiting>,
        notes: &mut Notes<'_>,
    ) -> Next {
        if let Ok(Command::Throttle(throttle)) = &command
            && throttle.quantity != 0
            && self.session.role.is_some()
            && let Some(limit) = self.known.find(&throttle.parameters)
        {
            if batch.is_full() {
                batch.decide(&desk.gate, &self.known, out, waiting, notes);
            }
            batch.push(limit, throttle);
            return Next::Done;
        }
        batch.decide(&desk.gate, &self.known, out, waiting, notes);
        match command {
            Ok(command) if sees_what_was_done(&command) && !waiting.is_empty() => Next::Later,
            // Blank lines ask for nothing.
            Ok(Command::Blank) => Next::Done,
            Ok(Command::Throttle(throttle)) => {
                if let Err(refused) = self.throttle(desk, &throttle, batch, out) {
                    self.session.reply(out).error(&refused.0);
                }
                Next::Done
            }
            Ok(command) => match self.session.answer(desk, command, out, waiting, notes) {
                After::GoesOn => Next::Done,
                After::Ends => Next::Ends,
            },
            Err(refused) => {
                self.session.reply(out).error(&refused.0);
                Next::Done
            }
        }
    }

    /// A limit that is new to this connection, or one that is only looked at. Where there is no
    /// room for it, it refuses: an error would let some through.
    #[cold]
    fn throttle<'a>(
        &mut self,
        desk: &Desk,
        throttle: &Throttle<'a>,
        batch: &mut Batch<'a>,
        out: &mut Vec<u8>,
    ) -> Result<(), Refused> {
        self.session.permitted(&Command::Throttle(*throttle))?;
        if let Some(limit) = self.known.find(&throttle.parameters) {
            batch.push(limit, throttle);
            return Ok(());
        }
        let Session { caller, visitor, .. } = self.session;
        let caller = desk.holds_for(caller, visitor.peer, throttle.key);
        match self.known.learn(desk, caller, throttle.parameters)? {
            Some(limit) => batch.push(limit, throttle),
            None => throttle.parameters.refuse(&mut self.session.reply(out)),
        }
        Ok(())
    }
}

/// Whether its answer depends on commands before it that Redis has not yet been asked about.
fn sees_what_was_done(command: &Command<'_>) -> bool {
    match command {
        Command::Throttle(throttle) => throttle.quantity == 0,
        Command::Check(asked) => asked.ask.cost == Some(0),
        Command::Peek(_) | Command::ResetKeys(_) => true,
        _ => false,
    }
}

impl Turn {
    fn is_full(&self, batched: usize, reply_bytes: usize) -> bool {
        RESP_TURN_COMMANDS_MAX <= self.commands
            || RESP_TURN_CHECKS_MAX <= self.checks
            || RESP_TURN_WAITING_MAX <= self.waiting.len() + batched && !self.waiting.is_empty()
            || RESP_REPLY_BYTES_MAX <= reply_bytes
    }
}

#[cfg(test)]
mod tests;
