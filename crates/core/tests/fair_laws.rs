//! What the fair queue promises, looked at after every single dispatch of random walks.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use tidegate_core::fair::{
    Class, Handle, Path, Queue, Request, Room, Settings, Started, Ticket, Turn, Weight,
};
use tidegate_core::{Span, Tick};
use tidegate_sim::rng::Rng;

const FLOWS: usize = 8;
const COST_MAX: u32 = 10;
const ROOM: Room = Room { free: u32::MAX, whole: u32::MAX };

fn far() -> Tick {
    Tick::from_micros(1 << 50)
}

fn start(queue: &mut Queue<usize>, room: Room) -> Option<Started<usize>> {
    match queue.dispatch(Tick::from_micros(0), room)? {
        Turn::Start(started) => Some(started),
        Turn::Drop(refused) => panic!("nothing is dropped here: {refused:?}"),
    }
}

/// The service of two flows by weight, for as long as both have requests. By what it has ever
/// differed is the most that it differs over any span.
#[derive(Clone, Copy, Default)]
struct Pair {
    least: i128,
    most: i128,
}

/// Watches every pair of flows, in parts of a cell that every weight divides.
struct Watch {
    weights: [u32; FLOWS],
    served: [i128; FLOWS],
    backlog: [u32; FLOWS],
    pairs: BTreeMap<(usize, usize), Pair>,
    /// How many largest requests of each of the two they may differ by.
    times: i128,
}

/// The least common multiple of the weights.
const PARTS: i128 = 840;

impl Watch {
    fn new(weights: [u32; FLOWS], times: i128) -> Watch {
        let backlog = [0; FLOWS];
        Watch { weights, served: [0; FLOWS], backlog, pairs: BTreeMap::new(), times }
    }

    fn by_weight(&self, flow: usize, cells: i128) -> i128 {
        cells * PARTS / i128::from(self.weights[flow])
    }

    fn came(&mut self, flow: usize) {
        self.backlog[flow] += 1;
    }

    /// A flow that has no requests left has no claim any more.
    fn left(&mut self, flow: usize) {
        self.backlog[flow] -= 1;
        if self.backlog[flow] == 0 {
            self.pairs.retain(|(one, other), _| *one != flow && *other != flow);
        }
    }

    #[track_caller]
    fn served(&mut self, flow: usize, cost: u32) {
        let busy: Vec<usize> = (0..FLOWS).filter(|it| 0 < self.backlog[*it]).collect();
        let difference = |watch: &Watch, other| watch.served[flow] - watch.served[other];
        for other in busy.iter().copied().filter(|other| *other != flow) {
            let before = difference(self, other);
            self.note(flow, other, before);
        }
        self.served[flow] += self.by_weight(flow, cost.into());
        for other in busy.into_iter().filter(|other| *other != flow) {
            let after = difference(self, other);
            self.note(flow, other, after);
        }
    }

    #[track_caller]
    fn note(&mut self, one: usize, other: usize, difference: i128) {
        let (key, difference) =
            if one < other { ((one, other), difference) } else { ((other, one), -difference) };
        let new = Pair { least: difference, most: difference };
        let pair = self.pairs.entry(key).or_insert(new);
        pair.least = pair.least.min(difference);
        pair.most = pair.most.max(difference);
        let spread = pair.most - pair.least;
        let most = COST_MAX.into();
        let bound = self.times * (self.by_weight(one, most) + self.by_weight(other, most));
        assert!(spread <= bound, "flows {key:?} differ by {spread} of {bound}");
    }
}

fn weights(rng: &mut Rng) -> [u32; FLOWS] {
    [(); FLOWS].map(|()| 1 + rng.below_u32(8))
}

fn path(flow: usize, weights: &[u32; FLOWS]) -> Path {
    Path::of(flow as u64, Weight::new(weights[flow]))
}

fn request(path: Path, cost: u32) -> Request {
    Request { path, class: Class::Normal, cost, deadline: far() }
}

