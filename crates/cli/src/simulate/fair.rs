//! `tidegate simulate fair`: one noisy tenant, with nothing, with limits, with a fair queue.

use std::path::PathBuf;

use serde_json::json;
use tidegate_sim::chart::words::spaced;
use tidegate_sim::sharing::{Guard, Shared, Sharing};
use tidegate_sim::{chart, sharing};

use crate::failure::Failure;
use crate::picture;

/// Show what one noisy tenant does to nine quiet ones: without limits, with a limit for each
/// tenant, and with a fair queue.
///
/// Nothing sleeps, and the same seed gives the same result to the last digit.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Where chance starts: another seed, other random traffic
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Where the picture goes: NAME makes NAME.svg and NAME.png, NAME.svg or NAME.png only that
    #[arg(long, value_name = "PATH", default_value = "./sharing")]
    out: PathBuf,

    /// Draw the panels beside each other, for a page
    #[arg(long)]
    small: bool,

    /// Draw no picture
    #[arg(long, conflicts_with = "out")]
    no_picture: bool,

    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

const HEAD: &str =
    "  before the service  quiet requests answered  99 of 100 waited less than  capacity used";

pub(crate) fn run(args: &Args) -> Result<String, Failure> {
    let sharing = Sharing::run(args.seed);
    let pictures = if args.no_picture {
        Vec::new()
    } else {
        let draw = if args.small { chart::draw_sharing_small } else { chart::draw_sharing };
        picture::write_svg(&draw(&sharing), &args.out)?
    };
    if args.json {
        let guards: Vec<_> = sharing.guards.iter().map(json).collect();
        let json = json!({ "seed": args.seed, "guards": guards, "pictures": pictures });
        return Ok(format!("{json:#}\n"));
    }
    let (from, until) = Sharing::NOISY;
    let rows = sharing.guards.iter().map(|shared| {
        let (percent, used) = percents(shared);
        let (name, wait) = (name(shared.guard), spaced(sharing::round(shared.quiet_wait)));
        format!("  {name:18}  {percent:>22}%  {wait:>26}  {used:>12}%\n")
    });
    let rows: String = rows.collect();
    let pictures: Vec<String> = pictures.iter().map(|path| path.display().to_string()).collect();
    let pictures = match pictures.join(" and ") {
        none if none.is_empty() => String::new(),
        some => format!("\nThe picture is in {some}.\n"),
    };
    Ok(format!(
        "A service answers {} requests a second. Ten tenants ask for 8 a second each; from \
         {from} s\nto {until} s one of them asks for {}. Meanwhile:\n\n{HEAD}\n{rows}{pictures}",
        Sharing::CAPACITY,
        Sharing::NOISE,
    ))
}

fn percents(shared: &Shared) -> (u32, u32) {
    let (from, until) = Sharing::NOISY;
    let percent = 100 * shared.quiet_answered / shared.quiet_asked.max(1);
    (percent, 100 * shared.answered / ((until - from) * Sharing::CAPACITY))
}

fn json(shared: &Shared) -> serde_json::Value {
    let (percent, used) = percents(shared);
    json!({
        "guard": name(shared.guard),
        "quiet_answered_percent": percent,
        "quiet_wait_us_p99": shared.quiet_wait.get(),
        "capacity_used_percent": used,
    })
}

fn name(guard: Guard) -> &'static str {
    match guard {
        Guard::Nothing => "nothing",
        Guard::Limits => "plain limits",
        Guard::FairQueue => "fair queue",
    }
}
