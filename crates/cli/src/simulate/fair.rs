//! `tidegate simulate fair`: one noisy tenant, with nothing, with limits, with a fair queue.

use std::path::PathBuf;

use serde_json::json;
use tidegate_sim::chart::words::spaced;
use tidegate_sim::sharing::{Guard, Shared, Sharing};
use tidegate_sim::{chart, sharing};

use crate::failure::Failure;
use crate::picture;

/// Show what one noisy tenant does to nine quiet ones: with nothing before the service, with plain
/// limits, and with a fair queue.
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

    /// Draw no picture
    #[arg(long, conflicts_with = "out")]
    no_picture: bool,

    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<String, Failure> {
    let sharing = Sharing::run(args.seed);
    let pictures = if args.no_picture {
        Vec::new()
    } else {
        picture::write_svg(&chart::draw_sharing(&sharing), &args.out)?
    };
    if args.json {
        let guards: Vec<_> = sharing.guards.iter().map(json).collect();
        let json = json!({ "seed": args.seed, "guards": guards, "pictures": pictures });
        return Ok(format!("{json:#}\n"));
    }
    let (from, until) = Sharing::NOISY;
    let mut text = format!(
        "A service answers {} requests a second. Ten tenants ask for 8 a second each; from {from} s\n\
         to {until} s one of them asks for {}. Meanwhile:\n\n\
         \x20 before the service  quiet requests answered  99 of 100 waited less than  capacity used\n",
        Sharing::CAPACITY,
        Sharing::NOISE,
    );
    for shared in &sharing.guards {
        let (percent, used) = percents(shared);
        text += &format!(
            "  {:18}  {percent:>22}%  {:>26}  {used:>12}%\n",
            name(shared.guard),
            spaced(sharing::round(shared.quiet_wait)),
        );
    }
    let pictures: Vec<String> = pictures.iter().map(|path| path.display().to_string()).collect();
    if !pictures.is_empty() {
        text += &format!("\nThe picture is in {}.\n", pictures.join(" and "));
    }
    Ok(text)
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
