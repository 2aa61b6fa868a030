//! The queue: takes requests in, and lets them go.

use alloc::vec::Vec;

use crate::quota::Quota;
use crate::tick::{Span, Tick};

use super::classes::Classes;
use super::estimate;
use super::outcome::{Enqueued, Reason, Refused, Request, Ticket};
use super::path::{Class, Path};
use super::settings::Settings;
use super::shelves::NONE;
use super::slab::{Handle, Link, Slab, Waiting};
use super::standing::Standing;
use super::tree::Tree;
use super::weight::Weight;
use super::wheel::Wheel;

/// A start-time fair queue of requests, each with a `T` that its owner attached.
///
/// It decides the order and nothing else: its owner knows what is free, what time it is, and what
/// becomes of those that start. See [the module](super) for what it promises.
#[derive(Clone, Debug)]
pub struct Queue<T> {
    pub(super) settings: Settings,
    pub(super) tree: Tree,
    pub(super) waiting: Slab<T>,
    pub(super) wheel: Wheel,
    pub(super) classes: Classes,
    /// By flow; empty if flows are not watched.
    pub(super) standing: Vec<Standing>,
    rate: Option<Quota>,
}

impl<T> Queue<T> {
    /// An empty queue. Settings that are out of range are taken as the nearest that are not.
    pub fn new(settings: Settings) -> Queue<T> {
        let settings = settings.checked();
        Queue {
            settings,
            tree: Tree::new(settings.levels.into(), settings.requests_max),
            waiting: Slab::new(),
            wheel: Wheel::new(),
            classes: Classes::new(settings.floors),
            standing: Vec::new(),
            rate: None,
        }
    }

    /// Takes a request in at the end of its flow, or says why not.
    ///
    /// A full queue makes room for it, if another flow has more in it by weight: that flow's last
    /// request is [pushed out](Enqueued::pushed_out), and its owner is to be told.
    pub fn enqueue(
        &mut self,
        now: Tick,
        request: Request,
        item: T,
    ) -> Result<Enqueued<T>, Refused<T>> {
        let Request { path, class, deadline, .. } = request;
        let cost = request.cost.max(1);
        self.fetch_next(class);
        let mut found = self.tree.find_flow(class, &path);
        if let Err((reason, retry_after)) = self.admits(now, &request, found.flow()) {
            return Err(Refused { item, reason, retry_after });
        }
        let mut pushed_out = None;
        if self.settings.requests_max <= self.len() {
            let Some(loser) = self.loser(class, &path) else {
                let retry_after = self.span_of_one();
                return Err(Refused { item, reason: Reason::Full, retry_after });
            };
            let last = self.last_of(loser, now);
            pushed_out = Some(self.refuse(last, Reason::PushedOut));
            // With a request that leaves, an idle flow may be forgotten.
            found = self.tree.find_flow(class, &path);
        }
        let flow = self.tree.find_or_add(found, &path);
        self.tree.arrive(flow, cost);
        let before = self.tree.node(flow).below.last;
        let slot = self.wheel.slot(deadline);
        let waiting = Waiting {
            item: Some(item),
            came: now,
            deadline,
            flow,
            cost,
            bypassed: 0,
            due: NONE,
            generation: 0,
            slot,
        };
        let handle = self.waiting.insert(waiting, Link { before, after: NONE });
        let line = &mut self.tree.nodes[flow as usize].below;
        line.last = handle.at;
        match before {
            NONE => {
                line.first = handle.at;
                // Who has nothing waiting does not stand.
                if let Some(standing) = self.standing.get_mut(flow as usize) {
                    *standing = Standing::default();
                }
            }
            before => self.waiting.links[before as usize].after = handle.at,
        }
        self.waiting.get_mut(handle.at).due = self.wheel.put_in(slot, handle.at);
        Ok(Enqueued { handle, pushed_out })
    }

