//! Which database, and is it fit: what is refused at the start, what is noticed while running.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use pannier::{
    crypto::Keyring,
    valkey::{DurabilityLevel, Level, LinkConfig, LinkError, LinkState, Target, UrlTarget, examine},
};
use support::{
    Valkey, ValkeyOptions,
    link::{KINDS, TestLink, allowed, config, keyring},
};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

fn soon() -> Instant {
    Instant::now() + 10 * SECOND
}

fn without_init(valkey: &Valkey) -> LinkConfig {
    LinkConfig { init: false, ..config(valkey.url()) }
}

#[tokio::test]
async fn an_empty_external_database_is_taken_into_use_only_when_asked() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let why = TestLink::start(without_init(&valkey)).refusal().await;
    assert!(why.contains("--init"), "{why}");
    assert_eq!(valkey.command::<i64>(&["DBSIZE"]), 0, "something was written before the refusal");
    let keyring = keyring();
    let first = TestLink::with_keyring(config(valkey.url()), keyring.clone());
    first.wait_ready(10 * SECOND).await;
    let id = first.facts().store_id;
    assert_eq!(valkey.command::<String>(&["GET", "pannier:environment"]), format!("test {id}"));
    assert_eq!(
        valkey.command::<String>(&["ZSCORE", "pannier:test:idx:queue:{63}", &format!("store:{id}")]),
        "-2"
    );
    drop(first);
    let second = TestLink::with_keyring(without_init(&valkey), keyring.clone());
    second.wait_ready(10 * SECOND).await;
    assert_eq!(second.facts().store_id, id);
    let why = TestLink::with_keyring(config(valkey.url()), keyring).refusal().await;
    assert!(why.contains("remove --init"), "{why}");
}

#[tokio::test]
async fn sidecars_that_begin_a_database_together_agree_on_it() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let keyring = keyring();
    let links: Vec<_> =
        (0..8).map(|_| TestLink::with_keyring(config(valkey.url()), keyring.clone())).collect();
    let id = valkey.command::<Option<String>>(&["GET", "nothing"]);
    assert_eq!(id, None);
    let mut ids = Vec::new();
    for link in &links {
        // One that came late is told that there is a database by now; none makes a second one.
        let ready = link.wait_ready(10 * SECOND);
        tokio::select! {
            _ = ready => ids.push(link.facts().store_id),
            why = link.refusal() => assert!(why.contains("remove --init"), "{why}"),
        }
    }
    assert!(!ids.is_empty());
    ids.dedup();
    assert_eq!(ids.len(), 1);
}

#[tokio::test]
async fn another_environments_database_is_refused() {
    let valkey = Valkey::start(ValkeyOptions::default());
    TestLink::ready(config(valkey.url())).await;
    let other = LinkConfig { env: "prod".into(), ..config(valkey.url()) };
    for init in [true, false] {
        let why = TestLink::start(LinkConfig { init, ..other.clone() }).refusal().await;
        assert!(why.contains("\"test\"") && why.contains("\"prod\""), "{why}");
    }
}

#[tokio::test]
async fn a_keyring_that_did_not_write_this_database_is_refused() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let (mine, text) = Keyring::generate();
    let link = TestLink::with_keyring(config(valkey.url()), pannier::crypto::SharedKeyring::fixed(mine));
    link.wait_ready(10 * SECOND).await;
    let why = TestLink::start(without_init(&valkey)).refusal().await;
    assert!(why.contains("index_key"), "{why}");
    // The same index key with another key under the same id.
    let (_, other) = Keyring::generate();
    let secret = |text: &str| text.lines().find(|line| line.starts_with("secret")).unwrap().to_owned();
    let mixed = Keyring::parse(&text.replace(&secret(&text), &secret(&other))).unwrap();
    let mixed = pannier::crypto::SharedKeyring::fixed(mixed);
    let why = TestLink::with_keyring(without_init(&valkey), mixed).refusal().await;
    assert!(why.contains("key 1") && why.contains("backup"), "{why}");
}

#[tokio::test]
async fn an_emptied_database_is_a_changed_store_and_not_a_new_one() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let keyring = keyring();
    let link = TestLink::with_keyring(config(valkey.url()), keyring.clone());
    link.wait_ready(10 * SECOND).await;
    let tag = keyring.current().owner_tag("session", "default", "bot-1");
    link.confirm_absent("session", &tag, soon()).await.unwrap();
    let environment: String = valkey.command(&["GET", "pannier:environment"]);
    let _: () = valkey.command(&["FLUSHALL"]);
    // Noticed at once by whoever misses something, before the regular look.
    assert_eq!(link.confirm_absent("session", &tag, soon()).await, Err(LinkError::StoreChanged));
    assert_eq!(*link.state().borrow(), LinkState::StoreChanged);
    assert_eq!(link.append("list", "a", 5 * SECOND).await, Err(LinkError::StoreChanged));
    // Its name alone does not make it whole again, nor does a reconnection.
    let _: () = valkey.command(&["SET", "pannier:environment", &environment]);
    let _: i64 = valkey.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    tokio::time::sleep(3 * SECOND).await;
    assert_eq!(*link.state().borrow(), LinkState::StoreChanged);
    assert_eq!(valkey.command::<i64>(&["DBSIZE"]), 1, "it was made anew while running");
}

