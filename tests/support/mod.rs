//! What black-box tests stand on: the built binary in a directory of its own, and a real Valkey of their own.
//!
//! Everything started here is ended on drop, by its own pid.

#![allow(
    dead_code,
    unused_imports,
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::similar_names,
    clippy::unused_async,
    clippy::ignored_unit_patterns,
    clippy::while_let_loop,
    clippy::unnecessary_wraps
)]

pub mod access;
pub mod admin_http;
pub mod attach;
pub mod bad_network;
pub mod blob;
pub mod caps;
pub mod chaos;
pub mod cli;
pub mod cluster;
pub mod conversations;
pub mod doctor;
pub mod drill;
pub mod everything;
pub mod folder;
pub mod keys;
pub mod leak;
pub mod link;
pub mod process;
pub mod random;
pub mod schedule;
pub mod sentinel;
pub mod small;
pub mod unary;
pub mod valkey;
pub mod wire;

use std::{
    ffi::OsString,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use pannier::proto::v1::{
    admin_service_client::AdminServiceClient, session_service_client::SessionServiceClient,
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

pub use tonic_health::pb::health_check_response::ServingStatus;
pub use valkey::{Valkey, ValkeyOptions};

/// The binary under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_pannier");

/// How a [`Sidecar`] is started. The default: an embedded Valkey, ready before `start` returns.
#[derive(Clone, Default)]
pub struct Options {
    /// An external Valkey; without one the embedded is used.
    pub valkey_url: Option<String>,
    /// Default "test" with a URL.
    pub env: Option<String>,
    /// Do not pass `--init` at the first start with a URL.
    pub no_init: bool,
    /// Further arguments of `serve`.
    pub args: Vec<String>,
    /// Environment of the process. Otherwise it gets PATH, HOME and nothing else.
    pub envs: Vec<(String, String)>,
    /// Share the directory (socket, data, keyring) of another sidecar.
    pub dir: Option<Arc<TempDir>>,
    /// The socket's name in the directory; "pannier.sock" by default.
    pub socket_name: Option<String>,
    /// Return at once, do not wait for SERVING.
    pub no_wait: bool,
    /// The user that runs it.
    pub uid: Option<u32>,
}

impl Options {
    /// With this Valkey.
    pub fn with(valkey: &Valkey) -> Self {
        Self { valkey_url: Some(valkey.url()), ..Self::default() }
    }

    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }
}

/// A running (or killed) sidecar.
pub struct Sidecar {
    pub options: Options,
    pub dir: Arc<TempDir>,
    pub socket: PathBuf,
    child: Option<Child>,
    starts: u32,
}

impl Sidecar {
    /// Starts one and, unless `no_wait`, waits until it serves. Panics with its log when it does not within 30 s.
    pub async fn start(options: Options) -> Self {
        let dir = options.dir.clone().unwrap_or_else(short_temp_dir);
        let socket = dir.path().join(options.socket_name.as_deref().unwrap_or("pannier.sock"));
        let mut sidecar = Self { options, dir, socket, child: None, starts: 0 };
        if sidecar.options.valkey_url.is_some() && !sidecar.keyring().exists() {
            let made = pannier(&["keys", "init", "--keyring", path_str(&sidecar.keyring())]);
            assert!(made.status.success(), "keys init: {}", String::from_utf8_lossy(&made.stderr));
        }
        sidecar.spawn();
        if !sidecar.options.no_wait {
            sidecar.wait_serving(Duration::from_secs(30)).await;
        }
        sidecar
    }

    /// Another one beside it: with its directory and its Valkey, and a socket of this name.
    pub async fn beside(&self, socket_name: &str) -> Self {
        let (dir, socket_name) = (Some(self.dir.clone()), Some(socket_name.into()));
        Self::start(Options { dir, socket_name, ..self.options.clone() }).await
    }

    pub fn keyring(&self) -> PathBuf {
        self.data_dir().join("keyring.toml")
    }

    pub fn data_dir(&self) -> PathBuf {
        let data = self.dir.path().join("data");
        if !data.exists() {
            use std::os::unix::fs::DirBuilderExt as _;
            fs::DirBuilder::new().mode(0o700).create(&data).unwrap();
        }
        data
    }

    /// What clients take as an address.
    pub fn address(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// The arguments of `serve`.
    pub fn serve_args(&self) -> Vec<String> {
        let mut args: Vec<String> = vec!["serve".into(), "--socket".into(), path_str(&self.socket).into()];
        args.extend(["--data-dir".into(), path_str(&self.data_dir()).into()]);
        if let Some(url) = &self.options.valkey_url {
            args.extend(["--valkey-url".into(), url.clone()]);
            args.extend(["--env".into(), self.options.env.clone().unwrap_or_else(|| "test".into())]);
            if self.starts == 0 && !self.options.no_init && self.options.dir.is_none() {
                args.push("--init".into());
            }
        } else if let Some(env) = &self.options.env {
            args.extend(["--env".into(), env.clone()]);
        }
        args.extend(self.options.args.iter().cloned());
        args
    }

    /// Starts the process again with the same options. It must not run.
    pub fn spawn(&mut self) {
        assert!(self.child.is_none(), "it still runs");
        let log = File::options().create(true).append(true).open(self.log_path()).unwrap();
        let mut command = Command::new(BINARY);
        command
            .args(self.serve_args())
            .env_clear()
            .envs(inherited_env())
            .envs([("PANNIER_LOG_FORMAT", "json"), ("PANNIER_LOG_LEVEL", "debug")])
            .envs(self.options.envs.iter().cloned())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        if let Some(uid) = self.options.uid {
            use std::os::unix::process::CommandExt as _;
            command.uid(uid);
        }
        self.child = Some(command.spawn().unwrap());
        self.starts += 1;
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it does not run").id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.child.as_ref().expect("it does not run")), signal).unwrap();
    }

    /// kill -9, and its end is waited for.
    pub fn kill9(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            child.wait().unwrap();
        }
    }

    /// kill -9, start again, wait until it serves.
    pub async fn restart(&mut self) {
        self.kill9();
        self.spawn();
        self.wait_serving(Duration::from_secs(30)).await;
    }

    /// SIGTERM, without waiting.
    pub fn sigterm(&self) {
        self.signal(Signal::TERM);
    }

    /// Waits for the process to end by itself.
    pub async fn wait_exit(&mut self, within: Duration) -> ExitStatus {
        let until = Instant::now() + within;
        loop {
            if let Some(status) = self.child.as_mut().expect("it does not run").try_wait().unwrap() {
                self.child = None;
                return status;
            }
            assert!(Instant::now() < until, "still runs after {within:?}:\n{}", self.logs());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// SIGTERM, and waits for the end.
    pub async fn stop(&mut self) -> ExitStatus {
        self.sigterm();
        self.wait_exit(Duration::from_secs(27)).await
    }

    /// It runs until it ends with 78, and is never ready; what it said, from that place in its log.
    pub async fn ends_unready(&mut self, from: usize) -> String {
        let begin = Instant::now();
        while self.is_running() {
            assert_ne!(self.serving("").await, Some(ServingStatus::Serving), "{}", self.logs());
            assert!(begin.elapsed() < link::allowed(Duration::from_secs(10)), "it goes on:\n{}", self.logs());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(self.wait_exit(Duration::from_secs(1)).await.code(), Some(78), "{}", self.logs());
        let said = self.logs()[from..].to_owned();
        let is_ready = |line: &str| {
            serde_json::from_str::<serde_json::Value>(line).is_ok_and(|line| line["message"] == "ready")
        };
        assert!(!said.lines().any(is_ready), "it was ready:\n{said}");
        said
    }

    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_none())
    }

    fn log_path(&self) -> PathBuf {
        let name = self.socket.file_name().unwrap().to_str().unwrap();
        self.dir.path().join(format!("{name}.log"))
    }

    /// Everything it has written to stdout and stderr, over all its starts.
    pub fn logs(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.log_path()).unwrap_or_default()).into_owned()
    }

    /// A lazy channel: it connects at the first call and again when the sidecar was restarted.
    pub fn channel(&self) -> Channel {
        channel(&self.socket)
    }

    pub fn sessions(&self) -> SessionServiceClient<Channel> {
        SessionServiceClient::new(self.channel())
            .max_decoding_message_size(16 << 20)
            .max_encoding_message_size(16 << 20)
    }

    pub fn blobs(&self) -> blob::Blobs {
        blob::Blobs::new(self.channel())
    }

    pub fn admin(&self) -> AdminServiceClient<Channel> {
        AdminServiceClient::new(self.channel())
    }

    pub fn health(&self) -> HealthClient<Channel> {
        HealthClient::new(self.channel())
    }

    /// The health of a service ("" is the process); None when it does not answer.
    pub async fn serving(&self, service: &str) -> Option<ServingStatus> {
        let request = HealthCheckRequest { service: service.into() };
        let call = async { self.health().check(request).await };
        let answer = tokio::time::timeout(Duration::from_secs(2), call).await.ok()?.ok()?;
        Some(answer.into_inner().status())
    }

    /// Waits until health "" is SERVING; gives how long that took.
    pub async fn wait_serving(&mut self, within: Duration) -> Duration {
        self.wait_status(ServingStatus::Serving, within).await
    }

    pub async fn wait_status(&mut self, wanted: ServingStatus, within: Duration) -> Duration {
        let begin = Instant::now();
        loop {
            if self.serving("").await == Some(wanted) {
                return begin.elapsed();
            }
            if let Some(status) = self.child.as_mut().and_then(|child| child.try_wait().unwrap()) {
                panic!("the sidecar has ended: {status}\n{}", self.logs());
            }
            assert!(begin.elapsed() < within, "not {wanted:?} within {within:?}:\n{}", self.logs());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The embedded Valkey's socket.
    pub fn embedded_socket(&self) -> Option<PathBuf> {
        embedded_sockets(self.socket.parent().unwrap()).into_iter().next()
    }

    /// A plain connection to the embedded Valkey.
    pub fn embedded(&self) -> redis::Connection {
        let socket = self.embedded_socket().expect("no embedded Valkey");
        redis::Client::open(format!("unix://{}", socket.display())).unwrap().get_connection().unwrap()
    }

    pub fn embedded_pid(&self) -> Pid {
        let info: redis::InfoDict = redis::cmd("INFO").arg("server").query(&mut self.embedded()).unwrap();
        Pid::from_raw(info.get::<i32>("process_id").unwrap()).unwrap()
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of the sidecar ---\n{}", self.logs());
        }
        self.kill9();
        if self.options.valkey_url.is_none() && Arc::strong_count(&self.dir) <= 2 {
            for socket in embedded_sockets(self.socket.parent().unwrap()) {
                end_valkey(&socket);
            }
        }
    }
}

/// A sidecar with a Valkey of the test's own.
pub async fn start() -> (Valkey, Sidecar) {
    let valkey = Valkey::start(ValkeyOptions::default());
    let sidecar = Sidecar::start(Options::with(&valkey)).await;
    (valkey, sidecar)
}

/// Whether a process lives. One that ended but that nobody waits for (a container without an init) does not.
pub fn is_alive(pid: Pid) -> bool {
    let zombie = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()))
        .is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')));
    rustix::process::test_kill_process(pid).is_ok() && !zombie
}

