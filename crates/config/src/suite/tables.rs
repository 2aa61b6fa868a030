//! Every field of a file of policy tests, with what it takes and what it is for.

use crate::read::{Table, Takes, table_fields};

const VALUES: Takes = Takes::Map(&Takes::OneOrMore(&Takes::Scalar));
const ATTRIBUTES: Takes = Takes::Map(&Takes::Scalar);
const RULES: Takes = Takes::OneOrMore(&Takes::Scalar);
const COUNT: Takes = Takes::Count { min: 0, max: u32::MAX as u64 };
const COUNTS: Takes = Takes::Either(&[COUNT, Takes::Map(&COUNT)]);
const DURATION: Takes =
    Takes::Form { like: &["600ms", "30s", "5min", "2h", "333334us"], pattern: "" };
const LINE: Takes =
    Takes::Form { like: &["GET /search?q=x", "POST /login", "/"], pattern: "^([!-~]+ +)?/[^ ]*$" };
const ADDRESS: Takes = Takes::Form { like: &["203.0.113.7", "2001:db8::7"], pattern: "" };
const START: Takes = Takes::Form {
    like: &["2026-03-29T00:30:00+01:00", "2026-01-01T00:00:00Z"],
    pattern: "^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9:.]+([Zz]|[+-][0-9]{2}:[0-9]{2})$",
};

pub(super) const ENDS: [&str; 5] = ["allow", "delay", "deny", "never", "block"];

pub(crate) static SUITE: Table = Table {
    what: "a file of tests",
    about: "Requests over virtual time, and what a policy has to say to each of them.",
    fields: table_fields! {
        "$schema": Takes::Text, "Where this file's schema is, for editors. Not used.";
        "policy": Takes::Text, "The policy that is tested, beside this file: a file or a folder.";
        "tests": Takes::List(&Takes::Table(&TEST)),
            "The tests. Each starts with nothing used up, and knows nothing of the others.";
    },
    required: &["tests"],
};

pub(super) static TEST: Table = Table {
    what: "a test",
    about: "Steps, one after the other. Time stands still between them unless they say otherwise.",
    fields: table_fields! {
        "name": Takes::Scalar, "What has to hold, in a sentence.";
        "about": Takes::Scalar, "More about it. Not used.";
        "start": START, "When it starts; 2026-01-01T00:00:00Z unless said.";
        "send": LINE, "What steps send that do not say so themselves.";
        "header": VALUES, "Headers of every request; a step's own of the same name count instead.";
        "from": ADDRESS, "The address that steps send from unless they say so themselves.";
        "attribute": ATTRIBUTES, "What the application knows of every request.";
        "steps": Takes::List(&Takes::Table(&STEP)), "What happens.";
    },
    required: &["name", "steps"],
};

pub(super) static STEP: Table = Table {
    what: "a step",
    about: "A request and what it has to come to, or a wait.",
    fields: table_fields! {
        "wait": DURATION, "Goes on by this time, before anything is sent.";
        "at": DURATION,
            "Goes on to this time after the start of the test, before anything is sent.";
        "send": LINE, "The request: `GET /search?q=x`.";
        "header": VALUES, "Its headers; a list is one line for each.";
        "from": ADDRESS, "The address at the other end of the connection.";
        "attribute": ATTRIBUTES, "What the application itself knows of it.";
        "times": Takes::Count { min: 1, max: super::TIMES_MAX },
            "How often it is sent; once unless said.";
        "every": DURATION, "How much time is between them; none unless said.";
        "takes": DURATION,
            "How long it is under way once it may start, for limits of what is in flight.";
        "respond": Takes::Table(&RESPOND),
            "How it is answered, for rules that count by the response.";
        "expect": Takes::OneOf(&ENDS),
            "What each of them comes to. What else is expected has to hold for the last of them. \
             `never` is a request that costs more than a limit ever allows.";
        "by": RULES,
            "The rules that refuse it: these and no others. `NAME-peak` is the second limit of a \
             rule with `credits`, here and below; the rule's own name is for both.";
        "shadow": RULES,
            "The rules in shadow that would have refused it: these and no others, or `none`.";
        "rules": RULES, "The rules that are for it, in any order: these and no others, or `none`.";
        "retry_after": DURATION, "For `deny`: after which time it would pass, exactly.";
        "delay": DURATION, "For `delay`: for how long it is held back, exactly.";
        "remaining": COUNTS,
            "How many cells are left of the limit closest to refusing; or of each rule by its \
             name.";
        "cost": COUNTS, "How many cells it takes of every limit; or of each rule by its name.";
    },
    required: &[],
};

pub(super) static RESPOND: Table = Table {
    what: "`respond`",
    about: "How a request is answered.",
    fields: table_fields! {
        "status": Takes::Count { min: 100, max: 599 }, "The status; 200 unless said.";
        "header": VALUES, "Headers.";
    },
    required: &[],
};
