//! The running server: started, adopted from a sidecar that was killed, restarted when it dies, stopped.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::{fs::OpenOptionsExt as _, net::UnixStream},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use redis::{Pipeline, Value, aio::MultiplexedConnection};
use rustix::{
    io::{FdFlags, fcntl_setfd},
    process::Signal,
};
use tokio::{
    process::Command,
    time::{Instant, sleep, timeout},
};

use super::{
    Prepared, create_socket_dir,
    data_dir::{Engine, Run},
    stop::{STOP_WITHIN, clean_up, ended, kill, shut_down},
};
use crate::valkey::{op::reply, report::ServerFacts, server_info::text, target::Endpoint};

/// A server without much to load answers after this.
const USUAL_START: Duration = Duration::from_secs(2);
/// A server that died is started again after this, doubled with each death up to the cap.
const RESTART_FIRST: Duration = Duration::from_millis(100);
const RESTART_CAP: Duration = Duration::from_secs(2);
/// One that lived this long has recovered.
const RECOVERED: Duration = Duration::from_secs(5);
/// A server that dies this often before it ever served will not serve.
const HOPELESS: u32 = 3;
/// A process that holds the data but has no socket gets this long to end.
const LINGER: Duration = Duration::from_secs(5);
const MAX_LOG: u64 = 10 * 1024 * 1024;

/// Only one at a time is started in this process, so that no other child inherits its lock.
static STARTING: Mutex<()> = Mutex::new(());

/// Why there is no server.
pub(in crate::valkey) enum ChildError {
    /// To be tried again.
    Retry(String),
    /// A human must look.
    Human(String),
}

/// The private server.
pub(in crate::valkey) struct Child {
    prepared: Arc<Prepared>,
    /// When we started it ourselves.
    process: Option<tokio::process::Child>,
    /// Where it listens; another directory than ours if a former sidecar chose so.
    socket: PathBuf,
    started: Instant,
    deaths: u32,
    served: bool,
    lingering: Option<Instant>,
}

impl Child {
    pub(super) fn new(prepared: Arc<Prepared>) -> Self {
        let socket = prepared.socket.clone();
        Self {
            prepared,
            process: None,
            socket,
            started: Instant::now(),
            deaths: 0,
            served: false,
            lingering: None,
        }
    }

    /// Makes sure that a server runs, and says where. It may still be loading.
    pub async fn ensure(&mut self) -> Result<Endpoint, ChildError> {
        if let Some(process) = &mut self.process {
            match process.try_wait() {
                Ok(None) => return self.endpoint(),
                Ok(Some(status)) => self.died(&format!("{status}"))?,
                Err(error) => self.died(&error.to_string())?,
            }
        }
        // No socket is looked at before the lock says whether a server lives: two on one directory would ruin it.
        match self.prepared.dir.server_lock().map_err(ChildError::Human)? {
            None => self.adopt(),
            Some(lock) => {
                self.lingering = None;
                let pause = match self.deaths {
                    0 => Duration::ZERO,
                    deaths => (RESTART_FIRST * 2_u32.pow((deaths - 1).min(8))).min(RESTART_CAP),
                };
                sleep(pause).await;
                self.spawn(lock).map_err(ChildError::Human)?;
                self.endpoint()
            }
        }
    }

    /// Whether it was started a moment ago: that it does not answer yet is no news.
    pub fn is_starting(&self) -> bool {
        self.process.is_some() && self.started.elapsed() < USUAL_START
    }

