//! `tidegate simulate adaptive`: a service loses half its workers, with nothing before it, with a
//! published law and with our limit.

use std::path::PathBuf;

use serde_json::json;
use tidegate_sim::adapt::{Dip, Guarded};
use tidegate_sim::chart;

use crate::failure::Failure;
use crate::picture;

/// Show what a loss of capacity does to a service: with no limit, with Envoy's gradient, and with a
/// limit that Tidegate finds.
///
/// Nothing sleeps, and the same seed gives the same result to the last digit.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Where chance starts: another seed, other random traffic
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Where the picture goes: NAME makes NAME.svg and NAME.png, NAME.svg or NAME.png only that
    #[arg(long, value_name = "PATH", default_value = "./adaptive")]
    out: PathBuf,

    /// Draw no picture
    #[arg(long, conflicts_with = "out")]
    no_picture: bool,

    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<String, Failure> {
    let dip = Dip::run(args.seed);
    let pictures = if args.no_picture {
        Vec::new()
    } else {
        picture::write_svg(&chart::draw_dip(&dip), &args.out)?
    };
    if args.json {
        let guards: Vec<_> = dip.guards.iter().map(json).collect();
        let json = json!({ "seed": args.seed, "guards": guards, "pictures": pictures });
        return Ok(format!("{json:#}\n"));
    }
    let mut text = format!(
        "A service of {} workers takes 10 ms for a request and is asked for nine tenths of what\n\
         it can do. For ten seconds half of the workers are gone.\n\n\
         \x20 before the service  latency meanwhile  served meanwhile  latency afterwards\n",
        Dip::WORKERS,
    );
    text.extend(dip.guards.iter().map(line));
    let pictures: Vec<String> = pictures.iter().map(|path| path.display().to_string()).collect();
    if !pictures.is_empty() {
        text.extend(["\nThe picture is in ", &pictures.join(" and "), ".\n"]);
    }
    Ok(text)
}

fn line(guarded: &Guarded) -> String {
    format!(
        "  {:18}  {:>14.1} ms  {:>14.0}/s  {:>15.1} ms\n",
        guarded.name,
        1e3 * guarded.latency_meanwhile(),
        guarded.served_meanwhile(),
        1e3 * guarded.latency_after(),
    )
}

fn json(guarded: &Guarded) -> serde_json::Value {
    json!({
        "guard": guarded.name,
        "latency_ms_meanwhile": 1e3 * guarded.latency_meanwhile(),
        "served_per_second_meanwhile": guarded.served_meanwhile(),
        "latency_ms_afterwards": 1e3 * guarded.latency_after(),
    })
}
