//! Bugs that fair queues ship with. Each has a law that our queue keeps, and that a small queue
//! with exactly this bug breaks: a law that nothing can break says nothing.
#![expect(clippy::unwrap_used, reason = "tests")]

mod model;
mod ours;

use model::{Bug, Model};
use ours::Ours;

/// What a law can do to a queue. Requests are known by numbers that the law makes up.
trait Subject {
    /// Whether the request was taken in.
    fn enqueue(&mut self, request: Request) -> bool;
    /// The request that starts in `free` of `whole` cells.
    fn dispatch(&mut self, free: u32, whole: u32) -> Option<Request>;
    fn complete(&mut self, number: u32, actual: u32);
    fn cancel(&mut self, number: u32);
    fn set_weight(&mut self, flow: [u64; 2], weight: u32);
    /// Time goes on; says which requests have expired.
    fn go_on(&mut self, ticks: u64) -> Vec<u32>;
    /// Entries that are held in memory, of whatever kind.
    fn held(&self) -> usize;
}

#[derive(Clone, Copy, Debug)]
struct Request {
    number: u32,
    /// Organization and tenant.
    flow: [u64; 2],
    weight: u32,
    cost: u32,
    deadline: u64,
}

const A: [u64; 2] = [1, 1];
const B: [u64; 2] = [2, 1];
const C: [u64; 2] = [3, 1];
const FREE: u32 = u32::MAX;

fn request(number: u32, flow: [u64; 2], cost: u32) -> Request {
    Request { number, flow, weight: 1, cost, deadline: u64::MAX }
}

/// Starts one and completes it: one server.
fn serve(queue: &mut dyn Subject) -> Request {
    let started = queue.dispatch(FREE, FREE).unwrap();
    queue.complete(started.number, started.cost);
    started
}

/// Serves `count` while `flows` always have two waiting at the given cost; says how many of the
/// first flow's there were.
fn share_of_first(queue: &mut dyn Subject, flows: [([u64; 2], u32); 2], count: u32) -> u32 {
    let mut number = 1_000_000;
    let mut add = |queue: &mut dyn Subject, (flow, cost)| {
        number += 1;
        assert!(queue.enqueue(request(number, flow, cost)));
    };
    for flow in flows {
        add(queue, flow);
        add(queue, flow);
    }
    let mut first = 0;
    for _ in 0..count {
        let served = serve(queue).flow;
        first += u32::from(served == flows[0].0);
        add(queue, if served == flows[0].0 { flows[0] } else { flows[1] });
    }
    first
}

/// A law: whether a queue keeps it.
type Law = fn(&mut dyn Subject) -> bool;

#[track_caller]
fn ours_keeps_it_and_the_bug_breaks_it(law: Law, bug: Bug) {
    assert!(law(&mut Ours::new()), "ours breaks the law");
    assert!(!law(&mut Model::with(bug)), "the bug goes unseen: {bug:?}");
    if bug.has_a_cure_in_the_model() {
        assert!(law(&mut Model::with(Bug::None)), "the law asks for too much");
    }
}

/// A was alone for twenty seconds, then B comes: from now on they are equal.
fn what_was_spare_is_not_held_against_anybody(queue: &mut dyn Subject) -> bool {
    for number in 0..20_000 {
        queue.enqueue(request(number, A, 1));
        queue.go_on(1_000);
        serve(queue);
    }
    40 <= share_of_first(queue, [(A, 1), (B, 1)], 100)
}

#[test]
fn bug_1_a_wall_clock_in_the_tags() {
    ours_keeps_it_and_the_bug_breaks_it(what_was_spare_is_not_held_against_anybody, Bug::WallClock);
}

/// B was away while A was served; being away is not saved up.
fn nothing_is_saved_up_by_being_away(queue: &mut dyn Subject) -> bool {
    queue.enqueue(request(0, B, 1));
    serve(queue);
    queue.enqueue(request(1, A, 1));
    for number in 2..1_000 {
        // A always has one more, so that it never becomes idle.
        queue.enqueue(request(number, A, 1));
        serve(queue);
    }
    40 <= share_of_first(queue, [(A, 1), (B, 1)], 100)
}

#[test]
fn bug_2_idle_time_is_hoarded() {
    ours_keeps_it_and_the_bug_breaks_it(nothing_is_saved_up_by_being_away, Bug::Hoards);
}

/// Ten thousand come and go while one waits.
fn what_is_cancelled_takes_no_memory(queue: &mut dyn Subject) -> bool {
    queue.enqueue(request(0, A, 1));
    for number in 1..10_000 {
        queue.enqueue(request(number, B, 1));
        queue.cancel(number);
    }
    queue.held() < 20
}

#[test]
fn bug_3_tombstones() {
    ours_keeps_it_and_the_bug_breaks_it(what_is_cancelled_takes_no_memory, Bug::Tombstones);
}