    /// Sets what a former sidecar, or somebody by hand, has set otherwise; refuses a server of another directory.
    pub async fn correct_drift(&self, connection: &MultiplexedConnection) -> Result<(), ChildError> {
        let mut wanted = self.settings();
        wanted.push(("dir", path_text(&self.prepared.dir.valkey()).to_owned()));
        let mut pipeline = Pipeline::new();
        for (name, _) in &wanted {
            pipeline.cmd("CONFIG").arg("GET").arg(name);
        }
        let mut correction = Pipeline::new();
        for ((name, wanted), found) in wanted.iter().zip(send(connection, &pipeline).await?) {
            let found = match &found {
                Value::Map(pairs) => pairs.first().and_then(|(_, value)| text(value)),
                Value::Array(pair) => pair.get(1).and_then(text),
                _ => None,
            };
            if found.as_deref() == Some(wanted) {
                continue;
            }
            if *name == "dir" {
                return Err(ChildError::Human(format!(
                    "the server at {} does not serve {}: stop it",
                    self.socket.display(),
                    self.prepared.dir.path().display()
                )));
            }
            tracing::warn!(setting = name, found = found.as_deref().unwrap_or("?"), wanted, "corrected");
            correction.cmd("CONFIG").arg("SET").arg(name).arg(wanted);
        }
        if !correction.is_empty() {
            send(connection, &correction).await?;
        }
        Ok(())
    }

    /// The database that this directory had last.
    pub fn store_id(&self) -> Result<Option<String>, String> {
        self.prepared.dir.store_id()
    }

    /// Writes down which database and which server this directory has now.
    pub fn remember(&mut self, store_id: &str, facts: &ServerFacts) -> Result<(), String> {
        self.served = true;
        let dir = &self.prepared.dir;
        if dir.store_id()?.as_deref() != Some(store_id) {
            dir.set_store_id(store_id)?;
        }
        let engine = Engine {
            engine: facts.engine.clone(),
            version: facts.version.clone(),
            binary: self.prepared.server.path.clone(),
        };
        if dir.engine()?.as_ref() != Some(&engine) {
            dir.set_engine(&engine)?;
        }
        if let Some(run) = dir.run()
            && run.run_id != facts.run_id
        {
            dir.set_run(&Run { run_id: facts.run_id.clone(), ..run })?;
        }
        Ok(())
    }

    /// Ends the server: SHUTDOWN, then by force. Nothing acknowledged is lost either way.
    pub async fn stop(&mut self) {
        let until = Instant::now() + STOP_WITHIN;
        shut_down(&self.socket).await;
        let ended = match &mut self.process {
            Some(process) => timeout(STOP_WITHIN, process.wait()).await.is_ok(),
            None => ended(&self.prepared.dir, until).await,
        };
        if !ended {
            tracing::warn!("the private valkey-server did not end in time; killing it");
            if let Some(run) = self.prepared.dir.run() {
                kill(run.pid, Signal::KILL);
            }
            if let Some(process) = &mut self.process {
                let _ = timeout(Duration::from_secs(2), process.wait()).await;
            }
        }
        self.process = None;
        clean_up(&self.prepared.dir, &self.socket);
    }

    fn endpoint(&self) -> Result<Endpoint, ChildError> {
        Endpoint::unix(&self.socket).map_err(|error| ChildError::Human(error.to_string()))
    }

    fn died(&mut self, how: &str) -> Result<(), ChildError> {
        // A fork that rewrites the AOF may have outlived it, and holds the lock.
        if matches!(self.prepared.dir.server_lock(), Ok(None))
            && let Some(run) = self.prepared.dir.run()
        {
            kill(run.pid, Signal::KILL);
        }
        self.process = None;
        if self.served && self.started.elapsed() > RECOVERED {
            self.deaths = 0;
        }
        self.deaths += 1;
        let log = self.prepared.dir.log();
        let last = last_lines(&log);
        if !self.served && self.deaths >= HOPELESS {
            return Err(ChildError::Human(format!(
                "the private valkey-server does not start ({how}): {last} (its log: {})",
                log.display()
            )));
        }
        tracing::error!(%how, %last, log = %log.display(), "the private valkey-server died; starting it again");
        Ok(())
    }

