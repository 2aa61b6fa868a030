//! `tidegate schema`: what editors need to complete and check a file while one types.

use tidegate_config::{Rules, Suite};

const EXAMPLES: &str = "\
Editors with a YAML language server use it when a file begins with:
  # yaml-language-server: $schema=policy.schema.json

Examples:
  tidegate schema > policy.schema.json
      the schema of policy files
  tidegate schema --tests > policy-tests.schema.json
      the schema of files with tests";

/// The JSON schema of policy files, for editors.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The schema of files with tests instead
    #[arg(long)]
    tests: bool,
}

/// What to print.
pub(crate) fn run(args: Args) -> String {
    let schema = if args.tests { Suite::schema() } else { Rules::schema() };
    format!("{schema:#}\n")
}
