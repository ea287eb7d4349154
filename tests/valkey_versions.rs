//! Other servers than the one of the other tests: the oldest that is taken, and a newer one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use pannier::proto::v1;
use support::{
    Options, Sidecar, Valkey, ValkeyOptions, cluster::Cluster, everything::use_everything, small::answered,
    valkey::other_server,
};

async fn info(sidecar: &Sidecar) -> v1::ServerInfoResponse {
    answered(sidecar.admin().server_info(v1::ServerInfoRequest::default()).await).unwrap()
}

async fn works_with(which: &str, engine: &str, version: &str) {
    let Some(server) = other_server(which) else { return };
    let options = ValkeyOptions { server: Some(server), ..ValkeyOptions::default() };
    let alone = Valkey::start(options.clone());
    let sidecar = Sidecar::start(Options::with(&alone)).await;
    use_everything(&sidecar).await;
    let facts = info(&sidecar).await;
    assert_eq!(facts.engine, engine);
    assert!(facts.engine_version.starts_with(version), "{facts:?}");
    drop(sidecar);

    let cluster = Cluster::start_with(3, 0, &options);
    let options = Options { valkey_url: Some(cluster.url()), ..Options::default() }.arg("--cluster");
    use_everything(&Sidecar::start(options).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_works_on_redis() {
    works_with("redis", "redis", "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_works_on_valkey_9() {
    works_with("wheel", "valkey", "9.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_works_over_two_connections() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey).arg("--connections").arg("minimal")).await;
    use_everything(&sidecar).await;
    assert_eq!(info(&sidecar).await.connections, 2);
    let clients: String = valkey.command(&["CLIENT", "LIST"]);
    let ours = clients.lines().filter(|line| line.contains("lib-name=pannier")).count();
    assert_eq!(ours, 2, "{clients}");
}

/// The line of docs/valkey.md, with this password.
fn documented_user(password: &str) -> Vec<String> {
    let docs = include_str!("../docs/valkey.md");
    let line = docs.lines().find(|line| line.starts_with("ACL SETUSER pannier ")).unwrap();
    line.replace("PASSWORD", password).split(' ').map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_user_may_do_all_that_is_needed() {
    let user = documented_user("s3cret");
    let user: Vec<&str> = user.iter().map(String::as_str).collect();
    let dir = support::short_temp_dir();
    let password = dir.path().join("password");
    std::fs::write(&password, "s3cret").unwrap();
    let as_user = |url: String| Options {
        valkey_url: Some(url.replace("://", "://pannier@")),
        args: vec!["--valkey-password-file".into(), support::path_str(&password).into()],
        ..Options::default()
    };

    let alone = Valkey::start(ValkeyOptions { tcp: true, ..ValkeyOptions::default() });
    alone.command::<()>(&user);
    let sidecar = Sidecar::start(as_user(alone.tcp_url())).await;
    use_everything(&sidecar).await;
    assert!(!sidecar.logs().contains("unknown"), "{}", sidecar.logs());
    drop(sidecar);
    let cluster = Cluster::start(2, 0);
    for node in &cluster.nodes {
        node.command::<()>(&user);
    }
    use_everything(&Sidecar::start(as_user(cluster.url()).arg("--cluster")).await).await;
    // What was forbidden was not asked for.
    let denied: Vec<redis::Value> = alone.command(&["ACL", "LOG"]);
    assert!(denied.is_empty(), "{denied:?}");
}