/// Far into virtual time, two flows of a large weight and a small cost still take turns.
fn small_steps_are_not_lost_late(queue: &mut dyn Subject) -> bool {
    queue.enqueue(request(0, A, u32::MAX));
    for number in 1..1_000 {
        queue.enqueue(request(number, A, u32::MAX));
        serve(queue);
    }
    let mut served = [0_u32; 2];
    for number in 2_000..2_400 {
        let (flow, weight) = (if number % 2 == 0 { B } else { C }, 1_000_000);
        queue.enqueue(Request { weight, ..request(number, flow, 1) });
    }
    for _ in 0..100 {
        let flow = serve(queue).flow;
        served[0] += u32::from(flow == B);
        served[1] += u32::from(flow == C);
    }
    served[0].abs_diff(served[1]) <= 2
}

#[test]
fn bug_4_tags_in_floating_point() {
    ours_keeps_it_and_the_bug_breaks_it(small_steps_are_not_lost_late, Bug::Floats);
}

/// A took much while nobody else was there. When all is done, nobody owes anybody anything.
fn an_empty_queue_remembers_no_debt(queue: &mut dyn Subject) -> bool {
    queue.enqueue(request(0, A, 1_000));
    serve(queue);
    4 <= share_of_first(queue, [(A, 1), (B, 1)], 10)
}

#[test]
fn bug_5_virtual_time_stands_while_the_queue_is_idle() {
    ours_keeps_it_and_the_bug_breaks_it(an_empty_queue_remembers_no_debt, Bug::StandsWhileIdle);
}

/// The other half of it: what is in service is not idle.
fn a_debt_is_not_forgiven_while_it_is_served(queue: &mut dyn Subject) -> bool {
    queue.enqueue(request(0, A, 100));
    let slow = queue.dispatch(FREE, FREE).unwrap();
    let first = share_of_first(queue, [(A, 1), (B, 1)], 20);
    queue.complete(slow.number, slow.cost);
    first == 0
}

#[test]
fn bug_5_virtual_time_is_reset_too_early() {
    let law = a_debt_is_not_forgiven_while_it_is_served;
    ours_keeps_it_and_the_bug_breaks_it(law, Bug::ResetsInService);
}

/// A sent a hundred and took them back before they started.
fn who_cancels_pays_nothing(queue: &mut dyn Subject) -> bool {
    queue.enqueue(request(0, B, 1));
    for number in 1..100 {
        queue.enqueue(request(number, A, 1));
        queue.cancel(number);
    }
    4 <= share_of_first(queue, [(A, 1), (B, 1)], 10)
}

#[test]
fn bug_6_charged_when_it_comes_and_not_refunded() {
    ours_keeps_it_and_the_bug_breaks_it(who_cancels_pays_nothing, Bug::ChargesOnArrival);
}

/// A sends one large request at a time, B has always many small ones: cells are shared equally.
fn one_at_a_time_pays_its_debts(queue: &mut dyn Subject) -> bool {
    let mut number = 0;
    let mut cells = [0_u32; 2];
    let mut add = |queue: &mut dyn Subject, flow, cost| {
        number += 1;
        queue.enqueue(request(number, flow, cost));
    };
    for _ in 0..3 {
        add(queue, B, 1);
    }
    add(queue, A, 10);
    for _ in 0..500 {
        let served = serve(queue);
        cells[usize::from(served.flow == B)] += served.cost;
        add(queue, served.flow, served.cost);
    }
    cells[0] <= cells[1] + 20
}

#[test]
fn bug_7_a_flow_is_forgotten_with_its_debt() {
    ours_keeps_it_and_the_bug_breaks_it(one_at_a_time_pays_its_debts, Bug::ForgetsDebt);
}

/// Requests of ten cells and of one: one in eleven is a large one.
fn cells_are_shared_and_not_requests(queue: &mut dyn Subject) -> bool {
    share_of_first(queue, [(A, 10), (B, 1)], 110) <= 12
}

#[test]
fn bug_8_fair_by_request() {
    ours_keeps_it_and_the_bug_breaks_it(cells_are_shared_and_not_requests, Bug::ByRequest);
}

/// A says one and takes ten.
fn what_was_underestimated_is_paid_for(queue: &mut dyn Subject) -> bool {
    let mut number = 0;
    let mut cells = [0_u32; 2];
    let mut add = |queue: &mut dyn Subject, flow| {
        number += 1;
        queue.enqueue(request(number, flow, 1));
    };
    for flow in [A, A, B, B] {
        add(queue, flow);
    }
    for _ in 0..500 {
        let served = queue.dispatch(FREE, FREE).unwrap();
        let is_a = served.flow == A;
        let actual = if is_a { 10 } else { 1 };
        queue.complete(served.number, actual);
        cells[usize::from(!is_a)] += actual;
        add(queue, served.flow);
    }
    cells[0] <= cells[1] + 20
}

#[test]
fn bug_8_no_true_up() {
    ours_keeps_it_and_the_bug_breaks_it(what_was_underestimated_is_paid_for, Bug::NoTrueUp);
}

