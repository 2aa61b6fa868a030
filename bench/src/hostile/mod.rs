//! `tidegate serve` beside hostile peers: what an honest client notices, and what memory they take.
//!
//! `attack` says what peers do, `crowd` does it, `honest` is who notices, `stand` the server. The
//! honest client shares the machine with the peers, so it is measured beside a process that only
//! spins as well, as much as the peers did: what is left of the difference is the server's doing.

mod attack;
mod crowd;
mod honest;
mod spin;
mod stand;

use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};

use self::attack::Attack;
use self::crowd::Crowd;
use self::honest::Latency;
use self::stand::Stand;
use crate::figure::{Figure, Target, Unit};
use crate::report::{Report, Table};
use crate::setting::Effort;
use crate::statistics::{float, median};
use crate::timer;

pub(crate) use self::spin::{CHILD, spin};

/// The names of all attacks.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    Attack::ALL.iter().map(|attack| attack.name)
}

/// Makes some of the attacks, or all if none is named, each so many times.
pub(crate) fn run(effort: Effort, parts: &[&'static str], runs: Option<usize>) -> Result<Report> {
    stand::prepare()?;
    let runs = runs.unwrap_or(if effort == Effort::Quick { 1 } else { RUNS });
    let mut report = Report::new(ABOUT);
    let mut table = Table::new("Milliseconds of an honest client, and MiB".to_owned(), &HEAD);
    for attack in Attack::ALL.iter().filter(|it| parts.is_empty() || parts.contains(&it.name)) {
        let mut rounds = Vec::with_capacity(runs);
        for run in 1..=runs {
            eprintln!("hostile: {}, run {run} of {runs}", attack.name);
            rounds.push(round(attack, effort)?);
        }
        table.add(row(attack, &rounds));
        report.figures.extend(figures(attack, &rounds));
    }
    report.tables.push(table);
    Ok(report)
}

/// One attack on a fresh server.
struct Round {
    quiet: Latency,
    attacked: Latency,
    spun: Latency,
    /// Of a processor, what the peers took.
    share: f64,
    /// Resident bytes.
    start: u64,
    peak: u64,
    after: u64,
}

fn round(attack: &'static Attack, effort: Effort) -> Result<Round> {
    let time = if effort == Effort::Quick { QUICK } else { TIME };
    let stand = Stand::start()?;
    // What a server makes once is there then.
    honest::ask(stand.ports.http, time / 4)?;
    let start = stand.resident()?;
    let quiet = honest::ask(stand.ports.http, time)?;
    let crowd = Crowd::begin(attack, stand.ports)?;
    let mut peak = stand.resident()?;
    let asking = {
        let port = stand.ports.http;
        thread::spawn(move || honest::ask(port, time))
    };
    while !asking.is_finished() {
        peak = peak.max(stand.resident()?);
        timer::pause(LOOK);
    }
    let attacked = asking.join().map_err(|_| anyhow!("the honest client has panicked"))??;
    let share = crowd.end()?;
    let ended = timer::now();
    let spinner = spin::Spinner::start(share)?;
    let spun = honest::ask(stand.ports.http, time)?;
    drop(spinner);
    // As soon as it has gone back there is nothing to wait for.
    let mut after = stand.resident()?;
    while kept(start, peak, after) > KEPT_MAX && ended.elapsed() < MINUTE {
        timer::pause(LOOK);
        after = stand.resident()?;
    }
    stand.is_well()?;
    Ok(Round { quiet, attacked, spun, share, start, peak, after })
}

/// What is left of the most memory that there was. Nobody has less than at the start: a peak that
/// is hardly higher counts as four times that.
fn kept(start: u64, peak: u64, after: u64) -> f64 {
    float(after) / float(peak.max(start * 4 + MARGIN))
}

fn middle(rounds: &[Round], pick: impl Fn(&Round) -> f64) -> f64 {
    median(&rounds.iter().map(pick).collect::<Vec<_>>())
}

fn row(attack: &Attack, rounds: &[Round]) -> Vec<String> {
    let times = |pick: fn(&Round) -> &Latency| {
        let of = |time: fn(&Latency) -> f64| middle(rounds, |round| time(pick(round))) / 1e3;
        let (p50, p99) = (of(|it| it.p50), of(|it| it.p99));
        format!("{p50:.2} / {p99:.2} / {:.1}", of(|it| it.longest))
    };
    let mib =
        |pick: fn(&Round) -> u64| format!("{:.0}", middle(rounds, |it| float(pick(it))) / MIB);
    vec![
        attack.about.to_owned(),
        times(|round| &round.quiet),
        times(|round| &round.attacked),
        times(|round| &round.spun),
        format!("{:.0} %", middle(rounds, |round| round.share) * 1e2),
        mib(|round| round.start),
        mib(|round| round.peak),
        mib(|round| round.after),
    ]
}

fn figures(attack: &Attack, rounds: &[Round]) -> Vec<Figure> {
    let figure = |name: &str, value: f64, unit, target| Figure {
        name: format!("hostile/{}/{name}", attack.name),
        value,
        unit,
        target,
    };
    let micros = |name: &str, pick: fn(&Round) -> f64| {
        figure(name, middle(rounds, pick), Unit::Microseconds, Target::Any)
    };
    let mib = |name: &str, pick: fn(&Round) -> u64| {
        figure(name, middle(rounds, |it| float(pick(it))) / MIB, Unit::Mebibytes, Target::Any)
    };
    let slower = middle(rounds, |round| round.attacked.p99 / round.spun.p99);
    let kept = middle(rounds, |it| kept(it.start, it.peak, it.after));
    vec![
        figure("p99-of-spinning", slower, Unit::Ratio, Target::AtMost(SLOWER_MAX)),
        figure("kept", kept, Unit::Ratio, Target::AtMost(KEPT_MAX)),
        micros("quiet-p50", |round| round.quiet.p50),
        micros("quiet-p99", |round| round.quiet.p99),
        micros("quiet-longest", |round| round.quiet.longest),
        micros("p50", |round| round.attacked.p50),
        micros("p99", |round| round.attacked.p99),
        micros("longest", |round| round.attacked.longest),
        micros("spinning-p99", |round| round.spun.p99),
        mib("start", |round| round.start),
        mib("peak", |round| round.peak),
        mib("after", |round| round.after),
    ]
}

const ABOUT: &str = "`tidegate serve` in a process of its own beside hostile peers on the same \
    machine. The honest client asks the HTTP door a hundred times a second over one connection; \
    its times run from when a request was due. Each attack meets a fresh server; medians of all \
    runs. \"Spinning\" is the same client beside the same server without the peers and a process \
    that takes as much of a processor as they took. \"After\" is once memory has gone back, at \
    the latest a minute after the attack.";
const HEAD: [&str; 8] = [
    "attack",
    "quiet p50 / p99 / longest",
    "attacked",
    "spinning",
    "peers' processor",
    "MiB at the start",
    "peak",
    "after",
];
const RUNS: usize = 5;
const TIME: Duration = Duration::from_secs(10);
const QUICK: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(50);
const MINUTE: Duration = Duration::from_mins(1);
const MIB: f64 = 1_048_576.0;
/// What an empty process may have more than before: pages that were touched for the first time.
const MARGIN: u64 = 16 << 20;
/// Times its own p99 beside a process that spins.
const SLOWER_MAX: f64 = 5.0;
/// Of the peak.
const KEPT_MAX: f64 = 0.25;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_was_there_before_is_not_kept() {
        const MIB: u64 = 1 << 20;
        assert!(kept(12 * MIB, 349 * MIB, 87 * MIB) <= KEPT_MAX);
        assert!(kept(12 * MIB, 349 * MIB, 88 * MIB) > KEPT_MAX);
        assert!(kept(12 * MIB, 20 * MIB, 16 * MIB) <= KEPT_MAX);
        assert!(kept(12 * MIB, 20 * MIB, 17 * MIB) > KEPT_MAX);
    }
}
