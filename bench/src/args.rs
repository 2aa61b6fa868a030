//! The command line, read by hand: ten commands and four switches.

use crate::doors::Part;
use crate::setting::Effort;
use crate::{hostile, layer, memory, redis};

#[derive(Debug, PartialEq)]
pub(crate) struct Args {
    pub(crate) command: Command,
    pub(crate) effort: Effort,
    pub(crate) json: bool,
    pub(crate) write: bool,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    Adaptive,
    Crowd,
    Decide,
    Doors {
        /// All, if none is named.
        parts: Vec<Part>,
    },
    Fair,
    Hostile {
        /// Of `hostile::names`; all, if none is named.
        parts: Vec<&'static str>,
        /// How often each is made, if that is said.
        runs: Option<usize>,
    },
    /// What `hostile` starts to spin.
    SpinChild {
        share: f64,
    },
    Layer,
    /// What `layer` starts for each contender.
    LayerChild {
        contender: String,
    },
    Memory,
    /// What `memory` starts for each subject.
    MemoryChild {
        subject: String,
        keys: u64,
    },
    Pause,
    Redis {
        /// Of `redis::PARTS`; all, if none is named.
        parts: Vec<&'static str>,
    },
    Help,
}

impl Args {
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut args =
            Self { command: Command::Help, effort: Effort::Full, json: false, write: false };
        let mut words = words.peekable();
        if words.peek().is_some_and(|word| word == memory::CHILD) {
            args.command = child(&words.collect::<Vec<_>>())?;
            return Ok(args);
        }
        if words.peek().is_some_and(|word| word == layer::CHILD) {
            let contender = words.nth(1).ok_or("which contender is to be served?")?;
            args.command = Command::LayerChild { contender };
            return Ok(args);
        }
        if words.peek().is_some_and(|word| word == hostile::CHILD) {
            let share = words.nth(1).and_then(|share| share.parse().ok());
            let share = share.ok_or("how much of a processor is to be taken?")?;
            args.command = Command::SpinChild { share };
            return Ok(args);
        }
        while let Some(word) = words.next() {
            match word.as_str() {
                "adaptive" => args.command = Command::Adaptive,
                "crowd" => args.command = Command::Crowd,
                "decide" => args.command = Command::Decide,
                "doors" => args.command = Command::Doors { parts: Vec::new() },
                "fair" => args.command = Command::Fair,
                "hostile" => args.command = Command::Hostile { parts: Vec::new(), runs: None },
                "--runs" => args.command.set_runs(words.next().as_deref())?,
                "layer" => args.command = Command::Layer,
                "memory" => args.command = Command::Memory,
                "pause" => args.command = Command::Pause,
                "redis" => args.command = Command::Redis { parts: Vec::new() },
                "help" | "--help" | "-h" => return Ok(Self { command: Command::Help, ..args }),
                "--json" => args.json = true,
                "--quick" => args.effort = Effort::Quick,
                "--write" => args.write = true,
                _ => args.command.add_part(&word)?,
            }
        }
        if args.write && args.effort == Effort::Quick {
            return Err("a quick run is not worth writing down: drop --quick or --write".into());
        }
        if args.write && args.command.is_part() {
            return Err("a part is not worth writing down: name no parts, or drop --write".into());
        }
        Ok(args)
    }
}

impl Command {
    /// Takes a word that is neither a command nor a switch.
    fn add_part(&mut self, word: &str) -> Result<(), String> {
        let door = Part::ALL.iter().find(|(name, _)| *name == word);
        let of_redis = redis::PARTS.iter().find(|name| **name == word);
        match (self, door, of_redis) {
            (Self::Hostile { parts, .. }, ..) => {
                let known = hostile::names().find(|name| *name == word);
                parts.push(known.ok_or_else(|| format!("no such attack: `{word}`; try --help"))?);
            }
            (Self::Doors { parts }, Some((_, part)), _) => parts.push(*part),
            (Self::Redis { parts }, _, Some(part)) => parts.push(part),
            _ => return Err(format!("no such command or switch: `{word}`; try --help")),
        }
        Ok(())
    }

    /// Takes how often an attack is made.
    fn set_runs(&mut self, word: Option<&str>) -> Result<(), String> {
        let Self::Hostile { runs, .. } = self else {
            return Err("`--runs` is for `hostile`".into());
        };
        let count = word.and_then(|word| word.parse().ok()).filter(|runs| *runs > 0);
        *runs = Some(count.ok_or("`--runs` takes a number, from 1 on")?);
        Ok(())
    }

    /// Whether it measures less than it could.
    fn is_part(&self) -> bool {
        match self {
            Self::Doors { parts } => !parts.is_empty(),
            Self::Redis { parts } => !parts.is_empty(),
            Self::Hostile { parts, runs } => !parts.is_empty() || runs.is_some(),
            _ => false,
        }
    }
}

fn child(words: &[String]) -> Result<Command, String> {
    let [_, subject, keys] = words else {
        return Err(format!("{} takes a subject and a number of keys", memory::CHILD));
    };
    let keys = keys.parse().map_err(|_| format!("not a number of keys: `{keys}`"))?;
    Ok(Command::MemoryChild { subject: subject.clone(), keys })
}

