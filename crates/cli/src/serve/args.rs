//! What `tidegate serve` can be told: by a flag, by an environment variable, or in a file.
//!
//! All three have the same names: `--snapshot-every 10s` is `TIDEGATE_SNAPSHOT_EVERY=10s` is
//! `snapshot-every = "10s"`. A flag counts more than a variable, and a variable more than the file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tidegate_config::{Headers, Rules};
use tidegate_server::rls::RlsSettings;
use tidegate_server::{TraceEndpoint, TraceShare};

const EXAMPLES: &str = "\
Examples:
  tidegate serve
      a sample policy, states in this process, on this machine only
  tidegate serve --policy policy.yaml --snapshot /var/lib/tidegate/states
      your policy, watched for changes; a restart hands out no fresh burst
  tidegate serve --policy policy.yaml --store redis://10.0.0.1:6379
      the same limits for a whole fleet
  tidegate serve --envoy-config /etc/ratelimit/config --grpc 0.0.0.0:8081
      in place of envoyproxy/ratelimit, by its own files
  tidegate serve --policy policy.yaml --clock manual
      for tests: time stands still until POST /v1/clock moves it

Every flag is also an environment variable (--snapshot-every is TIDEGATE_SNAPSHOT_EVERY), and a key
of the file that --config names (snapshot-every = \"10s\", in TOML; a flag alone is true or false).
It stops on SIGTERM and SIGINT, and reads the policy again on SIGHUP.";

/// Serve decisions over HTTP, Envoy's rate limit service and the Redis protocol.
///
/// Without flags it listens on this machine only, keeps states in this process, and decides by a
/// sample policy.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A file with any of these settings, in TOML
    #[arg(long, value_name = "FILE", env = "TIDEGATE_CONFIG")]
    pub(super) config: Option<PathBuf>,

    /// The policy: a file, or a folder of them; watched for changes
    #[arg(long, value_name = "PATH", env = "TIDEGATE_POLICY")]
    pub(super) policy: Option<PathBuf>,

    /// A folder with configuration of envoyproxy/ratelimit, for the gRPC door; watched for changes
    #[arg(long, value_name = "FOLDER", env = "TIDEGATE_ENVOY_CONFIG")]
    pub(super) envoy_config: Option<PathBuf>,

    /// What clients see of such limits: `draft` (`RateLimit`), `ratelimit` (`RateLimit-Limit` and
    /// so on, of the closest), `none`, or another word that a policy's `headers` takes
    #[arg(long, value_name = "DIALECT", env = "TIDEGATE_ENVOY_HEADERS", default_value = "draft")]
    #[arg(value_parser = dialect)]
    pub(super) envoy_headers: Headers,

    /// Answers Envoy with dynamic metadata: the descriptors, and what their limits say
    #[arg(long, env = "TIDEGATE_ENVOY_METADATA")]
    pub(super) envoy_metadata: bool,

    /// Where states are kept: `memory`, or redis://, rediss://, redis+cluster:// or
    /// redis+sentinel://
    #[arg(long, value_name = "URL", env = "TIDEGATE_STORE", default_value = "memory")]
    // The value may hold a password, and `--help` would print it.
    #[arg(hide_env_values = true)]
    pub(super) store: String,

    /// A file with that URL, so that its password is not in the list of processes
    #[arg(long, value_name = "FILE", env = "TIDEGATE_STORE_FILE")]
    pub(super) store_file: Option<PathBuf>,

    /// Keys in Redis begin with `tg:NAME:`, so that applications on one Redis count apart [default:
    /// the policy's `name`]
    #[arg(long, value_name = "NAME", env = "TIDEGATE_STORE_PREFIX", value_parser = name)]
    pub(super) store_prefix: Option<String>,

    /// A file with a secret, the same on all nodes: keys are stored in Redis and in snapshots only
    /// as a hash with it
    #[arg(long, value_name = "FILE", env = "TIDEGATE_KEY_SECRET_FILE")]
    pub(super) key_secret_file: Option<PathBuf>,

    /// How long to wait for Redis before a rule decides by its `on_store_error`
    #[arg(long, value_name = "TIME", env = "TIDEGATE_STORE_DEADLINE", default_value = "100ms")]
    #[arg(value_parser = time)]
    pub(super) store_deadline: Duration,

    /// Refuse to start while Redis does not answer. Without this the server starts, decides by the
    /// rules' `on_store_error`, and uses Redis as soon as it answers
    #[arg(long, env = "TIDEGATE_STORE_REQUIRED")]
    pub(super) store_required: bool,

    /// The most keys that are remembered in this process, of each size of state
    #[arg(long, value_name = "NUMBER", env = "TIDEGATE_KEYS_MAX", default_value_t = 1 << 20)]
    #[arg(value_parser = keys)]
    pub(super) keys_max: usize,

    /// The address for HTTP, or `off`
    #[arg(long, value_name = "ADDRESS", env = "TIDEGATE_HTTP", default_value = "127.0.0.1:8080")]
    pub(super) http: Place,

    /// The address for gRPC, Envoy's rate limit service, or `off`
    #[arg(long, value_name = "ADDRESS", env = "TIDEGATE_GRPC", default_value = "127.0.0.1:8081")]
    pub(super) grpc: Place,

    /// The address for the Redis protocol, or `off`
    #[arg(long, value_name = "ADDRESS", env = "TIDEGATE_RESP", default_value = "127.0.0.1:6380")]
    pub(super) resp: Place,

    /// The server's certificate with its chain, in PEM: TLS at every door
    #[arg(long, value_name = "FILE", env = "TIDEGATE_TLS_CERTIFICATE", requires = "tls_key")]
    pub(super) tls_certificate: Option<PathBuf>,

    /// The key of that certificate, in PEM
    #[arg(long, value_name = "FILE", env = "TIDEGATE_TLS_KEY", requires = "tls_certificate")]
    pub(super) tls_key: Option<PathBuf>,

    /// Only let in clients with a certificate of these authorities, in PEM
    #[arg(long, value_name = "FILE", env = "TIDEGATE_TLS_CLIENTS", requires = "tls_certificate")]
    pub(super) tls_clients: Option<PathBuf>,

    /// A name in a client's certificate that makes it an administrator; several with commas
    #[arg(long, value_name = "NAME", env = "TIDEGATE_TLS_ADMINS", value_delimiter = ',')]
    #[arg(requires = "tls_clients")]
    pub(super) tls_admins: Vec<String>,

    /// A socket for administrators that only this user can open, such as /run/tidegate.sock, or
    /// `off`
    #[arg(long, value_name = "PATH", env = "TIDEGATE_ADMIN", default_value = "off")]
    pub(super) admin: PathBuf,

    /// A name that administrators call this server by, besides its addresses; several with commas
    #[arg(long, value_name = "NAME", env = "TIDEGATE_ADMIN_NAMES", value_delimiter = ',')]
    pub(super) admin_names: Vec<String>,

    /// A file with lines such as `check TOKEN` and `admin TOKEN`: callers must show one
    #[arg(long, value_name = "FILE", env = "TIDEGATE_TOKEN_FILE")]
    pub(super) token_file: Option<PathBuf>,

    /// The clock by which the server decides
    #[arg(long, value_name = "CLOCK", env = "TIDEGATE_CLOCK", default_value = "system")]
    pub(super) clock: ClockKind,

    /// Lower `adaptive` limits while this host is under pressure: for a service on the same host
    #[arg(long, env = "TIDEGATE_PRESSURE")]
    pub(super) pressure: bool,

    /// The file to which states are saved, and from which they are restored at the start
    #[arg(long, value_name = "FILE", env = "TIDEGATE_SNAPSHOT")]
    pub(super) snapshot: Option<PathBuf>,

    /// How often they are saved while it runs
    #[arg(long, value_name = "TIME", env = "TIDEGATE_SNAPSHOT_EVERY", default_value = "10s")]
    #[arg(value_parser = time)]
    pub(super) snapshot_every: Duration,

    /// How long requests that are under way may take after the signal to stop
    #[arg(long, value_name = "TIME", env = "TIDEGATE_DRAIN", default_value = "10s")]
    #[arg(value_parser = time)]
    pub(super) drain: Duration,

    /// How long to keep serving after the signal to stop, while /readyz already answers 503: as
    /// long as a load balancer needs to notice
    #[arg(long, value_name = "TIME", env = "TIDEGATE_DRAIN_DELAY", default_value = "0s")]
    #[arg(value_parser = time)]
    pub(super) drain_delay: Duration,

    /// A collector that takes OTLP over HTTP, such as `http://127.0.0.1:4318`: requests are traced
    #[arg(long, value_name = "URL", env = "TIDEGATE_OTLP")]
    pub(super) otlp: Option<TraceEndpoint>,

    /// The share of requests that are traced, from 0 to 1, unless their callers say
    #[arg(long, value_name = "SHARE", env = "TIDEGATE_TRACE_SAMPLE", default_value = "0.01")]
    pub(super) trace_sample: TraceShare,

    /// How log lines are written
    #[arg(long, value_name = "FORM", env = "TIDEGATE_LOG", default_value = "human")]
    pub(super) log: LogForm,

    /// Which log lines are written
    #[arg(long, value_name = "LEVEL", env = "TIDEGATE_LOG_LEVEL", default_value = "info")]
    pub(super) log_level: LogLevel,

    /// How many threads do the work [default: one for each processor]
    #[arg(long, value_name = "NUMBER", env = "TIDEGATE_THREADS")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) threads: Option<u16>,
}

