//! Saves the embedded store every so often, and once more when everything has been answered.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval};

use crate::desk::Desk;

/// Where states are saved, and how often.
#[derive(Clone, Debug)]
pub struct SnapshotSettings {
    /// The file.
    pub path: PathBuf,
    /// How often, while the server runs. What passes in between can pass again after a crash.
    pub every: Duration,
}

/// Saves every so often, until it is stopped.
#[derive(Debug)]
pub(crate) struct Snapshots {
    desk: Arc<Desk>,
    settings: SnapshotSettings,
    task: JoinHandle<()>,
}

impl Snapshots {
    pub(crate) fn begin(desk: &Arc<Desk>, settings: SnapshotSettings) -> Snapshots {
        let task = tokio::spawn(again_and_again(Arc::clone(desk), settings.clone()));
        Snapshots { desk: Arc::clone(desk), settings, task }
    }

    /// Saves for the last time, and says whether that was done. What is being saved meanwhile is
    /// finished first.
    pub(crate) async fn end(self) -> bool {
        self.task.abort();
        save(&self.desk, &self.settings.path).await
    }
}

async fn again_and_again(desk: Arc<Desk>, settings: SnapshotSettings) {
    let mut turn = interval(settings.every);
    turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first turn is at once; then there is nothing new.
    turn.tick().await;
    loop {
        turn.tick().await;
        save(&desk, &settings.path).await;
    }
}

async fn save(desk: &Arc<Desk>, path: &std::path::Path) -> bool {
    let (saving, to) = (Arc::clone(desk), path.to_owned());
    let saved = spawn_blocking(move || saving.gate.save(to)).await;
    let saved = saved.map_err(|error| error.to_string());
    match saved.and_then(|saved| saved.map_err(|error| error.to_string())) {
        Ok(saved) => {
            desk.metrics.snapshot(true);
            tracing::debug!(keys = saved.keys, bytes = saved.bytes, "a snapshot was saved");
            true
        }
        Err(error) => {
            desk.metrics.snapshot(false);
            tracing::error!(error, "no snapshot was saved: the last one is still there");
            false
        }
    }
}
