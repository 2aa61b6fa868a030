//! Every field of a policy file, with what it takes and what it is for.
//!
//! Messages, the JSON schema and the reference are all made of these tables.

use tidegate_core::Kind;

use super::jwt::JWT;
use super::paths::PATHS;
use super::share::SHARING;
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

pub(super) const ATTRIBUTES: Takes = Takes::OneOrMore(&ATTRIBUTE);

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
pub(super) const CELLS: Takes =
    Takes::Either(&[COUNT, Takes::Form { like: &["10k", "10_000"], pattern: "" }]);
pub(super) const DURATION: Takes =
    Takes::Form { like: &["250ms", "30s", "5min", "2h"], pattern: "" };
pub(super) const SHARE: Takes = Takes::Form { like: &["10%", "0.5%"], pattern: "" };

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
        "$schema": Takes::Text,
            "Where this file's schema is, for editors. Not used. Default: none.";
        "name": Takes::Scalar,
            "Whose policy it is: in Redis its limits are kept apart from those of other names, \
             under `tg:NAME:`. Default: none, and `tg:`.";
        "allow": LINTS, "Warnings that this file does not get, by name. Default: none.";
        "identify": Takes::Open(&IDENTIFY, &IDENTITY),
            "Who a request is from. `client: [api-key, ip]` is the first that is present; other \
             names are yours to give. `trusted_proxies` are networks whose `X-Forwarded-For` is \
             believed. Default: `client` is the address.";
        "api_keys": Takes::Table(&API_KEYS),
            "Which API keys were given out, and to whom. Default: no key is known.";
        "jwt": Takes::Table(&JWT),
            "How tokens are checked before their claims are believed. Default: no claim is \
             believed.";
        "tiers": Takes::Table(&TIERS), "Which tier a request is of. Default: there are no tiers.";
        "costs": Takes::List(&Takes::Table(&COST_RULE)),
            "What requests cost by their route; the first entry that matches counts. Default: \
             every request costs 1.";
        "rules": Takes::List(&Takes::Table(&RULE)),
            "The rules, from top to bottom. All that match are judged together: a request passes \
             all of them, or is charged to none. Default: none, if there is a `share`.";
        "share": Takes::List(&Takes::Table(&SHARING)),
            "What tenants share by weight. A request that the rules let pass waits for its turn \
             in the first share that matches. Default: nobody waits.";
        "paths": Takes::Table(&PATHS),
            "How paths are read that servers read in different ways. Default: in all of these \
             ways.";
        "headers": Takes::OneOf(&Headers::WORDS),
            "Which headers tell clients about their limits. Default: `both`.";
        "fallback_header": Takes::OneOf(&FALLBACK),
            "What `x-ratelimit-fallback` says of a decision that was made while Redis did not \
             answer: `none` sends no such header, `plain` says `yes`, and `full` says how it was \
             made, so that `open` shows everybody that nothing is limited. Default: `none`.";
        "on_store_error": Takes::OneOf(&WITHOUT_STORE),
            "What rules do while Redis does not answer, unless they say so themselves: `local` \
             decides by this node's share of the quota, `open` lets pass, `closed` refuses. \
             Default: `local`.";
        "nodes": COUNT,
            "The least number of nodes that the quota is divided by while Redis does not answer; \
             nodes also count each other. Default: 1.";
    },
    required: &[],
};

const IDENTITY: Takes = Takes::OneOrMore(&ATTRIBUTES);

pub(super) static IDENTIFY: Table = Table {
    what: "`identify`",
    about: "Who a request is from.",
    fields: table_fields! {
        "client": IDENTITY,
            "The first of these that is present. A list within the list counts together. Default: \
             `ip`.";
        "trusted_proxies": Takes::OneOrMore(&Takes::Form {
                like: &["10.0.0.0/8", "2001:db8::/32", "private", "loopback"], pattern: "" }),
            "Networks of your own proxies. Default: none, and forwarding headers are ignored.";
        "forwarded_by": Takes::OneOf(&FORWARDED),
            "Which header your proxies write. Default: `x-forwarded-for`.";
        "ipv4_prefix": Takes::Count { min: 1, max: 32 },
            "How many bits of an IPv4 address count as one client. Default: 32.";
        "ipv6_prefix": Takes::Count { min: 1, max: 128 },
            "How many bits of an IPv6 address count as one client. Default: 64.";
    },
    required: &[],
};

pub(super) const UNKNOWN: [&str; 2] = ["ignore", "refuse"];

