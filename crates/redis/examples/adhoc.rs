use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tidegate_core::*;
use tidegate_redis::*;
const PLAIN: &str = r#"
local key = KEYS[1]
local capacity = tonumber(ARGV[1]) local rate = tonumber(ARGV[2]) local now = tonumber(ARGV[3]) local requested = tonumber(ARGV[4]) local ttl = tonumber(ARGV[5])
local data = redis.call("HMGET", key, "tokens", "last_refill")
local tokens = tonumber(data[1]) or capacity
local last = tonumber(data[2]) or now
tokens = math.min(capacity, tokens + math.max(0, now - last) * rate)
local allowed = 0
if tokens >= requested then tokens = tokens - requested allowed = 1 end
redis.call("HMSET", key, "tokens", tokens, "last_refill", now)
redis.call("EXPIRE", key, ttl)
return {allowed, math.floor(tokens)}
"#;
fn cpu() -> f64 {
    let s = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    let t: f64 = std::fs::read_dir("/proc/self/task")
        .unwrap()
        .map(|d| {
            std::fs::read_to_string(d.unwrap().path().join("schedstat"))
                .unwrap_or_default()
                .split(' ')
                .next()
                .unwrap_or("0")
                .parse::<f64>()
                .unwrap_or(0.0)
        })
        .sum();
    let _ = s;
    t / 1000.0
}
fn main() {
    let workers: usize = std::env::var("W").ok().and_then(|w| w.parse().ok()).unwrap_or(0);
    let rt = if workers == 0 {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    } else {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(workers)
            .enable_all()
            .build()
            .unwrap()
    };
    let server = tidegate_testbed::Server::start().unwrap();
    let url = server.url();
    rt.block_on(async move {
        let client = redis::Client::open(url.clone()).unwrap();
        let conn = client.get_multiplexed_async_connection().await.unwrap();
        let store = RedisStore::builder(Settings::from_url(&url).unwrap())
            .deadline(Duration::from_secs(1))
            .connect()
            .await
            .unwrap();
        let rule = store.rule(
            "r",
            Policy::token_bucket(Quota::per_second(1_000_000).burst(4_000_000_000)).unwrap(),
        );
        let tight = store.rule("t", Policy::token_bucket(Quota::per_hour(1)).unwrap());
        let _: String = redis::cmd("SCRIPT")
            .arg("LOAD")
            .arg(PLAIN)
            .query_async(&mut conn.clone())
            .await
            .unwrap();
        let sha = sha1_smol::Sha1::from(PLAIN).digest().to_string();
        for round in 0..1 {
            for (name, tasks, keys) in [
                ("one at a time", 1u64, 1_000_000u64),
                ("64 million", 64, 1_000_000),
                ("64 hot", 64, 1),
                ("flood", 64, 100),
            ] {
                if let Ok(only) = std::env::var("ONLY") {
                    if !name.contains(&only) {
                        continue;
                    }
                }
                for ours in [false, true] {
                    if std::env::var("OURS").is_ok() && !ours {
                        continue;
                    }
                    let done = Arc::new(AtomicU64::new(0));
                    let _: () = redis::cmd("CONFIG")
                        .arg("RESETSTAT")
                        .query_async(&mut conn.clone())
                        .await
                        .unwrap();
                    let c0 = cpu();
                    let start = Instant::now();
                    let mut hs = vec![];
                    for t in 0..tasks {
                        let (conn, store, rule, done, sha) = (
                            conn.clone(),
                            store.clone(),
                            if name == "flood" { tight.clone() } else { rule.clone() },
                            done.clone(),
                            sha.clone(),
                        );
                        hs.push(tokio::spawn(async move {
                            let mut conn = conn;
                            let mut x: u64 = t.wrapping_mul(0x9E3779B97F4A7C15) | 1;
                            let mut n = 0u64;
                            while start.elapsed() < Duration::from_millis(1500) {
                                x ^= x << 13;
                                x ^= x >> 7;
                                x ^= x << 17;
                                let id = x % keys;
                                if ours {
                                    let key = FleetKey::new(id).unwrap();
                                    store.decide(&rule, &key, 1).await.unwrap();
                                } else {
                                    let now = std::time::SystemTime::now()
                                        .duration_since(std::time::UNIX_EPOCH)
                                        .unwrap()
                                        .as_secs_f64();
                                    let _: (i64, i64) = redis::cmd("EVALSHA")
                                        .arg(&sha)
                                        .arg(1)
                                        .arg(format!("rl:{id}"))
                                        .arg(4_000_000_000u64)
                                        .arg(if name == "flood" { 1 } else { 1_000_000 })
                                        .arg(now)
                                        .arg(1)
                                        .arg(3600)
                                        .query_async(&mut conn)
                                        .await
                                        .unwrap();
                                }
                                n += 1;
                                if ours && name == "flood" && n % 64 == 0 {
                                    tokio::task::yield_now().await;
                                }
                            }
                            done.fetch_add(n, Ordering::Relaxed);
                        }));
                    }
                    for h in hs {
                        h.await.unwrap();
                    }
                    let rate = done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
                    let info: String = redis::cmd("INFO")
                        .arg("commandstats")
                        .query_async(&mut conn.clone())
                        .await
                        .unwrap();
                    let ev = info
                        .lines()
                        .find(|l| l.starts_with("cmdstat_evalsha"))
                        .unwrap_or("")
                        .to_owned();
                    let f = |n: &str| {
                        ev.split(&[':', ','][..])
                            .find_map(|p| p.strip_prefix(n))
                            .and_then(|v| v.parse::<f64>().ok())
                            .unwrap_or(0.0)
                    };
                    let c1 = cpu();
                    print!("cli {:.2}us/dec ", (c1 - c0) / done.load(Ordering::Relaxed) as f64);
                    print!(
                        "calls {:>8} {:.2}us/call srv {:.2}us/dec  ",
                        f("calls="),
                        f("usec_per_call="),
                        f("usec=") / done.load(Ordering::Relaxed) as f64
                    );
                    println!(
                        "{round} {name:15} {} {:>12.0}/s  {:.2} us",
                        if ours { "ours " } else { "plain" },
                        rate,
                        1e6 / rate
                    );
                }
            }
        }
    });
}
