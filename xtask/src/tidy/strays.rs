//! What belongs to one machine and not to the project: its paths, and what its tools leave behind.

use super::Finding;
use super::source::File;

/// Spelled in halves: this file is searched as well.
const LOCAL: [&str; 3] = [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/")];

const SUFFIXES: [&str; 5] = [".profraw", ".orig", ".rej", ".swp", ".DS_Store"];

/// Finds local paths in any text, and artefacts by their name.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    files.iter().flat_map(|file| [local_paths(file), artefact(file)].concat()).collect()
}

fn local_paths(file: &File) -> Vec<Finding> {
    let found = file.lines().filter(|(_, line)| LOCAL.iter().any(|path| starts_in(line, path)));
    let wrong = || "a path of one machine".to_owned();
    found.map(|(number, _)| file.finding(number, wrong(), "write it from the root")).collect()
}

/// Whether `path` occurs in `line` as the start of a path, not in the middle of another.
fn starts_in(line: &str, path: &str) -> bool {
    let is_of_path = |c: char| c.is_alphanumeric() || "._-~}*".contains(c);
    line.match_indices(path).any(|(at, _)| !line[..at].ends_with(is_of_path))
}

fn artefact(file: &File) -> Vec<Finding> {
    let by_suffix = SUFFIXES.into_iter().any(|suffix| file.path.ends_with(suffix));
    let by_folder = file.has_folder("target") || file.path.contains("mutants.out");
    if !by_suffix && !by_folder {
        return Vec::new();
    }
    let wrong = "left behind by a tool".to_owned();
    vec![file.finding(1, wrong, "delete it, or have git ignore it")]
}

#[cfg(test)]
mod tests {
    use super::{LOCAL, check};
    use crate::tidy::finds;

    #[test]
    fn local_paths_are_found() {
        let found = "docs/a.md:2: a path of one machine; write it from the root";
        for path in LOCAL {
            for line in [format!("see {path}a"), format!("`{path}`"), format!("a={path}b")] {
                finds(check, &[("docs/a.md", &format!("\n{line}\n"))], &[found]);
            }
        }
    }

    #[test]
    fn paths_within_the_project_are_fine() {
        for path in LOCAL {
            finds(check, &[("docs/a.md", &format!("docs{path}a https://a.example{path}"))], &[]);
        }
    }

    #[test]
    fn artefacts_are_found() {
        let paths = ["default_1.profraw", "src/a.rs.orig", "docs/.DS_Store", "bench/target/a"];
        for path in paths {
            let found =
                format!("{path}:1: left behind by a tool; delete it, or have git ignore it");
            finds(check, &[(path, "")], &[&found]);
        }
        finds(check, &[("src/target.rs", ""), ("docs/original.md", "")], &[]);
    }
}
