//! Every field of a policy file, with what it takes and what it is for.
//!
//! Messages, the JSON schema and the reference are all made of these tables.

use tidegate_core::Kind;

use super::jwt::JWT;
use super::paths::PATHS;
use crate::lint::Lint;
use crate::read::{Table, Takes, table_fields};
use crate::rules::Headers;

pub(super) const NAMES: Takes = Takes::OneOrMore(&Takes::Text);
const SCALARS: Takes = Takes::OneOrMore(&Takes::Scalar);
const VALUES: Takes = Takes::Map(&SCALARS);

const ATTRIBUTE: Takes = Takes::Form {
    like: &[
        "client",
        "api-key",
        "ip",
        "user",
        "tier",
        "method",
        "host",
        "path",
        "fingerprint",
        "api-key:tenant",
        "header:x-app",
        "cookie:session",
        "query:id",
        "jwt:sub",
        "segment:1",
        "{id}",
        "attribute:tenant",
    ],
    pattern: "",
};
/// Names of warnings.
const LINTS: Takes = Takes::OneOrMore(&Takes::OneOf(Lint::NAMES));

const ATTRIBUTES: Takes = Takes::OneOrMore(&ATTRIBUTE);

const LIMIT: Takes = Takes::Form {
    like: &[
        "100/min",
        "30/10s",
        "5000/day",
        "1 per 2h",
        "10MB/s",
        "40k tokens/min",
        "20 in flight",
        "unlimited",
        "block",
    ],
    pattern: "",
};
const COUNT: Takes = Takes::Count { min: 1, max: u32::MAX as u64 };
/// A number that may be shortened.
const CELLS: Takes = Takes::Either(&[COUNT, Takes::Form { like: &["10k", "10_000"], pattern: "" }]);
pub(super) const DURATION: Takes =
    Takes::Form { like: &["250ms", "30s", "5min", "2h"], pattern: "" };
const SHARE: Takes = Takes::Form { like: &["10%", "0.5%"], pattern: "" };

/// The core's algorithms by name: one that is added there is accepted here.
pub(super) const ALGORITHMS: [&str; Kind::ALL.len()] = {
    let mut names = [""; Kind::ALL.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = Kind::ALL[at].name();
        at += 1;
    }
    names
};
pub(super) const MODES: [&str; 2] = ["meter", "queue"];
pub(super) const UNSAID: [&str; 2] = ["largest", "refuse"];
pub(super) const MISSING: [&str; 2] = ["together", "skip"];
pub(super) const WITHOUT_STORE: [&str; 3] = ["local", "open", "closed"];
pub(super) const FALLBACK: [&str; 3] = ["none", "plain", "full"];
pub(super) const FORWARDED: [&str; 2] = ["x-forwarded-for", "forwarded"];

pub(crate) static FILE: Table = Table {
    what: "a policy file",
    about: "Which requests may pass, and how many of them.",
    fields: table_fields! {
        "$schema": Takes::Text, "Where this file's schema is, for editors. Not used.";
        "name": Takes::Scalar,
            "Whose policy it is: in Redis its limits are kept apart from those of other names, \
             under `tg:NAME:`.";
        "allow": LINTS, "Warnings that this file does not get, by name.";
        "identify": Takes::Open(&IDENTIFY, &IDENTITY),
            "Who a request is from. `client: [api-key, ip]` is the first that is present; other \
             names are yours to give. `trusted_proxies` are networks whose `X-Forwarded-For` is \
             believed.";
        "api_keys": Takes::Table(&API_KEYS), "Which API keys were given out, and to whom.";
        "jwt": Takes::Table(&JWT), "How tokens are checked before their claims are believed.";
        "tiers": Takes::Table(&TIERS), "Which tier a request is of.";
        "costs": Takes::List(&Takes::Table(&COST_RULE)),
            "What requests cost by their route. The first that matches counts; without one, 1.";
        "rules": Takes::List(&Takes::Table(&RULE)),
            "The rules, looked at from top to bottom. All that match are judged together: a \
             request passes all of them, or is charged to none.";
        "share": Takes::List(&Takes::Table(&SHARING)),
            "What tenants share by weight. What the rules let pass waits for its turn; the first \
             that matches counts.";
        "paths": Takes::Table(&PATHS), "How paths are read that servers read in different ways.";
        "headers": Takes::OneOf(&Headers::WORDS), "Which headers tell clients about their limits.";
        "fallback_header": Takes::OneOf(&FALLBACK),
            "What responses say in `x-ratelimit-fallback` of a decision that was made while Redis \
             did not answer: `none` is nothing, and the usual; `plain` is `yes`; `full` is by \
             what, so that `open` tells the world that nothing is limited.";
        "on_store_error": Takes::OneOf(&WITHOUT_STORE),
            "What rules do while Redis does not answer, unless they say so themselves: `local` \
             decides by this node's share of the quota, `open` lets pass, `closed` refuses.";
        "nodes": COUNT, "How many nodes share the quota without Redis at least; they are counted.";
    },
    required: &[],
};