/// Ten places, taken and given back one by one, and one request that needs them all.
/// How many others start before it does; nothing if it never starts.
fn passed_by(queue: &mut dyn Subject) -> Option<u32> {
    let mut running = std::collections::VecDeque::new();
    let mut number = 1;
    for _ in 0..20 {
        number += 1;
        queue.enqueue(request(number, B, 1));
    }
    for _ in 0..9 {
        running.push_back(queue.dispatch(10 - u32::try_from(running.len()).unwrap(), 10)?);
    }
    queue.enqueue(request(0, A, 10));
    let mut passed = 0;
    for _ in 0..100 {
        number += 1;
        queue.enqueue(request(number, B, 1));
        let free = 10 - u32::try_from(running.len()).unwrap();
        while let Some(started) = queue.dispatch(10 - u32::try_from(running.len()).unwrap(), 10) {
            assert!(started.cost <= free, "more than there is");
            if started.number == 0 {
                return Some(passed);
            }
            passed += 1;
            running.push_back(started);
        }
        if let Some(done) = running.pop_front() {
            queue.complete(done.number, done.cost);
        }
    }
    None
}

fn a_wide_request_does_not_starve(queue: &mut dyn Subject) -> bool {
    passed_by(queue).is_some_and(|passed| passed <= 20)
}

fn a_wide_request_does_not_block_all(queue: &mut dyn Subject) -> bool {
    passed_by(queue).is_none_or(|passed| 5 <= passed)
}

#[test]
fn bug_9_a_wide_request_is_skipped() {
    ours_keeps_it_and_the_bug_breaks_it(a_wide_request_does_not_starve, Bug::SkipsWide);
}

#[test]
fn bug_9_a_wide_request_blocks() {
    ours_keeps_it_and_the_bug_breaks_it(a_wide_request_does_not_block_all, Bug::BlocksForWide);
}

/// One organization has one tenant, the other calls itself by a hundred names.
fn many_names_are_one_organization(queue: &mut dyn Subject) -> bool {
    let mut number = 0;
    let mut honest = 0;
    for round in 0..200 {
        for name in 0..100 {
            number += 1;
            if round < 5 {
                queue.enqueue(request(number, [9, name], 1));
            }
        }
        number += 1;
        queue.enqueue(request(number, A, 1));
        honest += u32::from(serve(queue).flow == A);
        honest += u32::from(serve(queue).flow == A);
    }
    180 <= honest
}

#[test]
fn bug_10_many_names() {
    ours_keeps_it_and_the_bug_breaks_it(many_names_are_one_organization, Bug::Flat);
}

/// Nobody comes, and still the deadline passes: the request hears of it, and does not start.
fn a_deadline_passes_by_itself(queue: &mut dyn Subject) -> bool {
    for (number, deadline) in [(1, 100), (2, 1_000), (3, 5_000)] {
        queue.enqueue(Request { deadline, ..request(number, A, 1) });
    }
    let first = queue.go_on(500);
    let starts = queue.dispatch(FREE, FREE).map(|started| started.number);
    let second = queue.go_on(10_000);
    first == [1] && starts == Some(2) && second == [3]
}

#[test]
fn bug_11_deadlines_are_seen_to_only_when_somebody_comes() {
    ours_keeps_it_and_the_bug_breaks_it(a_deadline_passes_by_itself, Bug::ExpiresOnArrival);
}

/// A was served a hundred at weight one. A larger weight does not undo that.
fn a_weight_counts_from_the_next_turn(queue: &mut dyn Subject) -> bool {
    for number in 0..300 {
        queue.enqueue(request(number, B, 1));
    }
    for number in 300..310 {
        queue.enqueue(request(number, A, 100));
    }
    while serve(queue).flow != A {}
    queue.set_weight(A, 1_000);
    let before = (0..300).take_while(|_| serve(queue).flow != A).count();
    90 <= before
}

#[test]
fn bug_12_a_new_weight_rewrites_what_was_charged() {
    ours_keeps_it_and_the_bug_breaks_it(a_weight_counts_from_the_next_turn, Bug::RewritesTags);
}

/// Somebody has filled the queue; the next to come is taken in all the same.
fn a_full_queue_takes_a_newcomer(queue: &mut dyn Subject) -> bool {
    let filled = (0..2_000).take_while(|number| queue.enqueue(request(*number, A, 1))).count();
    assert_eq!(filled, model::REQUESTS_MAX);
    (0..10).all(|number| queue.enqueue(request(1_000_000 + number, B, 1)))
        && !queue.enqueue(request(2_000_000, A, 1))
        && 4 <= (0..10).filter(|_| serve(queue).flow == B).count()
}

#[test]
fn bug_13_a_full_queue_refuses_whoever_comes() {
    ours_keeps_it_and_the_bug_breaks_it(a_full_queue_takes_a_newcomer, Bug::TailDrop);
}
