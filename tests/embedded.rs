//! The private server: first start, death, adoption, stop, and what is refused.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use pannier::valkey::{
    DurabilityLevel, Embedded, EmbeddedConfig, Fsync, Lane, LinkConfig, LinkState, Op, StartError, Stopped,
    Target, stop_orphan,
};
use redis::Value;
use rustix::process::{Pid, Signal, getpgid, kill_process, test_kill_process};
use support::link::{TestLink, allowed};
use tempfile::TempDir;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// A data directory, and the directory of the socket.
#[derive(Clone)]
struct Home(Arc<TempDir>);

impl Home {
    fn new() -> Self {
        Self(support::short_temp_dir())
    }

    fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }

    fn config(&self) -> EmbeddedConfig {
        EmbeddedConfig {
            data_dir: self.data(),
            socket_dir: self.0.path().to_path_buf(),
            server: Some(support::valkey::server_binary()),
            fsync: Fsync::Always,
            maxmemory: None,
        }
    }

    async fn try_start(&self, config: EmbeddedConfig, init: bool) -> Result<TestLink, StartError> {
        let (embedded, keyring) = Embedded::prepare(config, &self.data().join("keyring.toml")).await?;
        let config = LinkConfig { init, ..LinkConfig::new(Target::Embedded(embedded), "dev") };
        Ok(TestLink::with_keyring(config, keyring))
    }

    async fn start(&self) -> TestLink {
        self.start_with(self.config()).await
    }

    async fn start_with(&self, config: EmbeddedConfig) -> TestLink {
        let link = self.try_start(config, false).await.unwrap();
        link.wait_ready(20 * SECOND).await;
        link
    }

    async fn refusal(&self, config: EmbeddedConfig) -> String {
        match self.try_start(config, false).await {
            Err(StartError::Config(why)) => why,
            Ok(link) => {
                let why = link.refusal().await;
                stop(link).await;
                why
            }
        }
    }

    /// A sidecar that does `work` and is then gone from one moment to the next, as by kill -9.
    fn killed_sidecar(&self, work: impl AsyncFnOnce(&TestLink) + Send + 'static) {
        let home = self.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let link = runtime.block_on(async {
                let link = home.start().await;
                work(&link).await;
                link
            });
            // No task of it runs any more, and nobody was told to stop.
            runtime.shutdown_timeout(SECOND);
            drop(link);
        })
        .join()
        .unwrap();
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if Arc::strong_count(&self.0) == 1
            && let Ok(run) = fs::read_to_string(self.data().join("valkey.run"))
            && let Some(pid) = run.lines().find_map(|line| line.strip_prefix("pid = "))
            && self.data().join("valkey.lock").exists()
        {
            // Left behind by a test that failed.
            let _ = kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::KILL);
        }
    }
}

async fn stop(link: TestLink) {
    link.shutdown.cancel();
    tokio::time::timeout(allowed(10 * SECOND), link.closed()).await.unwrap();
}

async fn ask(link: &TestLink, words: &[&str]) -> Value {
    let mut cmd = redis::cmd(words[0]);
    for word in &words[1..] {
        cmd.arg(*word);
    }
    link.run(Lane::Small, Op::Cmd(cmd), Instant::now() + 20 * SECOND).await.unwrap()
}

