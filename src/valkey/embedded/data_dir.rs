//! The files of a data directory, and who may use it.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};

use crate::valkey::script::hex;

pub(super) const SIDECAR_LOCK: &str = "pannier.lock";
const SERVER_LOCK: &str = "valkey.lock";
const STORE_ID: &str = "store-id";
const ENGINE: &str = "engine.toml";
const RUN: &str = "valkey.run";
/// Valkey's own directory.
const VALKEY: &str = "valkey";

/// Which server wrote the data last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::struct_field_names)] // the file's words
pub(super) struct Engine {
    /// `valkey` or `redis`.
    pub engine: String,
    /// Such as `8.0.1`.
    pub version: String,
    pub binary: PathBuf,
}

/// The server that runs, or ran last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::struct_field_names)] // Valkey's word
pub(super) struct Run {
    pub pid: i32,
    pub socket: PathBuf,
    /// Empty until the server was asked for it.
    pub run_id: String,
}

/// A data directory.
pub(super) struct DataDir {
    path: PathBuf,
    /// Held for as long as this lives.
    _lock: Option<File>,
}

impl DataDir {
    /// Makes the directory, private, if it is not there.
    pub fn create(path: &Path) -> Result<Self, String> {
        create_private(path)?;
        let path = fs::canonicalize(path).map_err(|error| failed(path, &error))?;
        create_private(&path.join(VALKEY))?;
        Ok(Self { path, _lock: None })
    }

    /// An existing directory, or `None`.
    pub fn existing(path: &Path) -> Result<Option<Self>, String> {
        match fs::canonicalize(path) {
            Ok(path) => Ok(Some(Self { path, _lock: None })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(path, &error)),
        }
    }

    /// Keeps every other sidecar out.
    pub fn lock(&self) -> Result<Self, String> {
        let path = self.path.join(SIDECAR_LOCK);
        let mut file = open_lock(&path)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut owner = String::new();
            let _ = file.read_to_string(&mut owner);
            return Err(format!(
                "another pannier (pid {}) uses the data directory {}: stop it, or give another --data-dir",
                owner.trim(),
                self.path.display()
            ));
        }
        // Only for the message above; the lock itself is what counts.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { path: self.path.clone(), _lock: Some(file) })
    }

    /// The lock that a server holds while it lives; `None` when one does.
    pub fn server_lock(&self) -> Result<Option<File>, String> {
        let path = self.path.join(SERVER_LOCK);
        let file = open_lock(&path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(error) if error == rustix::io::Errno::WOULDBLOCK => Ok(None),
            Err(error) => Err(failed(&path, &error.into())),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the server keeps its files.
    pub fn valkey(&self) -> PathBuf {
        self.path.join(VALKEY)
    }

    pub fn log(&self) -> PathBuf {
        self.path.join("valkey.log")
    }

    /// `<dir>/valkey-<8 hex of the data directory's hash>.sock`
    pub fn socket_path(&self, dir: &Path) -> PathBuf {
        let digest = Sha256::digest(self.path.as_os_str().as_encoded_bytes());
        dir.join(format!("valkey-{}.sock", hex(&digest[..4])))
    }

    /// Whether anything was ever stored here.
    pub fn holds_data(&self) -> bool {
        let filled = |path: PathBuf| fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
        self.path.join(STORE_ID).exists() || filled(self.valkey())
    }

    pub fn store_id(&self) -> Result<Option<String>, String> {
        Ok(read(&self.path.join(STORE_ID))?.map(|id| id.trim().to_owned()))
    }

    pub fn set_store_id(&self, id: &str) -> Result<(), String> {
        self.write(STORE_ID, &format!("{id}\n"))
    }

    pub fn engine(&self) -> Result<Option<Engine>, String> {
        self.parsed(ENGINE)
    }

    pub fn set_engine(&self, engine: &Engine) -> Result<(), String> {
        self.write(ENGINE, &toml::to_string(engine).map_err(|error| error.to_string())?)
    }

    /// A file that cannot be read tells nothing; the lock is what counts.
    pub fn run(&self) -> Option<Run> {
        self.parsed(RUN).unwrap_or_default()
    }

    pub fn set_run(&self, run: &Run) -> Result<(), String> {
        self.write(RUN, &toml::to_string(run).map_err(|error| error.to_string())?)
    }

    pub fn forget_run(&self) {
        let _ = fs::remove_file(self.path.join(RUN));
    }

    fn parsed<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, String> {
        let path = self.path.join(name);
        let Some(text) = read(&path)? else { return Ok(None) };
        toml::from_str(&text).map(Some).map_err(|_| format!("{} is damaged: remove it", path.display()))
    }

    /// Replaces a file as a whole; it is on disk when this returns.
    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let path = self.path.join(name);
        let write = || {
            let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(&self.path)?;
            file.write_all(text.as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|error| error.error)?;
            File::open(&self.path)?.sync_all()
        };
        write().map_err(|error: io::Error| failed(&path, &error))
    }
}

/// Makes a directory that only we may enter; one that is there must be ours.
pub(super) fn create_private(path: &Path) -> Result<(), String> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| failed(path, &error))?;
    let found = fs::metadata(path).map_err(|error| failed(path, &error))?;
    if !found.is_dir() {
        return Err(format!("{} is not a directory", path.display()));
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(format!("{} belongs to another user", path.display()));
    }
    Ok(())
}

/// The median of five writes that are forced to disk.
pub(super) fn fsync_cost(dir: &Path) -> io::Result<Duration> {
    let mut file = tempfile::tempfile_in(dir)?;
    let mut costs = [Duration::ZERO; 5];
    for cost in &mut costs {
        file.write_all(&[0; 4096])?;
        let from = Instant::now();
        file.sync_data()?;
        *cost = from.elapsed();
    }
    costs.sort_unstable();
    Ok(costs[2])
}

fn open_lock(path: &Path) -> Result<File, String> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|error| failed(path, &error))
}

fn read(path: &Path) -> Result<Option<String>, String> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path, &error)),
    }
}

fn failed(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_data_directory_belongs_to_one_sidecar_at_a_time() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::create(&temp.path().join("data")).unwrap();
        let locked = dir.lock().unwrap();
        let refused = dir.lock().err().unwrap();
        assert!(refused.contains(&format!("pid {}", std::process::id())), "{refused}");
        drop(locked);
        dir.lock().unwrap();
    }

    #[test]
    fn files_are_replaced_as_a_whole_and_read_back() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::create(temp.path()).unwrap();
        assert!(!dir.holds_data());
        assert_eq!(dir.store_id().unwrap(), None);
        dir.set_store_id("abc").unwrap();
        assert_eq!(dir.store_id().unwrap().as_deref(), Some("abc"));
        assert!(dir.holds_data());
        let run = Run { pid: 7, socket: "/tmp/x.sock".into(), run_id: String::new() };
        dir.set_run(&run).unwrap();
        assert_eq!(dir.run(), Some(run));
    }

    #[test]
    fn the_socket_is_named_after_the_directory() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::create(temp.path()).unwrap();
        let name = dir.socket_path(Path::new("/run/user/1"));
        let name = name.to_str().unwrap();
        assert!(
            name.starts_with("/run/user/1/valkey-") && name.len() == "/run/user/1/valkey-01234567.sock".len()
        );
    }
}