/// Random arrivals, cancels and dispatches; `each` sees the queue after every dispatch.
fn walk(seed: u64, steps: u32, mut each: impl FnMut(&Queue<usize>, &mut Watch)) {
    let mut rng = Rng::new(seed);
    let weights = weights(&mut rng);
    let mut queue = Queue::new(Settings::default());
    let mut watch = Watch::new(weights, 1);
    let mut handles: Vec<(Handle, usize)> = Vec::new();
    let busy = 1 + rng.below(4);
    for _ in 0..steps {
        let flow = usize::try_from(rng.below(FLOWS as u64)).unwrap();
        for _ in 0..rng.below(1 + 2 * busy) {
            let cost = 1 + rng.below_u32(COST_MAX);
            let enqueued = queue.enqueue(far(), request(path(flow, &weights), cost), flow);
            if let Ok(enqueued) = enqueued {
                handles.push((enqueued.handle, flow));
                watch.came(flow);
            }
        }
        if rng.one_in(8) && !handles.is_empty() {
            let at = usize::try_from(rng.below(handles.len() as u64)).unwrap();
            let (handle, flow) = handles.swap_remove(at);
            if queue.cancel(handle).is_some() {
                watch.left(flow);
            }
            assert_eq!(queue.cancel(handle), None, "a stale handle does nothing");
        }
        for _ in 0..rng.below(1 + busy) {
            let had = queue.len();
            let Some(started) = start(&mut queue, ROOM) else {
                assert_eq!(had, 0, "it has something to do and does nothing");
                break;
            };
            watch.served(started.item, started.cost);
            watch.left(started.item);
            queue.complete(started.ticket, started.cost);
            each(&queue, &mut watch);
        }
    }
}

#[test]
fn two_busy_flows_never_differ_by_more_than_a_largest_request_of_each() {
    for seed in 0..200 {
        walk(seed, 2_000, |queue, watch| {
            assert_eq!(queue.len(), watch.backlog.iter().sum::<u32>());
        });
    }
}

#[test]
fn in_parallel_they_differ_by_at_most_as_many_more_as_are_in_service() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let weights = weights(&mut rng);
        let depth = 1 + rng.below_u32(16);
        let mut queue = Queue::new(Settings::default());
        // Counted when it is complete, in any order.
        let mut watch = Watch::new(weights, i128::from(depth) + 1);
        let mut running: Vec<(usize, u32, Ticket)> = Vec::new();
        for flow in 0..FLOWS {
            for _ in 0..3 {
                let cost = 1 + rng.below_u32(COST_MAX);
                queue.enqueue(far(), request(path(flow, &weights), cost), flow).unwrap();
                watch.came(flow);
            }
        }
        for _ in 0..5_000 {
            while running.len() < depth as usize {
                let Started { item: flow, cost, ticket, .. } = start(&mut queue, ROOM).unwrap();
                running.push((flow, cost, ticket));
                let cost = 1 + rng.below_u32(COST_MAX);
                queue.enqueue(far(), request(path(flow, &weights), cost), flow).unwrap();
            }
            let at = usize::try_from(rng.below(running.len() as u64)).unwrap();
            let (flow, cost, ticket) = running.swap_remove(at);
            queue.complete(ticket, cost);
            watch.served(flow, cost);
        }
    }
}

#[test]
fn nobody_starves_while_the_queue_is_served() {
    // A request waits for at most what its siblings are served in one turn of its own flow, for
    // each request of the flow before it.
    for seed in 0..50 {
        let mut rng = Rng::new(seed);
        let weights = weights(&mut rng);
        let mut queue = Queue::new(Settings::default());
        let all: u32 = weights.iter().sum();
        for flow in 1..FLOWS {
            for _ in 0..500 {
                let cost = 1 + rng.below_u32(COST_MAX);
                queue.enqueue(far(), request(path(flow, &weights), cost), flow).unwrap();
            }
        }
        for _ in 0..rng.below(300) {
            let started = start(&mut queue, ROOM).unwrap();
            queue.complete(started.ticket, started.cost);
        }
        queue.enqueue(far(), request(path(0, &weights), 1), 0).unwrap();
        let mut waited = 0;
        loop {
            let started = start(&mut queue, ROOM).unwrap();
            let is_it = started.item == 0;
            waited += started.cost;
            queue.complete(started.ticket, started.cost);
            if is_it {
                break;
            }
        }
        let bound = COST_MAX * (u32::try_from(FLOWS).unwrap() + all);
        assert!(waited <= bound, "{waited} of {bound}");
    }
}

#[test]
fn a_cancelled_request_leaves_no_trace() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let weights = weights(&mut rng);
        let mut queue = Queue::new(Settings::default());
        let mut without = Queue::new(Settings::default());
        for _ in 0..300 {
            let flow = usize::try_from(rng.below(FLOWS as u64)).unwrap();
            let cost = 1 + rng.below_u32(COST_MAX);
            let asked = request(path(flow, &weights), cost);
            let handle = queue.enqueue(far(), asked, flow).unwrap().handle;
            if rng.one_in(3) {
                assert_eq!(queue.cancel(handle), Some(flow));
            } else {
                without.enqueue(far(), asked, flow).unwrap();
            }
            if rng.one_in(2)
                && let Some(started) = start(&mut without, ROOM)
            {
                let same = start(&mut queue, ROOM).unwrap();
                assert_eq!((same.item, same.cost), (started.item, started.cost));
                without.complete(started.ticket, started.cost);
                queue.complete(same.ticket, same.cost);
            }
        }
    }
}