async fn setting(link: &TestLink, name: &str) -> String {
    match ask(link, &["CONFIG", "GET", name]).await {
        Value::Map(pairs) => redis::from_redis_value(pairs[0].1.clone()).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn pid(home: &Home) -> Pid {
    let run = fs::read_to_string(home.data().join("valkey.run")).unwrap();
    let pid = run.lines().find_map(|line| line.strip_prefix("pid = ")).unwrap();
    Pid::from_raw(pid.parse().unwrap()).unwrap()
}

/// Gone, or only waiting for its parent, which here is the test itself, to notice.
fn has_ended(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    test_kill_process(pid).is_err() || stat.is_ok_and(|stat| stat.contains(") Z "))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[tokio::test]
async fn the_first_start_makes_keyring_database_and_store_id_and_the_next_finds_them() {
    let home = Home::new();
    let link = home.start().await;
    let id = link.facts().store_id;
    let keyring = read(&home.data().join("keyring.toml"));
    assert_eq!(read(&home.data().join("store-id")).trim(), id);
    assert_eq!(link.durability(), DurabilityLevel::Fsync);
    for (name, wanted) in [("port", "0"), ("appendonly", "yes"), ("appendfsync", "always"), ("save", "")] {
        assert_eq!(setting(&link, name).await, wanted, "{name}");
    }
    assert_eq!(setting(&link, "maxmemory-policy").await, "noeviction");
    assert!(setting(&link, "maxmemory").await.parse::<u64>().unwrap() > 1 << 24);
    let server = pid(&home);
    assert_eq!(getpgid(Some(server)).unwrap(), server, "Ctrl-C would reach it");
    link.append("list", "a", 5 * SECOND).await.unwrap();
    stop(link).await;
    assert!(has_ended(server), "it still runs");
    assert!(
        !fs::read_dir(home.0.path())
            .unwrap()
            .any(|entry| { entry.unwrap().path().extension().is_some_and(|ext| ext == "sock") })
    );
    let link = home.start().await;
    assert_eq!(link.facts().store_id, id);
    assert_eq!(read(&home.data().join("keyring.toml")), keyring);
    assert_eq!(link.append("list", "b", 5 * SECOND).await, Ok(Value::Int(2)));
    stop(link).await;
}

#[tokio::test]
async fn data_without_its_keyring_is_refused_and_no_keyring_is_made() {
    let home = Home::new();
    stop(home.start().await).await;
    fs::remove_file(home.data().join("keyring.toml")).unwrap();
    let why = home.refusal(home.config()).await;
    assert!(why.contains("restore keyring.toml from its backup"), "{why}");
    assert!(!home.data().join("keyring.toml").exists());
}

#[tokio::test]
async fn a_lost_database_is_refused_until_it_is_begun_anew() {
    let home = Home::new();
    let link = home.start().await;
    let before = link.facts().store_id;
    stop(link).await;
    fs::remove_dir_all(home.data().join("valkey")).unwrap();
    let why = home.refusal(home.config()).await;
    assert!(why.contains("store-id") && why.contains("--init"), "{why}");
    let link = home.try_start(home.config(), true).await.unwrap();
    link.wait_ready(20 * SECOND).await;
    let after = link.facts().store_id;
    assert_ne!(after, before);
    assert_eq!(read(&home.data().join("store-id")).trim(), after);
    stop(link).await;
    // It cannot stay in a unit file.
    let link = home.try_start(home.config(), true).await.unwrap();
    assert!(link.refusal().await.contains("remove --init"));
    stop(link).await;
}

#[tokio::test]
async fn a_database_whose_store_id_was_not_written_yet_gets_it() {
    let home = Home::new();
    stop(home.start().await).await;
    let id = read(&home.data().join("store-id"));
    fs::remove_file(home.data().join("store-id")).unwrap();
    stop(home.start().await).await;
    assert_eq!(read(&home.data().join("store-id")), id);
}

#[tokio::test]
async fn a_killed_server_is_started_again_with_its_data() {
    let home = Home::new();
    let link = home.start().await;
    for round in 1..=3 {
        assert_eq!(link.append("list", "a", 20 * SECOND).await, Ok(Value::Int(round)));
        kill_process(pid(&home), Signal::KILL).unwrap();
        let from = Instant::now();
        link.wait_for(allowed(SECOND), |state| matches!(state, LinkState::Down { .. })).await;
        link.wait_ready(allowed(5 * SECOND)).await;
        assert!(from.elapsed() < allowed(5 * SECOND));
    }
    stop(link).await;
}

#[tokio::test]
async fn the_server_of_a_killed_sidecar_is_adopted_and_its_settings_are_corrected() {
    let home = Home::new();
    home.killed_sidecar(async |link| {
        link.append("list", "a", 5 * SECOND).await.unwrap();
        ask(link, &["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
        ask(link, &["CONFIG", "SET", "appendfsync", "no"]).await;
    });
    let server = pid(&home);
    test_kill_process(server).unwrap();
    let link = home.start().await;
    assert_eq!(pid(&home), server, "another one was started");
    assert_eq!(setting(&link, "maxmemory-policy").await, "noeviction");
    assert_eq!(setting(&link, "appendfsync").await, "always");
    assert_eq!(link.append("list", "b", 5 * SECOND).await, Ok(Value::Int(2)));
    stop(link).await;
    assert!(has_ended(server), "the adopted one still runs");
}

#[tokio::test]
async fn an_orphan_without_a_socket_is_ended_before_another_touches_its_data() {
    let home = Home::new();
    home.killed_sidecar(async |link| {
        link.append("list", "a", 5 * SECOND).await.unwrap();
    });
    let orphan = pid(&home);
    for entry in fs::read_dir(home.0.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ext| ext == "sock") {
            fs::remove_file(path).unwrap();
        }
    }
    let link = home.try_start(home.config(), false).await.unwrap();
    link.wait_ready(allowed(10 * SECOND)).await;
    assert!(pid(&home) != orphan && has_ended(orphan));
    assert_eq!(link.append("list", "b", 5 * SECOND).await, Ok(Value::Int(2)));
    stop(link).await;
}

#[tokio::test]
async fn a_second_sidecar_is_kept_out() {
    let home = Home::new();
    let link = home.start().await;
    let why = home.refusal(home.config()).await;
    assert!(why.contains("another pannier") && why.contains("--data-dir"), "{why}");
    stop(link).await;
}

#[tokio::test]
async fn an_orphan_can_be_stopped_by_its_data_directory() {
    let home = Home::new();
    assert_eq!(stop_orphan(&home.data()).await, Ok(Stopped::Nothing));
    let link = home.start().await;
    assert!(matches!(stop_orphan(&home.data()).await, Ok(Stopped::InUse(who)) if who.contains("pid")));
    stop(link).await;
    assert_eq!(stop_orphan(&home.data()).await, Ok(Stopped::Nothing));
    home.killed_sidecar(async |_| {});
    let orphan = pid(&home);
    assert_eq!(stop_orphan(&home.data()).await, Ok(Stopped::Ended));
    assert!(has_ended(orphan));
}

#[tokio::test]
async fn what_cannot_work_is_refused_before_anything_is_made() {
    let home = Home::new();
    let long = EmbeddedConfig { socket_dir: home.0.path().join("x".repeat(90)), ..home.config() };
    assert!(home.refusal(long).await.contains("--socket"));
    let none = EmbeddedConfig { server: Some("/bin/true".into()), ..home.config() };
    assert!(home.refusal(none).await.contains("--valkey-server"));
    assert!(!home.data().join("keyring.toml").exists());
    fs::write(
        home.data().join("engine.toml"),
        "engine = \"valkey\"\nversion = \"99.1.0\"\nbinary = \"/opt/newer/valkey-server\"\n",
    )
    .unwrap();
    let why = home.refusal(home.config()).await;
    assert!(why.contains("99.1.0") && why.contains("/opt/newer") && why.contains("valkey-server"), "{why}");
}

#[tokio::test]
async fn a_server_that_cannot_read_its_data_ends_the_start_with_its_last_words() {
    let home = Home::new();
    stop(home.start().await).await;
    let aof = home.data().join("valkey/appendonlydir");
    for entry in fs::read_dir(aof).unwrap() {
        let path = entry.unwrap().path();
        if path.to_str().unwrap().ends_with(".manifest") {
            fs::write(path, "this is no manifest\n").unwrap();
        }
    }
    let why = home.refusal(home.config()).await;
    assert!(why.contains("does not start") && why.contains("valkey.log"), "{why}");
}
