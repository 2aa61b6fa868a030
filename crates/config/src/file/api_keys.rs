//! `api_keys`: which API keys were given out, and to which owners.

use std::path::Path;

use super::Reading;
use super::tables::{API_KEYS, UNKNOWN};
use crate::api_keys::{ApiKeys, KeyFile, Owner};
use crate::attribute::{Attribute, TIER_OF_KEY, header_name};
use crate::identify::Identify;
use crate::lint::Lint;
use crate::path::Case;
use crate::problem::shortened;
use crate::read::Fields;
use crate::source::{Format, Node};

/// How many mistakes of a file of keys are reported.
const TOLD_MAX: usize = 5;

impl Reading<'_> {
    pub(super) fn read_api_keys(&mut self, node: &Node) -> Option<ApiKeys> {
        // Where it is wrong, that is said once, and not again wherever a key is named.
        self.keys_at = Some(node.at);
        let fields = Fields::of(node, &API_KEYS, &mut self.problems)?;
        let header = fields.required("header", &mut self.problems);
        let file = fields.required("file", &mut self.problems);
        let unknown = match fields.get("unknown") {
            Some(node) => node.choice("unknown", &UNKNOWN, &mut self.problems)?,
            None => "ignore",
        };
        let header = self.read_header_of_keys(header?)?;
        let file = file?;
        self.keys_at = Some(file.at);
        Some(ApiKeys::new(self.read_key_file(file)?, header, unknown == "refuse"))
    }

    fn read_header_of_keys(&mut self, node: &Node) -> Option<Box<str>> {
        let name = node.text("header", &mut self.problems)?;
        match header_name(name) {
            Ok(name) => Some(name),
            Err(misread) => {
                self.misread(node.at, misread);
                None
            }
        }
    }

    /// Mistakes of the file are reported by their lines, and not shown: a key may stand there.
    fn read_key_file(&mut self, node: &Node) -> Option<KeyFile> {
        let name = node.text("file", &mut self.problems)?;
        let shown = shortened(name);
        let bytes = match self.outside.file(name) {
            Ok(bytes) => bytes,
            Err(error) => {
                let message = format!("cannot read `{shown}`: {error}");
                let help = format!("`tidegate keys add NAME --file {shown}` begins one");
                self.problems.error(node.at, message).help(help);
                return None;
            }
        };
        let problems = match KeyFile::read(&bytes, Format::of_path(Path::new(name))) {
            Ok(file) => return Some(file),
            Err(problems) => problems,
        };
        for problem in problems.iter().take(TOLD_MAX) {
            let message = format!("{shown}:{}: {}", problem.line, problem.message);
            let added = self.problems.error(node.at, message);
            added.help(problem.help.as_deref().unwrap_or("correct it there"));
        }
        if let Some(more) = problems.len().checked_sub(TOLD_MAX).filter(|more| 0 < *more) {
            let problem = self.problems.error(node.at, format!("{shown}: {more} more mistakes"));
            problem.help("correct the first ones, and look again");
        }
        None
    }

    /// Warns of tiers of keys that no rule knows.
    pub(super) fn warn_of_tiers(&mut self, identify: &Identify) {
        let (Some(keys), Some(at)) = (&identify.api_keys, self.keys_at) else { return };
        let of_key = Attribute::ApiKeyOwner(TIER_OF_KEY.into());
        if !self.tiers.from.contains(&of_key) {
            return;
        }
        let is_unknown = |owner: &&Owner| {
            owner.tier().is_some_and(|tier| self.tiers.index(tier.as_bytes(), Case::Kept).is_none())
        };
        let mut unknown = keys.owners().iter().filter(is_unknown);
        let Some(first) = unknown.next() else { return };
        let more = match unknown.count() {
            0 => String::new(),
            more => format!(" ({more} more like it)"),
        };
        let (name, tier) = (shortened(&first.name), shortened(first.tier().unwrap_or_default()));
        let message = format!("`{name}` has the tier `{tier}`, which no rule knows{more}");
        let default = self.tiers.names.first().map_or("", |name| name).to_owned();
        let problem = self.problems.lint(Lint::UnknownTier, at, message);
        problem.help(format!("these keys have the limits of `{default}`"));
    }

    /// A token and a key cannot be in the same header where unknown keys are refused.
    pub(super) fn check_place_of_keys(&mut self, identify: &Identify) {
        let (Some(keys), Some(at)) = (&identify.api_keys, self.keys_at) else { return };
        let Some(Attribute::Header(header)) = &identify.token_in else { return };
        if keys.refuses_unknown() && keys.header() == &**header {
            let message = format!("`{header}` has the tokens, and a token is no known API key");
            let problem = self.problems.error(at, message);
            problem.help("give keys a header of their own, or leave `unknown: refuse` out");
        }
    }
}
