//! The short way of a request that nobody is before, beside the long one: nobody can tell later
//! which of them was taken.
#![expect(clippy::unwrap_used, reason = "tests")]

use tidegate_core::fair::{
    Class, Path, Queue, Request, Room, Settings, Shed, Ticket, Turn, Weight,
};
use tidegate_core::{Span, Tick};
use tidegate_sim::rng::Rng;

/// Two queues that see the same, of which one takes the short way.
struct Both {
    short: Queue<u32>,
    long: Queue<u32>,
    /// Of either: what has started and is not complete.
    out: Vec<(Ticket, Ticket, u32)>,
    passed: u32,
}

impl Both {
    fn new(settings: Settings) -> Both {
        let (short, long) = (Queue::new(settings), Queue::new(settings));
        Both { short, long, out: Vec::new(), passed: 0 }
    }

    /// A request comes. It starts at once in both, or waits in both.
    fn comes(&mut self, now: Tick, request: Request, number: u32, room: Room) {
        if let Some((cost, ticket)) = self.short.pass(now, request, room) {
            self.long.enqueue(now, request, number).unwrap();
            let Some(Turn::Start(started)) = self.long.dispatch(now, room) else {
                panic!("it passed where it would have waited");
            };
            assert_eq!((started.item, started.cost), (number, cost));
            assert_eq!(started.ticket.estimate(), ticket.estimate());
            self.out.push((ticket, started.ticket, request.cost));
            self.passed += 1;
            return;
        }
        let short = self.short.enqueue(now, request, number).map(|it| it.pushed_out);
        let long = self.long.enqueue(now, request, number).map(|it| it.pushed_out);
        assert_eq!(format!("{short:?}"), format!("{long:?}"));
    }

    /// Whoever is next, or is dropped: the same in both.
    fn serves(&mut self, now: Tick, room: Room) {
        match (self.short.dispatch(now, room), self.long.dispatch(now, room)) {
            (None, None) => {}
            (Some(Turn::Start(short)), Some(Turn::Start(long))) => {
                assert_eq!(
                    (short.item, short.cost, short.waited),
                    (long.item, long.cost, long.waited)
                );
                self.out.push((short.ticket, long.ticket, short.cost));
            }
            (Some(Turn::Drop(short)), Some(Turn::Drop(long))) => assert_eq!(short, long),
            (short, long) => panic!("{short:?} beside {long:?}"),
        }
    }

    fn completes(&mut self, rng: &mut Rng) {
        if self.out.is_empty() {
            return;
        }
        let at = usize::try_from(rng.below(self.out.len() as u64)).unwrap();
        let (short, long, cost) = self.out.swap_remove(at);
        let actual = if rng.below(4) == 0 { rng.below_u32(cost.saturating_mul(2)) } else { cost };
        self.short.complete(short, actual);
        self.long.complete(long, actual);
    }

    #[track_caller]
    fn are_alike(&self, path: &Path) {
        assert_eq!(self.short.len(), self.long.len());
        assert_eq!(self.short.in_service(), self.long.in_service());
        assert_eq!(self.short.flows(), self.long.flows());
        for class in Class::ALL {
            assert_eq!(self.short.backlog_of_class(class), self.long.backlog_of_class(class));
            assert_eq!(self.short.backlog(class, path), self.long.backlog(class, path));
        }
    }
}

fn settings(rng: &mut Rng) -> Settings {
    let shed = (rng.below(2) == 0)
        .then(|| Shed { target: Span::from_micros(20), interval: Span::from_micros(100) });
    Settings {
        levels: 1 + u8::try_from(rng.below(3)).unwrap(),
        requests_max: 1 + rng.below_u32(40),
        flow_requests_max: 1 + rng.below_u32(20),
        shed,
        newest_first_after: shed.map(|shed| shed.interval),
        ..Settings::default()
    }
}

fn path(rng: &mut Rng) -> Path {
    let mut name = || (rng.below(4), Weight::new(1 + rng.below_u32(5)));
    let (outer, inner, innermost) = (name(), name(), name());
    Path::of(outer.0, outer.1).then(inner.0, inner.1).then(innermost.0, innermost.1)
}

