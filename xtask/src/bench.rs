//! `cargo xtask bench`: builds the benchmark as it ships and runs it.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};

use crate::cargo::cargo;

/// Runs one measurement; its output and its exit code are the benchmark's own.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<ExitCode> {
    call(args)?;
    if args.iter().any(|arg| arg == "layer") {
        crate::servers::install_load(root)?;
    }
    if args.iter().any(|arg| arg == "doors") {
        crate::servers::install_peers(root)?;
        crate::peers::install(root)?;
        build_server(root)?;
    }
    measure(root, args)
}

/// Builds the benchmark and runs it with these arguments.
pub(crate) fn measure(root: &Path, args: &[String]) -> Result<ExitCode> {
    let mut command = cargo(root, &call(args)?);
    let status = command.status().context("cargo does not start")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Our own server, as it ships, beside the benchmark.
pub(crate) fn build_server(root: &Path) -> Result<()> {
    let build = ["build", "--profile", "bench", "--locked", "--package", "tidegate-cli"];
    let status = cargo(root, &build).status().context("cargo does not start")?;
    ensure!(status.success(), "tidegate does not build; what cargo said is above");
    Ok(())
}

fn call(args: &[String]) -> Result<Vec<&str>> {
    if args.is_empty() {
        bail!(
            "bench needs to know what to measure: \
             adaptive, crowd, decide, doors, fair, layer, memory, pause or redis"
        );
    }
    let mut call =
        vec!["run", "--profile", "bench", "--locked", "--package", "tidegate-bench", "--"];
    call.extend(args.iter().map(String::as_str));
    Ok(call)
}

#[cfg(test)]
mod tests {
    use super::call;

    #[test]
    fn arguments_reach_the_benchmark_untouched() {
        let args = ["decide".to_owned(), "--json".to_owned()];
        let call = call(&args).unwrap();
        assert_eq!(call[call.len() - 3..], ["--", "decide", "--json"]);
        assert!(call.contains(&"--locked"));
    }

    #[test]
    fn nothing_to_measure_is_refused_before_building() {
        assert!(call(&[]).is_err());
    }
}