#[tokio::test]
async fn a_lost_database_is_noticed_without_a_call_and_its_return_too() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let link = TestLink::ready(config(valkey.url())).await;
    let _: () = valkey.command(&["RENAME", "pannier:environment", "elsewhere"]);
    link.wait_for(allowed(2 * SECOND), |state| *state == LinkState::StoreChanged).await;
    let _: () = valkey.command(&["RENAME", "elsewhere", "pannier:environment"]);
    link.wait_ready(allowed(2 * SECOND)).await;
    // A part of it, as when a shard is lost.
    let _: () = valkey.command(&["RENAME", "pannier:test:idx:session:{17}", "elsewhere"]);
    link.wait_for(allowed(60 * SECOND), |state| *state == LinkState::StoreChanged).await;
}

/// Also over connections that were made while it was lost.
#[tokio::test]
async fn what_was_subscribed_to_is_heard_again_when_a_lost_database_is_back() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let link = TestLink::ready(config(valkey.url())).await;
    let mut messages = link.subscribe(b"news").await;
    assert_eq!(valkey.command::<i64>(&["PUBLISH", "news", "before"]), 1);
    let _: () = valkey.command(&["RENAME", "pannier:environment", "elsewhere"]);
    link.wait_for(allowed(2 * SECOND), |state| *state == LinkState::StoreChanged).await;
    for kind in ["normal", "pubsub"] {
        let _: i64 = valkey.command(&["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"]);
    }
    tokio::time::sleep(SECOND).await;
    let _: () = valkey.command(&["RENAME", "elsewhere", "pannier:environment"]);
    link.wait_ready(allowed(2 * SECOND)).await;
    assert_eq!(valkey.command::<i64>(&["PUBLISH", "news", "after"]), 1, "nobody listens");
    for wanted in ["before", "after"] {
        let heard = tokio::time::timeout(5 * SECOND, messages.recv()).await;
        assert_eq!(heard.unwrap().unwrap(), wanted.as_bytes());
    }
}

#[tokio::test]
async fn an_owner_that_the_index_lists_is_lost_and_not_absent() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let keyring = keyring();
    let link = TestLink::with_keyring(config(valkey.url()), keyring.clone());
    link.wait_ready(10 * SECOND).await;
    let tag = keyring.current().owner_tag("session", "default", "bot-1");
    let mut connection = valkey.connection();
    let mut list = |score: i64| {
        let index = link.index_key("session", tag.bucket());
        let () =
            redis::cmd("ZADD").arg(index).arg(score).arg(&tag.as_bytes()[..]).query(&mut connection).unwrap();
    };
    list(-1);
    link.confirm_absent("session", &tag, soon()).await.unwrap();
    list(0);
    assert_eq!(link.confirm_absent("session", &tag, soon()).await, Err(LinkError::StoreChanged));
    // Another call may find it, made meanwhile.
    let head = String::from_utf8(link.owner_key(&tag, "h")).unwrap();
    let _: () = valkey.command(&["HSET", &head, "fence", "1"]);
    link.confirm_absent("session", &tag, soon()).await.unwrap();
    assert!(
        matches!(&*link.state().borrow(), LinkState::Ready { .. }),
        "one owner's loss is not the store's"
    );
}

#[tokio::test]
async fn a_server_that_evicts_credentials_is_refused_unless_allowed() {
    let valkey = Valkey::start(ValkeyOptions::default().set("maxmemory-policy", "allkeys-lru"));
    let why = TestLink::start(config(valkey.url())).refusal().await;
    assert!(why.contains("allkeys-lru") && why.contains("noeviction"), "{why}");
    let link = TestLink::ready(LinkConfig { allow_eviction: true, ..config(valkey.url()) }).await;
    assert_eq!(level(&link, "eviction"), Level::Warn);
    // Set so while running: not served any more, and served again when it is mended.
    drop(link);
    let _: () = valkey.command(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]);
    let _: () = valkey.command(&["FLUSHALL"]);
    let link = TestLink::ready(config(valkey.url())).await;
    assert_eq!(level(&link, "eviction"), Level::Warn);
    let _: () = valkey.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let _: i64 = valkey.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    let unfit = |state: &LinkState| matches!(state, LinkState::Unfit { why } if why.contains("allkeys-lru"));
    link.wait_for(allowed(SECOND), unfit).await;
    tokio::time::sleep(SECOND / 2).await;
    assert!(unfit(&link.state().borrow()));
    let _: () = valkey.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    link.wait_ready(allowed(SECOND)).await;
}