/// A directory of mode 0700 whose name is short enough for a socket.
pub fn short_temp_dir() -> Arc<TempDir> {
    use std::os::unix::fs::PermissionsExt as _;
    let private = fs::Permissions::from_mode(0o700);
    Arc::new(tempfile::Builder::new().prefix("pannier-").permissions(private).tempdir_in("/tmp").unwrap())
}

/// A channel to any sidecar's socket.
pub fn channel(socket: &Path) -> Channel {
    Endpoint::from_shared(format!("unix:{}", socket.display()))
        .unwrap()
        .initial_stream_window_size(4 << 20)
        .initial_connection_window_size(8 << 20)
        .connect_lazy()
}

/// Runs the binary to its end, with a clean environment.
pub fn pannier(args: &[&str]) -> std::process::Output {
    pannier_env(args, &[])
}

pub fn pannier_env(args: &[&str], envs: &[(&str, &str)]) -> std::process::Output {
    Command::new(BINARY)
        .args(args)
        .env_clear()
        .envs(inherited_env())
        .envs(envs.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn inherited_env() -> impl Iterator<Item = (String, OsString)> {
    ["PATH", "HOME", "PANNIER_VALKEY_SERVER", "RUST_BACKTRACE"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), std::env::var_os(name)?)))
}

pub fn path_str(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn embedded_sockets(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with("valkey-") && path.extension().is_some_and(|ext| ext == "sock")
        })
        .collect()
}

fn end_valkey(socket: &Path) {
    let Ok(client) = redis::Client::open(format!("unix://{}", socket.display())) else { return };
    if let Ok(mut connection) = client.get_connection_with_timeout(Duration::from_secs(1)) {
        let _ = redis::cmd("SHUTDOWN").arg("NOSAVE").query::<()>(&mut connection);
    }
}