#[test]
fn shares_are_exact_in_the_long_run_whatever_the_weights() {
    let weights = [1_000_000, 999_983, 65_537, 7];
    let mut queue = Queue::new(Settings { flow_requests_max: 10, ..Settings::default() });
    let mut served = [0_u64; 4];
    for (flow, weight) in weights.into_iter().enumerate() {
        let path = Path::of(flow as u64, Weight::new(weight));
        queue.enqueue(far(), request(path, 1), flow).unwrap();
        queue.enqueue(far(), request(path, 1), flow).unwrap();
    }
    let all: u64 = weights.iter().map(|it| u64::from(*it)).sum();
    for _ in 0..all {
        let started = start(&mut queue, ROOM).unwrap();
        served[started.item] += 1;
        queue.complete(started.ticket, 1);
        let path = Path::of(started.item as u64, Weight::new(weights[started.item]));
        queue.enqueue(far(), request(path, 1), started.item).unwrap();
    }
    for (served, weight) in served.into_iter().zip(weights) {
        assert!(served.abs_diff(weight.into()) <= 1, "{served} of {weight}");
    }
}

#[test]
fn tags_do_not_run_out() {
    // Steps of 2^52: tags are put back every thousand dispatches.
    for seed in 0..10 {
        let mut rng = Rng::new(seed);
        let mut queue = Queue::new(Settings::default());
        let mut served = [0_u64; 3];
        for _ in 0..20_000 {
            let away = rng.below(3);
            for flow in (0..2).chain((away == 0).then_some(2)) {
                let path = Path::of(flow, Weight::ONE);
                let (requests, _) = queue.backlog(Class::Normal, &path);
                if requests < 2 {
                    let item = usize::try_from(flow).unwrap();
                    let cost = u32::MAX - rng.below_u32(2);
                    queue.enqueue(far(), request(path, cost), item).unwrap();
                }
            }
            let started = start(&mut queue, ROOM).unwrap();
            served[started.item] += 1;
            queue.complete(started.ticket, started.cost);
        }
        assert!(served[0].abs_diff(served[1]) <= 2, "{served:?}");
        assert!(5_000 < served[2], "{served:?}");
    }
}

#[test]
fn idle_flows_are_forgotten_without_a_sweep() {
    let mut queue = Queue::new(Settings::default());
    let mut most = 0;
    for flow in 0..100_000_u64 {
        queue.enqueue(far(), request(Path::of(flow, Weight::ONE), 1), 0).unwrap();
        let started = start(&mut queue, ROOM).unwrap();
        queue.complete(started.ticket, 1);
        most = most.max(queue.flows());
    }
    assert!(most <= 4, "{most} flows were kept");
}

#[test]
fn the_same_laws_hold_inside_a_group() {
    // Two organizations of equal weight; one has one tenant, the other has seven.
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let settings = Settings { levels: 2, ..Settings::default() };
        let mut queue = Queue::new(settings);
        let path_of =
            |flow: usize| Path::of(u64::from(0 < flow), Weight::ONE).then(flow as u64, Weight::ONE);
        let (mut alone, mut others) = (0_i64, [0_i64; FLOWS]);
        for flow in 0..FLOWS {
            for _ in 0..2 {
                let cost = 1 + rng.below_u32(COST_MAX);
                queue.enqueue(far(), request(path_of(flow), cost), flow).unwrap();
            }
        }
        for _ in 0..5_000 {
            let started = start(&mut queue, ROOM).unwrap();
            let (flow, cost) = (started.item, i64::from(started.cost));
            if flow == 0 {
                alone += cost;
            } else {
                others[flow] += cost;
            }
            queue.complete(started.ticket, started.cost);
            let cost = 1 + rng.below_u32(COST_MAX);
            queue.enqueue(far(), request(path_of(flow), cost), flow).unwrap();
            let together: i64 = others.iter().sum();
            assert!((alone - together).abs() <= 2 * i64::from(COST_MAX));
            let (least, most) = (others[1..].iter().min(), others[1..].iter().max());
            assert!(most.unwrap() - least.unwrap() <= 2 * i64::from(COST_MAX));
        }
    }
}

#[test]
fn a_wait_is_told_rounded_up() {
    let mut queue = Queue::new(Settings::default());
    queue.set_rate(Some(tidegate_core::Quota::per_second(3)));
    let path = Path::of(1, Weight::ONE);
    assert_eq!(queue.wait_of(Class::Normal, &path), Some(Span::ZERO));
    queue.enqueue(Tick::from_micros(0), request(path, 1), 0).unwrap();
    assert_eq!(queue.wait_of(Class::Normal, &path), Some(Span::from_micros(333_334)));
}