    /// Takes over the server that a former sidecar left.
    fn adopt(&mut self) -> Result<Endpoint, ChildError> {
        let run = self.prepared.dir.run();
        if let Some(run) = &run {
            self.socket.clone_from(&run.socket);
        }
        // Only whether it listens; that it is ours is checked with its directory and the store id.
        match UnixStream::connect(&self.socket) {
            Ok(_) => {
                if self.lingering.take().is_some() || !self.served {
                    tracing::info!(socket = %self.socket.display(), "took over the running valkey-server");
                }
                self.endpoint()
            }
            Err(error) => {
                let since = *self.lingering.get_or_insert_with(Instant::now);
                if since.elapsed() > LINGER
                    && let Some(run) = run
                {
                    // It holds our data and cannot be reached: only its end helps.
                    tracing::warn!(
                        pid = run.pid,
                        "ending a former valkey-server that has no socket any more"
                    );
                    kill(run.pid, if since.elapsed() > 2 * LINGER { Signal::KILL } else { Signal::TERM });
                }
                Err(ChildError::Retry(format!("a former valkey-server holds the data directory: {error}")))
            }
        }
    }

    fn spawn(&mut self, lock: File) -> Result<(), String> {
        let prepared = &self.prepared;
        self.socket.clone_from(&prepared.socket);
        create_socket_dir(&self.socket)?;
        match fs::remove_file(&self.socket) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(format!("{}: {error}", self.socket.display())),
        }
        let log = open_log(&prepared.dir.log()).map_err(|error| format!("the server's log: {error}"))?;
        let errors = log.try_clone().map_err(|error| error.to_string())?;
        let mut command = Command::new(&prepared.server.path);
        command
            .args(["--port", "0", "--unixsocket", path_text(&self.socket), "--unixsocketperm", "700"])
            .args(["--dir", path_text(&prepared.dir.valkey()), "--daemonize", "no", "--supervised", "no"])
            .args(["--databases", "1", "--logfile", "", "--protected-mode", "yes"]);
        for (name, value) in self.settings() {
            command.arg(format!("--{name}")).arg(value);
        }
        command
            // Its environment could be read in /proc, and ours may hold a password.
            .env_clear()
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            // Ctrl-C on the terminal is for us: the server is needed until we have drained.
            .process_group(0);
        let process = {
            let _one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
            fcntl_setfd(&lock, FdFlags::empty()).map_err(|error| error.to_string())?;
            let process = command.spawn();
            // From here on the server alone holds it.
            drop(lock);
            process.map_err(|error| format!("{}: {error}", prepared.server.path.display()))?
        };
        let pid = process.id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or_default();
        prepared.dir.set_run(&Run { pid, socket: self.socket.clone(), run_id: String::new() })?;
        tracing::info!(pid, server = %prepared.server.path.display(), "started a private valkey-server");
        self.process = Some(process);
        self.started = Instant::now();
        Ok(())
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        vec![
            ("appendonly", "yes".into()),
            ("appendfsync", self.prepared.fsync.setting().into()),
            ("no-appendfsync-on-rewrite", "no".into()),
            ("save", String::new()),
            ("maxmemory", self.prepared.maxmemory.to_string()),
            ("maxmemory-policy", "noeviction".into()),
        ]
    }
}

async fn send(connection: &MultiplexedConnection, pipeline: &Pipeline) -> Result<Vec<Value>, ChildError> {
    let retry = |why: String| ChildError::Retry(why);
    let replies = connection
        .clone()
        .send_packed_commands(pipeline, 0, pipeline.len())
        .await
        .map_err(|error| retry(crate::valkey::lanes::describe(&error)))?;
    replies.into_iter().map(|value| reply(value).map_err(|error| retry(error.to_string()))).collect()
}

fn open_log(path: &Path) -> io::Result<File> {
    if fs::metadata(path).is_ok_and(|found| found.len() > MAX_LOG) {
        fs::rename(path, path.with_extension("log.1"))?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// The end of the server's log, on one line.
fn last_lines(path: &Path) -> String {
    let read = || -> io::Result<String> {
        let mut file = File::open(path)?;
        let end = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(end.saturating_sub(4096)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let mut lines: Vec<&str> =
        text.lines().rev().map(str::trim).filter(|line| !line.is_empty()).take(3).collect();
    lines.reverse();
    lines.join(" / ")
}

fn path_text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}
