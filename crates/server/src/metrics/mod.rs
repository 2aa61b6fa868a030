//! What the server counts about itself, as Prometheus reads it.
//!
//! Counting is an addition to an atomic; everything else happens when somebody asks. Series are
//! bounded: the rules beyond so many are reported as a sum.

mod callers;
mod histogram;
mod load;
mod refusals;
mod rules;
mod shares;
mod spans;
mod store;
mod text;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use tidegate_core::{Span, Tick};
use tidegate_store::{Clock as _, SystemClock};

use self::callers::NoRooms;
pub(crate) use self::callers::What;
use self::histogram::Histogram;
use self::refusals::Refusals;
pub(crate) use self::refusals::Stranger;
pub(crate) use self::spans::SpanCounts;
pub(crate) use self::text::MEDIA_TYPE;
use self::text::{Kind, Text};
use crate::caller::Caller;
use crate::desk::{Desk, NoRoom};

/// One wire protocol of the server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum DoorName {
    Http,
    Grpc,
    Resp,
}

/// Counts of the server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    clock: SystemClock,
    doors: [DoorCounts; 3],
    reloads: Outcomes,
    snapshots: Outcomes,
    snapshot_at: AtomicU64,
    no_rooms: NoRooms,
    refusals: Refusals,
    pub(crate) spans: Arc<SpanCounts>,
}

/// Counts of one door.
#[derive(Debug, Default)]
struct DoorCounts {
    connections: AtomicI64,
    latency: Histogram,
}

/// How often something went well, and how often it did not.
#[derive(Debug, Default)]
struct Outcomes {
    good: AtomicU64,
    bad: AtomicU64,
}

impl DoorName {
    const ALL: [DoorName; 3] = [DoorName::Http, DoorName::Grpc, DoorName::Resp];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            DoorName::Http => "http",
            DoorName::Grpc => "grpc",
            DoorName::Resp => "resp",
        }
    }
}

impl Metrics {
    /// When something begins that [`Metrics::answered`] ends.
    pub(crate) fn begun(&self) -> Tick {
        self.clock.now()
    }

    /// So many requests, which began together, have been answered: now, which is the answer.
    pub(crate) fn answered(&self, door: DoorName, begun: Tick, requests: u64) -> Tick {
        let ended = self.clock.now();
        self.doors[door as usize].latency.add(ended.since(begun), requests);
        ended
    }

    /// How many requests have been answered at a door.
    #[cfg(test)]
    pub(crate) fn answered_by(&self, door: DoorName) -> u64 {
        self.doors[door as usize].latency.count()
    }

    /// There is one connection more, or one less.
    pub(crate) fn connections(&self, door: DoorName, change: i64) {
        self.doors[door as usize].connections.fetch_add(change, Ordering::Relaxed);
    }

    /// A caller was refused for what it showed.
    pub(crate) fn refused(&self, door: DoorName, peer: IpAddr, why: Stranger) {
        self.refusals.add(door, peer, why, self.clock.now());
    }

    /// There was no room for something that a caller asked for.
    pub(crate) fn no_room(&self, what: What, caller: Caller, why: NoRoom) {
        self.no_rooms.add(what, caller, why);
    }

    /// A policy was put in force, or was wrong.
    pub(crate) fn reloaded(&self, is_done: bool) {
        self.reloads.add(is_done);
    }

    /// A snapshot was taken, or could not be.
    pub(crate) fn snapshot(&self, is_saved: bool) {
        self.snapshots.add(is_saved);
        if is_saved {
            self.snapshot_at.store(self.clock.now().get(), Ordering::Relaxed);
        }
    }

    /// Everything, in Prometheus's text format.
    pub(crate) fn exposition(&self, desk: &Desk) -> String {
        let gate = &desk.gate;
        let mut text = Text::default();
        text.family("tidegate_build_info", Kind::Gauge, "The version that runs.");
        text.value(&[("version", env!("CARGO_PKG_VERSION"))], 1);
        self.write_doors(&mut text);
        rules::write(&mut text, gate);
        store::write(&mut text, gate);
        shares::write(&mut text, gate);
        load::write(&mut text, gate);
        self.no_rooms.write(&mut text, desk);
        self.refusals.write(&mut text);
        self.reloads.write(
            &mut text,
            ("tidegate_reloads_total", "Policies that were put in force, or kept out."),
            ["done", "kept"],
        );
        self.snapshots.write(
            &mut text,
            ("tidegate_snapshots_total", "Snapshots that were saved, or could not be."),
            ["saved", "failed"],
        );
        self.spans.write(&mut text);
        let at = self.snapshot_at.load(Ordering::Relaxed);
        if at != 0 {
            let help = "Seconds since the last snapshot was saved.";
            text.family("tidegate_snapshot_age_seconds", Kind::Gauge, help);
            text.value(&[], self.clock.now().since(Tick::from_micros(at)).get() / 1_000_000);
        }
        text.into()
    }

    fn write_doors(&self, text: &mut Text) {
        let doors = || DoorName::ALL.into_iter().zip(&self.doors);
        text.family("tidegate_connections", Kind::Gauge, "Connections that are open, by door.");
        for (door, counts) in doors() {
            let open = counts.connections.load(Ordering::Relaxed).max(0);
            text.value(&[("door", door.name())], open.unsigned_abs());
        }
        let help = "Requests that were answered, by door.";
        text.family("tidegate_door_requests_total", Kind::Counter, help);
        for (door, counts) in doors() {
            text.value(&[("door", door.name())], counts.latency.count());
        }
        let help = "From a request that has been read to its answer, by door.";
        text.family("tidegate_door_latency_seconds", Kind::Histogram, help);
        for (door, counts) in doors() {
            counts.latency.read(|read| text.histogram(&[("door", door.name())], read));
        }
    }
}

impl Outcomes {
    fn add(&self, is_good: bool) {
        let count = if is_good { &self.good } else { &self.bad };
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn write(&self, text: &mut Text, (name, help): (&str, &str), [good, bad]: [&str; 2]) {
        text.family(name, Kind::Counter, help);
        text.value(&[("outcome", good)], self.good.load(Ordering::Relaxed));
        text.value(&[("outcome", bad)], self.bad.load(Ordering::Relaxed));
    }
}

/// A span in seconds, as Prometheus wants it.
fn seconds(span: Span) -> String {
    let micros = span.get();
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}
