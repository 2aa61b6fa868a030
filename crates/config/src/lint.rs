//! Warnings with names: what each is about, and where a policy file allows it.
//!
//! There is one table. `allow` in a policy file, `tidegate explain` and `docs/warnings.md` are made
//! of it.

use std::fmt;
use std::str::FromStr;

/// What each warning is: its name, one line, and what to know before it is allowed.
macro_rules! lints {
    ($($lint:ident, $name:literal: $meaning:literal, $page:literal;)*) => {
        /// A warning with a name, by which a policy file can allow it.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[non_exhaustive]
        pub enum Lint {
            $(#[doc = $meaning] $lint,)*
        }

        impl Lint {
            /// All of them, by name.
            pub const ALL: &[Lint] = &[$(Lint::$lint),*];
            /// Their names.
            pub(crate) const NAMES: &'static [&'static str] = &[$($name),*];

            /// Its name, as `allow` takes it.
            pub fn name(self) -> &'static str {
                match self { $(Lint::$lint => $name),* }
            }

            /// What it warns of, in one sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Lint::$lint => $meaning),* }
            }

            /// Why it warns, and what to do about it.
            pub fn page(self) -> &'static str {
                match self { $(Lint::$lint => $page),* }
            }
        }
    };
}

lints! {
    AlmostClient, "almost-client":
        "An identity has nearly the name `client`, which stays the address.",
        "`client` is the address unless the file says otherwise, and any other name under \
         `identify` is a name of your own. A misspelled `client` therefore changes nothing for \
         the rules that count by `client`. Write `client`, or choose a name that is not easily \
         mistaken for it.";
    AmbiguousOverride, "ambiguous-override":
        "An override names a value that clients can also send themselves.",
        "The key of the rule is taken from several places. One of them is vouched for, such as a \
         claim of a token or the address; another is a header or the like, which anybody can \
         send. A client that sends the value there has the quota of the override. Write where the \
         value is from, as in `jwt:sub=acme: 5000/min`.";
    BlockInShadow, "block-in-shadow":
        "A `block` is in shadow, where it neither counts nor refuses.",
        "Nothing is counted where nothing may pass, so a block in shadow does not show which \
         clients it would refuse. To see that, try the smallest limit in shadow: `1 per 365d`.";
    CostsNothing, "costs-nothing":
        "Every request costs 0 under a rule, so it never runs out.",
        "A request that costs 0 is answered with what is left, and takes nothing. A rule whose \
         `cost` is 0, or for whose requests every entry of `costs` says 0, limits nobody. Leave \
         the cost out (it is 1 then), or use `unlimited: true` for requests that are to pass. \
         Where callers of a server say the cost of each request, the entries of `costs` do not \
         count; allow the warning there.";
    LargeLog, "large-log":
        "A sliding log remembers so many events that a key needs half a megabyte.",
        "A sliding log keeps the time of each event, 8 bytes apiece, for as long as its period; \
         past 32,768 events it merges events that are close together, and takes up to 512 KiB \
         for each key. With Redis every decision reads such a list and writes it. Use \
         `token-bucket`, which needs 8 bytes, or `sliding-window`, which needs 16.";
    LastInShadow, "last-in-shadow":
        "A rule in shadow has `last: true`, so its requests have no limit at all.",
        "A rule in shadow refuses nobody, yet `last: true` ends the list for what it matches: the \
         rules below do not apply. The same goes for `enforce: 10%`: the other 90 % of the keys \
         have no limit. While the rule is tried out, leave `last` out, so that the rules below \
         still apply; add it when the rule refuses for all.";
    LimitsNobody, "limits-nobody":
        "A rule has `limit: unlimited` for everybody, which does nothing.",
        "There are two ways to write unlimited. `limit: unlimited` says that this rule has no \
         limit for a tier or a key; the rules below still apply. `unlimited: true` lets pass what \
         the rule matches, and no rule below applies. A rule whose every limit is `unlimited` \
         does nothing. Write `unlimited: true` if its requests are to pass, or remove the rule.";
    NeedsResponse, "needs-response":
        "A rule or a cost needs the response, which the server's doors do not see.",
        "`counts_when` and costs from `response:` are settled by the response. The layer in an \
         application sees every response. `tidegate serve` sees none: there `counts_when` counts \
         every request, and a cost from the response stays at its `default`. The server logs \
         this when the policy is put in force. Use the layer, or have callers ask `/v1/acquire` \
         and report the cost at `/v1/release`, or allow the warning.";
    NothingEnforced, "nothing-enforced":
        "Every rule is in shadow, so the policy refuses nothing.",
        "Rules in shadow count and report, and let everything pass. That is the first step of a \
         rollout, and easily forgotten. When the numbers are right, take `shadow` away rule by \
         rule, or write `enforce: 10%` first. Until then, allow the warning at the top of the \
         file.";
    ShortLease, "short-lease":
        "Permits lapse sooner than their requests may have their turn.",
        "A request has its permit from the moment it is decided, also while a share or a leaky \
         queue holds it back. The permit is renewed meanwhile, but that can fail: in Redis it \
         takes a Tokio runtime, and a Redis that answers. Then more are in flight than the limit \
         says. Give the rule a `lease` that is longer than the longest wait, shorten the wait \
         (`wait` of the share, `max_wait` of the queue), or allow this where renewals are good \
         enough.";
    TrustsEverybody, "trusts-everybody":
        "`trusted_proxies` has a network that is far too large for proxies.",
        "The forwarding header of a trusted proxy is believed. A client in a trusted network can \
         write any address there, and so have a new bucket for every request. `0.0.0.0/0` is \
         everybody, and `0.0.0.0/1` with `128.0.0.0/1` is everybody in two halves. No network \
         larger than a /8 of IPv4 or a /16 of IPv6 belongs to proxies, private ones excepted. \
         Name only the networks of your own proxies.";
    UnknownMethod, "unknown-method":
        "A match names a method that HTTP does not have.",
        "A match that asks for a method which no client sends matches nothing, so that its rule \
         limits nobody. `GET` stands for `HEAD` as well, and upper and lower case mean the same. \
         Correct the name; where your clients do send a method of your own, allow the warning.";
    UnknownTier, "unknown-tier":
        "The file of API keys has a tier that no rule knows.",
        "A client with such a key has the limits of the default tier. Correct the tier in the file \
         of keys, give a rule a limit for it, or list it under `names` of `tiers`.";
    UnpayableCost, "unpayable-cost":
        "A request costs more than its rule ever lets pass at once: it never passes.",
        "A rule lets at most its burst pass at once, or its limit where it has no burst. A \
         request that costs more is refused however long its client waits, and its answer has no \
         `Retry-After`. With `credits`, the cost must also fit into the burst of the peak. \
         Raise the `burst` (or the limit of that tier or key), lower the cost, or give the \
         expensive route a rule of its own with `cost: 1`. Where a tier is not meant to have the \
         route at all, say so: `limit: { free: block, pro: 1000/min }` in a rule for that route.";
    UnreachableRule, "unreachable-rule":
        "A rule above ends the list for every request that this rule matches.",
        "The rule limits nobody. Move it above the rule that hides it, or give it a higher \
         `priority`.";
    UnverifiedKey, "unverified-key":
        "A rule counts by what every client can choose for itself.",
        "A client that writes another value into the header, cookie or query parameter has a new \
         limit, as often as it likes. Count by `api-key`, by a claim of a token or by what the \
         application knows; or add a rule with `key: ip` that is for the same requests, as a \
         ceiling for each address.";
    UnverifiedQuota, "unverified-quota":
        "An `unlimited` override is for a name that every client can say.",
        "A client that learns the name has no limit. Give the quota to an `api-key` or to a claim, \
         as in `api-key=acme: unlimited`, or add a rule with `key: ip` that is for the same \
         requests.";
    UnverifiedTier, "unverified-tier":
        "A rule believes the tier that a client says.",
        "Everybody has the best tier by sending its name. Take the tier from `api-key:tier` or \
         from a claim of a token; where a proxy of yours writes the header and removes what \
         clients send, allow this.";
    UselessIfMissing, "useless-if-missing":
        "`if_missing` stands in a rule without a `key`.",
        "A rule without a key counts everybody together, so nothing can be missing. Say what the \
         rule counts by with `key`, or leave `if_missing` out.";
    WeakSecret, "weak-secret":
        "The secret of tokens is so short that it can be guessed.",
        "Anybody who has one token can try secrets without asking you, as fast as their machines \
         allow. With the secret they can sign any claim. Use at least 32 random bytes.";
}

