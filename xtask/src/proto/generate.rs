//! Makes code of the files in `proto/`: only of the messages that the service reaches.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use prost::Message as _;
use prost_types::FileDescriptorSet;
use prost_types::field_descriptor_proto::Type;

use super::prune;

/// The service, and where what is made of it goes.
const SERVICE: &str = "envoy/service/ratelimit/v3/rls.proto";
const INTO: &str = "crates/server/src/rls/gen";
const DESCRIPTORS: &str = "descriptors.bin";

/// The files by their path from the root, with what belongs into them.
pub(super) fn files(root: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let compiled = protox::compile([SERVICE], [root.join("proto")]);
    let compiled = compiled.context("the files in `proto` do not compile")?;
    let pruned = prune::reached(&compiled, "envoy.service.ratelimit.v3.RateLimitService")?;
    let made = tempfile::tempdir().context("no folder for what is made")?;
    tonic_prost_build::configure()
        .build_transport(false)
        .out_dir(made.path())
        .compile_fds(as_bytes(pruned.clone()))
        .context("no code can be made of the files in `proto`")?;
    let mut files = vec![(format!("{INTO}/{DESCRIPTORS}"), pruned.encode_to_vec())];
    for entry in fs::read_dir(made.path())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().replace("r#", "");
        // Well-known types are not ours to make.
        if !name.starts_with("google.") {
            let code = fs::read_to_string(entry.path())?;
            files.push((format!("{INTO}/{name}"), code.into_bytes()));
        }
    }
    files.sort();
    Ok(files)
}

/// The same with the texts of entries as bytes, which are alike on the wire. A client writes them,
/// as a path or a header, and Envoy passes on what is no UTF-8: as text it would be an error, and
/// the client would pass uncounted.
fn as_bytes(mut files: FileDescriptorSet) -> FileDescriptorSet {
    let messages = files.file.iter_mut().flat_map(|file| &mut file.message_type);
    let nested = messages.filter(|it| it.name() == "RateLimitDescriptor");
    let entries = nested.flat_map(|it| &mut it.nested_type).filter(|it| it.name() == "Entry");
    for field in entries.flat_map(|entry| &mut entry.field) {
        field.set_type(Type::Bytes);
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_committed_is_what_the_files_say() {
        let root = crate::root().unwrap();
        let mut names = Vec::new();
        for (path, bytes) in files(&root).unwrap() {
            let committed = fs::read(root.join(&path)).unwrap_or_default();
            assert!(committed == bytes, "{path} is out of date: run `cargo xtask proto`");
            names.push(path.rsplit('/').next().unwrap_or_default().to_owned());
        }
        for entry in fs::read_dir(root.join(INTO)).unwrap() {
            let name = entry.unwrap().file_name().to_string_lossy().into_owned();
            assert!(names.contains(&name), "{name} is made of nothing: delete it");
        }
    }
}