const IDENTITY: Takes = Takes::OneOrMore(&ATTRIBUTES);

pub(super) static IDENTIFY: Table = Table {
    what: "`identify`",
    about: "Who a request is from.",
    fields: table_fields! {
        "client": IDENTITY,
            "The first of these that is present. A list in the list is all of it together.";
        "trusted_proxies": Takes::OneOrMore(&Takes::Form {
                like: &["10.0.0.0/8", "2001:db8::/32", "private", "loopback"], pattern: "" }),
            "Networks of your own proxies. Without one, forwarding headers are ignored.";
        "forwarded_by": Takes::OneOf(&FORWARDED), "Which header your proxies write.";
        "ipv4_prefix": Takes::Count { min: 1, max: 32 },
            "How many bits of an IPv4 address count as one client.";
        "ipv6_prefix": Takes::Count { min: 1, max: 128 },
            "How many bits of an IPv6 address count as one client; 64 unless said.";
    },
    required: &[],
};

pub(super) const UNKNOWN: [&str; 2] = ["ignore", "refuse"];

pub(super) static API_KEYS: Table = Table {
    what: "`api_keys`",
    about: "Which API keys were given out, and to whom.",
    fields: table_fields! {
        "header": Takes::Text,
            "The header that a key is in; of `authorization`, what stands behind `Bearer`.";
        "file": Takes::Text, "The file that `tidegate keys` writes; see `docs/api-keys.md`.";
        "unknown": Takes::OneOf(&UNKNOWN),
            "What becomes of a request with a key that nobody has: `ignore` counts it as one \
             without a key, which is the usual; `refuse` answers 401.";
    },
    required: &["header", "file"],
};

pub(super) static TIERS: Table = Table {
    what: "`tiers`",
    about: "Which tier a request is of.",
    fields: table_fields! {
        "header": Takes::Text, "The header that says so; short for `from: header:…`.";
        "from": ATTRIBUTES,
            "Where it is said; the first that is present counts. `api-key:tier` where `api_keys` \
             are known.";
        "default": Takes::Scalar, "The tier of requests that say nothing, or something unknown.";
        "names": SCALARS, "All tiers there are. With this, another name in a rule is a mistake.";
    },
    required: &["default"],
};

const COST: Takes =
    Takes::Either(&[Takes::Count { min: 0, max: u32::MAX as u64 }, Takes::Table(&MEASURE)]);

pub(super) static COST_RULE: Table = Table {
    what: "a cost",
    about: "What requests cost.",
    fields: table_fields! {
        "match": MATCHES, "Which requests; `method` and `path` may also stand beside `cost`.";
        "method": SCALARS, "Short for `match: { method: … }`.";
        "path": NAMES, "Short for `match: { path: … }`.";
        "cost": COST, "How many cells.";
    },
    required: &["cost"],
};

const ANY_COUNT: Takes = Takes::Count { min: 0, max: u32::MAX as u64 };

pub(super) static MEASURE: Table = Table {
    what: "a measured cost",
    about: "A cost that the request or its response says.",
    fields: table_fields! {
        "from": Takes::Form {
                like: &["header:x-cost", "query:limit", "content-length", "attribute:tokens",
                    "response:x-tokens"], pattern: "" },
            "Where: an attribute of the request, `content-length`, or `response:NAME`, a header \
             of the response.";
        "default": ANY_COUNT,
            "Where it says nothing; for a response, what is taken until it is there, and where it \
             says no number. 1 unless said. Not for `content-length`.";
        "missing": Takes::Either(&[Takes::OneOf(&UNSAID), ANY_COUNT]),
            "For `content-length`, what a body costs whose length is not said: `largest`, as much \
             as the limit ever lets pass at once, which is the usual; `refuse`, with status 411; \
             or a number.";
        "min": ANY_COUNT, "The least; 1 unless said, and 0 for `content-length`.";
        "max": COUNT, "The most.";
    },
    required: &["from"],
};

