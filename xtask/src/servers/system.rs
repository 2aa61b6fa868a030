//! Programs from the system's packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use super::{find, output};

/// One program, what brings it, and what it is for.
struct Need {
    program: &'static str,
    package: &'static str,
    why: &'static str,
}

const NEEDS: [Need; 2] = [
    Need { program: "redis-server", package: "redis-server", why: "tests run real servers" },
    Need { program: "openssl", package: "openssl", why: "tests make certificates for TLS" },
];

/// What only the measurement of the layer needs.
const LOAD: [Need; 1] = [Need { program: "wrk", package: "wrk", why: "it makes the load" }];

/// Installs what tests need.
pub(super) fn install_missing() -> Result<()> {
    for (need, path) in NEEDS.iter().zip(install_of(&NEEDS)?) {
        println!("servers: {} is there: {}", need.program, path.display());
    }
    Ok(())
}

/// Installs what a measurement under load needs. Says nothing if it is there: a measurement may be
/// read by a machine.
pub(super) fn install_load() -> Result<()> {
    install_of(&LOAD).map(drop)
}

/// Installs by `apt-get` what is not in `PATH`, or says what to install by hand.
fn install_of(needs: &[Need]) -> Result<Vec<PathBuf>> {
    let missing: Vec<&Need> = needs.iter().filter(|need| find(need.program).is_none()).collect();
    if !missing.is_empty() {
        if let Some(obstacle) = obstacle() {
            bail!("{}", by_hand(&missing, obstacle));
        }
        install(&missing)?;
    }
    let there = |need: &Need| {
        let path = find(need.program);
        path.with_context(|| format!("`{}` is still not in PATH; put it there", need.program))
    };
    needs.iter().map(there).collect()
}

/// Why we cannot install anything ourselves.
fn obstacle() -> Option<&'static str> {
    if find("apt-get").is_none() {
        return Some("there is no apt-get here");
    }
    let user = output("id", &["-u".as_ref()]);
    (!user.is_ok_and(|user| user.trim() == "0")).then_some("only root may install packages")
}

fn by_hand(missing: &[&Need], obstacle: &str) -> String {
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    let packages = packages.join(" ");
    let programs: Vec<String> =
        missing.iter().map(|need| format!("`{}` ({})", need.program, need.why)).collect();
    format!(
        "missing: {}; {obstacle}, so install by hand: `sudo apt-get install {packages}`, \
         or the like of it on this system",
        programs.join(", ")
    )
}

fn install(missing: &[&Need]) -> Result<()> {
    for need in missing {
        println!("servers: installing the package {}: {}", need.package, need.why);
    }
    let had_service = service_is_up();
    // Old lists may do; if not, the next call says what is wrong.
    apt_get(&["update"]).unwrap_or_else(|error| println!("servers: {error:#}"));
    let packages = missing.iter().map(|need| need.package);
    let mut args = vec!["install", "--yes", "--no-install-recommends"];
    args.extend(packages);
    apt_get(&args)?;
    if !had_service && service_is_up() {
        println!("servers: stopping the service that came up with the package: tests start theirs");
        output("service", &["redis-server".as_ref(), "stop".as_ref()])?;
    }
    Ok(())
}

fn apt_get(args: &[&str]) -> Result<()> {
    let mut command = Command::new("apt-get");
    command.args(["-qq", "-o", "Acquire::http::Timeout=30", "-o", "DPkg::Lock::Timeout=120"]);
    command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
    let status = command.status().context("`apt-get` does not start")?;
    ensure!(status.success(), "`apt-get {}` failed; what it said is above", args.join(" "));
    Ok(())
}

/// Whether the service of the Debian package runs: it writes its number there.
fn service_is_up() -> bool {
    Path::new("/run/redis/redis-server.pid").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_cannot_install_is_told_what_to_install() {
        let missing: Vec<&Need> = NEEDS.iter().collect();
        assert_eq!(
            by_hand(&missing, "only root may install packages"),
            "missing: `redis-server` (tests run real servers), \
             `openssl` (tests make certificates for TLS); \
             only root may install packages, so install by hand: \
             `sudo apt-get install redis-server openssl`, or the like of it on this system"
        );
    }
}
