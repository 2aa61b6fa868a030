//! Programs from the system's packages. None of them becomes a service.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::{find, output, quiet};

/// One program, what brings it, and what it is for.
struct Need {
    program: &'static str,
    package: &'static str,
    why: &'static str,
    without: Without,
}

/// What becomes of the tests without a program.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Without {
    /// Most of them would fail.
    Stop,
    /// Those that run it say that they are skipped.
    Skip,
}

const NEEDS: [Need; 10] = [
    stop("redis-server", "redis-server", "tests run real servers"),
    stop("openssl", "openssl", "tests make certificates for TLS"),
    skip("nginx", "nginx", "tests run deploy/nginx"),
    skip("haproxy", "haproxy", "tests run deploy/haproxy"),
    skip("caddy", "caddy", "tests run deploy/caddy"),
    skip("promtool", "prometheus", "tests run the rules in deploy/prometheus"),
    skip("curl", "curl", "tests run the commands that we print"),
    skip("pip3", "python3-pip", "it fetches other programs that tests run"),
    skip("node", "nodejs", "tests run clients of Redis"),
    skip("npm", "npm", "it fetches clients of Redis"),
];

const fn stop(program: &'static str, package: &'static str, why: &'static str) -> Need {
    Need { program, package, why, without: Without::Stop }
}

const fn skip(program: &'static str, package: &'static str, why: &'static str) -> Need {
    Need { program, package, why, without: Without::Skip }
}

/// What only the measurement of the layer needs.
const LOAD: [Need; 1] = [stop("taskset", "util-linux", "it keeps a service on one core")];

/// What only the measurement of the doors needs.
const PEERS: [Need; 3] = [
    stop("redis-server", "redis-server", "it is a peer, and the home of another"),
    stop("protoc", "protobuf-compiler", "throttlecrab-server is built with it"),
    stop("taskset", "util-linux", "it keeps a server on one core"),
];

/// Installs what tests need. `folder` is for what the installation itself needs.
pub(super) fn install_missing(folder: &Path) -> Result<()> {
    for (need, path) in NEEDS.iter().zip(install_of(&NEEDS, folder)?) {
        match path {
            Some(path) => println!("servers: {} is there: {}", need.program, path.display()),
            None => {
                println!("servers: without {}, tests will be skipped: {}", need.program, need.why);
            }
        }
    }
    Ok(())
}

/// Installs what a measurement under load needs. Says nothing if it is there: a measurement may be
/// read by a machine.
pub(super) fn install_load(folder: &Path) -> Result<()> {
    install_of(&LOAD, folder).map(drop)
}

/// Installs what the peers of our server need, as quietly.
pub(super) fn install_peers(folder: &Path) -> Result<()> {
    install_of(&PEERS, folder).map(drop)
}

/// Installs by `apt-get` what is not in `PATH`, or says what to install by hand.
fn install_of(needs: &[Need], folder: &Path) -> Result<Vec<Option<PathBuf>>> {
    let missing: Vec<&Need> = needs.iter().filter(|need| find(need.program).is_none()).collect();
    if !missing.is_empty() {
        match obstacle() {
            None => install(&missing, folder)?,
            Some(obstacle) => {
                let message = by_hand(&missing, obstacle);
                ensure!(missing.iter().all(|need| need.without == Without::Skip), "{message}");
                println!("servers: {message}");
                return Ok(needs.iter().map(|need| find(need.program)).collect());
            }
        }
    }
    let there = |need: &Need| {
        let path = find(need.program);
        path.with_context(|| format!("`{}` is still not in PATH; put it there", need.program))
    };
    needs.iter().map(|need| there(need).map(Some)).collect()
}

/// Why we cannot install anything ourselves.
pub(super) fn obstacle() -> Option<&'static str> {
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

fn install(missing: &[&Need], folder: &Path) -> Result<()> {
    for need in missing {
        println!("servers: installing the package {}: {}", need.package, need.why);
    }
    // Old lists may do; if not, the next call says what is wrong.
    apt_get(&["update"]).unwrap_or_else(|error| println!("servers: {error:#}"));
    let quiet = quiet::option(folder)?;
    let mut args = vec!["-o", &quiet, "install", "--yes", "--no-install-recommends"];
    args.extend(missing.iter().map(|need| need.package));
    apt_get(&args)
}

fn apt_get(args: &[&str]) -> Result<()> {
    let mut command = Command::new("apt-get");
    command.args(["-qq", "-o", "Acquire::http::Timeout=30", "-o", "DPkg::Lock::Timeout=120"]);
    command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
    let status = command.status().context("`apt-get` does not start")?;
    ensure!(status.success(), "`apt-get {}` failed; what it said is above", args.join(" "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_cannot_install_is_told_what_to_install() {
        let missing: Vec<&Need> = NEEDS.iter().take(2).collect();
        assert_eq!(
            by_hand(&missing, "only root may install packages"),
            "missing: `redis-server` (tests run real servers), \
             `openssl` (tests make certificates for TLS); \
             only root may install packages, so install by hand: \
             `sudo apt-get install redis-server openssl`, or the like of it on this system"
        );
    }
}