const MATCHES: Takes = Takes::OneOrMore(&Takes::Table(&MATCH));

pub(super) static MATCH: Table = Table {
    what: "a match",
    about: "Which requests: all that is said has to hold. A list of matches is any of them.",
    fields: table_fields! {
        "method": SCALARS, "`GET`, or a list.";
        "host": SCALARS, "`api.example.com`, `*.example.com`, or a list.";
        "path": NAMES,
            "`/search/**`, `/users/{id}`, `/files/*.png`, or a list. `**` is any number of \
             segments, `*` is within one.";
        "tier": SCALARS, "A tier, or a list.";
        "ip": NAMES, "A network, or a list.";
        "api_key": VALUES,
            "What the file of API keys says of the owner: `name`, `tier`, or an attribute.";
        "header": VALUES, "Headers and what they have to be: a text, `*` for any, or a list.";
        "cookie": VALUES, "Cookies.";
        "query": VALUES, "Query parameters.";
        "jwt": VALUES, "Claims of a token.";
        "attribute": VALUES, "What the application itself knows of the request.";
        "not": Takes::OneOrMore(&Takes::Table(&MATCH)), "What must not hold.";
    },
    required: &[],
};

pub(super) static OUTCOME: Table = Table {
    what: "`counts_when`",
    about: "Which responses count.",
    fields: table_fields! {
        "status": Takes::OneOrMore(&Takes::Either(&[
                Takes::Count { min: 100, max: 599 },
                Takes::Form { like: &["401", "5xx", "400-499"], pattern: "" },
            ])),
            "Statuses.";
        "header": VALUES, "Headers and what they have to be.";
        "not": Takes::Table(&OUTCOME), "What must not hold.";
    },
    required: &[],
};

pub(super) static CREDITS: Table = Table {
    what: "`credits`",
    about: "Unused quota, saved up for a burst.",
    fields: table_fields! {
        "for": DURATION, "How much is saved at most: the quota of this time.";
        "rate": Takes::Form { like: &["10x"], pattern: "" },
            "How fast it may be spent: so many times the limit.";
    },
    required: &["for", "rate"],
};

pub(super) static OVERRIDE: Table = Table {
    what: "an override",
    about: "The quota of one key.",
    fields: table_fields! {
        "key": SCALARS, "The value of the rule's key; a list if the key has several parts.";
        "limit": LIMIT, "Its limit.";
        "burst": CELLS, "Its burst.";
    },
    required: &["key", "limit"],
};

