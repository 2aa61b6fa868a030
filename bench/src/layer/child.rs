//! The service under load, in a process of its own.

use std::io::Write as _;
use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use tidegate_gate::Gate;
use tidegate_tower::TidegateLayer;
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;

/// The word that starts a child.
pub(crate) const CHILD: &str = "layer-child";

/// Serves `contender` on a free port, which is printed, until the process is killed.
pub(crate) fn serve(contender: &str) -> Result<()> {
    let app = Router::new().route("/search/things", get(answer));
    let app = match contender {
        "none" => app,
        "tidegate" => app.layer(TidegateLayer::new(Gate::from_text(&super::rules::policy(3))?)),
        "governor" => {
            let config = GovernorConfigBuilder::default()
                .per_nanosecond(1)
                .burst_size(u32::MAX)
                .use_headers()
                .finish()
                .context("tower_governor does not take the quota")?;
            app.layer(GovernorLayer::new(config))
        }
        _ => bail!("no such contender: `{contender}`"),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        std::io::stdout().flush()?;
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        axum::serve(listener, app).await?;
        Ok(())
    })
}

async fn answer() -> impl axum::response::IntoResponse {
    ([(CONTENT_TYPE, "application/json")], r#"{"found":[{"id":7,"name":"a thing"}],"more":false}"#)
}
