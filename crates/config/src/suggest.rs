//! Did you mean: the name that a wrong one was meant to be.

/// The nearest of the names, if it is near enough to be a slip of the fingers.
pub fn did_you_mean<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // No name of ours is longer, and the distance takes time that grows with the square.
    if LENGTH_MAX < wrong.len() {
        return None;
    }
    let wrong = folded(wrong);
    // Names of a file's own may be longer, and many.
    let names = names.into_iter().take(NAMES_MAX).filter(|name| name.len() <= LENGTH_MAX);
    let distances = names.map(|name| (strsim::osa_distance(&wrong, &folded(name)), name));
    let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    let length = wrong.chars().count().min(nearest.chars().count());
    // One slip in short words, one more for every three letters; never all of a word.
    let slips_max = length.div_ceil(3).min(3);
    (distance <= slips_max && distance < length).then_some(nearest)
}

/// How words are joined, and whether they are shouted, is no difference.
fn folded(name: &str) -> String {
    let same = |character| if matches!(character, '-' | ' ') { '_' } else { character };
    name.chars().flat_map(char::to_lowercase).map(same).collect()
}

const LENGTH_MAX: usize = 64;
/// Who has more names than this finds the right one without us.
const NAMES_MAX: usize = 2_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(wrong: &str, wanted: Option<&str>) {
        let names = ["limit", "match", "key", "algorithm", "retry_after", "id"];
        assert_eq!(did_you_mean(wrong, names.into_iter()), wanted, "{wrong}");
    }

    #[test]
    fn near_names_are_found() {
        check("limt", Some("limit"));
        check("limits", Some("limit"));
        check("mathc", Some("match"));
        check("Key", Some("key"));
        check("algoritm", Some("algorithm"));
        check("retry-after", Some("retry_after"));
        check("retryAfter", Some("retry_after"));
    }

    #[test]
    fn far_names_are_not() {
        for wrong in ["", "x", "burst", "quota", "to", "täglich", &"limit".repeat(1000)] {
            check(wrong, None);
        }
        assert_eq!(did_you_mean("limit", std::iter::empty()), None);
        assert_eq!(did_you_mean("x", ["k"].into_iter()), None);
        let long = "x".repeat(LENGTH_MAX + 1);
        assert_eq!(did_you_mean(&long, [long.as_str()].into_iter()), None);
    }
}
