//! A crate's own `clippy.toml` replaces the root's, so it must repeat the root's bans.

use super::Finding;
use super::source::File;

const NAME: &str = "clippy.toml";

/// Finds bans of the root that a copy has dropped.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let Some(root) = files.iter().find(|file| file.path == NAME) else { return Vec::new() };
    let is_copy = |file: &&File| file.path.rsplit_once('/').is_some_and(|(_, name)| name == NAME);
    files.iter().filter(is_copy).flat_map(|copy| dropped(copy, root)).collect()
}

fn dropped(copy: &File, root: &File) -> Vec<Finding> {
    let kept: Vec<&str> = bans(copy).collect();
    let absent = bans(root).filter(|ban| !kept.contains(ban));
    let wrong = |ban| format!("the ban on `{ban}` is dropped");
    let fix = "repeat the root's bans; clippy does not merge the two files";
    absent.map(|ban| copy.finding(1, wrong(ban), fix)).collect()
}

/// What follows each `path =` outside comments.
fn bans(file: &File) -> impl Iterator<Item = &str> {
    file.lines().filter(|(_, line)| !line.trim_start().starts_with('#')).filter_map(|(_, line)| {
        let value = line.split_once("path")?.1.trim_start().strip_prefix('=')?.trim_start();
        value.strip_prefix('"')?.split('"').next()
    })
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::finds;

    const ROOT: &str = "disallowed-methods = [\n  { path = \"a::b\", reason = \"c\" },\n\
                        \x20 { path = \"d::e\", reason = \"f\" },\n]\n";

    #[test]
    fn a_copy_may_add() {
        let more = format!("{ROOT}more = [{{ path = \"g::h\" }}]\n");
        finds(check, &[("clippy.toml", ROOT), ("crates/sim/clippy.toml", &more)], &[]);
    }

    #[test]
    fn a_dropped_ban_is_found() {
        let found = "crates/sim/clippy.toml:1: the ban on `d::e` is dropped; \
                     repeat the root's bans; clippy does not merge the two files";
        for less in [ROOT.replace("d::e", "x::y"), ROOT.replace("  { path = \"d", "# path = \"d")] {
            finds(check, &[("clippy.toml", ROOT), ("crates/sim/clippy.toml", &less)], &[found]);
        }
    }
}
