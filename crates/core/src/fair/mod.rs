//! Who is next: a start-time fair queue, in whole numbers.
//!
//! Requests wait in **flows**, and flows share what there is by **weight**: while two of them have
//! requests, what each is served, divided by its weight, never differs by more than one largest
//! request of each. That holds for any speed, and for a speed that changes, since virtual time is
//! where the last request that was served had stood, and never what a clock says.
//!
//! - A flow that was away gets no credit for it, and pays for what it was served before.
//! - What is charged is the cost, and [`Queue::complete`] puts right what was only an estimate.
//! - Flows may be grouped: organization, tenant, user. Each level is fair by itself, so that a
//!   tenant does not get more by calling itself by many names.
//! - [Classes](Class) come before weights; every lower one has a floor.
//! - Everything is bounded. Where there is no room, the flow with the most by weight loses.
//! - Nothing here reads a clock or takes a lock, and no call looks at all flows.
//!
//! ```
//! use tidegate_core::Tick;
//! use tidegate_core::fair::{Class, Path, Queue, Request, Room, Settings, Turn, Weight};
//!
//! let mut queue = Queue::new(Settings::default());
//! let now = Tick::from_micros(0);
//! let (small, large) = (Path::of(1, Weight::ONE), Path::of(2, Weight::new(3)));
//! for (path, name) in [(small, "small"), (large, "large")] {
//!     let (class, deadline) = (Class::Normal, Tick::from_micros(1_000_000));
//!     let request = Request { path, class, cost: 1, deadline };
//!     for _ in 0..100 {
//!         queue.enqueue(now, request, name).expect("there is room");
//!     }
//! }
//! // One place, and every request is done at once.
//! let mut served = Vec::new();
//! for _ in 0..8 {
//!     let Some(Turn::Start(started)) = queue.dispatch(now, Room { free: 1, whole: 1 }) else {
//!         panic!("nothing is next");
//!     };
//!     served.push(started.item);
//!     queue.complete(started.ticket, 1);
//! }
//! assert_eq!(served.iter().filter(|name| **name == "large").count(), 6);
//! ```

mod bags;
mod classes;
mod dispatch;
mod estimate;
mod heap;
mod names;
mod node;
mod outcome;
mod path;
mod queue;
mod settings;
mod shelves;
mod slab;
mod standing;
mod tree;
mod turns;
mod weight;
mod wheel;

pub use self::outcome::{Enqueued, Reason, Refused, Request, Room, Started, Ticket, Turn};
pub use self::path::{Class, Path};
pub use self::queue::Queue;
pub use self::settings::{Settings, Shed};
pub use self::slab::Handle;
pub use self::weight::Weight;
