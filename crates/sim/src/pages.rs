//! The examples on the documentation's pages, compiled and run as tests.

#[doc = include_str!("../../../docs/algorithms/concurrency.md")]
struct Concurrency;
#[doc = include_str!("../../../docs/algorithms/fixed-window.md")]
struct FixedWindow;
#[doc = include_str!("../../../docs/algorithms/gcra.md")]
struct Gcra;
#[doc = include_str!("../../../docs/algorithms/leaky-bucket.md")]
struct LeakyBucket;
#[doc = include_str!("../../../docs/algorithms/leaky-queue.md")]
struct LeakyQueue;
#[doc = include_str!("../../../docs/algorithms/sliding-log.md")]
struct SlidingLog;
#[doc = include_str!("../../../docs/algorithms/sliding-window.md")]
struct SlidingWindow;
#[doc = include_str!("../../../docs/algorithms/token-bucket.md")]
struct TokenBucket;