pub(super) static API_KEYS: Table = Table {
    what: "`api_keys`",
    about: "Which API keys were given out, and to whom.",
    fields: table_fields! {
        "header": Takes::Text,
            "The header with the key; for `authorization`, the part after `Bearer`. Required.";
        "file": Takes::Text,
            "The file that `tidegate keys` writes; see `docs/api-keys.md`. Required.";
        "unknown": Takes::OneOf(&UNKNOWN),
            "What happens to a request with an unknown key: `ignore` treats it as a request \
             without a key, `refuse` answers 401. Default: `ignore`.";
    },
    required: &["header", "file"],
};

pub(super) static TIERS: Table = Table {
    what: "`tiers`",
    about: "Which tier a request is of.",
    fields: table_fields! {
        "header": Takes::Text,
            "The header with the tier; short for `from: header:…`. Default: none.";
        "from": ATTRIBUTES,
            "Where the tier is read; the first that is present counts. Default: `api-key:tier` \
             with `api_keys`, otherwise one of `header` and `from` is required.";
        "default": Takes::Scalar,
            "The tier of requests without a tier, or with an unknown one. Required.";
        "names": SCALARS,
            "All tiers there are; with this, another name in a rule is an error. Default: every \
             tier that a rule names.";
    },
    required: &["default"],
};

const COST: Takes =
    Takes::Either(&[Takes::Count { min: 0, max: u32::MAX as u64 }, Takes::Table(&MEASURE)]);

pub(super) static COST_RULE: Table = Table {
    what: "a cost",
    about: "What requests cost.",
    fields: table_fields! {
        "match": MATCHES,
            "Which requests; `method` and `path` may also stand beside `cost`. Default: all.";
        "method": SCALARS, "Short for `match: { method: … }`. Default: every method.";
        "path": NAMES, "Short for `match: { path: … }`. Default: every path.";
        "cost": COST, "How many cells. Required.";
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
            "Where the cost is read: an attribute of the request, `content-length`, or \
             `response:NAME`, a header of the response. Required.";
        "default": ANY_COUNT,
            "The cost where nothing is said; for a response, also what is taken until it comes. \
             Not for `content-length`. Default: 1.";
        "missing": Takes::Either(&[Takes::OneOf(&UNSAID), ANY_COUNT]),
            "For `content-length`, the cost of a body of unknown length: `largest` is as much as \
             the limit ever lets pass at once, `refuse` answers 411, and a number is that cost. \
             Default: `largest`.";
        "min": ANY_COUNT, "The least cost. Default: 1, and 0 for `content-length`.";
        "max": COUNT, "The highest cost. Default: no bound.";
    },
    required: &["from"],
};

pub(super) const MATCHES: Takes = Takes::OneOrMore(&Takes::Table(&MATCH));

pub(super) static MATCH: Table = Table {
    what: "a match",
    about: "Which requests: all that is said has to hold. A list of matches is any of them.",
    fields: table_fields! {
        "method": SCALARS, "`GET` (which is also `HEAD`), or a list. Default: every method.";
        "host": SCALARS, "`api.example.com`, `*.example.com`, or a list. Default: every host.";
        "path": NAMES,
            "`/search/**`, `/users/{id}`, `/files/*.png`, or a list. `**` is any number of \
             segments, `*` is within one. Default: every path.";
        "tier": SCALARS, "A tier, or a list. Default: every tier.";
        "ip": NAMES, "A network, or a list. Default: every address.";
        "api_key": VALUES,
            "What the file of API keys says of the owner: `name`, `tier`, or an attribute. \
             Default: any key or none.";
        "header": VALUES, "Headers, each with a text, `*` for any value, or a list. Default: any.";
        "cookie": VALUES, "Cookies, as `header`. Default: any.";
        "query": VALUES, "Query parameters, as `header`. Default: any.";
        "jwt": VALUES, "Claims of a token, as `header`. Default: any.";
        "attribute": VALUES,
            "What the application itself knows of the request, as `header`. Default: any.";
        "not": Takes::OneOrMore(&Takes::Table(&MATCH)), "What must not hold. Default: nothing.";
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
            "Statuses. Default: every status.";
        "header": VALUES, "Headers, each with a text, `*` for any value, or a list. Default: any.";
        "not": Takes::Table(&OUTCOME), "What must not hold. Default: nothing.";
    },
    required: &[],
};

