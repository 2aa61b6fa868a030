//! How a server is run: what an operator says, in one place.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate_store::ManualClock;

use crate::auth::Guard;
use crate::limits;
use crate::rls::RlsSettings;
use crate::snapshot::SnapshotSettings;
use crate::tls::TlsFiles;
use crate::trace::TraceSettings;

/// How a server is run.
#[derive(Debug)]
pub struct Settings {
    /// Where HTTP is spoken; nowhere, if nothing is said. So with the others.
    pub http: Option<SocketAddr>,
    /// Where Envoy's rate limit service is.
    pub grpc: Option<SocketAddr>,
    /// Where the Redis protocol is spoken.
    pub resp: Option<SocketAddr>,
    /// The administrators' socket: a file that only the server's own user can open.
    pub admin: Option<PathBuf>,
    /// Certificates, for all doors.
    pub tls: Option<TlsFiles>,
    /// Who may do what.
    pub guard: Guard,
    /// The gate's clock, if it is one that is moved by hand.
    pub manual: Option<Arc<ManualClock>>,
    /// The policy's file or folder, to be watched.
    pub policy: Option<PathBuf>,
    /// A folder of envoyproxy/ratelimit's files: Envoy is answered by these, not by the policy.
    pub envoy_config: Option<PathBuf>,
    /// What the answer to Envoy says beside the decision.
    pub rls: RlsSettings,
    /// Where states are saved, if they are kept in this process.
    pub snapshot: Option<SnapshotSettings>,
    /// Where spans are sent, if requests are traced.
    pub traces: Option<TraceSettings>,
    /// How long to go on while `/readyz` already says no: until those who balance load have looked.
    pub drain_delay: Duration,
    /// How long what is under way may take when it is time to stop.
    pub drain: Duration,
    /// How many files the system lets this process have open; nothing, if that is no bound. Doors
    /// share what is not for the server's own.
    pub open_files_max: Option<u64>,
    /// What tests make tighter.
    #[doc(hidden)]
    pub bounds: Bounds,
}

/// Bounds that tests make tighter than operators can: the real ones take too long to meet.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections to one door at a time.
    pub connections_max: usize,
    /// For a TLS handshake.
    pub handshake_time: Duration,
    /// For the head of an HTTP request.
    pub http_head_time: Duration,
    /// For the body of a request, over HTTP and gRPC.
    pub body_time: Duration,
    /// For a reply to be taken, over HTTP and gRPC.
    pub reply_time: Duration,
    /// How often a connection of the Redis protocol is looked at.
    pub resp_check_every: Duration,
}

impl Settings {
    /// How many connections each door may have: its share of the open files.
    pub(crate) fn connections_max(&self) -> usize {
        let max = self.bounds.connections_max;
        let Some(files) = self.open_files_max else { return max };
        let files = usize::try_from(files).unwrap_or(usize::MAX);
        let doors = [self.http, self.grpc, self.resp].iter().flatten().count().max(1);
        // One that is accepted while another makes room for it is a file more at each door.
        let share = (files - limits::OWN_FILES.min(files / 2)) / doors;
        max.min(share.saturating_sub(1).max(1))
    }
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            connections_max: limits::CONNECTIONS_MAX,
            handshake_time: limits::HANDSHAKE_TIME,
            http_head_time: limits::HTTP_HEAD_TIME,
            body_time: limits::BODY_TIME,
            reply_time: limits::REPLY_TIME,
            resp_check_every: limits::RESP_CHECK_EVERY,
        }
    }
}

impl Default for Settings {
    /// No door, no TLS, no tokens; ten seconds to finish.
    fn default() -> Settings {
        Settings {
            http: None,
            grpc: None,
            resp: None,
            admin: None,
            tls: None,
            guard: Guard::default(),
            manual: None,
            policy: None,
            envoy_config: None,
            rls: RlsSettings::default(),
            snapshot: None,
            traces: None,
            drain_delay: Duration::ZERO,
            drain: Duration::from_secs(10),
            open_files_max: None,
            bounds: Bounds::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(open_files_max: Option<u64>, doors: usize, expected: usize) {
        let door = |number: usize| (number < doors).then(|| ([127, 0, 0, 1], 0).into());
        let [http, grpc, resp] = [door(0), door(1), door(2)];
        let settings = Settings { http, grpc, resp, open_files_max, ..Settings::default() };
        assert_eq!(settings.connections_max(), expected);
    }

    #[test]
    fn every_door_has_its_share_of_the_open_files() {
        check(None, 3, 20_000);
        check(Some(1 << 20), 3, 20_000);
        check(Some(20_000), 3, (20_000 - 256) / 3 - 1);
        check(Some(20_000), 1, 20_000 - 256 - 1);
        check(Some(1_024), 3, (1_024 - 256) / 3 - 1);
        check(Some(64), 3, 32 / 3 - 1);
        check(Some(0), 3, 1);
    }
}
