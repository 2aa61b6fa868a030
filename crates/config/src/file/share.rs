//! `share`: what tenants share by weight.

use tidegate_core::fair::{Class, Path, Settings, Weight};
use tidegate_core::{Kind, Quota, Span as Time};

use super::Reading;
use super::rule::is_map;
use super::tables::{ATTRIBUTES, CELLS, DURATION, MATCHES, SHARE};
use crate::attribute::Attribute;
use crate::matcher::Matcher;
use crate::misread::quoted;
use crate::quantity::{self, Limit};
use crate::read::{Fields, Table, Takes, table_fields};
use crate::share::{Capacity, SharedCapacity, Weights};
use crate::source::Node;

/// The most shares of a policy: each is a queue of its own, looked for one after the other.
const SHARES_MAX: usize = 100;

/// The longest wait, unless the file says otherwise.
const WAIT: Time = Time::from_secs(1);

const CAPACITY: Takes = Takes::Form { like: &["100 in flight", "500/s"], pattern: "" };
const WEIGHT: Takes = Takes::Count { min: 1, max: 1_000_000 };
const WAITING: Takes = Takes::Count { min: 1, max: 16_777_216 };

pub(super) static SHARING: Table = Table {
    what: "a share",
    about: "What is scarce, and who shares it by weight.",
    fields: table_fields! {
        "name": Takes::Scalar, "Its name in metrics; its queue is kept under it. Required.";
        "about": Takes::Scalar, "What it is for. Not used. Default: nothing.";
        "match": MATCHES, "Which requests it is for. Default: all.";
        "capacity": CAPACITY,
            "How much there is: so many at a time, or so many over a time. Required.";
        "adaptive": SHARE,
            "For what is in flight: the capacity is found by trying, between this part of it and \
             all of it. Default: the capacity is fixed.";
        "burst": CELLS, "For a rate: how many may start at once. Default: the quota of one period.";
        "by": ATTRIBUTES,
            "Who shares: up to three attributes, from the outside in, such as organization, \
             tenant and user. Required.";
        "weight": Takes::Either(&[WEIGHT, Takes::Map(&WEIGHT)]),
            "The weight of the first name of `by`, or one for each tier. Default: 1.";
        "class": Takes::Table(&CLASSES),
            "Which requests matter more, and which less. Default: all matter alike.";
        "wait": DURATION, "The longest that a request waits for its turn. Default: `1s`.";
        "queue": Takes::Table(&QUEUE), "How many may wait. Default: 10000, and 1000 of one tenant.";
        "shed": Takes::Flag,
            "If all requests of a tenant have waited for long, its oldest are dropped and its \
             newest served first. Default: `false`.";
    },
    required: &["name", "capacity", "by"],
};

static CLASSES: Table = Table {
    what: "`class`",
    about: "Which requests matter more, and which less. The first that matches counts, from the \
        top; all others are in between.",
    fields: table_fields! {
        "critical": MATCHES, "Requests that are served before everything else. Default: none.";
        "high": MATCHES, "Requests that somebody is waiting for. Default: none.";
        "low": MATCHES,
            "Requests that are served when there is time; they always get a twentieth. Default: \
             none.";
    },
    required: &[],
};

static QUEUE: Table = Table {
    what: "`queue`",
    about: "How many may wait.",
    fields: table_fields! {
        "total": WAITING, "All together. Default: 10000.";
        "each": WAITING, "Of one tenant, the innermost name of `by`. Default: 1000.";
    },
    required: &[],
};

