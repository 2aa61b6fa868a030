//! Gates by a store that is neither of ours.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use tidegate_core::Verdict;
use tidegate_gate::{By, Gate, GateBuilder, Sample};
use tidegate_store::ManualClock;

use crate::stand::rules;
use crate::third_store::ThirdStore;

#[path = "laws/mod.rs"]
mod laws;

const FEWER: u32 = 1;

fn with_store(gate: GateBuilder, place: u64, _clock: &Arc<ManualClock>) -> GateBuilder {
    thread_local! {
        static STORES: RefCell<HashMap<u64, ThirdStore>> = RefCell::default();
    }
    gate.store(STORES.with_borrow_mut(|stores| stores.entry(place).or_default().clone()))
}

const POLICY: &str = "rules:
  - { name: cells, limit: 100/day, on_store_error: open }
  - { name: logins, limit: 9/day, cost: 1, on_store_error: closed, match: { path: /login } }
  - { name: tried, limit: 5/day, shadow: true, on_store_error: open }";

fn gate() -> (Gate, ThirdStore) {
    let store = ThirdStore::default();
    let builder = Gate::builder().rules(rules(POLICY)).store(store.clone());
    (builder.clock(crate::stand::clock()).open().expect("a gate"), store)
}

#[test]
fn it_is_asked_once_for_what_judges_together_and_once_for_each_rule_in_shadow() {
    let (gate, store) = gate();
    let login = Sample::new("GET /login").with_cost(3);
    assert!(gate.decide(&login).verdict().passes());
    assert_eq!(store.asked(), ["Decide: cells 3, logins 1", "Decide: tried 3"]);
    // What is refused is charged to nothing, not even in shadow.
    assert_eq!(gate.decide(&login.with_cost(200)).verdict(), Verdict::Never);
    assert_eq!(store.asked(), ["Decide: cells 200, logins 1", "Peek: tried 200"]);
    drop(gate.peek(&Sample::new("GET /")));
    assert_eq!(store.asked(), ["Peek: cells 1", "Peek: tried 1"]);
}

#[test]
fn while_it_fails_the_gate_answers_as_each_rule_says() {
    let (gate, store) = gate();
    let (page, login) = (Sample::new("GET /"), Sample::new("GET /login"));
    assert_eq!(gate.decide(&page).by(), By::Store);
    store.fails(true);
    for _ in 0..200 {
        let open = gate.decide(&page);
        assert_eq!((open.verdict(), open.by()), (Verdict::Allow, By::Open));
        let closed = gate.decide(&login);
        assert_eq!((closed.verdict().passes(), closed.by()), (false, By::Closed));
    }
    store.fails(false);
    let back = gate.decide(&login);
    assert_eq!((back.verdict(), back.by()), (Verdict::Allow, By::Store));
    assert_eq!(crate::stand::left(&back), [98, 8, 3], "nothing was charged meanwhile");
}
