//! Nanoseconds a decision, all subjects in turn in every round.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::figure::{Figure, Target, Unit, own_algorithm};
use crate::key::Key;
use crate::order;
use crate::report::{Report, Table};
use crate::setting::Effort;
use crate::statistics::{Spread, float, median, nanos_each};
use crate::subject::{BASE, CONTENDERS, Contender, Subject};
use crate::tape::Tape;
use crate::timer;
use crate::usual;
use crate::workload::{Call, Draw, Scene, Workload, scenes};

pub(crate) fn run(effort: Effort) -> Report {
    let mut report = Report::new(ABOUT);
    for scene in scenes(effort) {
        let columns = measure(&scene, effort);
        for (workload, column) in scene.workloads.iter().zip(&columns) {
            report.tables.push(table(workload, column));
            report.figures.extend(figures(workload, column));
        }
        report.figures.extend(usual::figures(&scene, &columns));
    }
    report
}

/// One subject under one workload.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// Nanoseconds a decision, one value a round.
    pub(crate) nanos: Vec<f64>,
    /// Processors that its threads had, one value a round.
    pub(crate) cores: Vec<f64>,
    decisions: u64,
    admitted: u64,
}

fn measure(scene: &Scene, effort: Effort) -> Vec<Vec<Row>> {
    let draws: Vec<Vec<Vec<Key>>> =
        scene.workloads.iter().map(|workload| draws(workload, scene.setting.keys)).collect();
    let entrants = fill(scene);
    let mut columns: Vec<Vec<Row>> =
        scene.workloads.iter().map(|workload| rows(workload, &entrants)).collect();
    for round in 0..ROUNDS {
        for ((workload, column), draws) in scene.workloads.iter().zip(&mut columns).zip(&draws) {
            let laps = if workload.is_hot() { effort.of(HOT_LAPS) } else { 1 };
            let tapes: Vec<Tape<'_>> = draws.iter().map(|keys| Tape::new(keys, laps)).collect();
            // Every round starts with another subject, so that none always follows the same one.
            for turn in 0..column.len() {
                let place = (turn + round) % column.len();
                let row = &mut column[place];
                let (contender, subject) = entrants
                    .iter()
                    .find(|(contender, _)| contender.name == row.name)
                    .expect("rows are made of entrants");
                time(row, workload, subject.as_ref(), &thinned(&tapes, contender.thinning));
            }
        }
    }
    columns
}

/// The subjects of a scene, having seen every key.
fn fill(scene: &Scene) -> Vec<(Contender, Box<dyn Subject>)> {
    let keys: Vec<Key> = (0..scene.setting.keys).map(Key::numbered).collect();
    let tape = Tape::new(&keys, scene.passes);
    CONTENDERS
        .iter()
        .filter(|contender| scene.workloads.iter().any(contender.decides))
        .map(|contender| {
            let subject = (contender.make)(&scene.setting);
            subject.play(&tape);
            (*contender, subject)
        })
        .collect()
}

fn rows(workload: &Workload, entrants: &[(Contender, Box<dyn Subject>)]) -> Vec<Row> {
    entrants
        .iter()
        .filter(|(contender, _)| (contender.decides)(workload))
        .map(|(contender, _)| Row {
            name: contender.name,
            nanos: Vec::new(),
            cores: Vec::new(),
            decisions: 0,
            admitted: 0,
        })
        .collect()
}

/// As many draws as there are keys, for each thread its own.
fn draws(workload: &Workload, keys: u64) -> Vec<Vec<Key>> {
    let count = u32::try_from(keys).expect("fewer than 2^32 keys");
    (1..)
        .take(workload.threads)
        .map(|seed| match workload.draw {
            Draw::Hot => vec![0; HOT_LAP],
            Draw::Uniform => order::uniform(count, count as usize, seed),
            Draw::Zipf => order::zipf(count, count as usize, seed),
        })
        .map(|numbers| numbers.into_iter().map(|number| Key::numbered(number.into())).collect())
        .collect()
}

fn thinned<'a>(tapes: &[Tape<'a>], divisor: u64) -> Vec<Tape<'a>> {
    tapes.iter().map(|tape| tape.thinned(divisor)).collect()
}

