//! Reads small files that hold keys, certificates and tokens.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use crate::limits;

/// Warns if others than its owner and its group may read a file that should be a secret.
pub(crate) fn warn_if_open(path: &Path, what: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let Ok(file) = fs::metadata(path) else { return };
    if file.is_file() && file.permissions().mode() & READ_BY_OTHERS != 0 {
        let path = path.display();
        tracing::warn!(%path, what, "others on this machine may read it: `chmod o-r` the file");
    }
}

const READ_BY_OTHERS: u32 = 0o004;

/// The whole of a small file.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let told = |error: io::Error| {
        io::Error::new(error.kind(), format!("`{}` cannot be read: {error}", path.display()))
    };
    let mut bytes = Vec::new();
    let most = limits::SECRET_FILE_BYTES_MAX;
    File::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes)).map_err(told)?;
    if most < bytes.len() as u64 {
        return Err(told(io::Error::other("it is too long for what it should be")));
    }
    Ok(bytes)
}
