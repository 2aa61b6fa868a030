//! Floods of made-up keys: what they leave to newcomers, and what they cost.
//!
//! Time stands still while keys come, so that nothing is paid meanwhile: the worst that so many
//! keys can do. Only how long decisions take depends on the machine.

use tidegate::{Kind, MemoryStore, Policy, Quota, Rule, Tick};

use crate::figure::{Figure, Target, Unit};
use crate::report::{Report, Table};
use crate::setting::Effort;
use crate::statistics::{float, median, nanos_each};
use crate::timer;

pub(crate) fn run(effort: Effort) -> Report {
    let mut report = Report::new(ABOUT);
    let keys_max = effort.of(KEYS_MAX);
    let mut table = Table::new("Floods".to_owned(), &HEAD);
    for kind in Kind::ALL {
        let mut slowdowns = Vec::new();
        for (flood, cost) in FLOODS.iter().flat_map(|flood| COSTS.map(|cost| (flood, cost))) {
            let found = Found::of(kind, (keys_max, flood.keys(keys_max)), cost);
            let name = format!("crowd/{kind}/{}-{}", flood.name, cost.name);
            let figure = |what, value, unit, target| Figure {
                name: format!("{name}/{what}"),
                value,
                unit,
                target,
            };
            let none = Target::AtMost(0.0);
            report.figures.push(figure("forgiven", found.forgiven, Unit::Violations, none));
            let least = flood.least_well_off(cost);
            if kind != Kind::Concurrency && 0.0 < least {
                let least = Target::AtLeast(least);
                report.figures.push(figure("well-off", found.well_off, Unit::Ratio, least));
            }
            slowdowns.push(found.at_cap / found.below);
            table.add(vec![
                kind.name().to_owned(),
                flood.name.to_owned(),
                cost.name.to_owned(),
                format!("{:.1} %", 100.0 * found.well_off),
                format!("{:.0}", found.forgiven),
                format!("{:.0}", found.below),
                format!("{:.0}", found.at_cap),
            ]);
        }
        report.figures.push(Figure {
            name: format!("crowd/{kind}/slowdown"),
            value: median(&slowdowns),
            unit: Unit::Ratio,
            target: Target::AtMost(SLOWDOWN_MAX),
        });
    }
    report.tables.push(table);
    report
}

/// Keys beyond the cap.
struct Flood {
    name: &'static str,
    /// In quarters of the cap, which is how many groups there are.
    quarters: u64,
    /// What newcomers must keep at least half of their allowance, in each of [`COSTS`].
    least: [f64; 2],
}

impl Flood {
    fn keys(&self, keys_max: u64) -> u64 {
        keys_max * self.quarters / 4
    }

    fn least_well_off(&self, cost: Cost) -> f64 {
        self.least[usize::from(cost.cells != 1)]
    }
}

/// What each key of a flood takes.
#[derive(Clone, Copy)]
struct Cost {
    name: &'static str,
    cells: u32,
}

/// What came of one flood.
struct Found {
    /// Which part of newcomers could have half of their allowance at once.
    well_off: f64,
    /// How many keys that were over their limit got anything afterwards.
    forgiven: f64,
    /// Nanoseconds for the decision on a new key, below the cap and beyond it.
    below: f64,
    at_cap: f64,
}

impl Found {
    fn of(kind: Kind, (keys_max, beyond): (u64, u64), cost: Cost) -> Self {
        let keys = usize::try_from(keys_max).expect("fewer keys than addresses");
        let store = MemoryStore::with_keys_max(keys);
        let quota = Quota::per_hour(LIMIT);
        let policy = Policy::new(kind, quota).expect("a small quota");
        let rule = store.rule(policy).expect("the first rule");
        let sprayed = Sprayed { store: &store, rule: &rule };
        let early = sprayed.over_their_limit("early");
        let below = sprayed.spray(0..keys_max, cost.cells);
        let at_cap = sprayed.spray(keys_max..keys_max + beyond, cost.cells);
        let well_off = (0..NEWCOMERS).filter(|id| sprayed.is_well_off(*id)).count();
        // Those that there is no room for are over their limit, too; of permits they have none.
        let late = if kind == Kind::Concurrency { 0..0 } else { sprayed.over_their_limit("late") };
        sprayed.spray(0..beyond, cost.cells);
        let forgiven = early.filter(|id| sprayed.passes("early", *id, 1)).count()
            + late.filter(|id| sprayed.passes("late", *id, 1)).count();
        Self {
            well_off: float(well_off as u64) / float(NEWCOMERS),
            forgiven: float(forgiven as u64),
            below,
            at_cap,
        }
    }
}

/// A store with one rule, at one tick.
struct Sprayed<'a> {
    store: &'a MemoryStore,
    rule: &'a Rule,
}

impl Sprayed<'_> {
    fn passes(&self, of: &str, id: u64, cells: u32) -> bool {
        let key = self.store.key((of, id)).expect("a short key");
        self.store.decide(self.rule, key, NOW, cells).verdict.passes()
    }

    /// Whether a newcomer could have half of its allowance. Permits have to be taken, to know.
    fn is_well_off(&self, id: u64) -> bool {
        if self.rule.policy().kind() == Kind::Concurrency {
            return self.passes("newcomer", id, LIMIT / 2);
        }
        let key = self.store.key(("newcomer", id)).expect("a short key");
        LIMIT / 2 <= self.store.peek(self.rule, key, NOW, 0).remaining
    }

    /// Keys that have used up their limit.
    fn over_their_limit(&self, of: &str) -> std::ops::Range<u64> {
        for id in 0..OVER {
            while self.passes(of, id, 1) {}
        }
        0..OVER
    }

    /// Nanoseconds for each.
    fn spray(&self, ids: std::ops::Range<u64>, cells: u32) -> f64 {
        let (start, count) = (timer::now(), ids.end - ids.start);
        for id in ids {
            std::hint::black_box(self.passes("sprayed", id, cells));
        }
        nanos_each(start.elapsed(), count)
    }
}

const ABOUT: &str = "A store for a million keys is filled with made-up ones, and more come \
    beyond that, a quarter of the cap, the whole of it, or four times as many. \
    The limit is ten an hour, and no time passes. \
    \"Well off\" is which part of a thousand newcomers could have five of its ten cells at once. \
    \"Forgiven\" is how many of two thousand keys over their limit get anything after the flood. \
    Nanoseconds are for a decision on a new key, below the cap and beyond it: \
    the figure is the median of six floods. \
    Permits cannot be shared by a group: there newcomers are refused until one is free.";
const HEAD: [&str; 7] =
    ["algorithm", "flood", "each takes", "well off", "forgiven", "ns below", "ns beyond"];
const NOW: Tick = Tick::from_micros(1_700_000_000_000_000);
const KEYS_MAX: u64 = MemoryStore::KEYS_MAX as u64;
const LIMIT: u32 = 10;
const NEWCOMERS: u64 = 1_000;
const OVER: u64 = 1_000;
const SLOWDOWN_MAX: f64 = 2.0;

/// A group that is hit k times leaves half of ten cells as long as k is at most five, or at all
/// only if k is zero where a key takes all. Of a thousand newcomers three deviations are allowed.
const FLOODS: [Flood; 3] = [
    Flood { name: "quarter", quarters: 1, least: [0.99, 0.32] },
    Flood { name: "whole", quarters: 4, least: [0.74, 0.0] },
    Flood { name: "fourfold", quarters: 16, least: [0.0, 0.0] },
];
const COSTS: [Cost; 2] = [Cost { name: "1", cells: 1 }, Cost { name: "all", cells: LIMIT }];