/// The warnings that a file, or a rule, allows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allowed(Vec<Lint>);

impl Allowed {
    pub(crate) fn add(&mut self, lint: Lint) {
        if !self.has(lint) {
            self.0.push(lint);
        }
    }

    pub(crate) fn has(&self, lint: Lint) -> bool {
        self.0.contains(&lint)
    }
}

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no warning has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UnknownLint;

impl fmt::Display for UnknownLint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no warning has this name")
    }
}

impl std::error::Error for UnknownLint {}

impl FromStr for Lint {
    type Err = UnknownLint;

    fn from_str(name: &str) -> Result<Lint, UnknownLint> {
        Lint::ALL.iter().copied().find(|lint| lint.name() == name).ok_or(UnknownLint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rules;

    #[test]
    fn names_are_sorted_and_texts_are_sentences() {
        assert!(Lint::NAMES.is_sorted());
        for lint in Lint::ALL {
            let is_plain = |it: char| it.is_ascii_lowercase() || it == '-';
            assert!(lint.name().chars().all(is_plain), "{lint}");
            assert!(lint.meaning().ends_with('.') && lint.meaning().len() < 90, "{lint}");
            assert!(lint.page().ends_with('.'), "{lint}");
            assert_eq!(lint.name().parse(), Ok(*lint));
        }
        assert_eq!("unreachable".parse::<Lint>(), Err(UnknownLint));
    }

    const HIDDEN: &str = "
rules:
  - { name: all, unlimited: true }
  - { name: never, limit: 5/s, if_missing: skip }
  - { name: late, limit: 5/s }
";

    /// The names of the warnings, with the line of each.
    #[track_caller]
    fn check(policy: &str, wanted: &[(Lint, usize)]) {
        let report = Rules::from_text(policy).unwrap().report;
        let found: Vec<_> = report.problems().map(|it| (it.lint.unwrap(), it.line)).collect();
        assert_eq!(found, wanted, "{report}");
        assert_eq!(report.warnings(), wanted.len());
    }

    #[test]
    fn a_rule_and_a_file_allow_by_name() {
        let (hidden, useless) = (Lint::UnreachableRule, Lint::UselessIfMissing);
        check(HIDDEN, &[(hidden, 4), (useless, 4), (hidden, 5)]);
        let rule = HIDDEN.replace("if_missing: skip", "if_missing: skip, allow: unreachable-rule");
        check(&rule, &[(useless, 4), (hidden, 5)]);
        let rule = HIDDEN.replace(
            "if_missing: skip",
            "if_missing: skip, allow: [useless-if-missing, unreachable-rule]",
        );
        check(&rule, &[(hidden, 5)]);
        let file = format!("allow: [unreachable-rule, weak-secret]{HIDDEN}");
        check(&file, &[(useless, 4)]);
    }

    const NEEDS: &str = "
costs:
  - { path: /a, cost: { from: response:x-a } }
  - { path: /b, cost: { from: response:x-b } }
rules:
  - { name: plain, limit: 5/s, cost: { from: query:limit } }
  - { name: logins, limit: 5/s, counts_when: { status: 401 } }
  - { name: tokens, limit: 5/s, cost: { from: response:x-tokens } }
";

    /// For those who are never told it: elsewhere there is nothing to warn of.
    #[test]
    fn what_needs_the_response_is_known_unless_that_is_allowed() {
        let check = |policy: &str, wanted: &[&str]| {
            let loaded = Rules::from_text(policy).unwrap();
            assert_eq!(loaded.report.warnings(), 0, "{}", loaded.report);
            let found: Vec<&str> = loaded.rules.needs_response().iter().map(|it| &**it).collect();
            assert_eq!(found, wanted);
        };
        check(NEEDS, &["`costs`", "rule `logins`", "rule `tokens`"]);
        check(&format!("allow: needs-response{NEEDS}"), &[]);
        let rule = NEEDS.replace("{ name: logins,", "{ name: logins, allow: needs-response,");
        check(&rule, &["`costs`", "rule `tokens`"]);
    }

    #[test]
    fn a_warning_shows_its_name() {
        let report = Rules::from_text(HIDDEN).unwrap().report;
        let shown = report.to_string();
        assert!(shown.starts_with("warning[unreachable-rule]: rule `never` never "), "{shown}");
    }
}
