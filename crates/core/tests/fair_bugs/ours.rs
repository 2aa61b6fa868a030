//! The queue that ships, as a subject.

use std::collections::BTreeMap;

use tidegate_core::Tick;
use tidegate_core::fair::{self, Class, Handle, Path, Queue, Room, Settings, Ticket, Turn, Weight};

use crate::model::REQUESTS_MAX;
use crate::{Request, Subject};

pub(crate) struct Ours {
    queue: Queue<Request>,
    now: u64,
    handles: BTreeMap<u32, Handle>,
    tickets: BTreeMap<u32, Ticket>,
}

impl Ours {
    pub(crate) fn new() -> Ours {
        let requests_max = u32::try_from(REQUESTS_MAX).unwrap();
        let bounds = Settings { requests_max, flow_requests_max: 100_000, ..Settings::default() };
        let queue = Queue::new(Settings { levels: 2, ..bounds });
        Ours { queue, now: 0, handles: BTreeMap::new(), tickets: BTreeMap::new() }
    }

    fn now(&self) -> Tick {
        Tick::from_micros(self.now)
    }
}

fn path([organization, tenant]: [u64; 2], weight: u32) -> Path {
    Path::of(organization, Weight::new(weight)).then(tenant, Weight::ONE)
}

impl Subject for Ours {
    fn enqueue(&mut self, request: Request) -> bool {
        let asked = fair::Request {
            path: path(request.flow, request.weight),
            class: Class::Normal,
            cost: request.cost,
            deadline: Tick::from_micros(request.deadline),
        };
        let enqueued = self.queue.enqueue(self.now(), asked, request);
        let handle = enqueued.map(|enqueued| enqueued.handle);
        handle.map(|handle| self.handles.insert(request.number, handle)).is_ok()
    }

    fn dispatch(&mut self, free: u32, whole: u32) -> Option<Request> {
        match self.queue.dispatch(self.now(), Room { free, whole })? {
            Turn::Start(started) => {
                self.tickets.insert(started.item.number, started.ticket);
                Some(started.item)
            }
            Turn::Drop(_) => self.dispatch(free, whole),
        }
    }

    fn complete(&mut self, number: u32, actual: u32) {
        let ticket = self.tickets.remove(&number).unwrap();
        self.queue.complete(ticket, actual);
    }

    fn cancel(&mut self, number: u32) {
        self.queue.cancel(self.handles[&number]).unwrap();
    }

    fn set_weight(&mut self, flow: [u64; 2], weight: u32) {
        let organization = Path::of(flow[0], Weight::ONE);
        self.queue.set_weight(Class::Normal, &organization, Weight::new(weight));
    }

    fn go_on(&mut self, ticks: u64) -> Vec<u32> {
        self.now += ticks;
        let now = self.now();
        std::iter::from_fn(|| self.queue.expire(now)).map(|it| it.item.number).collect()
    }

    fn held(&self) -> usize {
        self.queue.len() as usize + self.queue.flows()
    }
}
