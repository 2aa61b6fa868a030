//! TLS and passwords where there is more than one server.

use tidegate_testbed::{Certificates, Cluster, SLOTS, Sentinels, Server, key_in, until};

use super::stand::{LONG, count, counted, run, settings, until_answered};
use crate::error::ConnectError;
use crate::settings::Credentials;
use crate::wire::Wire;

type Outcome = anyhow::Result<()>;

#[tokio::test(flavor = "multi_thread")]
async fn all_of_a_cluster_is_spoken_to_by_tls() -> Outcome {
    let certificates = Certificates::new()?;
    let path = |path: &std::path::Path| path.display().to_string();
    let node = Server::builder()
        .tls(&certificates)
        // Nodes are clients of each other.
        .setting("tls-client-cert-file", &path(&certificates.client_certificate()))
        .setting("tls-client-key-file", &path(&certificates.client_key()))
        .setting("tls-cluster", "yes")
        .setting("tls-replication", "yes");
    let mut cluster = Cluster::start_with(node)?;
    let ports: Vec<u16> = cluster.nodes().iter().filter_map(Server::tls_port).collect();
    // The client knows one server at first, and that one tells of the others.
    let url = format!("rediss+cluster://127.0.0.1:{}", ports[0]);
    let settings = settings(&url).ca_certificate_file(certificates.ca())?;
    let wire = Wire::connect(&settings).await?;
    for slot in (0..SLOTS).step_by(1000) {
        assert!(run(&wire, count(&key_in(slot)), LONG).await.is_ok());
        let owner = &cluster.nodes()[cluster.primary_of(slot)?];
        assert_eq!(counted(owner, &key_in(slot)), 1);
    }
    let is_by_tls = |wire: &Wire| {
        let mut nodes = wire.health().nodes.into_iter();
        nodes.all(|node| ports.iter().any(|port| node.address.ends_with(&format!(":{port}"))))
    };
    assert!(is_by_tls(&wire), "{:?}", wire.health());
    // A replica takes over, and is found.
    let (slot, key) = (0, key_in(0));
    let primary = cluster.primary_of(slot)?;
    cluster.nodes_mut()[primary].kill();
    until(LONG, "a new primary", || cluster.primary_of(slot).is_ok_and(|it| it != primary))?;
    until_answered(&wire, &key).await;
    assert!(is_by_tls(&wire), "{:?}", wire.health());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_and_servers_are_given_their_own_passwords() -> Outcome {
    let mut sentinels = Sentinels::start_guarded("for-servers", "for-sentinels")?;
    let list: Vec<_> =
        sentinels.sentinels().iter().map(|one| format!("127.0.0.1:{}", one.port())).collect();
    let url = format!("redis+sentinel://:for-servers@{}/{}", list.join(","), sentinels.name());
    let error = Wire::connect(&settings(&url)).await.unwrap_err();
    assert!(matches!(error, ConnectError::Unauthorized { .. }), "{error:?}");
    assert!(!error.to_string().contains("for-se"), "{error}");
    let password = "for-sentinels".to_owned();
    let settings = settings(&url).sentinel_credentials(Credentials { user: None, password });
    let wire = Wire::connect(&settings).await?;
    assert!(run(&wire, count("k"), LONG).await.is_ok());
    let port = sentinels.primary().port();
    sentinels.primary_mut().kill();
    sentinels.wait_for_failover(port)?;
    until_answered(&wire, "k").await;
    Ok(())
}
