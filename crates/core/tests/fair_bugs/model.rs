//! A start-time fair queue as one would write it down, with one bug at a time.
//!
//! One level, one class, and no bound on anything but what a bug is about.

use std::collections::{BTreeMap, VecDeque};

use crate::{Request, Subject};

pub(crate) const REQUESTS_MAX: usize = 1_000;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Bug {
    None,
    WallClock,
    Hoards,
    Tombstones,
    Floats,
    StandsWhileIdle,
    ResetsInService,
    ChargesOnArrival,
    ForgetsDebt,
    ByRequest,
    NoTrueUp,
    SkipsWide,
    BlocksForWide,
    Flat,
    ExpiresOnArrival,
    RewritesTags,
    TailDrop,
}

impl Bug {
    /// Whether the model without it is meant to keep the law: it knows no groups, and nothing of
    /// rooms and losers.
    pub(crate) fn has_a_cure_in_the_model(self) -> bool {
        use Bug::{BlocksForWide, Flat, SkipsWide, TailDrop};
        ![Flat, SkipsWide, BlocksForWide, TailDrop].contains(&self)
    }
}

pub(crate) struct Model {
    bug: Bug,
    flows: BTreeMap<[u64; 2], Flow>,
    virtual_time: i128,
    now: u64,
    running: BTreeMap<u32, Request>,
    tombstones: usize,
}

#[derive(Default)]
struct Flow {
    requests: VecDeque<Request>,
    weight: u32,
    start: i128,
    finish: i128,
}

/// A cell at weight one.
const UNIT: i128 = 1 << 20;
/// What a cell takes at half of the speed, for a model that counts by the clock.
const TICKS: i128 = 2_000;

impl Model {
    pub(crate) fn with(bug: Bug) -> Model {
        let (flows, running) = (BTreeMap::new(), BTreeMap::new());
        Model { bug, flows, virtual_time: 0, now: 0, running, tombstones: 0 }
    }

    fn step(&self, cost: u32, weight: u32) -> i128 {
        let cost = if self.bug == Bug::ByRequest { 1 } else { i128::from(cost) };
        cost * UNIT / i128::from(weight)
    }

    fn len(&self) -> usize {
        self.flows.values().map(|flow| flow.requests.len()).sum()
    }

    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "the bug")]
    fn rounded(&self, tag: i128) -> i128 {
        if self.bug == Bug::Floats { tag as f64 as i128 } else { tag }
    }

    fn end_busy_period(&mut self) {
        let is_idle = self.len() == 0
            && (self.running.is_empty() || self.bug == Bug::ResetsInService)
            && self.bug != Bug::StandsWhileIdle;
        if is_idle {
            let latest = self.flows.values().map(|flow| flow.finish).max();
            self.virtual_time = self.virtual_time.max(latest.unwrap_or(0));
        }
    }
}

impl Subject for Model {
    fn enqueue(&mut self, request: Request) -> bool {
        if self.bug == Bug::TailDrop && self.len() == REQUESTS_MAX {
            return false;
        }
        let (bug, now, virtual_time) = (self.bug, i128::from(self.now), self.virtual_time);
        let charge = self.step(request.cost, request.weight);
        let flow = self.flows.entry(request.flow).or_default();
        flow.weight = request.weight;
        if bug == Bug::ExpiresOnArrival {
            flow.requests.retain(|it| u64::try_from(now).unwrap() <= it.deadline);
        }
        if flow.requests.is_empty() {
            flow.start = match bug {
                Bug::WallClock => flow.finish.max(now * UNIT / TICKS),
                Bug::Hoards => flow.finish,
                _ => flow.finish.max(virtual_time),
            };
        }
        if bug == Bug::ChargesOnArrival {
            flow.finish = flow.start.max(flow.finish) + charge;
            flow.start = flow.finish;
        }
        flow.requests.push_back(request);
        true
    }

    fn dispatch(&mut self, free: u32, _whole: u32) -> Option<Request> {
        let fits = |flow: &Flow| flow.requests.front().is_some_and(|first| first.cost <= free);
        let busy = self.flows.iter().filter(|(_, flow)| !flow.requests.is_empty());
        let able = busy.filter(|(_, flow)| self.bug != Bug::SkipsWide || fits(flow));
        let (&name, flow) = able.min_by_key(|(_, flow)| flow.start)?;
        if !fits(flow) {
            return None;
        }
        let (start, weight) = (flow.start, flow.weight);
        let request = *flow.requests.front()?;
        let finish = start + self.step(request.cost, weight);
        let finish = self.rounded(finish);
        self.virtual_time = self.virtual_time.max(start);
        let flow = self.flows.get_mut(&name)?;
        flow.requests.pop_front();
        if self.bug != Bug::ChargesOnArrival {
            (flow.start, flow.finish) = (finish, finish);
        }
        if self.bug == Bug::ForgetsDebt && flow.requests.is_empty() {
            self.flows.remove(&name);
        }
        self.running.insert(request.number, request);
        if self.bug == Bug::ResetsInService {
            self.end_busy_period();
        }
        Some(request)
    }

    fn complete(&mut self, number: u32, actual: u32) {
        let request = self.running.remove(&number).unwrap();
        let weight = self.flows.get(&request.flow).map_or(1, |flow| flow.weight);
        let more = self.step(actual, weight) - self.step(request.cost, weight);
        if self.bug != Bug::NoTrueUp
            && let Some(flow) = self.flows.get_mut(&request.flow)
        {
            flow.finish += more;
            flow.start += more;
        }
        self.end_busy_period();
    }

    fn cancel(&mut self, number: u32) {
        for flow in self.flows.values_mut() {
            flow.requests.retain(|request| request.number != number);
        }
        self.tombstones += usize::from(self.bug == Bug::Tombstones);
    }

    fn set_weight(&mut self, flow: [u64; 2], weight: u32) {
        let flow = self.flows.get_mut(&flow).unwrap();
        if self.bug == Bug::RewritesTags {
            let ahead = flow.start - self.virtual_time;
            flow.start = self.virtual_time + ahead * i128::from(flow.weight) / i128::from(weight);
        }
        flow.weight = weight;
    }

    fn go_on(&mut self, ticks: u64) -> Vec<u32> {
        self.now += ticks;
        if self.bug == Bug::ExpiresOnArrival {
            return Vec::new();
        }
        let mut expired = Vec::new();
        for flow in self.flows.values_mut() {
            let late = flow.requests.iter().filter(|request| request.deadline < self.now);
            expired.extend(late.map(|request| request.number));
            flow.requests.retain(|request| self.now <= request.deadline);
        }
        expired
    }

    fn held(&self) -> usize {
        self.len() + self.flows.len() + self.tombstones
    }
}