/// Where a door is, if it is open at all.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Place(pub(super) Option<SocketAddr>);

/// Which clock to go by.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum ClockKind {
    /// The system's
    System,
    /// One that stands still until POST /v1/clock moves it
    Manual,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum LogForm {
    /// For people
    Human,
    /// One object a line
    Json,
}

/// Which log lines are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum LogLevel {
    /// What is broken
    Error,
    /// And what may break
    Warn,
    /// And what happens
    Info,
    /// And how
    Debug,
}

impl Args {
    /// The administrators' socket, if there is to be one.
    pub(super) fn admin(&self) -> Option<PathBuf> {
        Some(self.admin.clone()).filter(|path| path.as_os_str() != "off")
    }

    /// Whether it is only tried out: nobody has said by what to decide, nor who administers.
    pub(super) fn is_sample(&self) -> bool {
        let policy = self.policy.as_ref().or(self.envoy_config.as_ref());
        policy.or(self.token_file.as_ref()).or(self.tls_clients.as_ref()).is_none()
    }

    /// What Envoy is told beside the decision.
    pub(super) fn rls(&self) -> RlsSettings {
        RlsSettings {
            fields: self.envoy_headers,
            dynamic_metadata: self.envoy_metadata,
            without_store: None,
        }
    }
}

impl Default for Args {
    /// What `tidegate serve` without flags is told; variables count there, too.
    fn default() -> Args {
        use clap::{Args as _, Command, FromArgMatches as _};
        let typed: [&str; 1] = ["serve"];
        let matches = Args::augment_args(Command::new("serve")).get_matches_from(typed);
        Args::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

impl std::str::FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        if text == "off" {
            return Ok(Place(None));
        }
        // As other servers take them: a port alone stays on this machine, `:8080` is for everybody.
        let full = match text.split_once(':') {
            None if text.parse::<u16>().is_ok() => format!("127.0.0.1:{text}"),
            Some(("", port)) => format!("0.0.0.0:{port}"),
            Some(("localhost", port)) => format!("127.0.0.1:{port}"),
            _ => text.to_owned(),
        };
        full.parse().map(Some).map(Place).map_err(|_| {
            "give an address and a port such as 127.0.0.1:8080; 8080 or localhost:8080 for this \
             machine only; :8080 for all of its addresses; or `off`"
                .to_owned()
        })
    }
}