#[tokio::test]
async fn the_durability_that_is_told_is_true() {
    for (appendonly, fsync, told) in [
        ("yes", "always", DurabilityLevel::Fsync),
        ("yes", "everysec", DurabilityLevel::Aof),
        ("no", "always", DurabilityLevel::Memory),
    ] {
        let options = ValkeyOptions::default().set("appendonly", appendonly).set("appendfsync", fsync);
        let valkey = Valkey::start(options);
        let link = TestLink::ready(config(valkey.url())).await;
        assert_eq!(link.durability(), told);
        assert!(link.facts().durability_known);
        let warned = level(&link, "persistence") == Level::Warn;
        assert_eq!(warned, told == DurabilityLevel::Memory);
    }
}

#[tokio::test]
async fn what_the_acl_hides_is_unknown_and_no_failure() {
    let valkey = Valkey::start(ValkeyOptions::default());
    let user = |name: &str, rules: &[&str]| {
        let mut words = vec!["ACL", "SETUSER", name, "on", ">secret", "~pannier:*", "&pannier:*", "+@all"];
        words.extend(rules);
        let _: () = valkey.command(&words);
        LinkConfig { init: true, ..config(format!("{}?user={name}&pass=secret", valkey.url())) }
    };
    let link = TestLink::ready(user("no-config", &["-config"])).await;
    assert_eq!(level(&link, "eviction"), Level::Ok, "INFO tells the policy");
    assert_eq!(link.durability(), DurabilityLevel::Aof);
    assert!(!link.facts().durability_known);
    drop(link);
    let _: () = valkey.command(&["FLUSHALL"]);
    let hidden = user("no-info", &["-config", "-info", "-role"]);
    let link = TestLink::ready(hidden).await;
    for check in ["eviction", "persistence", "memory"] {
        assert_eq!(level(&link, check), Level::Unknown, "{check}");
    }
    // HELLO still tells version and role.
    assert_eq!(level(&link, "version"), Level::Ok);
    assert_eq!(level(&link, "role"), Level::Ok);
    assert_eq!(link.durability(), DurabilityLevel::Memory);
    drop(link);
    let _: () = valkey.command(&["FLUSHALL"]);
    let asserted = LinkConfig {
        assume_durability: Some(DurabilityLevel::Fsync),
        ..user("no-info", &["-config", "-info", "-role"])
    };
    assert_eq!(TestLink::ready(asserted).await.durability(), DurabilityLevel::Fsync);
}

#[tokio::test]
async fn a_database_can_be_examined_without_being_taken_into_use() {
    let valkey = Valkey::start(ValkeyOptions::default().set("maxmemory-policy", "allkeys-lru"));
    let keyring = keyring();
    let look = || async {
        let report = examine(&without_init(&valkey), Some(&keyring), KINDS).await.unwrap();
        let level = |check| report.findings.iter().find(|finding| finding.check == check).unwrap().level;
        (level("eviction"), level("database"), report)
    };
    let (eviction, database, _) = look().await;
    assert_eq!((eviction, database), (Level::Fail, Level::Fail));
    assert_eq!(valkey.command::<i64>(&["DBSIZE"]), 0, "examining wrote something");
    let _: () = valkey.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    let link = TestLink::with_keyring(config(valkey.url()), keyring.clone());
    link.wait_ready(10 * SECOND).await;
    let (eviction, database, report) = look().await;
    assert_eq!((eviction, database), (Level::Ok, Level::Ok), "{report:?}");
    assert_eq!(report.facts.store_id, link.facts().store_id);
    let other = support::link::keyring();
    let report = examine(&without_init(&valkey), Some(&other), KINDS).await.unwrap();
    let failure = report.failures().next().unwrap();
    assert!(failure.check == "keyring" && failure.found.contains("index_key"), "{failure}");
    let valkey = Valkey::stopped(ValkeyOptions::default());
    assert!(examine(&without_init(&valkey), Some(&other), KINDS).await.is_err());
}

fn level(link: &TestLink, check: &str) -> Level {
    let report = link.preflight();
    let finding = report.findings.iter().find(|finding| finding.check == check);
    finding.unwrap_or_else(|| panic!("{check} was not looked at: {report:?}")).level
}

/// What is logged on this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_wrong_password_is_one_line_that_names_cause_and_host_and_no_secret() {
    let valkey = Valkey::start(ValkeyOptions {
        tcp: true,
        ..ValkeyOptions::default().set("requirepass", "the-right-one")
    });
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    let url = format!("valkey://:the-wrong-one@127.0.0.1:{}", valkey.port);
    let link = TestLink::start(LinkConfig::new(Target::Url(UrlTarget::new(url)), "test"));
    tokio::time::sleep(2 * SECOND).await;
    drop(guard);
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<&str> =
        text.lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert!(
        lines[0].contains("password refused") && lines[0].contains(&format!("127.0.0.1:{}", valkey.port))
    );
    assert!(!text.contains("the-wrong-one") && !text.contains("the-right-one"), "{text}");
    let error = link.append("list", "a", SECOND / 10).await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains("the-wrong-one"));
    assert!(!format!("{:?}", link.state().borrow()).contains("the-wrong-one"));
}
