//! Calls on their way: sent, redirected, sent again where that is safe, and given up in time.
//!
//! Every call knows at any moment whether it may have run: it is *waiting* until it is handed to a
//! connection and *flying* until the answer is there. So whenever the deadline strikes, what is
//! waiting was not run, and of what is flying nobody knows.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tidegate_core::Tick;
use tokio::time::sleep;

use super::answer::Answer;
use super::backoff::up_to;
use super::join;
use super::link::Link;
use super::pipe::Loss;
use super::refusal::{CallError, Lost, Refusal};
use super::reply::Reply;
use super::script::{Script, ScriptCall};
use super::shared::Shared;

/// One call on its way.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) call: ScriptCall,
    state: State,
    /// The lane to be sent on next.
    lane: usize,
    /// The server wants to be told that we come by redirection.
    is_asking: bool,
    /// The server does not know the script.
    needs_text: bool,
    /// The server wants us to wait a little.
    needs_pause: bool,
    redirects: u8,
}

#[derive(Debug)]
enum State {
    New,
    Waiting(Refusal),
    Flying,
    Done(Result<Reply, CallError>),
}

/// A call that was sent about as often goes in circles.
const REDIRECTS_MAX: u8 = 16;

/// As many are followed without a pause: by a move of a slot and a script that is not known.
const REDIRECTS_AT_ONCE: u8 = 4;

/// How long to wait before asking the same again, at least, and how much more at most.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MORE: Duration = Duration::from_millis(4);

impl Flight {
    pub(super) fn new(call: ScriptCall, lane: usize) -> Flight {
        Flight {
            call,
            state: State::New,
            lane,
            is_asking: false,
            needs_text: false,
            needs_pause: false,
            redirects: 0,
        }
    }

    /// What has become of the call. No more is done for it.
    pub(super) fn end(self) -> Result<Reply, CallError> {
        match self.state {
            State::Done(result) => result,
            State::New => Err(CallError::NotRun(Refusal::NotConnected("no time".into()))),
            State::Waiting(refusal) => Err(CallError::NotRun(refusal)),
            State::Flying => Err(CallError::Unknown(Lost::TimedOut)),
        }
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, State::Done(_))
    }

    /// Whether it may go to the servers that there are now. Only to be asked when a link is at
    /// hand: a run begins before there is a link to it.
    fn may_be_sent(&mut self, shared: &Shared) -> bool {
        let is_fit = self.call.run.is_none_or(|run| run == shared.runs.now());
        if !is_fit {
            self.state = State::Done(Err(CallError::NotRun(Refusal::OtherRun)));
        }
        is_fit
    }

    fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting(_))
    }

    fn wait(&mut self, refusal: Refusal) {
        self.state = State::Waiting(refusal);
    }

    /// Sends a lone call, which is the way of a single decision, and waits until `deadline`.
    pub(super) async fn send(&mut self, shared: &Shared, link: &Link, deadline: Tick) {
        if !self.may_be_sent(shared) {
            return;
        }
        self.state = State::Flying;
        let replies = link.pipe().send(self.call.command(), 1, deadline).await;
        let reply = replies.and_then(|mut replies| replies.pop().ok_or_else(too_few));
        self.settle(shared, link, reply);
    }

    /// Takes an answer, and says where to go next if there is more to do.
    fn settle(&mut self, shared: &Shared, link: &Link, reply: Result<Reply, Loss>) {
        let was_asking = std::mem::take(&mut self.is_asking);
        self.needs_pause = false;
        match Answer::of(reply) {
            Answer::Done(value) => self.state = State::Done(Ok(value)),
            Answer::Refused(refusal) => self.state = State::Done(Err(CallError::NotRun(refusal))),
            Answer::Lost(lost) => {
                // A late reply is no reason to give up a connection that others use.
                if lost != Lost::TimedOut {
                    shared.lost(self.lane, link, &lost);
                }
                self.state = State::Done(Err(CallError::Unknown(lost)));
            }
            Answer::NoScript => {
                self.needs_text = true;
                self.is_asking = was_asking;
                self.redirect(Some(self.lane));
            }
            Answer::Moved(address) => {
                let lane = shared.moved(self.call.slot, self.lane, address);
                self.redirect(lane);
            }
            Answer::Ask(address) => {
                self.is_asking = true;
                self.redirect(shared.neighbour(self.lane, address));
            }
            Answer::Later(refusal) => {
                self.needs_pause = true;
                self.lane = shared.lane_of(self.call.slot);
                self.wait(refusal);
            }
            Answer::Elsewhere(refusal) => {
                shared.elsewhere(self.lane, link, refusal.clone());
                self.needs_pause = true;
                self.lane = shared.lane_of(self.call.slot);
                self.wait(refusal);
            }
        }
    }

    fn redirect(&mut self, lane: Option<usize>) {
        self.redirects += 1;
        match lane {
            Some(lane) if self.redirects <= REDIRECTS_MAX => {
                self.lane = lane;
                // Servers that disagree need a moment to find out.
                self.needs_pause = self.redirects > REDIRECTS_AT_ONCE;
                self.wait(Refusal::TooManyRedirects);
            }
            _ => self.state = State::Done(Err(CallError::NotRun(Refusal::TooManyRedirects))),
        }
    }
}