fn dialect(text: &str) -> Result<Headers, String> {
    let words = || format!("write one of `{}`", Headers::WORDS.join("`, `"));
    Headers::of_word(text).ok_or_else(words)
}

fn name(text: &str) -> Result<String, String> {
    if Rules::can_be_named(text) {
        return Ok(text.to_owned());
    }
    Err("use up to 64 letters, digits, `-`, `_` and `.`: keys in Redis begin with it".to_owned())
}

/// A time such as `250ms`, `10s` or `5min`.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "give a number with a unit: 250ms, 10s, 5min or 2h".to_owned();
    let at = text.find(|it: char| !it.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(at);
    let millis: u64 = match unit.trim() {
        "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(millis).map(Duration::from_millis).ok_or_else(wrong)
}

fn keys(text: &str) -> Result<usize, String> {
    let wrong = || "give a number from 1000 to 4000000000".to_owned();
    let number: usize = text.parse().map_err(|_| wrong())?;
    if (1_000..=4_000_000_000).contains(&number) { Ok(number) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(time("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(time("2h"), Ok(Duration::from_hours(2)));
        for wrong in ["", "10", "s", "1.5s", "10 weeks", "99999999999999999999s"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_door_can_be_off() {
        assert_eq!("off".parse(), Ok(Place(None)));
        assert_eq!("[::1]:80".parse(), Ok(Place("[::1]:80".parse().ok())));
    }

    #[test]
    fn a_door_can_be_said_in_short() {
        #[track_caller]
        fn check(text: &str, full: &str) {
            assert_eq!(text.parse(), Ok(Place(full.parse().ok())), "{text}");
        }
        check("8080", "127.0.0.1:8080");
        check("localhost:8080", "127.0.0.1:8080");
        check(":8080", "0.0.0.0:8080");
        for wrong in
            ["localhost", "", ":", "65536", ":65536", "example.org:80", "0.0.0.0", "::1:80x"]
        {
            assert!(wrong.parse::<Place>().is_err(), "{wrong}");
        }
    }
}
