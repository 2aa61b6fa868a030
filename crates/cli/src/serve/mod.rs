//! `tidegate serve`: the server, as flags, variables and a file configure it.

mod args;
mod banner;
mod file;
mod log;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::CommandFactory as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tidegate_config::{EnvoyRules, LoadError};
use tidegate_gate::{Gate, GateBuilder, KeySecret, OpenError, Pressure};
use tidegate_redis::{Fleet, RedisStore};
use tidegate_server::{
    Addresses, Ended, Guard, Server, Settings, SnapshotSettings, TlsFiles, Tokens, TraceSettings,
};
use tidegate_store::{Clock, ManualClock, MemoryStore, SystemClock};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::MissedTickBehavior;

pub(crate) use self::args::{Args, time};
use self::args::{ClockKind, LogForm};
use self::banner::{Proofs, Ready};
use crate::check::envoy_contents;
use crate::failure::Failure;
use crate::variables::Unread;

/// The policy of a server that was given none.
const SAMPLE: &str = include_str!("sample.yaml");

/// The policy of a server that was given only Envoy's files, for its other doors: by whose limits
/// they should decide is not known, and the rule's name says so in the answer.
const NO_POLICY: &str = "rules: [{ name: no-policy-was-given, block: true }]";

/// Serves until it is asked to stop.
pub(crate) fn run(args: Args) -> Result<ExitCode, Failure> {
    let unread = Unread::of(&crate::Cli::command(), std::env::vars_os());
    if let Some(text) = unread.error() {
        return Err(Failure::Usage { command: "serve", text });
    }
    let mut args = file::with_file(args)?;
    make_sense(&args)?;
    if let Some(path) = &args.store_file {
        args.store = store_url(path)?;
    }
    log::start(args.log, args.log_level);
    for name in &unread.unknown {
        tracing::warn!(name, "no setting reads this variable: see `tidegate serve --help`");
    }
    let open_files_max = raise_open_files();
    let runtime = runtime(args.threads).context("no threads can be had")?;
    let ended = runtime.block_on(serve(&args, open_files_max));
    // What had to be cut off does not hold us back.
    runtime.shutdown_background();
    Ok(match ended? {
        Ended::Cleanly => ExitCode::SUCCESS,
        Ended::InTheMiddle | Ended::Unsaved => ExitCode::from(1),
    })
}

/// Refuses what does not go together.
fn make_sense(args: &Args) -> Result<(), Failure> {
    let is_in_memory = args.store == "memory" && args.store_file.is_none();
    let text = match () {
        () if args.store != "memory" && args.store_file.is_some() => {
            "--store and --store-file both say where states are kept: give one of them"
        }
        () if is_in_memory && args.store_prefix.is_some() => {
            "--store-prefix is for states in Redis: nobody else has those in memory"
        }
        () if is_in_memory => return Ok(()),
        () if args.clock == ClockKind::Manual => {
            "--clock manual is for states in memory: Redis goes by its own clock"
        }
        () => return Ok(()),
    };
    Err(Failure::Usage { command: "serve", text: text.to_owned() })
}

/// The URL in a file, which is one line. What it says is never shown: it may hold a password.
fn store_url(path: &Path) -> Result<String> {
    let shown = path.display();
    let text = file::read(path).with_context(|| format!("--store-file `{shown}`"))?;
    match text.trim() {
        "" => bail!("--store-file `{shown}` is empty: write the URL of the store into it"),
        url if url.lines().count() != 1 => bail!("--store-file `{shown}` has more than one line"),
        url => Ok(url.to_owned()),
    }
}

/// Raises how many connections the system lets us have, as far as we may. Most systems begin with
/// a thousand, for programs of another time. How many files there may be then; nothing, if there is
/// no bound.
fn raise_open_files() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, wanted) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
    getrlimit(Resource::Nofile).current
}

/// How often connections that are ready are served before the system is asked for news. A slice of
/// a pipeline takes some 50 microseconds: by Tokio's 61 of them, a client that asks now and then
/// would wait for three milliseconds before anybody noticed it.
const POLLS_BETWEEN_EVENTS: u32 = 8;