/// Sends all flights until each has its answer. The caller bounds the time.
pub(super) fn chase<'a>(
    shared: &'a Shared,
    mut flights: Vec<&'a mut Flight>,
) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
    Box::pin(async move {
        while let Some(first) = flights.first() {
            let (lane, needs_pause) = (first.lane, first.needs_pause);
            if flights.iter().any(|flight| (flight.lane, flight.needs_pause) != (lane, needs_pause))
            {
                let groups = split(flights).into_iter().map(|group| chase(shared, group));
                return join::all(groups.collect()).await;
            }
            if needs_pause {
                sleep(PAUSE + up_to(PAUSE_MORE)).await;
            }
            match shared.lane(lane).link() {
                Some(link) => send(shared, &link, &mut flights).await,
                None => wait(shared, lane, &mut flights).await,
            }
            flights.retain(|flight| flight.is_waiting());
        }
    })
}

/// Waits until the lane is connected, or until its calls belong elsewhere.
async fn wait(shared: &Shared, number: usize, flights: &mut [&mut Flight]) {
    let lane = shared.lane(number);
    let mut changes = shared.changes();
    for flight in flights.iter_mut() {
        flight.needs_pause = false;
        flight.wait(lane.refusal());
    }
    join::first(lane.wait(), async {
        // The sender lives as long as `shared`.
        let _ = changes.changed().await;
    })
    .await;
    if lane.link().is_none() {
        for flight in flights {
            flight.is_asking = false;
            flight.lane = shared.lane_of(flight.call.slot);
        }
    }
}

/// Sends all of them in one write. The caller bounds the time.
async fn send(shared: &Shared, link: &Link, flights: &mut Vec<&mut Flight>) {
    flights.retain_mut(|flight| flight.may_be_sent(shared));
    if flights.is_empty() {
        return;
    }
    let (bytes, commands) = write(flights);
    for flight in flights.iter_mut() {
        flight.state = State::Flying;
    }
    match link.pipe().send(&bytes, commands, Tick::MAX).await {
        Ok(replies) => {
            let mut replies = replies.into_iter();
            for flight in flights {
                if flight.is_asking {
                    replies.next();
                }
                // As many answers as questions, or we have lost count.
                let reply = replies.next().ok_or_else(too_few);
                flight.settle(shared, link, reply);
            }
        }
        Err(loss) => {
            for flight in flights {
                flight.settle(shared, link, Err(loss.clone()));
            }
        }
    }
}

fn too_few() -> Loss {
    Loss::Ended("fewer replies than calls".into())
}

/// Writes all of them down, and counts the commands. The text of a script is sent once: a server
/// that has run the first call knows the script by its name for the others.
fn write(flights: &mut [&mut Flight]) -> (Vec<u8>, usize) {
    let (mut bytes, mut commands) = (Vec::new(), 0);
    let mut told: Vec<&'static Script> = Vec::new();
    for flight in flights {
        if flight.is_asking {
            bytes.extend_from_slice(b"*1\r\n$6\r\nASKING\r\n");
            commands += 1;
        }
        let script = flight.call.script;
        if flight.needs_text && !told.iter().any(|other| std::ptr::eq(*other, script)) {
            told.push(script);
            bytes.append(&mut flight.call.with_text());
        } else {
            bytes.extend_from_slice(flight.call.command());
        }
        commands += 1;
    }
    (bytes, commands)
}

/// Those that go the same way, together.
fn split(flights: Vec<&mut Flight>) -> Vec<Vec<&mut Flight>> {
    let mut groups: Vec<Vec<&mut Flight>> = Vec::new();
    for flight in flights {
        let way = (flight.lane, flight.needs_pause);
        match groups.iter_mut().find(|group| (group[0].lane, group[0].needs_pause) == way) {
            Some(group) => group.push(flight),
            None => groups.push(vec![flight]),
        }
    }
    groups
}
