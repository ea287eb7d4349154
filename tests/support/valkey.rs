//! A `valkey-server` of the test's own: real, private, killed and frozen at will.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How a [`Valkey`] is started. The default: unix socket only, AOF always, noeviction. (Under everysec a kill -9 loses what
/// was acknowledged while an fsync was under way, up to two seconds of it.)
#[derive(Clone, Default)]
pub struct ValkeyOptions {
    /// Also on a free TCP port of 127.0.0.1.
    pub tcp: bool,
    /// Further configuration, such as `("requirepass", "x")`; later ones win.
    pub config: Vec<(String, String)>,
    /// Another server binary.
    pub server: Option<PathBuf>,
}

impl ValkeyOptions {
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.config.push((name.into(), value.into()));
        self
    }
}

/// A running, frozen or killed server. Its data stays over restarts.
pub struct Valkey {
    pub dir: Arc<TempDir>,
    pub port: u16,
    options: ValkeyOptions,
    child: Option<Child>,
}

impl Valkey {
    /// Starts one and waits until it answers.
    pub fn start(options: ValkeyOptions) -> Self {
        let mut valkey = Self::stopped(options);
        valkey.spawn();
        valkey
    }

    /// Prepares one that does not run yet.
    pub fn stopped(options: ValkeyOptions) -> Self {
        let port = if options.tcp { free_port() } else { 0 };
        Self { dir: super::short_temp_dir(), port, options, child: None }
    }

    /// A setting for the next start.
    pub fn configure(&mut self, name: &str, value: &str) {
        self.options.config.push((name.into(), value.into()));
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("v.sock")
    }

    /// For `--valkey-url`, over the unix socket.
    pub fn url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// For `--valkey-url`, over TCP.
    pub fn tcp_url(&self) -> String {
        assert!(self.port != 0, "started without tcp");
        format!("valkey://127.0.0.1:{}", self.port)
    }

    /// Starts it (again) and waits until it answers.
    pub fn spawn(&mut self) {
        assert!(self.child.is_none(), "it still runs");
        let log = File::options().create(true).append(true).open(self.log_path()).unwrap();
        let mut command = Command::new(self.options.server.clone().unwrap_or_else(server_binary));
        command
            .current_dir(self.dir.path())
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .args(["--unixsocket", super::path_str(&self.socket()), "--unixsocketperm", "700"])
            .args(["--dir", super::path_str(self.dir.path()), "--daemonize", "no", "--save", ""])
            .args(["--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction"]);
        for (name, value) in &self.options.config {
            command.args([format!("--{name}"), value.clone()]);
        }
        self.child =
            Some(command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
        self.wait_answers();
    }

    fn wait_answers(&self) {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let answer = self.try_connection().and_then(|mut c| redis::cmd("PING").query::<String>(&mut c));
            match answer {
                Ok(_) => return,
                // A password, or an ACL, is an answer too.
                Err(error) if error.to_string().contains("NOAUTH") => return,
                Err(error) => {
                    let log = fs::read_to_string(self.log_path()).unwrap_or_default();
                    assert!(Instant::now() < until, "valkey-server does not answer: {error}\n{log}");
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("valkey.log")
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    pub fn try_connection(&self) -> redis::RedisResult<redis::Connection> {
        redis::Client::open(self.url())?.get_connection_with_timeout(Duration::from_secs(5))
    }

    pub fn connection(&self) -> redis::Connection {
        self.try_connection().unwrap()
    }

    /// One command, such as `&["CONFIG", "SET", "maxmemory", "10mb"]`.
    pub fn command<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(*word);
        }
        command.query(&mut self.connection()).unwrap()
    }

    /// All keys that match, sorted.
    pub fn keys(&self, pattern: &str) -> Vec<String> {
        let mut keys: Vec<String> = self.command(&["KEYS", pattern]);
        keys.sort();
        keys
    }

    /// What it was started with.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.options.config.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    pub fn is_running(&self) -> bool {
        self.child.is_some()
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it does not run").id()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.child.as_ref().expect("it does not run")), signal).unwrap();
    }

    /// kill -9, and its end is waited for.
    pub fn kill9(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            child.wait().unwrap();
        }
    }

    /// kill -9 and start again on the same data.
    pub fn restart(&mut self) {
        self.kill9();
        self.spawn();
    }

    pub fn sigstop(&self) {
        self.signal(Signal::STOP);
    }

    pub fn sigcont(&self) {
        self.signal(Signal::CONT);
    }
}

impl Drop for Valkey {
    fn drop(&mut self) {
        self.kill9();
    }
}

/// A certificate authority and a server certificate for `localhost` by name only.
pub fn certificates(dir: &Path) {
    let openssl = |args: &str| {
        let made = Command::new("openssl").args(args.split(' ')).current_dir(dir).output().unwrap();
        assert!(made.status.success(), "openssl {args}: {}", String::from_utf8_lossy(&made.stderr));
    };
    openssl("req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=test-authority");
    openssl("req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=ignored");
    fs::write(dir.join("san"), "subjectAltName=DNS:localhost\n").unwrap();
    openssl(
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days 2 -extfile san",
    );
}

/// A port that nothing listens on.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The real server that `scripts/valkey` found or installed.
pub fn server_binary() -> PathBuf {
    if let Some(path) = std::env::var_os("PANNIER_VALKEY_SERVER") {
        return path.into();
    }
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))
        .map(|cache| cache.join("pannier/bin/valkey-server"));
    on_path("valkey-server")
        .or_else(|| cache.filter(|path| path.exists()))
        .or_else(|| on_path("redis-server"))
        .expect("no valkey-server: run scripts/valkey")
}

/// Another server than that of the tests: "wheel", a Valkey 9, or "redis", the Redis of this Debian. Where it cannot be had
/// the test says so and is over, but not under CI.
pub fn other_server(which: &str) -> Option<PathBuf> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/valkey");
    let found = Command::new(script).arg(which).stdin(Stdio::null()).output().unwrap();
    if found.status.success() {
        return Some(String::from_utf8(found.stdout).unwrap().trim().into());
    }
    let why = String::from_utf8_lossy(&found.stderr).into_owned();
    assert!(std::env::var_os("CI").is_none(), "no {which} server: {why}");
    eprintln!("SKIPPED, no {which} server: {why}");
    None
}

fn on_path(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|dir: PathBuf| dir.join(name))
        .find(|path: &PathBuf| Path::is_file(path))
}
