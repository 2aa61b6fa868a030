//! Adaptive limits in virtual time: ours beside published laws, each scored beside an oracle.
//!
//! Nothing here depends on the machine: the same seeds give the same numbers everywhere.

use tidegate::Span;
use tidegate_sim::adapt::{Clients, Guard, Profile, Run, Scenario, Score, Spread, limit, run};

use crate::figure::{Figure, Target, Unit};
use crate::report::{Report, Table};
use crate::setting::Effort;
use crate::statistics::median;

pub(crate) fn run_all(effort: Effort) -> Report {
    let mut report = Report::new(ABOUT);
    // Other seeds than those that the law was tuned with.
    let seeds: Vec<u64> = (301..).take(if effort == Effort::Quick { 1 } else { 20 }).collect();
    let mut spread =
        Table::new(SPREAD.to_owned(), &["latency", "inflation", "goodput", "settle s"]);
    for latency in LATENCIES {
        let runs = Runs::of(OURS, &plants(latency, &seeds));
        report.figures.extend(runs.figures(latency));
        spread.add(runs.row(latency));
    }
    report.tables.push(spread);
    report.tables.push(beside(&seeds));
    report.tables.push(events(&seeds));
    let storms = seeds.iter().take(5).map(|seed| storm(OURS, Span::from_millis(100), *seed));
    report.figures.push(figure("storm/100ms", highest(storms), Unit::Seconds, 5.0));
    let drifts = seeds.iter().take(2).map(|seed| drift(OURS, *seed, effort));
    report.figures.push(figure("drift/24h", highest(drifts), Unit::Ratio, 0.05));
    report
}

/// Services of one latency that differ in how their times are spread, each under every seed.
fn plants(latency: Span, seeds: &[u64]) -> Vec<Scenario> {
    let spreads = [Spread::Even(0.5), Spread::Exponential];
    let plants = spreads.into_iter().flat_map(|spread| {
        seeds.iter().map(move |seed| Scenario { spread, ..plant(latency, *seed) })
    });
    plants.collect()
}

/// A hundred workers; long enough to learn, and as long again to be scored.
fn plant(latency: Span, seed: u64) -> Scenario {
    let length = Span::from_micros((600 * latency.get()).clamp(15_000_000, 400_000_000));
    let warm_up = Span::from_micros(length.get() / 3);
    Scenario { length, warm_up, ..Scenario::new(WORKERS, latency, seed) }
}

/// What came of several plants, each from best to worst.
struct Runs {
    inflation: Vec<f64>,
    goodput: Vec<f64>,
    settle: Vec<f64>,
}