fn time(row: &mut Row, workload: &Workload, subject: &dyn Subject, tapes: &[Tape<'_>]) {
    play(subject, workload.call, &tapes[0].thinned(WARM_UP));
    let lapse = play_all(subject, workload.call, tapes);
    let wall = lapse.end - lapse.start;
    row.nanos.push(nanos_each(wall, tapes[0].decisions()));
    row.cores.push(lapse.cpu.as_secs_f64() / wall.as_secs_f64());
    row.decisions += tapes.iter().map(Tape::decisions).sum::<u64>();
    row.admitted += lapse.admitted;
}

fn play(subject: &dyn Subject, call: Call, tape: &Tape<'_>) -> u64 {
    match call {
        Call::Single => subject.play(tape),
        Call::Batch => subject.play_batches(tape),
    }
}

/// From the first start to the last end of a number of threads.
struct Lapse {
    start: Instant,
    end: Instant,
    /// The processor time of all threads together.
    cpu: Duration,
    admitted: u64,
}

impl Lapse {
    fn of(play: impl FnOnce() -> u64) -> Self {
        let cpu_before = timer::own_cpu();
        let start = timer::now();
        let admitted = play();
        let end = timer::now();
        Self { start, end, cpu: timer::own_cpu().saturating_sub(cpu_before), admitted }
    }

    fn with(self, other: &Self) -> Self {
        Self {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
            cpu: self.cpu + other.cpu,
            admitted: self.admitted + other.admitted,
        }
    }
}

/// Plays each tape on its own thread.
fn play_all(subject: &dyn Subject, call: Call, tapes: &[Tape<'_>]) -> Lapse {
    if let [tape] = tapes {
        return Lapse::of(|| play(subject, call, tape));
    }
    let barrier = Barrier::new(tapes.len());
    thread::scope(|scope| {
        let start_one = |tape| {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                Lapse::of(|| play(subject, call, tape))
            })
        };
        let threads: Vec<_> = tapes.iter().map(start_one).collect();
        let lapses = threads.into_iter().map(|thread| thread.join().expect("no subject panics"));
        lapses.reduce(|all, one| all.with(&one)).expect("at least one thread")
    })
}

fn base(column: &[Row]) -> &Row {
    let row = column.iter().find(|row| row.name == BASE);
    row.expect("governor takes part in every workload")
}

fn table(workload: &Workload, column: &[Row]) -> Table {
    let mut table = Table::new(
        format!("{}: {}", workload.name, workload.about),
        &["subject", "ns", "of governor", "least..greatest", "cores", "admitted"],
    );
    for row in column {
        let ratio = Spread::of_ratios(&row.nanos, &base(column).nanos);
        table.add(vec![
            row.name.to_owned(),
            format!("{:.1}", median(&row.nanos)),
            format!("{:.3}", ratio.median),
            format!("{:.3}..{:.3}", ratio.least, ratio.greatest),
            format!("{:.2}", median(&row.cores)),
            format!("{:.1} %", 100.0 * float(row.admitted) / float(row.decisions)),
        ]);
    }
    table
}

fn figures(workload: &Workload, column: &[Row]) -> Vec<Figure> {
    let Some(target) = workload.target else { return Vec::new() };
    column
        .iter()
        .filter_map(|row| Some((row, own_algorithm(row.name)?)))
        .filter(|(_, algorithm)| HELD_TO_TARGETS.contains(algorithm))
        .map(|(row, algorithm)| Figure {
            name: format!("decide/{}/{algorithm}", workload.name),
            value: ratio_at_once(workload, row, base(column)),
            unit: Unit::Ratio,
            target: Target::AtMost(target),
        })
        .collect()
}

/// The median ratio of the rounds in which both subjects' threads really ran at once; not a
/// number if there was none, so that a busy machine cannot pass for a fast limiter.
fn ratio_at_once(workload: &Workload, row: &Row, base: &Row) -> f64 {
    let enough = if workload.threads == 1 { 0.0 } else { 0.9 * float(workload.threads as u64) };
    let ratios: Vec<f64> = (0..ROUNDS)
        .filter(|&round| row.cores[round].min(base.cores[round]) >= enough)
        .map(|round| row.nanos[round] / base.nanos[round])
        .collect();
    if ratios.is_empty() { f64::NAN } else { median(&ratios) }
}

const ABOUT: &str = "Nanoseconds for one decision, clock read included. \
    Median of nine rounds; in every round each subject runs in turn. \
    \"Of governor\" is the median of the rounds' own ratios: \
    trust it more than the nanoseconds, which move with the machine's load. \
    \"Cores\" is how many processors the threads had: two threads that had one took turns, \
    and their time says nothing about contention.";
const HELD_TO_TARGETS: [&str; 2] = ["token-bucket", "gcra"];
const ROUNDS: usize = 9;
/// Copies of the one key: few enough to stay in the first-level cache.
const HOT_LAP: usize = 64;
const HOT_LAPS: u64 = 32_000;
/// A sixteenth of a tape is played before the timer starts.
const WARM_UP: u64 = 16;