pub(crate) const HELP: &str = "\
Measures Tidegate beside its peers, all in one run on one machine.

Usage: cargo run --profile bench -p tidegate-bench -- <command> [switches]

Commands:
  adaptive Adaptive limits in virtual time, beside Vegas, Gradient2, AIMD and Envoy's gradient
  crowd    Floods of made-up keys beyond the cap, for every algorithm: what they leave to
           newcomers, and what a decision then costs
  decide   Nanoseconds for one decision, and the ratio to governor's, under 24 workloads: one
           key or a million, texts or numbers, debts that are paid when a key comes back or not
  doors    `tidegate serve` beside Redis, redis-cell and throttlecrab-server: the Redis protocol,
           HTTP and gRPC, latency at half load, quiet connections, reloads. Start it by
           `cargo xtask bench doors`, which builds the servers. One or more of `resp`, `http`,
           `grpc`, `latency`, `idle` and `reload` after it measure only these
  fair     Nanoseconds for a turn in the fair queue, and how fair the turns are: the bound over
           a hundred million dispatches, shares of every second, a mouse among elephants
  hostile  `tidegate serve` beside hostile peers: what an honest client notices, beside a process
           that spins as much as they do, and what memory is left. Start it by
           `cargo xtask campaign hostile`, which builds the server. One or more of `idle`,
           `half-sent`, `unread`, `window-0`, `pings`, `settings` and `rapid-reset` after it make
           only these
  layer    An axum service with a policy in front of it, beside none and beside tower_governor,
           and a policy of ten thousand rules beside one of ten
  memory   Resident bytes for each key, every subject in a process of its own
  pause    The longest single call while ten million keys come and go,
           and what ten million idle keys cost a busy one
  redis    Decisions per second of the Redis store, and bytes for each key in Redis, beside
           the scripts that articles publish; starts a redis-server of its own. One or more of
           `alone`, `million`, `hot`, `flood` and `memory` after it measure only these, and
           `token-bucket` or `gcra` only that algorithm

Switches:
  --quick  A twentieth of the work: shows that it runs, not how fast anything is
  --json   Only the figures, one JSON object a line
  --runs N How often `hostile` makes each attack: five times unless said, once with --quick
  --write  Also replaces the command's section of bench/RESULTS.md

The exit code is 1 if a figure misses its target, 2 if the benchmark could not run.

Leave the machine alone while it runs, and trust ratios more than nanoseconds:
  cargo run --profile bench -p tidegate-bench -- decide --write
";

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Result<Args, &str>) {
        let parsed = Args::parse(line.split_whitespace().map(str::to_owned));
        assert_eq!(parsed, expected.map_err(str::to_owned));
    }

    #[test]
    fn switches_come_in_any_order() {
        let args =
            Args { command: Command::Decide, effort: Effort::Quick, json: true, write: false };
        check("--json decide --quick", Ok(args));
        let command = Command::Redis { parts: Vec::new() };
        let args = Args { command, effort: Effort::Full, json: false, write: true };
        check("redis --write", Ok(args));
    }

    #[test]
    fn doors_can_be_measured_in_part() {
        let parts = vec![Part::Resp, Part::Idle];
        let command = Command::Doors { parts };
        let args = Args { command, effort: Effort::Full, json: false, write: false };
        check("doors resp idle", Ok(args));
        check("decide resp", Err("no such command or switch: `resp`; try --help"));
        check(
            "doors resp --write",
            Err("a part is not worth writing down: name no parts, or drop --write"),
        );
    }

    #[test]
    fn redis_can_be_measured_in_part() {
        let command = Command::Redis { parts: vec!["hot", "gcra"] };
        let args = Args { command, effort: Effort::Full, json: false, write: false };
        check("redis hot gcra", Ok(args));
        check("doors hot", Err("no such command or switch: `hot`; try --help"));
        check(
            "redis hot --write",
            Err("a part is not worth writing down: name no parts, or drop --write"),
        );
    }

    #[test]
    fn attacks_can_be_made_in_part_and_less_often() {
        let command = Command::Hostile { parts: vec!["unread"], runs: Some(2) };
        let args = Args { command, effort: Effort::Full, json: true, write: false };
        check("hostile unread --runs 2 --json", Ok(args));
        check("hostile --runs none", Err("`--runs` takes a number, from 1 on"));
        check("decide --runs 2", Err("`--runs` is for `hostile`"));
        check("hostile loud", Err("no such attack: `loud`; try --help"));
    }

    #[test]
    fn no_words_ask_for_help() {
        let args = Args { command: Command::Help, effort: Effort::Full, json: false, write: false };
        check("", Ok(args));
    }

    #[test]
    fn mistakes_are_named() {
        check("decid", Err("no such command or switch: `decid`; try --help"));
        check(
            "pause --quick --write",
            Err("a quick run is not worth writing down: drop --quick or --write"),
        );
        check("memory-child governor many", Err("not a number of keys: `many`"));
    }
}
