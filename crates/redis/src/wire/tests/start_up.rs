//! What `connect` finds, and says.

use std::time::Duration;

use tidegate_testbed::{Certificates, Cluster, Sentinels, Server, until};

use super::stand::{LONG, count, counted, run, settings, wire};
use crate::error::ConnectError;
use crate::settings::{ClientCertificate, Protocol};
use crate::wire::{CallError, Refusal, Wire};

type Outcome = anyhow::Result<()>;

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_protocol_is_spoken_unless_told_otherwise() -> Outcome {
    let server = Server::start()?;
    let newest = wire(&server.url()).await;
    let line = clients(&server)?;
    assert!(line.contains("resp=3") && line.contains("name=tidegate"), "{line}");
    drop(newest);
    let older = settings(&server.url()).protocol(Protocol::Resp2);
    let older = Wire::connect(&older).await?;
    assert!(clients(&server)?.contains("resp=2"));
    assert!(run(&older, count("k"), LONG).await.is_ok());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_know_the_newest_protocol_is_spoken_to_in_the_older() -> Outcome {
    let server = Server::builder().setting("rename-command", "HELLO \"\"").start()?;
    let wire = wire(&server.url()).await;
    assert!(clients(&server)?.contains("resp=2"));
    assert!(run(&wire, count("k"), LONG).await.is_ok());
    // The loss of a connection is noticed in this protocol, too, without any call.
    server.must(&["CLIENT", "KILL", "TYPE", "normal"])?;
    until(LONG, "a new connection", || wire.health().nodes[0].reconnects == 1)?;
    Ok(())
}

/// What the server knows about connections that are called by our name.
fn clients(server: &Server) -> anyhow::Result<String> {
    let list = server.must(&["CLIENT", "LIST"])?.text();
    let ours = |line: &&str| line.contains("name=tidegate");
    Ok(list.lines().rfind(ours).unwrap_or_default().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_needs_the_right_authority() -> Outcome {
    let certificates = Certificates::new()?;
    let server = Server::builder().tls(&certificates).start()?;
    let url = server.tls_url().unwrap();
    assert!(url.starts_with("rediss://"));
    let wire = Wire::connect(&settings(&url).ca_certificate_file(certificates.ca())?).await?;
    assert!(run(&wire, count("k"), LONG).await.is_ok());
    // The system does not know it, and another one has not signed it.
    let error = Wire::connect(&settings(&url)).await.unwrap_err();
    assert!(matches!(error, ConnectError::Untrusted { .. }), "{error}");
    let other = Certificates::new()?;
    let error = Wire::connect(&settings(&url).ca_certificate_file(other.ca())?).await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_wants_to_know_us_is_shown_our_certificate() -> Outcome {
    let certificates = Certificates::new()?;
    let server = Server::builder().tls(&certificates).setting("tls-auth-clients", "yes").start()?;
    let settings = settings(&server.tls_url().unwrap()).ca_certificate_file(certificates.ca())?;
    let error = Wire::connect(&settings).await.unwrap_err();
    assert!(matches!(error, ConnectError::Untrusted { .. }), "{error:?}");
    let client = ClientCertificate {
        certificate: std::fs::read(certificates.client_certificate())?,
        key: std::fs::read(certificates.client_key())?,
    };
    let wire = Wire::connect(&settings.client_certificate(client)).await?;
    assert!(run(&wire, count("k"), LONG).await.is_ok());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_may_have_an_address_of_the_newer_kind() -> Outcome {
    let server = Server::builder().setting("bind", "127.0.0.1 -::1").start()?;
    let url = format!("redis://[::1]:{}", server.port());
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        // A machine that has none: it is said as of any other that cannot be reached.
        let error = Wire::connect(&settings(&url).required()).await.unwrap_err();
        assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
        return Ok(());
    }
    let wire = wire(&url).await;
    assert!(run(&wire, count("k"), LONG).await.is_ok());
    assert!(wire.health().nodes[0].address.contains("::1"), "{:?}", wire.health());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn passwords_are_asked_for_and_never_shown() -> Outcome {
    let server = Server::builder().setting("requirepass", "s3cret/@").start()?;
    let port = server.port();
    let wire = wire(&format!("redis://:s3cret%2F%40@127.0.0.1:{port}")).await;
    assert!(run(&wire, count("k"), LONG).await.is_ok());
    for secret in ["", ":s3cret@", "nobody:s3cret@"] {
        for protocol in [Protocol::Newest, Protocol::Resp2] {
            let url = format!("redis://{secret}127.0.0.1:{port}");
            let error = Wire::connect(&settings(&url).protocol(protocol)).await.unwrap_err();
            assert!(matches!(error, ConnectError::Unauthorized { .. }), "{url}: {error:?}");
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_says_a_password_again_is_not_quoted() -> Outcome {
    let unknown = |command: &str| format!("{command} \"\"");
    let server = Server::builder()
        .setting("rename-command", &unknown("AUTH"))
        .setting("rename-command", &unknown("HELLO"))
        .start()?;
    let said = format!("{:?}", server.run(&["AUTH", "s3cret"])?);
    assert!(said.contains("s3cret"), "it does say it: {said}");
    let url = format!("redis://user:s3cret@127.0.0.1:{}", server.port());
    for protocol in [Protocol::Newest, Protocol::Resp2] {
        let error = Wire::connect(&settings(&url).protocol(protocol)).await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    }
    Ok(())
}

/// That scripts cannot be run there is an error of the start, not of the first decision.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_runs_no_scripts_will_not_do() -> Outcome {
    let server = Server::builder().setting("rename-command", "EVAL \"\"").start()?;
    let error = Wire::connect(&settings(&server.url())).await.unwrap_err();
    assert!(matches!(error, ConnectError::Unexpected { .. }), "{error:?}");
    assert!(error.to_string().to_lowercase().contains("unknown command"), "{error}");
    let server = Server::start()?;
    server.must(&["ACL", "SETUSER", "calm", "on", ">pw", "~tg:*", "+@all", "-eval"])?;
    let url = format!("redis://calm:pw@127.0.0.1:{}", server.port());
    let error = Wire::connect(&settings(&url)).await.unwrap_err();
    assert!(matches!(error, ConnectError::NoPermission { .. }), "{error:?}");
    // What it is called by there is of no use to us: a user that may not say so will do.
    server.must(&["ACL", "SETUSER", "calm", "+eval", "-client|setname"])?;
    assert!(Wire::connect(&settings(&url)).await.is_ok());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_needs_no_more_than_we_say() -> Outcome {
    let server = Server::start()?;
    let port = server.port();
    let allow = |line: &str| {
        let words: Vec<_> = ["ACL", "SETUSER"].into_iter().chain(line.split(' ')).collect();
        server.must(&words)
    };
    allow("poor on >pw ~tg:* +evalsha +get")?;
    let error = Wire::connect(&settings(&format!("redis://poor:pw@127.0.0.1:{port}"))).await;
    let error = error.unwrap_err();
    assert!(matches!(error, ConnectError::NoPermission { .. }), "{error:?}");
    // The line of the message itself is enough.
    let text = error.to_string();
    let line = text.split("ACL SETUSER ").nth(1).unwrap().trim_end_matches('`');
    allow(line)?;
    allow("tidegate +incrby")?;
    let wire = wire(&format!("redis://tidegate:password@127.0.0.1:{port}")).await;
    let answer = run(&wire, count("tg:k"), LONG).await;
    assert!(answer.is_ok(), "{answer:?}");
    let answer = run(&wire, count("other"), LONG).await;
    assert!(matches!(answer, Err(CallError::NotRun(Refusal::NoPermission(_)))), "{answer:?}");
    assert_eq!(counted(&server, "other"), 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_not_there_is_named() -> Outcome {
    let connect = async |url: &str| Wire::connect(&settings(url).required()).await;
    let port = {
        let gone = Server::start()?;
        gone.port()
    };
    let error = connect(&format!("redis://127.0.0.1:{port}")).await.unwrap_err();
    assert!(error.to_string().contains(&format!("`127.0.0.1:{port}`")), "{error}");
    let error = connect("redis://no-such-host.invalid").await.unwrap_err();
    assert!(error.to_string().contains("no-such-host.invalid:6379"), "{error}");
    let silent = Server::start()?;
    silent.pause();
    let hasty = settings(&silent.url()).connect_timeout(Duration::from_millis(50)).required();
    let error = Wire::connect(&hasty).await.unwrap_err();
    assert!(error.to_string().contains("no answer within 50 ms"), "{error}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_the_url_is_named() -> Outcome {
    let server = Server::start()?;
    let port = server.port();
    let url = format!("redis+cluster://127.0.0.1:{port}");
    let error = Wire::connect(&settings(&url)).await.unwrap_err();
    assert!(matches!(error, ConnectError::NotACluster { .. }), "{error:?}");
    let replica = Server::builder().setting("replicaof", &format!("127.0.0.1 {port}")).start()?;
    let error = Wire::connect(&settings(&replica.url())).await.unwrap_err();
    assert!(matches!(error, ConnectError::OnlyReplica { .. }), "{error:?}");
    let cluster = Cluster::start()?;
    let error = Wire::connect(&settings(&cluster.urls()[0])).await.unwrap_err();
    assert!(matches!(error, ConnectError::IsACluster { .. }), "{error:?}");
    let sentinels = Sentinels::start()?;
    let sentinel = sentinels.sentinels()[0].port();
    let url = format!("redis+sentinel://127.0.0.1:{sentinel}/nobody");
    let error = Wire::connect(&settings(&url)).await.unwrap_err();
    assert!(matches!(error, ConnectError::UnknownMaster { .. }), "{error:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_evicts_is_seen_in_the_health() -> Outcome {
    let evicting = |policy: &str| {
        Server::builder().setting("maxmemory", "100mb").setting("maxmemory-policy", policy).start()
    };
    let bad = evicting("allkeys-lru")?;
    let health = wire(&bad.url()).await.health();
    let warning = health.nodes[0].eviction_warning.clone().unwrap();
    assert!(warning.contains("`allkeys-lru`"), "{warning}");
    assert!(health.nodes[0].server.starts_with("redis "), "{health:?}");
    assert_eq!(health.nodes[0].role, "master");
    let good = evicting("noeviction")?;
    assert_eq!(wire(&good.url()).await.health().nodes[0].eviction_warning, None);
    Ok(())
}
