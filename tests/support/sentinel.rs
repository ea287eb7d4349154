//! A primary, a replica and three Sentinels of the test's own.

use std::{
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use super::valkey::{Valkey, ValkeyOptions, free_port, server_binary};

/// What the Sentinels watch the primary as.
pub const NAME: &str = "main";

pub struct Sentinels {
    /// The first is the primary at the start.
    pub servers: Vec<Valkey>,
    pub ports: Vec<u16>,
    processes: Vec<Child>,
    _dir: std::sync::Arc<tempfile::TempDir>,
}

impl Sentinels {
    pub fn start() -> Self {
        Self::start_with(&ValkeyOptions::default(), None)
    }

    /// `password`: the Sentinels' own.
    pub fn start_with(options: &ValkeyOptions, password: Option<&str>) -> Self {
        let options = ValkeyOptions { tcp: true, ..options.clone() }.set("repl-diskless-sync-delay", "0");
        let servers: Vec<Valkey> = (0..2).map(|_| Valkey::start(options.clone())).collect();
        let primary = servers[0].port.to_string();
        servers[1].command::<()>(&["REPLICAOF", "127.0.0.1", &primary]);
        let dir = super::short_temp_dir();
        let ports: Vec<u16> = (0..3).map(|_| free_port()).collect();
        let processes = ports.iter().map(|port| {
            let path = dir.path().join(format!("{port}.conf"));
            let auth = password.map_or(String::new(), |password| {
                format!("requirepass {password}\nsentinel sentinel-pass {password}\n")
            });
            let config = format!(
                "port {port}\nbind 127.0.0.1\ndir {dir}\nsentinel monitor {NAME} 127.0.0.1 {primary} 2\n\
                 sentinel down-after-milliseconds {NAME} 1000\nsentinel failover-timeout {NAME} 5000\n{auth}",
                dir = dir.path().display()
            );
            std::fs::write(&path, config).unwrap();
            let log = std::fs::File::create(dir.path().join(format!("{port}.log"))).unwrap();
            Command::new(server_binary())
                .arg(&path)
                .arg("--sentinel")
                .stdin(Stdio::null())
                .stdout(log)
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        });
        let processes = processes.collect();
        let sentinels = Self { servers, ports, processes, _dir: dir };
        let until = Instant::now() + Duration::from_secs(30);
        let auth = password.map_or(String::new(), |password| format!(":{password}@"));
        for port in &sentinels.ports {
            while !knows_all(&format!("redis://{auth}127.0.0.1:{port}")) {
                assert!(Instant::now() < until, "the Sentinels do not know each other and the replica");
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        sentinels
    }

    /// For `--valkey-url`.
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("valkey://{}", hosts.join(","))
    }

    /// Waits until the second server is a primary.
    pub fn wait_promoted(&self) -> Instant {
        let until = Instant::now() + Duration::from_secs(30);
        while !self.servers[1].is_primary() {
            assert!(Instant::now() < until, "the replica was not promoted");
            std::thread::sleep(Duration::from_millis(5));
        }
        Instant::now()
    }

    /// Ends one Sentinel.
    pub fn kill_sentinel(&mut self, at: usize) {
        let _ = self.processes[at].kill();
        let _ = self.processes[at].wait();
    }
}

fn knows_all(url: &str) -> bool {
    let ask = || -> redis::RedisResult<(usize, usize)> {
        let mut connection = redis::Client::open(url)?.get_connection_with_timeout(Duration::from_secs(1))?;
        let mut count = |what: &str| {
            redis::cmd("SENTINEL")
                .arg(what)
                .arg(NAME)
                .query::<Vec<redis::Value>>(&mut connection)
                .map(|all| all.len())
        };
        Ok((count("SENTINELS")?, count("REPLICAS")?))
    };
    ask().is_ok_and(|known| known == (2, 1))
}

impl Drop for Sentinels {
    fn drop(&mut self) {
        for at in 0..self.processes.len() {
            self.kill_sentinel(at);
        }
    }
}
