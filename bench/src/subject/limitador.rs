//! limitador with its in-memory storage: a fixed window per value of one variable.
//!
//! A context is made for every decision, as its server does for every request.

use std::collections::HashMap;

use ::limitador::RateLimiter;
use ::limitador::limit::{Context, Limit, Namespace};
use ::limitador::storage::in_memory::InMemoryStorage;

use super::{Contender, MILLION, Subject};
use crate::key::Key;
use crate::setting::Setting;

pub(super) const CONTENDER: Contender =
    Contender { thinning: 16, memory_keys: MILLION, ..Contender::new("limitador in memory", make) };

struct Limitador {
    limiter: RateLimiter,
    namespace: Namespace,
}

impl Subject for Limitador {
    fn decide(&self, key: &Key) -> bool {
        let values = HashMap::from([(VARIABLE.to_owned(), key.0.clone())]);
        self.limiter
            .check_rate_limited_and_update(&self.namespace, &Context::from(values), 1)
            .is_ok_and(|answer| !answer.limited)
    }
}

fn make(setting: &Setting) -> Box<dyn Subject> {
    // The storage is a cache: with room for twice the keys it drops none of them.
    let storage = InMemoryStorage::new(2 * setting.keys.max(1000));
    let limiter = RateLimiter::new_with_storage(Box::new(storage));
    let variable = VARIABLE.try_into().expect("a plain name is an expression");
    limiter.add_limit(Limit::new(
        NAMESPACE,
        u64::from(setting.quota.burst),
        setting.quota.per.as_secs(),
        Vec::new(),
        vec![variable],
    ));
    Box::new(Limitador { limiter, namespace: NAMESPACE.into() })
}

const NAMESPACE: &str = "bench";
const VARIABLE: &str = "client";
