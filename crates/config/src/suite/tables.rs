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
        "$schema": Takes::Text,
            "Where this file's schema is, for editors. Not used. Default: none.";
        "policy": Takes::Text,
            "The policy that is tested, a file or a folder, relative to this file. Default: the \
             one that the command names.";
        "tests": Takes::List(&Takes::Table(&TEST)),
            "The tests. Each starts with nothing used up, and is independent of the others. \
             Required.";
    },
    required: &["tests"],
};

pub(super) static TEST: Table = Table {
    what: "a test",
    about: "Steps, one after the other. Time stands still between them unless they say otherwise.",
    fields: table_fields! {
        "name": Takes::Scalar, "What has to hold, in a sentence. Required.";
        "about": Takes::Scalar, "More about it. Not used. Default: nothing.";
        "start": START, "When it starts. Default: `2026-01-01T00:00:00Z`.";
        "send": LINE, "The request of steps that have no `send`. Default: none.";
        "header": VALUES,
            "Headers of every request; a step's own header of the same name replaces them. \
             Default: none.";
        "from": ADDRESS, "The address of steps that have no `from`. Default: none.";
        "attribute": ATTRIBUTES, "What the application knows of every request. Default: nothing.";
        "steps": Takes::List(&Takes::Table(&STEP)), "What happens. Required.";
    },
    required: &["name", "steps"],
};

pub(super) static STEP: Table = Table {
    what: "a step",
    about: "A request and what it has to come to, or a wait.",
    fields: table_fields! {
        "wait": DURATION,
            "Moves time on by this much before anything is sent. Default: no time passes.";
        "at": DURATION,
            "Moves time on to this long after the start of the test, before anything is sent. \
             Default: no time passes.";
        "send": LINE, "The request: `GET /search?q=x`. Default: the test's.";
        "header": VALUES, "Its headers; a list is one line for each. Default: the test's.";
        "from": ADDRESS, "The address at the other end of the connection. Default: the test's.";
        "attribute": ATTRIBUTES,
            "What the application itself knows of it. Default: what the test says.";
        "times": Takes::Count { min: 1, max: super::TIMES_MAX },
            "How often it is sent. Default: 1.";
        "every": DURATION, "How much time is between them. Default: none.";
        "takes": DURATION,
            "How long it is under way once it starts, for limits of what is in flight. Default: \
             no time.";
        "respond": Takes::Table(&RESPOND),
            "How it is answered, for rules that count by the response. Default: no response \
             comes.";
        "expect": Takes::OneOf(&ENDS),
            "What each of the requests comes to; the other expectations are for the last of them. \
             `never` is a request that costs more than a limit ever allows. Default: anything.";
        "by": RULES,
            "The rules that refuse it: these and no others. `NAME-peak` is the second limit of a \
             rule with `credits`, here and below; the rule's own name is for both. Default: any.";
        "shadow": RULES,
            "The rules in shadow that would have refused it: these and no others, or `none`. \
             Default: any.";
        "rules": RULES,
            "The rules that are for it, in any order: these and no others, or `none`. Default: \
             any.";
        "retry_after": DURATION,
            "For `deny`: after which time it would pass, exactly. Default: any.";
        "delay": DURATION, "For `delay`: how long it is held back, exactly. Default: any.";
        "remaining": COUNTS,
            "How many cells are left of the limit closest to refusing; or of each rule by its \
             name. Default: any.";
        "cost": COUNTS,
            "How many cells it takes of every limit; or of each rule by its name. Default: any.";
    },
    required: &[],
};

pub(super) static RESPOND: Table = Table {
    what: "`respond`",
    about: "How a request is answered.",
    fields: table_fields! {
        "status": Takes::Count { min: 100, max: 599 }, "The status. Default: 200.";
        "header": VALUES, "Headers. Default: none.";
    },
    required: &[],
};