#[test]
fn nobody_can_tell_which_way_a_request_went_that_nobody_was_before() {
    let mut passed = 0;
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let mut both = Both::new(settings(&mut rng));
        // Few places and they wait, many and they pass; with large costs tags are put back.
        let scale = if rng.below(3) == 0 { u32::MAX / 64 } else { 1 };
        let places = scale * (1 + rng.below_u32(30));
        let mut now = Tick::from_micros(0);
        for number in 0..1_500 {
            now = now.after(Span::from_micros(rng.below(8)));
            let room = Room { free: rng.below_u32(places + 1), whole: places };
            let path = path(&mut rng);
            match rng.below(8) {
                0 | 1 => {
                    let class = Class::ALL[usize::try_from(rng.below(4)).unwrap()];
                    let deadline =
                        Tick::from_micros((now.get() + rng.below(300)).saturating_sub(4));
                    let request =
                        Request { path, class, cost: scale * (1 + rng.below_u32(10)), deadline };
                    both.comes(now, request, number, room);
                }
                2..=4 => both.serves(now, room),
                _ => both.completes(&mut rng),
            }
            both.are_alike(&path);
        }
        while !both.short.is_empty() || !both.long.is_empty() {
            now = now.after(Span::from_micros(1));
            both.serves(now, Room { free: places, whole: places });
        }
        passed += both.passed;
    }
    assert!(20_000 < passed, "only {passed} took the short way");
}

#[test]
fn who_does_not_fit_or_is_late_or_has_somebody_before_does_not_pass() {
    let mut queue = Queue::<u32>::new(Settings::default());
    let (now, late) = (Tick::from_micros(5), Tick::from_micros(4));
    let path = Path::of(1, Weight::ONE);
    let request = Request { path, class: Class::Normal, cost: 2, deadline: now };
    let room = |free| Room { free, whole: 10 };
    assert!(queue.pass(now, request, room(1)).is_none());
    assert!(queue.pass(now, request, room(0)).is_none());
    assert!(queue.pass(now, Request { deadline: late, ..request }, room(9)).is_none());
    let (cost, ticket) = queue.pass(now, Request { cost: 12, ..request }, room(10)).unwrap();
    assert_eq!((cost, ticket.estimate(), queue.in_service()), (10, 12, 1));
    queue.enqueue(now, request, 0).unwrap();
    assert!(queue.pass(now, request, room(9)).is_none());
    queue.complete(ticket, 12);
}

#[test]
fn what_was_served_elsewhere_is_paid_for_from_the_present_on() {
    const CELLS: u32 = 20;
    let one = |name: u64| Request {
        path: Path::of(name, Weight::ONE),
        class: Class::Normal,
        cost: 1,
        deadline: Tick::MAX,
    };
    let now = Tick::from_micros(0);
    let room = Room { free: 1, whole: 1 };
    let comes = |queue: &mut Queue<u32>, request: Request, item: u32| {
        for _ in 0..100 {
            queue.enqueue(now, request, item).unwrap();
        }
    };
    for (is_known, is_in_line) in [(false, false), (true, false), (true, true)] {
        let mut queue = Queue::new(Settings::default());
        // Virtual time goes on, and somebody is in service all the time.
        let tickets: Vec<Ticket> =
            (0..1_000).map(|_| queue.pass(now, one(3), room).unwrap().1).collect();
        let known = is_known.then(|| queue.pass(now, one(1), room).unwrap().1);
        if is_in_line {
            comes(&mut queue, one(1), 1);
        }
        queue.charge(Class::Normal, &Path::of(1, Weight::ONE), CELLS);
        if !is_in_line {
            comes(&mut queue, one(1), 1);
        }
        comes(&mut queue, one(2), 2);
        let mut before = 0;
        while let Some(Turn::Start(started)) = queue.dispatch(now, room)
            && started.item == 2
        {
            before += 1;
        }
        // What it was known to have had is paid for as well.
        let owed = CELLS + u32::from(is_known);
        assert!((owed..=owed + 1).contains(&before), "{before} for {owed}");
        known.into_iter().chain(tickets).for_each(|ticket| queue.complete(ticket, 1));
    }
}

#[test]
fn whoever_is_charged_and_never_comes_is_forgotten() {
    let mut queue: Queue<u32> = Queue::new(Settings::default());
    let request = |name: u64| Request {
        path: Path::of(name, Weight::ONE),
        class: Class::Normal,
        cost: 1,
        deadline: Tick::MAX,
    };
    let (now, room) = (Tick::from_micros(0), Room { free: 1, whole: 1 });
    for name in 0..10_000 {
        queue.charge(Class::Normal, &Path::of(name, Weight::ONE), 5);
        for _ in 0..10 {
            let (_, ticket) = queue.pass(now, request(20_000), room).unwrap();
            queue.complete(ticket, 1);
        }
        assert!(queue.flows() < 40, "{} are remembered", queue.flows());
    }
}
