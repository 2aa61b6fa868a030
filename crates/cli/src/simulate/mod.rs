//! `tidegate simulate`: algorithms against traffic, in virtual time; and what else can be shown.

mod adaptive;
mod fair;
mod policy;

use std::path::PathBuf;

use tidegate_core::{Kind, Policy, Quota, Span};
use tidegate_sim::chart::words::{grouped, period, spaced};
use tidegate_sim::{Comparison, Scenario, Shape};

use crate::failure::Failure;
use crate::{json, picture, quantity, table};

/// What `simulate` compares unless told otherwise: the ones that differ.
const DEFAULTS: [Kind; 5] =
    [Kind::FixedWindow, Kind::SlidingWindow, Kind::SlidingLog, Kind::TokenBucket, Kind::LeakyQueue];

/// How many tenants there are, one of which is noisy.
const TENANTS: u32 = 20;

const EXAMPLES: &str = "\
Shapes:
  steady           an even stream, half as fast again as the quota
  boundary-burst   the whole quota just before a window's edge, and again just after it
  idle-then-burst  silence, three quotas in a rush, then more than the quota
  on-off           half a period at three times the quota, half a period of silence
  poisson          random arrivals, a quarter above the quota on average
  flash-crowd      half the quota, suddenly ten times the quota, slowly back
  noisy-tenant     tenants at half their quota, one of which turns to ten times its own

Columns:
  offered, admitted  cells, not requests: they differ when --cost is not 1
  worst minute       the most cells that started within any span of one period, wherever it
                     begins; a fixed window lets two quotas through around an edge, and a bucket
                     up to one burst and one period's cells
  smoothness         an even tenth of the quota, divided by the busiest tenth of a period:
                     100% is even, 10% is a whole quota in a rush
  memory/key         bytes of the largest state that any key had

Examples:
  tidegate simulate
      the two-fold burst at the edge of a fixed window, and its absence elsewhere
  tidegate simulate --shape flash-crowd --algorithms all
      every algorithm against a sudden crowd
  tidegate simulate --shape idle-then-burst --algorithms token-bucket --burst 20
      how a small burst tames a token bucket
  tidegate simulate --shape noisy-tenant --tenants 50 --quota 10/s
      what one noisy tenant does to 49 quiet ones
  tidegate simulate --policy policy.yaml
      your own rules, each under all seven kinds of traffic
  tidegate simulate adaptive
      a service that loses half its capacity, with no limit and with limits that adapt
  tidegate simulate --json --no-picture
      the numbers only, for a program
  tidegate simulate fair
      one noisy tenant, with nothing, with plain limits and with a fair queue";

/// Compare algorithms against traffic, in virtual time.
///
/// Prints a table and draws a picture: what was offered and what passed, one panel an algorithm.
/// Nothing sleeps, and the same options give the same result to the last digit.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,

    /// Show the rules of this policy, each under all seven kinds of traffic
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["shape", "algorithms", "quota", "burst", "cost", "duration"])]
    #[arg(conflicts_with_all = ["hold", "out"])]
    policy: Option<PathBuf>,

    /// The traffic pattern: steady, boundary-burst, idle-then-burst, on-off, poisson,
    /// flash-crowd or noisy-tenant
    #[arg(long, value_name = "SHAPE", default_value_t = Shape::BoundaryBurst)]
    shape: Shape,

    /// The algorithms to compare, with commas between them, or `all`
    #[arg(
        long,
        value_name = "NAMES",
        value_parser = chosen,
        default_value = "fixed-window,sliding-window,sliding-log,token-bucket,leaky-queue"
    )]
    algorithms: Chosen,

    /// How much may pass: 100/min, 5/s, 1000/h, 20/10s
    #[arg(
        long,
        value_name = "CELLS/PERIOD",
        value_parser = quantity::quota,
        default_value = "100/min"
    )]
    quota: Quota,

    /// The most that may pass at once, for buckets [default: the quota of one period]
    #[arg(long, value_name = "CELLS", value_parser = clap::value_parser!(u32).range(1..))]
    burst: Option<u32>,

    /// How many cells each request takes
    #[arg(
        long,
        value_name = "CELLS",
        value_parser = clap::value_parser!(u32).range(1..),
        default_value_t = 1
    )]
    cost: u32,

    /// Where chance starts: another seed, other random traffic
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// How long the traffic lasts, such as 90s or 10min [default: four or five periods]
    #[arg(long, value_name = "SPAN", value_parser = quantity::span)]
    duration: Option<Span>,

    /// How many tenants there are, for --shape noisy-tenant [default: 20]
    #[arg(long, value_name = "COUNT")]
    tenants: Option<u32>,

    /// How long a request is under way, for concurrency [default: a fifth of the period]
    #[arg(long, value_name = "SPAN", value_parser = quantity::span)]
    hold: Option<Span>,

    /// Where the picture goes: NAME makes NAME.svg and NAME.png, NAME.svg or NAME.png only that
    #[arg(long, value_name = "PATH", default_value = "./simulation")]
    out: PathBuf,

    /// Draw no picture
    #[arg(long, conflicts_with = "out")]
    no_picture: bool,

    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// What else than algorithms.
#[derive(Clone, Debug, clap::Subcommand)]
enum What {
    Adaptive(adaptive::Args),
    Fair(fair::Args),
}

/// Algorithms in the order in which they are shown.
#[derive(Clone, Debug)]
struct Chosen(Vec<Kind>);