    /// Takes a request out that has not started, as if it had never come. What was started,
    /// refused or cancelled before is not there any more, and nothing happens.
    pub fn cancel(&mut self, handle: Handle) -> Option<T> {
        let at = self.waiting.find(handle)?;
        let waiting = self.take(at);
        self.tree.depart(waiting.flow, waiting.cost);
        self.tree.tidy();
        Some(waiting.item)
    }

    /// A request that had started is done, and took `actual` cells. If that is not what it was
    /// taken for, its flow pays or is paid the difference; no credit is kept beyond the present.
    #[expect(clippy::needless_pass_by_value, reason = "a ticket is good once")]
    pub fn complete(&mut self, ticket: Ticket, actual: u32) {
        let Ticket { flow, estimate } = ticket;
        let node = self.tree.nodes.get(flow as usize);
        if node.is_some_and(|node| 0 < node.in_service) {
            // Before: who comes to rest now is likely to come back, and is looked at with the next.
            self.tree.tidy();
            self.tree.complete(flow, estimate, actual);
        }
    }

    /// Takes out one request whose deadline has come. Ask until there is none; dispatch before, as
    /// its last tick is still its own.
    pub fn expire(&mut self, now: Tick) -> Option<Refused<T>> {
        while let Some(slot) = self.wheel.go_on(now) {
            let at = self.wheel.any(slot)?;
            if slot.is_due() {
                return Some(self.refuse(at, Reason::Expired));
            }
            self.leave_slot(at);
            let slot = self.wheel.slot(self.waiting.get(at).deadline);
            let due = self.wheel.put_in(slot, at);
            let waiting = self.waiting.get_mut(at);
            (waiting.slot, waiting.due) = (slot, due);
        }
        None
    }

    /// When to ask [`Queue::expire`] next: no later than the first deadline.
    pub fn next_deadline(&self) -> Option<Tick> {
        self.wheel.next()
    }

    /// Gives a flow or a group another weight, from its next turn on. One that is idle has none:
    /// the next request says what it is.
    pub fn set_weight(&mut self, class: Class, path: &Path, weight: Weight) {
        if let Some(at) = self.tree.find_path(class, path) {
            self.tree.set_weight(at, weight);
        }
    }

    /// Changes bounds, shedding and newest-first from now on; levels and floors stay as they are.
    /// Where more wait than may by then, they are served, or make room for others.
    pub fn set_bounds(&mut self, settings: Settings) {
        let Settings { levels, floors, .. } = self.settings;
        self.settings = Settings { levels, floors, ..settings.checked() };
    }

    /// How fast requests are served at present, in cells. Without it no wait is estimated: nothing
    /// is refused for being too late, and no refusal says when to come back.
    pub fn set_rate(&mut self, rate: Option<Quota>) {
        self.rate = rate;
    }

    /// How long the next request of a path would wait, if it is known how fast requests are served.
    pub fn wait_of(&self, class: Class, path: &Path) -> Option<Span> {
        self.rate.map(|rate| self.wait_at(rate, class, path))
    }

    /// How many requests wait.
    pub fn len(&self) -> u32 {
        u32::try_from(self.waiting.len()).unwrap_or(u32::MAX)
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.len() == 0
    }

    /// How many requests of a class wait, and their cells.
    pub fn backlog_of_class(&self, class: Class) -> (u32, u64) {
        let root = self.tree.node(Tree::root(class));
        (root.queued, root.cost)
    }

    /// How many requests of a flow or group wait, and their cells.
    pub fn backlog(&self, class: Class, path: &Path) -> (u32, u64) {
        let node = self.tree.find_path(class, path).map(|at| self.tree.node(at));
        node.map_or((0, 0), |node| (node.queued, node.cost))
    }

    /// How many requests have started and are not complete.
    pub fn in_service(&self) -> u32 {
        let of = |class| self.tree.node(Tree::root(class)).in_service;
        Class::ALL.into_iter().map(of).sum()
    }

    /// How many flows and groups are remembered: those with requests, and those that still owe.
    pub fn flows(&self) -> usize {
        self.tree.len()
    }

