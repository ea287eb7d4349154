//! A link of the test's own to a real Valkey, and a TCP proxy that can go silent.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use pannier::{
    crypto::{Keyring, SharedKeyring},
    valkey::{Lane, Link, LinkConfig, LinkError, LinkState, Op, Script, StartError, Target, UrlTarget},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

/// Appends ARGV[1] to the list KEYS[1]; replies its length.
pub static APPEND: Script =
    Script::new("append", "#!lua\nredis.call('RPUSH', KEYS[1], ARGV[1])\nreturn redis.call('LLEN', KEYS[1])");
pub static SCRIPTS: &[&Script] = &[&APPEND];
pub const KINDS: &[&str] = &["session", "queue"];

/// What a bound of the design may take in a test.
pub fn allowed(bound: Duration) -> Duration {
    (bound * 3).max(bound + Duration::from_secs(2))
}

pub fn keyring() -> SharedKeyring {
    SharedKeyring::fixed(Keyring::generate().0)
}

pub fn config(url: impl Into<String>) -> LinkConfig {
    LinkConfig { init: true, ..LinkConfig::new(Target::Url(UrlTarget::new(url)), "test") }
}

/// A link that ends with the test.
pub struct TestLink {
    pub link: Link,
    pub shutdown: CancellationToken,
}

impl std::ops::Deref for TestLink {
    type Target = Link;

    fn deref(&self) -> &Link {
        &self.link
    }
}

impl Drop for TestLink {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl TestLink {
    pub fn start(config: LinkConfig) -> Self {
        Self::with_keyring(config, keyring())
    }

    pub fn with_keyring(config: LinkConfig, keyring: SharedKeyring) -> Self {
        let shutdown = CancellationToken::new();
        let link = Link::start(config, keyring, SCRIPTS, KINDS, shutdown.clone()).unwrap();
        Self { link, shutdown }
    }

    pub async fn ready(config: LinkConfig) -> Self {
        let link = Self::start(config);
        link.wait_ready(Duration::from_secs(10)).await;
        link
    }

    /// Waits for a usable connection; gives how long that took.
    pub async fn wait_ready(&self, within: Duration) -> Duration {
        self.wait_for(within, |state| matches!(state, LinkState::Ready { .. })).await
    }

    pub async fn wait_for(&self, within: Duration, wanted: impl Fn(&LinkState) -> bool) -> Duration {
        let from = Instant::now();
        let mut state = self.state();
        let reached = timeout(within, state.wait_for(|state| wanted(state))).await.is_ok();
        assert!(reached, "still {:?} after {within:?}", self.state().borrow());
        from.elapsed()
    }

    /// Why the start cannot succeed.
    pub async fn refusal(&self) -> String {
        let StartError::Config(why) =
            timeout(Duration::from_secs(10), self.start_error()).await.expect("it was not refused");
        why
    }

    /// Appends `item`, inside `within`.
    pub async fn append(&self, key: &str, item: &str, within: Duration) -> Result<redis::Value, LinkError> {
        self.run(Lane::Small, append(key, item), Instant::now() + within).await
    }
}

pub fn append<'a>(key: &str, item: &str) -> Op<'a> {
    Op::Script { script: &APPEND, keys: vec![key.as_bytes().to_vec()], args: vec![item.as_bytes().to_vec()] }
}

/// So many writes and reads of 12 MiB at once, every second one of each kind. None waits for ever.
pub async fn large_values_both_ways(link: &Link, count: usize, within: Duration) {
    let value = vec![7_u8; 12 << 20];
    let calls = (0..count).map(|n| {
        let (link, value) = (link.clone(), &value);
        async move {
            let mut cmd = redis::cmd(if n % 2 == 0 { "SET" } else { "GET" });
            cmd.arg("large");
            if n % 2 == 0 {
                cmd.arg(value);
            }
            link.run(Lane::Bulk, Op::Cmd(cmd), Instant::now() + within).await.unwrap();
        }
    });
    futures_util::future::join_all(calls).await;
}

/// Between a link and a server: passes everything on, until it is told to swallow.
pub struct Proxy {
    pub port: u16,
    silent: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl Proxy {
    pub async fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let silent = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn({
            let silent = Arc::clone(&silent);
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    let server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
                    // A connection that was there when it went silent stays so; later ones work.
                    let born_silent = silent.load(Ordering::SeqCst);
                    let silent = Arc::clone(&silent);
                    tokio::spawn(async move {
                        let ((cr, cw), (sr, sw)) = (client.into_split(), server.into_split());
                        let mute = move || silent.load(Ordering::SeqCst) && !born_silent;
                        tokio::join!(pass(cr, sw, mute.clone()), pass(sr, cw, mute));
                    });
                }
            }
        });
        Self { port, silent, task }
    }

    /// From now on the connections that are there carry nothing, and are not closed.
    pub fn go_silent(&self) {
        self.silent.store(true, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mute: impl Fn() -> bool,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(n @ 1..) = from.read(&mut buffer).await {
        if !mute() && to.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
    while mute() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