impl Default for Args {
    fn default() -> Args {
        Args {
            what: None,
            policy: None,
            shape: Shape::BoundaryBurst,
            algorithms: Chosen(DEFAULTS.into()),
            quota: Quota::per_minute(100),
            burst: None,
            cost: 1,
            seed: 1,
            duration: None,
            tenants: None,
            hold: None,
            out: "./simulation".into(),
            no_picture: false,
            json: false,
        }
    }
}

/// Runs the comparison, writes the pictures, and says what to print.
pub(crate) fn run(args: &Args) -> Result<String, Failure> {
    match &args.what {
        Some(What::Adaptive(args)) => return adaptive::run(args),
        Some(What::Fair(args)) => return fair::run(args),
        None => {}
    }
    if let Some(path) = &args.policy {
        let tenants = args.tenants.unwrap_or(TENANTS);
        return policy::run(path, policy::Traffic { seed: args.seed, tenants }, args.json);
    }
    let policies = args.policies()?;
    let hold = args.hold.unwrap_or(Span::from_micros(args.quota.per().get() / 5));
    let comparison = Comparison::run(args.scenario()?, &policies, hold)
        .map_err(|error| usage(error.to_string()))?;
    let pictures =
        if args.no_picture { Vec::new() } else { picture::write(&comparison, &args.out)? };
    if args.json {
        let json = json::json(&comparison, args.burst, &pictures);
        return Ok(format!("{json:#}\n"));
    }
    let pictures: Vec<String> = pictures.iter().map(|path| path.display().to_string()).collect();
    let pictures = match pictures.join(" and ") {
        none if none.is_empty() => String::new(),
        some => format!("\nThe picture is in {some}.\n"),
    };
    Ok(format!(
        "{}\n\n{}\n{}{pictures}\nGo on with `tidegate simulate --help` for other traffic, and \
         `tidegate explain` for what each\nalgorithm is for.\n",
        args.intro(&comparison),
        table::table(&comparison),
        table::notes(&comparison),
    ))
}

impl Args {
    fn scenario(&self) -> Result<Scenario, Failure> {
        let noisy = self.shape == Shape::NoisyTenant;
        if self.tenants.is_some() && !noisy {
            let shape = self.shape;
            return Err(usage(format!(
                "--tenants is for --shape noisy-tenant, and `{shape}` has one tenant: leave it out"
            )));
        }
        Ok(Scenario {
            shape: self.shape,
            quota: self.quota,
            cost: self.cost,
            tenants: self.tenants.unwrap_or(if noisy { TENANTS } else { 1 }),
            duration: self.duration,
            seed: self.seed,
        })
    }

    fn policies(&self) -> Result<Vec<Policy>, Failure> {
        let Chosen(kinds) = &self.algorithms;
        if self.burst.is_some() && !kinds.iter().any(|kind| kind.has_burst()) {
            return Err(usage(
                "--burst is for buckets (token-bucket, gcra, leaky-bucket, leaky-queue): choose \
                 one of them, or leave it out",
            ));
        }
        let policy = |kind: &Kind| {
            let quota = match self.burst {
                Some(burst) if kind.has_burst() => self.quota.burst(burst),
                _ => self.quota,
            };
            let policy = Policy::new(*kind, quota);
            let policy = policy.map_err(|error| usage(format!("{kind}: {error}")))?;
            let (cost, limit) = (self.cost, policy.limit());
            if limit < cost {
                return Err(usage(format!(
                    "{kind} never lets {cost} cells pass at once, as its limit is {limit}: lower \
                     --cost, or raise --quota or --burst"
                )));
            }
            Ok(policy)
        };
        kinds.iter().map(policy).collect()
    }

    fn intro(&self, comparison: &Comparison) -> String {
        let requests = grouped(comparison.requests);
        let duration = spaced(comparison.grid.duration);
        let cells = grouped(self.quota.cells().into());
        let per = period(self.quota.per());
        let burst = match self.burst {
            Some(burst) => format!(" (buckets: at most {} at once)", grouped(burst.into())),
            None => String::new(),
        };
        format!(
            "{}: {}.\n{requests} requests in {duration} of virtual time, against a quota of \
             {cells} per {per}{burst}.",
            self.shape,
            self.shape.about(),
        )
    }
}

fn usage(text: impl Into<String>) -> Failure {
    Failure::Usage { command: "simulate", text: text.into() }
}

/// Reads the names of algorithms. Those named twice are shown once.
fn chosen(text: &str) -> Result<Chosen, String> {
    let mut kinds: Vec<Kind> = Vec::new();
    let mut add = |kind| {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    };
    for name in text.split(',').map(str::trim) {
        if name == "all" {
            DEFAULTS.into_iter().chain(Kind::ALL).for_each(&mut add);
        } else {
            let kind = name.parse().map_err(|error| format!("`{name}`: {error}, or all"))?;
            add(kind);
        }
    }
    Ok(Chosen(kinds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_means_every_algorithm_once() {
        let Chosen(kinds) = chosen("all,gcra").unwrap();
        assert_eq!(kinds.len(), Kind::ALL.len());
        assert!(Kind::ALL.iter().all(|kind| kinds.contains(kind)));
    }

    #[test]
    fn the_help_lists_every_shape_as_it_describes_itself() {
        for shape in Shape::ALL {
            let line = format!("  {:15}  {}\n", shape.name(), shape.about());
            assert!(EXAMPLES.contains(&line), "{line}");
        }
    }
}
