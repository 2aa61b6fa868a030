//! How long one who asks little waits among a thousand who always ask for more.

use tidegate::Tick;

use super::{Draw, queue, request, start};
use crate::statistics::float;

pub(super) const REQUESTS: u64 = 2_000;

const ELEPHANTS: u32 = 1_000;
const COST_MAX: u32 = 10;
const MOUSE: u32 = u32::MAX;

/// The longest wait of the mouse among elephants, less 1.1 times the longest alone, in largest
/// requests.
pub(super) fn wait(requests: u64) -> f64 {
    let (among, alone) = (longest(requests, ELEPHANTS), longest(requests, 0));
    (float(among) - 1.1 * float(alone)) / f64::from(COST_MAX)
}

/// One server, a tick a cell.
fn longest(requests: u64, elephants: u32) -> u64 {
    let mut queue = queue(4 * ELEPHANTS);
    let mut draw = Draw(5);
    let (mut now, mut longest) = (0, 0);
    let add = |queue: &mut _, flow: u32, draw: &mut Draw, now| {
        let asked = request(flow.into(), 1, 1 + draw.below(COST_MAX), Tick::MAX);
        tidegate::fair::order::Queue::enqueue(queue, Tick::from_micros(now), asked, flow)
            .expect("there is room");
    };
    for flow in 0..elephants {
        add(&mut queue, flow, &mut draw, now);
        add(&mut queue, flow, &mut draw, now);
    }
    // Two rounds: in these everybody gets more than one largest request.
    let rounds = u64::from(ELEPHANTS + 1) * 11;
    let (mut mouse_at, mut seen) = (rounds, 0);
    while seen < requests {
        if mouse_at <= now || queue.is_empty() {
            now = now.max(mouse_at);
            add(&mut queue, MOUSE, &mut draw, mouse_at);
            mouse_at += rounds + u64::from(draw.below(u32::try_from(rounds).unwrap_or(u32::MAX)));
        }
        let started = start(&mut queue, Tick::from_micros(now)).expect("somebody waits");
        if started.item == MOUSE {
            longest = longest.max(started.waited.get());
            seen += 1;
        } else {
            add(&mut queue, started.item, &mut draw, now);
        }
        now += u64::from(started.cost);
        queue.complete(started.ticket, started.cost);
    }
    longest
}