pub(super) static RULE: Table = Table {
    what: "a rule",
    about: "Which requests, whom it counts, and by how much.",
    fields: table_fields! {
        "name": Takes::Scalar,
            "Its name in headers, answers and metrics: what was consumed is kept under it.";
        "about": Takes::Scalar, "What it is for. Not used.";
        "allow": LINTS, "Warnings that this rule does not get, by name.";
        "match": MATCHES, "Which requests it is for; all of them if this is missing.";
        "key": ATTRIBUTES,
            "Whom it counts: an attribute, or several together. Everybody together if this is \
             missing.";
        "if_missing": Takes::OneOf(&MISSING),
            "What happens to requests without a part of the key: they count `together`, or the \
             rule is `skip`ped.";
        "algorithm": Takes::OneOf(&ALGORITHMS), "The algorithm; `token-bucket` unless said.";
        "mode": Takes::OneOf(&MODES),
            "For `leaky-bucket`: `meter` refuses what overflows, `queue` holds it back.";
        "limit": Takes::Either(&[LIMIT, Takes::Map(&LIMIT)]),
            "How much: `100/min`, or one for each tier.";
        "burst": Takes::Either(&[CELLS, Takes::Map(&CELLS)]),
            "How many may come at once, for buckets; or one for each tier.";
        "credits": Takes::Table(&CREDITS), "Unused quota, saved up for a burst.";
        "adaptive": SHARE,
            "Gives way under load: the smallest part of its limits that is left.";
        "time_zone": Takes::Form {
                like: &["Europe/Berlin", "America/New_York", "UTC"], pattern: "" },
            "For `fixed-window`: windows are those of the calendar there.";
        "lease": DURATION,
            "For `concurrency`: after this a permit comes back by itself; 1min unless said.";
        "max_wait": DURATION,
            "For `leaky-queue`: the longest that a request is held back, in whole slots.";
        "unit": Takes::Text,
            "What is counted, if not requests: `B`, `kB`, `KiB`, `MB`, `MiB`, or a word of your \
             own.";
        "cost": COST, "What a request costs under this rule, instead of what its route does.";
        "counts_when": Takes::Table(&OUTCOME),
            "Gives back what was taken unless the response is like this.";
        "overrides": Takes::Either(&[Takes::Map(&LIMIT), Takes::List(&Takes::Table(&OVERRIDE))]),
            "Quotas of single keys: `acme: 5000/min`.";
        "shadow": Takes::Flag, "Judged, counted and reported, but never refuses.";
        "enforce": SHARE, "For how many of the keys it refuses; it is in shadow for the others.";
        "on_store_error": Takes::OneOf(&WITHOUT_STORE), "What it does while Redis does not answer.";
        "headers": Takes::Flag, "Whether clients are told of it; `false` hides it.";
        "priority": Takes::Count { min: 0, max: 1_000_000 },
            "Rules with a higher one are looked at first; 0 unless said.";
        "last": Takes::Flag,
            "Rules below do not apply to what this one matches, unless it is skipped.";
        "unlimited": Takes::Flag, "Lets pass what it matches; rules below do not apply.";
        "block": Takes::Flag, "Refuses what it matches.";
    },
    required: &["name"],
};

const CAPACITY: Takes = Takes::Form { like: &["100 in flight", "500/s"], pattern: "" };
const WEIGHT: Takes = Takes::Count { min: 1, max: 1_000_000 };
const WAITING: Takes = Takes::Count { min: 1, max: 16_777_216 };

pub(super) static SHARING: Table = Table {
    what: "a share",
    about: "What is scarce, and who shares it by weight.",
    fields: table_fields! {
        "name": Takes::Scalar, "Its name in metrics: its queue is kept under it.";
        "about": Takes::Scalar, "What it is for. Not used.";
        "match": MATCHES, "Which requests it is for; all of them if this is missing.";
        "capacity": CAPACITY, "How much there is: so many at a time, or so many over a time.";
        "adaptive": SHARE,
            "For what is in flight: how many are right is found out, between this part of the \
             capacity and all of it.";
        "burst": CELLS, "For a rate: how many may start at once; as many as the rate says unless \
             said.";
        "by": ATTRIBUTES,
            "Who shares: up to three attributes, from the outside in, such as organization, \
             tenant and user.";
        "weight": Takes::Either(&[WEIGHT, Takes::Map(&WEIGHT)]),
            "The weight of the first name of `by`, or one for each tier; 1 unless said.";
        "class": Takes::Table(&CLASSES), "Which requests matter more, and which less.";
        "wait": DURATION, "The longest that a request waits for its turn; 1s unless said.";
        "queue": Takes::Table(&QUEUE), "How many may wait.";
        "shed": Takes::Flag,
            "Whether a tenant whose requests have all waited for long loses its oldest, and its \
             newest are served first.";
    },
    required: &["name", "capacity", "by"],
};

pub(super) static CLASSES: Table = Table {
    what: "`class`",
    about: "Which requests matter more, and which less. The first that matches counts, from the \
        top; all others are in between.",
    fields: table_fields! {
        "critical": MATCHES, "What is served before everything else.";
        "high": MATCHES, "What somebody is waiting for.";
        "low": MATCHES, "What is served when there is time; it always gets a twentieth.";
    },
    required: &[],
};

pub(super) static QUEUE: Table = Table {
    what: "`queue`",
    about: "How many may wait.",
    fields: table_fields! {
        "total": WAITING, "All together; 10000 unless said.";
        "each": WAITING, "Of one tenant, the innermost name of `by`; 1000 unless said.";
    },
    required: &[],
};
