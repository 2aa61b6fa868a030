//! One client: which protocol it speaks, what it may do, what it calls itself.

use std::sync::atomic::Ordering;

use super::RespDoor;
use super::check::{self, Asked};
use super::command::{Command, Hello};
use super::refused::Refused;
use super::reply::{Protocol, Reply};
use super::tell;
use super::waiting::{self, Pending, Waiting};
use crate::auth::{Role, Visitor};
use crate::caller::Caller;
use crate::desk::Desk;
use crate::metrics::{DoorName, Stranger};
use crate::trace::Notes;

/// What is known of a client.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: u64,
    pub(super) visitor: Visitor,
    pub(super) protocol: Protocol,
    pub(super) role: Option<Role>,
    /// By the token that it has shown, if any.
    pub(super) caller: Caller,
    pub(super) name: Box<[u8]>,
}

/// Whether a connection goes on after a reply.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum After {
    GoesOn,
    Ends,
}

impl Session {
    pub(super) fn new(door: &RespDoor, visitor: Visitor) -> Session {
        Session::numbered(door.ids.fetch_add(1, Ordering::Relaxed), &door.desk, visitor)
    }

    /// As a connection begins.
    fn numbered(id: u64, desk: &Desk, visitor: Visitor) -> Session {
        let role = desk.guard.role(visitor, None);
        let caller = desk.guard.caller(visitor, None);
        Session { id, visitor, protocol: Protocol::Two, role, caller, name: Box::default() }
    }

    /// Answers a command that does not name its limit; what Redis has to say to it is waited for.
    pub(super) fn answer(
        &mut self,
        desk: &Desk,
        command: Command<'_>,
        out: &mut Vec<u8>,
        waiting: &mut Vec<Waiting>,
        notes: &mut Notes<'_>,
    ) -> After {
        let after = if command == Command::Quit { After::Ends } else { After::GoesOn };
        if let Err(refused) = self.carry_out(desk, command, out, waiting, notes) {
            self.reply(out).error(&refused.0);
        }
        after
    }

    fn carry_out(
        &mut self,
        desk: &Desk,
        command: Command<'_>,
        out: &mut Vec<u8>,
        waiting: &mut Vec<Waiting>,
        notes: &mut Notes<'_>,
    ) -> Result<(), Refused> {
        self.permitted(&command).inspect_err(|_| self.stranger(desk))?;
        match command {
            Command::Check(asked) => self.check(desk.gate.admit(&asked.ask), out, waiting, notes),
            Command::Peek(asked) => self.check(desk.gate.peek(&asked.ask), out, waiting, notes),
            Command::ResetKeys(asked) => self.reset_keys(desk, &asked, out, waiting),
            Command::Auth { token } => self.auth(desk, token, out)?,
            Command::Hello(hello) => self.hello(desk, &hello, out)?,
            other => self.tell(desk, other, out),
        }
        Ok(())
    }

    /// Counts a command that its client may not give.
    fn stranger(&self, desk: &Desk) {
        let why = if self.role.is_some() { Stranger::Role } else { Stranger::NoToken };
        desk.metrics.refused(DoorName::Resp, self.visitor.peer, why);
    }

    fn role_of(&self, desk: &Desk, token: &[u8]) -> Result<Role, Refused> {
        role_of(desk, token).inspect_err(|_| {
            desk.metrics.refused(DoorName::Resp, self.visitor.peer, Stranger::WrongToken);
        })
    }

