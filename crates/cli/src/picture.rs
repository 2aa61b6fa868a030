//! Writes the picture of a comparison: as SVG, as PNG, or as both.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tidegate_sim::{Comparison, chart};

/// Draws `comparison` and writes it to `out`, and says which files that made.
///
/// A path that ends in `.svg` or `.png` makes that file only; any other makes both beside it.
pub(crate) fn write(comparison: &Comparison, out: &Path) -> anyhow::Result<Vec<PathBuf>> {
    write_svg(&chart::draw(comparison), out)
}

/// Writes the files as `write` does, for a picture that has been drawn.
pub(crate) fn write_svg(svg: &str, out: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let files = files(out);
    for file in &files {
        let bytes = if file.extension() == Some(OsStr::new("png")) {
            chart::png(svg)?
        } else {
            svg.as_bytes().to_vec()
        };
        fs::write(file, bytes).with_context(|| {
            format!("cannot write `{}`: choose another place with --out", file.display())
        })?;
    }
    Ok(files)
}

fn files(out: &Path) -> Vec<PathBuf> {
    if out.extension().is_some_and(|end| end == "svg" || end == "png") {
        return vec![out.to_owned()];
    }
    // Not `with_extension`: `run.2` is a name, and `.2` is no extension.
    ["svg", "png"].map(|end| format!("{}.{end}", out.display()).into()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extension_chooses_the_format() {
        let names = |out: &str| {
            files(Path::new(out)).iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names("a/run"), ["a/run.svg", "a/run.png"]);
        assert_eq!(names("run.2"), ["run.2.svg", "run.2.png"]);
        assert_eq!(names("run.svg"), ["run.svg"]);
        assert_eq!(names("run.png"), ["run.png"]);
    }
}