/// One thread needs no locks and no neighbors to take work from.
fn runtime(threads: Option<u16>) -> std::io::Result<Runtime> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut builder = match threads.map_or(processors, usize::from) {
        1 => Builder::new_current_thread(),
        threads => {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(threads);
            builder
        }
    };
    builder.event_interval(POLLS_BETWEEN_EVENTS).enable_all().build()
}

async fn serve(args: &Args, open_files_max: Option<u64>) -> Result<Ended> {
    // From the start, and also where there is no policy to be read again: unheard, it would end us.
    let _hangup = signal(SignalKind::hangup())?;
    let manual = (args.clock == ClockKind::Manual).then(|| Arc::new(ManualClock::new()));
    let gate = gate(args, manual.clone()).await?;
    let (guard, own_token) = guard(args)?;
    let has_guard = args.token_file.is_some() || args.tls_clients.is_some();
    let settings = Settings {
        http: args.http.0,
        grpc: args.grpc.0,
        resp: args.resp.0,
        tls: tls(args),
        admin: args.admin(),
        guard,
        manual,
        policy: args.policy.clone(),
        envoy_config: args.envoy_config.clone(),
        snapshot: args
            .snapshot
            .clone()
            .map(|path| SnapshotSettings { path, every: args.snapshot_every }),
        rls: args.rls(),
        traces: traces(args),
        drain_delay: args.drain_delay,
        drain: args.drain,
        open_files_max,
        ..Settings::default()
    };
    if args.pressure {
        let mut pressure = Pressure::of_host();
        gate.feel(&mut pressure).context("--pressure: this host does not tell its pressure")?;
        tokio::spawn(feel(gate.clone(), pressure));
    }
    let server = Server::bind(gate, settings)?;
    let at = server.addresses();
    for warning in banner::warnings(at, args.tls_certificate.is_some(), has_guard) {
        tracing::warn!("{warning}");
    }
    let ready = ready(args, at, own_token)?;
    match args.log {
        LogForm::Human => {
            // The reader of the banner may have gone.
            let _ = std::io::stdout().write_all(ready.text().as_bytes());
        }
        LogForm::Json => ready.log(),
    }
    Ok(server.run(asked_to_stop()?).await?)
}

/// What is said when the doors are open.
fn ready(args: &Args, at: Addresses, own_token: Option<String>) -> Result<Ready> {
    let envoy = args.envoy_config.as_deref();
    let files = envoy.map(|folder| Ok((folder, EnvoyRules::from_path(folder)?.rules)));
    let files: Option<(&Path, EnvoyRules)> =
        files.transpose().map_err(|it: LoadError| anyhow!(it))?;
    let policy = args.policy.as_ref().map(|path| format!("policy {}", path.display()));
    let loaded = files
        .as_ref()
        .map(|(folder, rules)| format!("{} of {}", envoy_contents(rules), folder.display()));
    let decides = match (policy, loaded) {
        (Some(policy), Some(loaded)) => format!("{policy}, and {loaded}"),
        (Some(decides), None) => decides,
        (None, Some(loaded)) => format!("{loaded}; no policy"),
        (None, None) => "policy sample".to_owned(),
    };
    let first = files.and_then(|(_, rules)| rules.domains().first().map(|it| (*it).to_owned()));
    Ok(Ready {
        at,
        decides,
        store: if args.store == "memory" { "this process" } else { "Redis" },
        domain: first,
        has_policy: args.policy.is_some() || envoy.is_none(),
        proofs: Proofs {
            has_tls: args.tls_certificate.is_some(),
            wants_certificate: args.tls_clients.is_some(),
            wants_token: args.token_file.is_some(),
        },
        own_token,
    })
}

/// Who may do what, and the token that a server has of its own while it is only tried out.
fn guard(args: &Args) -> Result<(Guard, Option<String>)> {
    let tokens = args.token_file.as_deref().map(Tokens::from_file).transpose()?;
    let (guard, own_token) = match tokens {
        Some(tokens) => (Guard::with_tokens(tokens), None),
        None if args.is_sample() => {
            let (guard, token) = Guard::with_own_token();
            (guard, Some(token))
        }
        None => (Guard::default(), None),
    };
    Ok((guard.known_as(args.admin_names.clone()), own_token))
}

