//! Permits in a store: renewed, released and lapsed, through changes of the quota too.
#![expect(clippy::unwrap_used, reason = "tests")]

use tidegate_core::{Kind, Policy, Quota, Receipt, Span, Tick};
use tidegate_store::MemoryStore;

const NOW: Tick = Tick::from_micros(1_700_000_000_000_000);

fn permits(count: u32, seconds: u32) -> Policy {
    Policy::new(Kind::Concurrency, Quota::in_flight(count, Span::from_secs(seconds))).unwrap()
}

#[test]
fn a_permit_is_renewed_released_and_lapses() {
    let store = MemoryStore::new();
    let rule = store.rule(permits(5, 60)).unwrap();
    let key = store.key("ada").unwrap();
    let second = |seconds| NOW.after(Span::from_secs(seconds));
    let (_, receipt) = store.decide_with_receipt(&rule, key, NOW, 2);
    let renewed = store.renew(&rule, key, second(50), receipt.unwrap()).unwrap();
    assert_eq!((renewed.at(), renewed.cost()), (second(50), 2));
    assert_eq!(store.peek(&rule, key, second(109), 0).remaining, 3, "it lapsed too soon");
    // Also after a change of quota, and by a caller that still asks by the old one.
    let next = store.change(&rule, permits(4, 90), second(109)).unwrap();
    let renewed = store.renew(&rule, key, second(109), renewed).unwrap();
    assert_eq!(store.peek(&next, key, second(198), 0).remaining, 2);
    store.refund(&next, key, second(198), renewed);
    assert_eq!(store.peek(&next, key, second(198), 0).remaining, 4);
    let (_, receipt) = store.decide_with_receipt(&next, key, second(200), 1);
    assert!(store.renew(&next, key, second(290), receipt.unwrap()).is_none());
    // A key that nobody knows holds no permit; nor does a bucket.
    let receipt = || Receipt::new(NOW, 1);
    assert!(store.renew(&next, store.key("bob").unwrap(), NOW, receipt()).is_none());
    let bucket = store.rule(Policy::token_bucket(Quota::per_minute(60)).unwrap()).unwrap();
    store.decide(&bucket, key, NOW, 1);
    assert!(store.renew(&bucket, key, NOW, receipt()).is_none());
}
