//! Keeps a package from becoming a service.
//!
//! A package registers and starts its service by four commands, which dpkg looks up in a path that
//! apt-get sets. A folder in front of that path holds others of the same names, which do nothing.
//! Unlike a file in `/usr/sbin` that forbids all starts, this ends with the call.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context as _, Result};

/// Makes the folder, and gives the option of apt-get by which it is used.
pub(super) fn option(folder: &Path) -> Result<String> {
    let folder = folder.join("quiet");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    for command in COMMANDS {
        let link = folder.join(command);
        if fs::symlink_metadata(&link).is_err() {
            symlink(NOTHING, &link).with_context(|| format!("cannot make `{}`", link.display()))?;
        }
    }
    Ok(format!("DPkg::Path={}:{PATH}", folder.display()))
}

const COMMANDS: [&str; 4] =
    ["invoke-rc.d", "deb-systemd-invoke", "deb-systemd-helper", "update-rc.d"];
const NOTHING: &str = "/bin/true";
/// What apt-get has there unless told.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