    pub(super) fn reply<'o>(&self, out: &'o mut Vec<u8>) -> Reply<'o> {
        Reply::new(out, self.protocol)
    }

    /// Refuses what the client may not do. Without a role it may only say who it is, or go.
    pub(super) fn permitted(&self, command: &Command<'_>) -> Result<(), Refused> {
        match (self.role, command) {
            (_, Command::Auth { .. } | Command::Hello(_) | Command::Quit | Command::Reset)
            | (Some(Role::Admin), _) => Ok(()),
            (None, _) => Err(Refused::new("NOAUTH Authentication required.")),
            (Some(Role::Check), Command::ResetKeys(_)) => {
                let message = "NOPERM this needs an admin's token: AUTH with one";
                Err(Refused::new(message))
            }
            (Some(Role::Check), _) => Ok(()),
        }
    }

    fn check(
        &self,
        admit: tidegate_gate::Admit,
        out: &mut Vec<u8>,
        waiting: &mut Vec<Waiting>,
        notes: &mut Notes<'_>,
    ) {
        match admit.ready() {
            Ok(admission) => {
                notes.admission(&admission);
                check::write(&admission, &mut self.reply(out));
            }
            Err(admit) => waiting.push(Waiting::new(out, Pending::Admit(admit, self.protocol))),
        }
    }

    fn reset_keys(
        &self,
        desk: &Desk,
        asked: &Asked<'_>,
        out: &mut Vec<u8>,
        waiting: &mut Vec<Waiting>,
    ) {
        tracing::info!(client = %self.visitor.peer, rule = asked.rule, "keys are reset");
        match desk.gate.reset(&asked.ask, asked.rule).ready() {
            Ok(done) => waiting::write_reset(&done, &mut self.reply(out)),
            Err(later) => waiting.push(Waiting::new(out, Pending::Reset(later, self.protocol))),
        }
    }

    fn auth(&mut self, desk: &Desk, token: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
        self.role = Some(self.role_of(desk, token)?);
        self.caller = desk.guard.caller(self.visitor, Some(token));
        self.reply(out).simple("OK");
        Ok(())
    }

    /// Changes all that it says, or nothing.
    fn hello(&mut self, desk: &Desk, hello: &Hello<'_>, out: &mut Vec<u8>) -> Result<(), Refused> {
        let role = hello.token.map(|token| self.role_of(desk, token)).transpose()?.or(self.role);
        if role.is_none() {
            return Err(Refused::new(HELLO_WITHOUT_ROLE));
        }
        self.role = role;
        if let Some(token) = hello.token {
            self.caller = desk.guard.caller(self.visitor, Some(token));
        }
        self.protocol = hello.protocol.unwrap_or(self.protocol);
        if let Some(name) = hello.name {
            self.name = name.into();
        }
        tell::hello(self, &mut self.reply(out));
        Ok(())
    }

    /// Answers what only has to do with the connection itself.
    fn tell(&mut self, desk: &Desk, command: Command<'_>, out: &mut Vec<u8>) {
        if let Command::ClientNamed(name) = command {
            self.name = name.into();
        }
        if command == Command::Reset {
            *self = Session::numbered(self.id, desk, self.visitor);
        }
        let mut reply = self.reply(out);
        match command {
            Command::ClientId => reply.number(self.id),
            Command::ClientLine => reply.text(tell::client_line(self)),
            Command::ClientName if self.name.is_empty() => reply.null(),
            Command::ClientName => reply.text(&self.name),
            Command::Commands(listing) => tell::commands(&listing, &mut reply),
            Command::Echo(text) | Command::Ping(Some(text)) => reply.text(text),
            Command::Help => tell::help(&mut reply),
            Command::HelpOn(name) => tell::help_on(name, &mut reply),
            Command::Info => reply.text(tell::info(&desk.gate)),
            Command::Nothing => reply.map(0),
            Command::Ping(None) => reply.simple("PONG"),
            Command::Reset => reply.simple("RESET"),
            _ => reply.simple("OK"),
        }
    }
}

const HELLO_WITHOUT_ROLE: &str = "NOAUTH HELLO must be called with the client already \
                                  authenticated, otherwise the HELLO <proto> AUTH <user> <pass> \
                                  option can be used to authenticate the client and select the \
                                  RESP protocol version at the same time";

fn role_of(desk: &Desk, token: &[u8]) -> Result<Role, Refused> {
    if !desk.guard.knows_tokens() {
        let message = "ERR AUTH <password> called without any password configured for the \
                       default user. Are you sure your configuration is correct?";
        return Err(Refused::new(message));
    }
    let wrong = || Refused::new("WRONGPASS invalid username-password pair or user is disabled.");
    desk.guard.token(token).ok_or_else(wrong)
}