    /// Asks memory for the request that is likely to be next, as [`Tree::fetch_next`] does for its
    /// flow.
    fn fetch_next(&self, class: Class) {
        if let Some(flow) = self.tree.likely_next(class) {
            core::hint::black_box(self.waiting.get(flow.below.first).came);
        }
    }

    /// Whether a request of a flow that is `known` may be taken in, but for the room that there is.
    fn admits(
        &self,
        now: Tick,
        request: &Request,
        known: Option<u32>,
    ) -> Result<(), (Reason, Option<Span>)> {
        let Request { path, class, deadline, .. } = request;
        if *deadline < now {
            return Err((Reason::TooLate, self.wait_of(*class, path)));
        }
        let queued = known.map_or(0, |flow| self.tree.node(flow).queued);
        if self.settings.flow_requests_max <= queued {
            let wait = self.wait_of(*class, path);
            let each = u64::from(self.settings.flow_requests_max);
            let first = wait.map(|wait| Span::from_micros(wait.get().div_ceil(each).max(1)));
            return Err((Reason::FlowFull, first));
        }
        let Some(rate) = self.rate else { return Ok(()) };
        let (wait, within) = (self.wait_at(rate, *class, path), deadline.since(now));
        if within < wait {
            let retry_after = Span::from_micros(wait.get() - within.get());
            return Err((Reason::TooLate, Some(retry_after)));
        }
        Ok(())
    }

    fn wait_at(&self, rate: Quota, class: Class, path: &Path) -> Span {
        if self.is_empty() {
            return Span::ZERO;
        }
        let levels = self.settings.levels.into();
        let within = estimate::ahead(&self.tree, class, path, levels);
        let floor = self.settings.floors[class.index()];
        estimate::span(estimate::ahead_of_class(&self.tree, class, within, floor), rate)
    }

    /// How long until one more request has left, on average.
    fn span_of_one(&self) -> Option<Span> {
        let rate = self.rate?;
        let cells: u64 = Class::ALL.into_iter().map(|class| self.backlog_of_class(class).1).sum();
        let each = cells / u64::from(self.len().max(1));
        Some(estimate::span(each.into(), rate))
    }

    /// Takes out a request that is not going to be served.
    pub(super) fn refuse(&mut self, at: u32, reason: Reason) -> Refused<T> {
        let waiting = self.take(at);
        self.tree.depart(waiting.flow, waiting.cost);
        let retry_after = match reason {
            Reason::PushedOut => self.span_of_one(),
            _ => self.rate.map(|rate| {
                let ahead = u128::from(self.tree.node(waiting.flow).cost);
                estimate::span(ahead.max(waiting.cost.into()), rate)
            }),
        };
        self.tree.tidy();
        Refused { item: waiting.item, reason, retry_after }
    }

    /// Takes a request out of the line of its flow and out of its slot.
    pub(super) fn take(&mut self, at: u32) -> Left<T> {
        self.leave_slot(at);
        let handle = self.waiting.handle(at);
        let Waiting { flow, cost, came, .. } = *self.waiting.get(at);
        let Link { before, after } = self.waiting.links[at as usize];
        let item = self.waiting.remove(at);
        match before {
            NONE => self.tree.nodes[flow as usize].below.first = after,
            before => self.waiting.links[before as usize].after = after,
        }
        match after {
            NONE => self.tree.nodes[flow as usize].below.last = before,
            after => self.waiting.links[after as usize].before = before,
        }
        Left { item, handle, flow, cost, came }
    }

    fn leave_slot(&mut self, at: u32) {
        let Waiting { slot, due, .. } = *self.waiting.get(at);
        if let Some(moved) = self.wheel.take_out(slot, due) {
            self.waiting.get_mut(moved.member).due = moved.place;
        }
    }
}

/// A request that has been taken out.
pub(super) struct Left<T> {
    pub(super) item: T,
    pub(super) handle: Handle,
    pub(super) flow: u32,
    pub(super) cost: u32,
    pub(super) came: Tick,
}
