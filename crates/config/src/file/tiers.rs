//! `tiers`: which tier a request is of.

use super::Reading;
use super::tables::TIERS;
use crate::attribute::{Attribute, TIER_OF_KEY};
use crate::misread::{Misread, quoted};
use crate::problem::Span;
use crate::read::Fields;
use crate::source::Node;
use crate::suggest::did_you_mean;

/// The most tiers.
pub(super) const TIERS_MAX: usize = 1_000;

impl Reading<'_> {
    pub(super) fn read_tiers(&mut self, node: Option<&Node>) {
        let fields = node.and_then(|node| Fields::of(node, &TIERS, &mut self.problems));
        let Some(fields) = fields else { return };
        self.has_tiers = true;
        self.read_tiers_from(&fields);
        let says_where = fields.get("header").is_some() || fields.get("from").is_some();
        if !says_where && self.keys_at.is_some() {
            self.tiers.from.push(Attribute::ApiKeyOwner(TIER_OF_KEY.into()));
        } else if !says_where {
            let problem =
                self.problems.error(fields.at(), "nothing says which tier a request is of");
            problem.help("add `from: api-key:tier`, or `from: jwt:tier`");
        }
        if !fields.has("default") {
            let problem = self.problems.error(fields.at(), "`tiers` has no `default`");
            problem.help("add the tier of requests that say nothing, as in `default: free`");
        }
        for (field, names) in [("default", fields.get("default")), ("names", fields.get("names"))] {
            for one in names.map_or(&[][..], Node::one_or_more) {
                let Some(name) = one.scalar(field, &mut self.problems) else { continue };
                if !self.tier_places.contains_key(&*name) {
                    self.add_tier(&name, one.at);
                }
                self.tiers_are_known = field == "names";
            }
        }
    }

    fn read_tiers_from(&mut self, fields: &Fields<'_>) {
        if let Some(node) = fields.get("header")
            && let Some(name) = node.text("header", &mut self.problems)
        {
            match Attribute::parse(&format!("header:{name}"), &[]) {
                Ok(attribute) => self.tiers.from.push(attribute),
                Err(misread) => self.misread(node.at, misread),
            }
        }
        for one in fields.get("from").map_or(&[][..], Node::one_or_more) {
            let Some(attribute) = self.read_attribute(one) else { continue };
            if matches!(attribute, Attribute::ApiKey | Attribute::Tier | Attribute::Named(_)) {
                let message = format!("`{attribute}` says nothing about the tier");
                let problem = self.problems.error(one.at, message);
                problem.help("name where it is said, as in `api-key:tier` or `jwt:tier`");
                continue;
            }
            self.tiers.from.push(attribute);
        }
    }

    /// Adds a tier; its place.
    fn add_tier(&mut self, name: &str, at: Span) -> usize {
        if self.tiers.names.len() == TIERS_MAX {
            let problem = self.problems.error(at, format!("there are more than {TIERS_MAX} tiers"));
            problem.help("use `overrides` for quotas of single customers");
        }
        // The one too many is kept, so that it is said once.
        if TIERS_MAX < self.tiers.names.len() {
            return 0;
        }
        let is_plain = |it: char| it.is_ascii_graphic() && !"\"\\/#=".contains(it);
        if name.is_empty() || 64 < name.len() || !name.chars().all(is_plain) {
            let message = format!("{} cannot be a tier", quoted(name));
            self.problems.error(at, message).help("use up to 64 letters, digits, `-`, `_` and `.`");
        }
        let place = self.tiers.names.len();
        self.tiers.names.push(name.into());
        self.tier_places.insert(name.into(), place);
        place
    }

    /// The place of a tier that a rule names.
    pub(super) fn tier(&mut self, name: &str, at: Span) -> usize {
        if let Some(index) = self.tier_places.get(name) {
            return *index;
        }
        if self.tiers.names.is_empty() && !self.has_tiers {
            let problem = self.problems.error(at, "nothing says which tier a request is of");
            problem.help("add `tiers: { from: api-key:tier, default: free }` to the file");
        } else if self.tiers_are_known && !self.tiers.names.is_empty() {
            let names = &self.tiers.names;
            self.problems.misread(at, || unknown(name, names));
        }
        // Where there is no default, whatever comes first is; there is an error for it already.
        self.add_tier(name, at)
    }
}

/// What to write instead of a tier that is none.
fn unknown(name: &str, names: &[Box<str>]) -> Misread {
    let near = did_you_mean(name, names.iter().map(|name| &**name));
    let help = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => "add it to the `names` under `tiers`".to_owned(),
    };
    Misread::new(format!("there is no tier {}", quoted(name)), help)
}
