//! The service under load, in a process of its own.

use std::io::{BufRead as _, Write as _};
use std::net::SocketAddr;

use ::governor::middleware::StateInformationMiddleware;
use anyhow::{Context, Result, bail};
use axum::body::Body;
use axum::extract::Request;
use axum::routing::get;
use axum::{Router, ServiceExt};
use serde_json::{Value, json};
use tidegate_gate::Gate;
use tidegate_tower::{Axum, TidegateLayer};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::{GlobalKeyExtractor, KeyExtractor, PeerIpKeyExtractor};
use tower_layer::Layer as _;

use crate::timer;

/// The word that starts a child.
pub(crate) const CHILD: &str = "layer-child";

/// A limit of the peer that is far away, with its headers.
fn governor<K>(key: K) -> Result<GovernorLayer<K, StateInformationMiddleware, Body>>
where
    K: KeyExtractor,
    K::Key: Send + Sync + 'static,
{
    let config = GovernorConfigBuilder::default()
        .key_extractor(key)
        .per_nanosecond(1)
        .burst_size(u32::MAX)
        .use_headers()
        .finish()
        .context("tower_governor does not take the quota")?;
    Ok(GovernorLayer::new(config))
}

fn limits(gate: Gate) -> TidegateLayer<Axum> {
    TidegateLayer::new(gate).for_axum()
}

/// A gate with three rules that match, and another dialect of what clients are told.
fn three_rules(headers: &str) -> Result<Gate> {
    Ok(Gate::from_text(&format!("headers: {headers}\n{}", super::rules::policy(3)))?)
}

/// A share with room for everybody: what a turn costs that nobody has to wait for.
const SHARE: &str = "share: [{ name: all, capacity: 1000 in flight, by: ip }]\n";

/// Serves `contender` on a free port, which is printed, until the process is killed. For every line
/// that it is sent, it prints how much processor time it has used, in nanoseconds.
pub(crate) fn serve(contender: &str) -> Result<()> {
    let app = Router::new().route("/search/things", get(answer));
    let app = match contender {
        "none" | "tidegate-around" => app,
        "tidegate" => app.layer(limits(Gate::from_text(&super::rules::policy(3))?)),
        "tidegate-none" => app.layer(limits(three_rules("none")?)),
        "tidegate-legacy" => app.layer(limits(three_rules("legacy")?)),
        "share" => app.layer(limits(Gate::from_text(SHARE)?)),
        "tidegate-share" => {
            let policy = format!("{}{SHARE}", super::rules::policy(3));
            app.layer(limits(Gate::from_text(&policy)?))
        }
        "governor" => app.layer(governor(PeerIpKeyExtractor)?),
        // The same three limits as ours: one of them for everybody, two for each address.
        "governor-three" => app
            .layer(governor(GlobalKeyExtractor)?)
            .layer(governor(PeerIpKeyExtractor)?)
            .layer(governor(PeerIpKeyExtractor)?),
        _ => bail!("no such contender: `{contender}`"),
    };
    std::thread::spawn(|| {
        for _ in std::io::stdin().lock().lines() {
            println!("{}", timer::process_cpu().as_nanos());
        }
    });
    // As `tokio::main` makes it: what an axum service has unless it asks for something else.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        std::io::stdout().flush()?;
        if contender == "tidegate-around" {
            let app = limits(three_rules("both")?).layer(app);
            let app = ServiceExt::<Request>::into_make_service_with_connect_info::<SocketAddr>(app);
            axum::serve(listener, app).await?;
            return Ok(());
        }
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        axum::serve(listener, app).await?;
        Ok(())
    })
}

async fn answer() -> axum::Json<Value> {
    axum::Json(json!({ "found": [{ "id": 7, "name": "a thing" }], "more": false }))
}
