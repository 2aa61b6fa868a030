//! Reads small files that hold keys, certificates and tokens.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use crate::limits;

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