pub(super) static CREDITS: Table = Table {
    what: "`credits`",
    about: "Unused quota, saved up for a burst.",
    fields: table_fields! {
        "for": DURATION, "How much is saved at most: the quota of this time. Required.";
        "rate": Takes::Form { like: &["10x"], pattern: "" },
            "How fast it may be spent: so many times the limit. Required.";
    },
    required: &["for", "rate"],
};

pub(super) static OVERRIDE: Table = Table {
    what: "an override",
    about: "The quota of one key.",
    fields: table_fields! {
        "key": SCALARS,
            "The value of the rule's key; a list if the key has several parts. Required.";
        "limit": LIMIT, "Its limit. Required.";
        "burst": CELLS, "Its burst. Default: the quota of one period.";
    },
    required: &["key", "limit"],
};

pub(super) static RULE: Table = Table {
    what: "a rule",
    about: "Which requests, whom it counts, and by how much.",
    fields: table_fields! {
        "name": Takes::Scalar,
            "Its name in headers, answers and metrics; what was consumed is kept under it. \
             Required.";
        "about": Takes::Scalar, "What it is for. Not used. Default: nothing.";
        "allow": LINTS, "Warnings that this rule does not get, by name. Default: none.";
        "match": MATCHES, "Which requests it is for. Default: all.";
        "key": ATTRIBUTES,
            "What it counts by: an attribute, or several together. Default: everybody counts \
             together.";
        "if_missing": Takes::OneOf(&MISSING),
            "What happens to requests without a part of the key: with `together` they share one \
             limit, with `skip` the rule does not apply. Default: `together`.";
        "algorithm": Takes::OneOf(&ALGORITHMS), "The algorithm. Default: `token-bucket`.";
        "mode": Takes::OneOf(&MODES),
            "For `leaky-bucket`: `meter` refuses what overflows, `queue` holds it back. Default: \
             `meter`.";
        "limit": Takes::Either(&[LIMIT, Takes::Map(&LIMIT)]),
            "How much: `100/min`, or one for each tier. Required, unless there is `unlimited` or \
             `block`.";
        "burst": Takes::Either(&[CELLS, Takes::Map(&CELLS)]),
            "How many may pass at once, for buckets; or one for each tier. Default: the quota of \
             one period.";
        "credits": Takes::Table(&CREDITS),
            "Unused quota, saved up for a burst. Default: nothing is saved beyond the burst.";
        "adaptive": SHARE,
            "The smallest part of the limit that is left under load. Default: the limit does not \
             follow the load.";
        "time_zone": Takes::Form {
                like: &["Europe/Berlin", "America/New_York", "UTC"], pattern: "" },
            "For `fixed-window`: windows are those of the calendar there. Default: windows start \
             at multiples of the period since 1970, and months and years at those of UTC.";
        "lease": DURATION,
            "For `concurrency`: after this time a permit that was not given back is free again. \
             Default: `1min`.";
        "max_wait": DURATION,
            "For `leaky-queue`: the longest that a request is held back, in whole slots. Default: \
             as long as the queue of `burst` requests takes.";
        "unit": Takes::Text,
            "What is counted: `B`, `kB`, `KiB`, `MB`, `MiB`, or a word of your own. Default: \
             requests.";
        "cost": COST, "What a request costs under this rule. Default: what its route costs.";
        "counts_when": Takes::Table(&OUTCOME),
            "Which responses count; for others, what was taken is given back. Default: all.";
        "overrides": Takes::Either(&[Takes::Map(&LIMIT), Takes::List(&Takes::Table(&OVERRIDE))]),
            "Quotas of single keys: `acme: 5000/min`. Default: none.";
        "shadow": Takes::Flag, "Judged, counted and reported, but never refuses. Default: `false`.";
        "enforce": SHARE,
            "For how many of the keys it refuses; for the others it is in shadow. Default: \
             `100%`.";
        "on_store_error": Takes::OneOf(&WITHOUT_STORE),
            "What it does while Redis does not answer. Default: what the file says.";
        "headers": Takes::Flag,
            "Whether clients see it in headers and in refusals. Default: `true`.";
        "priority": Takes::Count { min: 0, max: 1_000_000 },
            "Rules with a higher priority come first. Default: 0.";
        "last": Takes::Flag,
            "Ends the list for what this rule matches, unless the rule is skipped. Default: \
             `false`.";
        "unlimited": Takes::Flag,
            "Lets pass what it matches; rules below do not apply. Default: `false`.";
        "block": Takes::Flag, "Refuses what it matches. Default: `false`.";
    },
    required: &["name"],
};
