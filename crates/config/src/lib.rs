//! Policy files: what an API team writes down, read into rules.

#![forbid(unsafe_code)]

mod address;
mod api_keys;
mod attribute;
mod cost;
mod envoy;
mod excerpt;
mod explain;
mod facts;
mod file;
mod glob;
mod identify;
mod index;
mod key;
mod length;
mod lint;
mod load;
mod matcher;
mod misread;
mod outcome;
mod overrides;
mod path;
mod plan;
mod problem;
mod quantity;
mod read;
mod repeated;
mod report;
mod request;
mod route;
mod route_cost;
mod rule;
mod rules;
mod scale;
mod schema;
mod share;
mod source;
mod stable;
mod suggest;
mod suite;
mod token;
mod values;
mod zone;

pub use self::address::Group;
pub use self::api_keys::{KeyFile, KeyHash, KeyOwner, KeyProblem, ListedKey};
pub use self::attribute::Attribute;
pub use self::envoy::{EnvoyLimit, EnvoyLoaded, EnvoyRules, EnvoyUnit};
pub use self::explain::{Does, Explained};
pub use self::facts::{Facts, Part, Parts, Value};
pub use self::key::KeySource;
pub use self::length::Length;
pub use self::lint::{Lint, UnknownLint};
pub use self::load::{LoadError, Loaded, policy_files};
pub use self::plan::{Asks, Known, Outline, Plan, Planned, Stopped, Who};
pub use self::problem::Level;
pub use self::report::{Finding, Report};
pub use self::request::{Request, Response, Sample, without_port};
pub use self::rule::{Rule, Timed, Unit, Variant};
pub use self::rules::{FallbackHeader, Headers, Rules};
pub use self::share::{Capacity, SharedCapacity, Sharing};
pub use self::source::{FILE_BYTES_MAX, Format};
pub use self::suggest::did_you_mean;
pub use self::suite::{Answered, Cells, Ends, Expectations, Expected, Place, Step, Suite, Test};

#[cfg(test)]
mod chance;
#[cfg(test)]
mod conforms;
#[cfg(test)]
mod tests;