impl Runs {
    fn of(name: &str, plants: &[Scenario]) -> Runs {
        let ordered = |measure: &dyn Fn(&Scenario) -> f64| {
            let mut values: Vec<f64> = plants.iter().map(measure).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let mut goodput = ordered(&|plant| Score::of(&overload(plant), name).goodput);
        goodput.reverse();
        Runs {
            inflation: ordered(&|plant| Score::of(plant, name).inflation),
            goodput,
            settle: ordered(&|plant| settle(name, plant)),
        }
    }

    fn figures(&self, latency: Span) -> Vec<Figure> {
        // Nothing can be known before answers come: ten latencies, if a second is less.
        let settle_max = (10.0 * seconds(latency)).max(1.0);
        let goodput =
            figure(&format!("goodput-10x/{latency}"), most(&self.goodput), Unit::Ratio, 0.95);
        vec![
            figure(&format!("inflation/{latency}"), most(&self.inflation), Unit::Ratio, 1.10),
            Figure { target: Target::AtLeast(0.95), ..goodput },
            figure(&format!("settle/{latency}"), most(&self.settle), Unit::Seconds, settle_max),
        ]
    }

    fn row(&self, latency: Span) -> Vec<String> {
        let cell = |values: &[f64]| {
            let worst = values[values.len() - 1];
            format!("{:.2} {:.2} {worst:.2}", median(values), most(values))
        };
        let cells = [&self.inflation, &self.goodput, &self.settle].map(|values| cell(values));
        [latency.to_string()].into_iter().chain(cells).collect()
    }
}

/// What nine of ten keep.
fn most(values: &[f64]) -> f64 {
    values[(values.len() * 9).div_ceil(10) - 1]
}

fn overload(plant: &Scenario) -> Scenario {
    Scenario { clients: Clients { load: 10.0, ..plant.clients }, ..*plant }
}

/// How long it takes until a service with half its workers is guarded as the oracle does it.
fn settle(name: &str, plant: &Scenario) -> f64 {
    let at = seconds(plant.length) / 2.0;
    let halved = Scenario { profile: Profile::Step { at, by: 0.5 }, ..*plant };
    let span = (5.0 * seconds(plant.service)).max(0.5);
    run(&halved, name).settles(&run(&halved, "oracle"), at, span)
}

/// How long after a spike of one second, in which clients begin to time out and to retry, as much
/// is served as before.
fn storm(name: &str, latency: Span, seed: u64) -> f64 {
    let timeout = 10.0 * seconds(latency);
    let clients = Clients { load: 0.9, spike: Some((30.0, 31.0, 3.0)), timeout, retries: 3 };
    let length = Span::from_secs(60);
    let plant = Scenario { clients, length, ..Scenario::new(WORKERS, latency, seed) };
    run(&plant, name).recovers(31.0, 0.9 * plant.rate(), 0.95)
}

/// How far the mean limit of any hour is from that of the first.
fn drift(name: &str, seed: u64, effort: Effort) -> f64 {
    let hours = if effort == Effort::Quick { 2 } else { 24 };
    let length = Span::from_secs(hours * 3_600);
    let plant = Scenario { length, ..Scenario::new(100, Span::from_secs(1), seed) };
    let run = run(&plant, name);
    let first = hour(&run, 0);
    highest((1..hours).map(|nth| (hour(&run, nth) / first - 1.0).abs()))
}

/// The mean limit of an hour, of which the first has to be learned for five minutes.
fn hour(run: &Run, nth: u32) -> f64 {
    let from = 3_600.0 * f64::from(nth);
    let learned = if nth == 0 { 300.0 } else { 0.0 };
    limit(run.between(from + learned, from + 3_600.0))
}

/// All guards before the same services.
fn beside(seeds: &[u64]) -> Table {
    let title = "Nine of ten runs, latencies of 10 ms and 100 ms".to_owned();
    let head = ["guard", "inflation", "goodput at 10x", "settle s", "storm s"];
    let mut table = Table::new(title, &head);
    let (brief, long) = (Span::from_millis(10), Span::from_millis(100));
    for name in Guard::NAMES.into_iter().filter(|name| *name != "oracle") {
        let few = &seeds[..seeds.len().min(5)];
        let runs = [brief, long].map(|latency| Runs::of(name, &plants(latency, few)));
        let storms = [brief, long].map(|latency| storm(name, latency, seeds[0]));
        let both = |pick: fn(&Runs) -> &[f64], digits: usize| {
            let [brief, long] = [&runs[0], &runs[1]].map(|runs| most(pick(runs)));
            format!("{brief:.digits$}, {long:.digits$}")
        };
        table.add(vec![
            name.to_owned(),
            both(|runs| &runs.inflation, 2),
            both(|runs| &runs.goodput, 3),
            both(|runs| &runs.settle, 2),
            format!("{:.1}, {:.1}", storms[0], storms[1]),
        ]);
    }
    table
}

/// What else happens to services: goodput and inflation of each guard.
fn events(seeds: &[u64]) -> Table {
    let title = "Goodput of the oracle's, and inflation, through events; 10 ms".to_owned();
    let profiles = [
        ("half as many", Profile::Ramp { from: 20.0, to: 40.0, by: 0.5 }),
        ("square wave", Profile::Square { every: 10.0 }),
        ("twice as slow", Profile::Slower { at: 30.0, by: 2.0 }),
        ("leak", Profile::Leak { from: 20.0, to: 50.0, by: 2.0 }),
        ("pauses", Profile::Pauses { every: 5.0, lasts: 0.2 }),
    ];
    let names = profiles.map(|(name, _)| name);
    let head: Vec<&str> = ["guard"].into_iter().chain(names).chain(["bimodal"]).collect();
    let mut table = Table::new(title, &head);
    let plain = Scenario::new(WORKERS, Span::from_millis(10), seeds[0]);
    let mut plants: Vec<Scenario> =
        profiles.iter().map(|(_, profile)| Scenario { profile: *profile, ..plain }).collect();
    plants.push(Scenario { spread: Spread::Bimodal(10.0), ..plain });
    for name in Guard::NAMES.into_iter().filter(|name| *name != "oracle") {
        let scores = plants.iter().map(|plant| Score::of(plant, name));
        let cells = scores.map(|score| format!("{:.2}, {:.2}", score.goodput, score.inflation));
        table.add([name.to_owned()].into_iter().chain(cells).collect());
    }
    table
}

fn figure(name: &str, value: f64, unit: Unit, most: f64) -> Figure {
    Figure { name: format!("adaptive/{name}"), value, unit, target: Target::AtMost(most) }
}

fn highest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max)
}

fn seconds(span: Span) -> f64 {
    std::time::Duration::from(span).as_secs_f64()
}

const ABOUT: &str = "A service of a hundred workers in virtual time, asked for half as much again \
    as it can do unless it says otherwise. \
    Inflation is the mean latency inside the service divided by that behind an oracle, which \
    always admits as many as there are workers; goodput is what was served as a share of the \
    oracle's. \
    Settle is how long after half of the workers are gone latency and limit are within a quarter \
    of the oracle's, and goodput within a tenth, for half a second or five latencies. \
    Storm is how long after a spike of one second, with clients that time out and retry, 95 % of \
    the load is served again; 29 is never. \
    Drift is how far the mean limit of any hour of a day is from that of the first. \
    Figures are what nine of ten runs keep, over two spreads of service times (even, exponential) \
    and twenty seeds; the worst stands in the first table. \
    With exponential times and a latency of a second, a hundred answers come in a second, and \
    their mean is known to a tenth.";
const SPREAD: &str = "Median, nine of ten, and worst of forty runs";
const OURS: &str = "tidegate";
const WORKERS: u32 = 100;
const LATENCIES: [Span; 4] =
    [Span::from_millis(1), Span::from_millis(10), Span::from_millis(100), Span::from_secs(1)];