/// Reads the host's pressure once a second, for as long as it runs.
async fn feel(gate: Gate, mut pressure: Pressure) {
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        seconds.tick().await;
        if let Err(error) = gate.feel(&mut pressure) {
            tracing::warn!(%error, "the host's pressure cannot be read");
        }
    }
}

/// The gate, with its policy and its store.
async fn gate(args: &Args, manual: Option<Arc<ManualClock>>) -> Result<Gate> {
    let secret = args.key_secret_file.as_deref().map(key_secret).transpose()?;
    let builder = || {
        let builder = match &args.policy {
            Some(path) => Gate::builder().file(path),
            None if args.envoy_config.is_some() => Gate::builder().text(NO_POLICY),
            None => Gate::builder().text(SAMPLE),
        };
        let builder = match &secret {
            Some(secret) => builder.key_secret(secret.clone()),
            None => builder,
        };
        match &manual {
            Some(clock) => builder.clock(Arc::clone(clock) as Arc<dyn Clock>),
            None => builder,
        }
    };
    let Some(snapshot) = &args.snapshot else { return Ok(opened(builder(), args).await??) };
    match opened(builder().restore(snapshot), args).await? {
        // It starts afresh, and says so: a server that is away limits nobody.
        Err(OpenError::Snapshot(problem)) if problem.is_damaged() => {
            let aside = problem.set_aside(SystemClock::new().now());
            let aside = aside.with_context(|| format!("{problem}; it cannot be set aside"))?;
            let aside = aside.display();
            tracing::error!(%problem, %aside, "a damaged snapshot: limits start afresh");
            Ok(opened(builder().restore(snapshot), args).await??)
        }
        opened => Ok(opened?),
    }
}

/// The secret by which keys are named. Who can read it can find out who is counted.
fn key_secret(path: &Path) -> Result<KeySecret> {
    use std::os::unix::fs::PermissionsExt as _;
    const OTHERS: u32 = 0o007;
    let secret = KeySecret::from_file(path).context("--key-secret-file")?;
    if std::fs::metadata(path)?.permissions().mode() & OTHERS != 0 {
        let path = path.display();
        tracing::warn!(%path, "others may read the secret for keys: `chmod o= {path}`");
    }
    Ok(secret)
}

/// The gate on its store; what is wrong with the store comes first.
async fn opened(builder: GateBuilder, args: &Args) -> Result<Result<Gate, OpenError>> {
    if args.store == "memory" {
        return Ok(builder.memory(MemoryStore::with_keys_max(args.keys_max)).open());
    }
    let mut store = RedisStore::builder(args.store.parse()?).deadline(args.store_deadline);
    if args.store_required {
        store = store.required();
    }
    // Its name is in those of the keys, and it may come out of a pipe: it is read once.
    let builder = match builder.read() {
        Ok(builder) => builder,
        Err(error) => return Ok(Err(error)),
    };
    if let Some(name) = args.store_prefix.as_deref().or(builder.policy_name()) {
        store = store.named(name);
    }
    let store = store.connect().await?;
    if !store.health().is_seen() {
        tracing::error!(
            "never seen Redis: rules decide as their `on_store_error` says until it is there; \
             `--store-required` would have stopped the server"
        );
    }
    // Decisions without Redis are bounded in keys as those of a server without one are.
    let local = MemoryStore::with_keys_max(args.keys_max);
    Ok(builder.store(Fleet::with_local(store, local)).open())
}

fn traces(args: &Args) -> Option<TraceSettings> {
    let endpoint = args.otlp.clone()?;
    Some(TraceSettings { endpoint, share: args.trace_sample })
}

fn tls(args: &Args) -> Option<TlsFiles> {
    let (certificate, key) = (args.tls_certificate.clone()?, args.tls_key.clone()?);
    let (client_authorities, admins) = (args.tls_clients.clone(), args.tls_admins.clone());
    Some(TlsFiles { certificate, key, client_authorities, admins })
}

/// Waits for a signal. A second one ends it at once.
fn asked_to_stop() -> Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping: what is under way is finished first");
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            tracing::warn!("told twice to stop: ending at once");
            end_at_once();
        });
    })
}

#[expect(clippy::exit, reason = "somebody has lost patience")]
fn end_at_once() -> ! {
    std::process::exit(1)
}
