//! A million keys and a new policy every second, beside the same without new policies.

use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use std::{fs, io, thread};

use anyhow::{Context, Result, ensure};
use tidegate_testbed::Http;

use super::entrant::fill;
use super::host::Host;
use super::progress;
use super::server::{Door, POLICY_FILE, Server, policy_with_burst};
use super::speed::plain_shape;
use crate::figure::{Figure, Target, Unit};
use crate::load::{Clients, Load, Until};
use crate::order::Random;
use crate::report::{Report, Table};
use crate::setting::Effort;
use crate::statistics::{Spread, float, median};

/// Adds the table and its figure.
pub(super) fn add_to(report: &mut Report, effort: Effort) {
    let title = format!("reload: {}, a million keys", Server::Tidegate.name(Door::Http));
    let mut table = Table::new(title, &HEAD);
    let rounds = run(effort);
    if let Err(error) = &rounds {
        progress(&format!("going on without: {error:#}"));
    }
    let ratio = rounds.as_ref().ok().map(|rounds| {
        table.add(row("one policy", &rounds.quiet, &rounds.quiet, 0));
        table.add(row("a new one every second", &rounds.reloading, &rounds.quiet, rounds.reloads));
        Spread::of_ratios(&rounds.reloading, &rounds.quiet).median
    });
    report.tables.push(table);
    report.figures.push(Figure {
        name: "doors/reload".to_owned(),
        value: ratio.unwrap_or(f64::NAN),
        unit: Unit::Ratio,
        target: Target::AtLeast(0.9),
    });
}

/// Decisions per second.
#[derive(Default)]
struct Rounds {
    quiet: Vec<f64>,
    reloading: Vec<f64>,
    /// By the server's own count.
    reloads: u64,
}

fn run(effort: Effort) -> Result<Rounds> {
    let host = Server::Tidegate.start()?;
    let clients = u32::try_from(effort.of(1_000_000))?;
    progress("reload, filling the store");
    fill(Server::Tidegate, &host, Door::Http, clients)?;
    let mut rounds = Rounds::default();
    let turns = if effort == Effort::Quick { 1 } else { ROUNDS };
    let mut written = 0;
    let before = reloads_of(&host)?;
    for round in 0..turns {
        progress(&format!("reload, round {} of {turns}", round + 1));
        rounds.quiet.push(speed(&host, clients, round)?);
        let (end, ended) = mpsc::channel::<()>();
        let file = host.file(POLICY_FILE);
        let writer = thread::spawn(move || rewrite(&file, &ended));
        rounds.reloading.push(speed(&host, clients, round)?);
        drop(end);
        let count = writer.join().map_err(|_| anyhow::anyhow!("the writer panicked"))?;
        written += count.context("cannot write the policy")?;
    }
    rounds.reloads = reloads_of(&host)? - before;
    // The last of a turn may not have been seen when the count was read.
    let least = written.saturating_sub(1);
    let reloads = rounds.reloads;
    ensure!(least <= reloads, "`{reloads}` reloads of `{written}` policies that were written");
    Ok(rounds)
}

/// Two in turn: under each, every key has another quota than before.
fn rewrite(file: &PathBuf, ended: &mpsc::Receiver<()>) -> io::Result<u64> {
    let mut written = 0;
    loop {
        let fresh = file.with_extension("new");
        let burst = if written % 2 == 0 { 1_000_001 } else { 1_000_000 };
        fs::write(&fresh, policy_with_burst(burst))?;
        fs::rename(&fresh, file)?;
        written += 1;
        if ended.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout) {
            return Ok(written);
        }
    }
}

fn speed(host: &Host, clients: u32, round: usize) -> Result<f64> {
    let talk = Server::Tidegate.talk(Door::Http);
    let mut clients = Clients::Any(Random::seeded(round as u64), clients);
    let mut load = Load::open(host.port(Door::Http), plain_shape(Door::Http), &talk)?;
    let lap = load.saturate(&mut clients, Until::After(TURN))?;
    Ok(float(lap.replies) / lap.wall.as_secs_f64())
}

/// How many policies the server has put in force.
fn reloads_of(host: &Host) -> Result<u64> {
    let answer = Http::get(host.port(Door::Http), "/metrics")?;
    let text = answer.text();
    let value = text.lines().find_map(|line| line.strip_prefix(RELOADS));
    Ok(value.context("the metrics do not tell of reloads")?.trim().parse()?)
}

fn row(name: &str, speeds: &[f64], base: &[f64], reloads: u64) -> Vec<String> {
    let ratio = Spread::of_ratios(speeds, base);
    vec![
        name.to_owned(),
        format!("{:.0}", median(speeds)),
        format!("{:.3}", ratio.median),
        format!("{:.3}..{:.3}", ratio.least, ratio.greatest),
        reloads.to_string(),
    ]
}

const HEAD: [&str; 5] =
    ["policy file", "decisions/s", "of one policy", "least..greatest", "reloads"];
const RELOADS: &str = r#"tidegate_reloads_total{outcome="done"}"#;
const EVERY: Duration = Duration::from_secs(1);
/// Never shorter: a reload has to fall into each.
const TURN: Duration = Duration::from_secs(4);
const ROUNDS: usize = 5;