impl Reading<'_> {
    pub(super) fn read_shares(&mut self, node: &Node, shares: &mut Vec<SharedCapacity>) {
        let Some(list) = node.list("share", &mut self.problems) else { return };
        for one in list {
            let Some(share) = self.read_share(one) else { continue };
            if shares.iter().any(|other| other.name == share.name) {
                let message = format!("two shares are called `{}`", share.name);
                let problem = self.problems.error(one.at, message);
                problem.help("give each a name of its own: its queue is kept under it");
            }
            if shares.len() == SHARES_MAX {
                let message = format!("there are more than {SHARES_MAX} shares");
                self.problems.error(one.at, message).help("let several matches share one");
            }
            if shares.len() <= SHARES_MAX {
                shares.push(share);
            }
        }
    }

    fn read_share(&mut self, node: &Node) -> Option<SharedCapacity> {
        let fields = Fields::of(node, &SHARING, &mut self.problems)?;
        let name = fields.required("name", &mut self.problems);
        let name = name.and_then(|node| self.read_plain_name(node));
        let matcher = self.read_match(fields.get("match"));
        let capacity = self.read_capacity(&fields);
        let capacity = match (capacity, fields.get("adaptive")) {
            (Some(capacity), Some(node)) => self.adaptive_capacity(node, capacity),
            (capacity, _) => capacity,
        };
        let by = fields.required("by", &mut self.problems);
        let by = by.map(|node| self.read_by(node, &matcher));
        let weights = fields
            .get("weight")
            .map_or(Some(Weights::All(Weight::ONE)), |node| self.read_weights(node));
        let classes = fields.get("class").map_or(Vec::new(), |node| self.read_classes(node));
        let wait = fields.get("wait").and_then(|node| self.read_duration(node, "wait"));
        let (waiting_max, waiting_each_max) = self.read_bounds(fields.get("queue"));
        let sheds = self.read_flag(&fields, "shed", false);
        Some(SharedCapacity {
            name: name?,
            matcher,
            capacity: capacity?,
            by: by?,
            weights: weights?,
            classes,
            wait: wait.unwrap_or(WAIT),
            waiting_max,
            waiting_each_max,
            sheds,
        })
    }

    fn read_by(&mut self, node: &Node, matcher: &Matcher) -> Vec<Attribute> {
        let by = self.read_key(node, matcher);
        if Path::LEN_MAX < by.len() {
            let message = format!("`by` has at most {} names", Path::LEN_MAX);
            let problem = self.problems.error(node.at, message);
            problem.help("write organization, tenant and user, or fewer");
        }
        by
    }

    fn read_capacity(&mut self, fields: &Fields<'_>) -> Option<Capacity> {
        let node = fields.required("capacity", &mut self.problems)?;
        let text = node.scalar("capacity", &mut self.problems)?;
        let limit = match quantity::limit(&text) {
            Ok(limit) => limit,
            Err(misread) => {
                self.misread(node.at, misread);
                return None;
            }
        };
        match (limit, fields.get("burst")) {
            (Limit::InFlight { .. }, Some(burst)) => {
                let problem = self.problems.error(burst.at, "what is in flight has no burst");
                problem.help("leave it out, or write a rate, as in `capacity: 500/s`");
                None
            }
            (Limit::InFlight { cells }, None) => self.cells(node.at, cells).map(Capacity::InFlight),
            (Limit::Rate { amount, per }, burst) => {
                let Some(span) = per.span() else {
                    let problem = self.problems.error(node.at, "a capacity has no calendar");
                    problem.help("write what there is in a shorter time, as in `500/s`");
                    return None;
                };
                let mut quota = Quota::new(self.cells(node.at, amount.cells)?, span);
                if let Some(burst) = burst {
                    quota = quota.burst(self.read_burst(burst, Kind::TokenBucket)?);
                }
                self.policy(node.at, Kind::TokenBucket, quota).map(Capacity::Rate)
            }
            (Limit::Block | Limit::Unlimited, _) => {
                let message = format!("{} is nothing to share", quoted(text.trim()));
                let problem = self.problems.error(node.at, message);
                problem.help("write so many at a time, as in `100 in flight`, or so many a second");
                None
            }
        }
    }

    fn read_weights(&mut self, node: &Node) -> Option<Weights> {
        if !is_map(node) {
            return self.read_weight(node).map(Weights::All);
        }
        let mut weights = Vec::new();
        for entry in node.map("weight", &mut self.problems)? {
            let tier = self.tier(&entry.name, entry.name_at);
            let Some(weight) = self.read_weight(&entry.node) else { continue };
            if weights.len() <= tier {
                weights.resize(tier + 1, Weight::ONE);
            }
            weights[tier] = weight;
        }
        Some(Weights::ByTier(weights))
    }

    fn read_weight(&mut self, node: &Node) -> Option<Weight> {
        let weight = node.count("weight", 1..=Weight::MAX.get().into(), &mut self.problems)?;
        u32::try_from(weight).ok().map(Weight::new)
    }

    fn read_classes(&mut self, node: &Node) -> Vec<(Class, Matcher)> {
        let Some(fields) = Fields::of(node, &CLASSES, &mut self.problems) else {
            return Vec::new();
        };
        let names = CLASSES.fields.iter().map(|field| field.name);
        let mut classes = Vec::new();
        for (name, class) in names.zip([Class::Critical, Class::High, Class::Low]) {
            if let Some(node) = fields.get(name) {
                classes.push((class, self.read_match(Some(node))));
            }
        }
        classes
    }

    /// The most that wait, all together and of one tenant.
    fn read_bounds(&mut self, node: Option<&Node>) -> (u32, u32) {
        let usual = Settings::default();
        let fields = node.and_then(|node| Fields::of(node, &QUEUE, &mut self.problems));
        let mut bound = |name: &'static str, usual: u32| {
            let node = fields.as_ref().and_then(|fields| fields.get(name));
            let most = u64::from(Settings::REQUESTS_MAX);
            let count = node.and_then(|node| node.count(name, 1..=most, &mut self.problems));
            count.and_then(|count| u32::try_from(count).ok()).unwrap_or(usual)
        };
        (bound("total", usual.requests_max), bound("each", usual.flow_requests_max))
    }
}
