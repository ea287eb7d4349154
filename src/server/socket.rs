//! The unix socket: in a directory that only we write to, with the mode that was asked for whatever the umask, and never in
//! the place of something that lives.

use std::{
    fs::{self, DirBuilder, Metadata, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _, chown},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::fs::{FlockOperation, flock};
use tokio::net::{UnixListener, UnixStream};

use crate::config::{ConfigError, Socket};

/// The bound socket. The file is removed by [`Bound::unlink`], if it is still ours.
#[derive(Debug)]
pub struct Bound {
    /// Accepts connections.
    pub listener: UnixListener,
    /// What to remove at the end.
    pub file: SocketFile,
}

/// The socket's place in the file system.
#[derive(Clone, Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode: by the end another sidecar may have taken the place.
    identity: (u64, u64),
}

impl SocketFile {
    /// Removes the file, unless it is another's by now.
    pub fn unlink(&self) {
        let ours = fs::symlink_metadata(&self.path).is_ok_and(|now| (now.dev(), now.ino()) == self.identity);
        if ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(%error, "the socket could not be removed");
        }
    }
}

/// Makes the socket's directory, or checks the one that is there.
///
/// # Errors
/// It is a link, another user's, or one that others may write to (or enter, unless the socket is shared).
pub fn prepare_directory(socket: &Socket) -> Result<(), ConfigError> {
    let Some(dir) = socket.path.parent() else {
        return Err(ConfigError("the socket has no directory".into()));
    };
    let failed = |error: io::Error| ConfigError(format!("the socket's directory {}: {error}", dir.display()));
    match fs::symlink_metadata(dir) {
        Ok(found) => check_directory(dir, &found, socket.is_shared()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
            // Somebody may have been quicker, in /tmp for example.
            check_directory(dir, &fs::symlink_metadata(dir).map_err(failed)?, false)?;
            if let Some(group) = socket.group {
                chown(dir, None, Some(group)).map_err(failed)?;
            }
            let mode = match socket.mode & 0o077 {
                0 => 0o700,
                others if others & 0o007 == 0 => 0o750,
                _ => 0o755,
            };
            fs::set_permissions(dir, Permissions::from_mode(mode)).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Looks at the socket's directory as it is; `None` when there is none yet.
///
/// # Errors
/// As [`prepare_directory`].
pub fn look_at_directory(socket: &Socket) -> Result<Option<Metadata>, ConfigError> {
    let Some(dir) = socket.path.parent() else {
        return Err(ConfigError("the socket has no directory".into()));
    };
    match fs::symlink_metadata(dir) {
        Ok(found) => check_directory(dir, &found, socket.is_shared()).map(|()| Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ConfigError(format!("the socket's directory {}: {error}", dir.display()))),
    }
}

fn check_directory(dir: &Path, found: &Metadata, shared: bool) -> Result<(), ConfigError> {
    let own = rustix::process::getuid().as_raw();
    let mode = found.mode() & 0o7777;
    let shown = dir.display();
    let wrong = if found.is_symlink() {
        format!("{shown} is a link: name the directory itself")
    } else if !found.is_dir() {
        format!("{shown} is not a directory")
    } else if found.uid() != own && found.uid() != 0 {
        format!("{shown} belongs to user {}: use a directory of this user or root", found.uid())
    } else if mode & 0o022 != 0 {
        format!(
            "others may write to {shown} (mode {mode:04o}): use a directory of its own in it, or chmod 700 {shown}"
        )
    } else if mode & 0o077 != 0 && !shared {
        format!(
            "others may enter {shown} (mode {mode:04o}): chmod 700 {shown}, or let them in with --socket-mode and \
             --allow-uid"
        )
    } else {
        return Ok(());
    };
    Err(ConfigError(format!("the socket's directory is not safe: {wrong}")))
}

/// Takes the socket's place and listens.
///
/// # Errors
/// A live socket, or another kind of file, is there.
pub async fn bind(socket: &Socket) -> Result<Bound, ConfigError> {
    let path = &socket.path;
    let failed = |error: io::Error| ConfigError(format!("the socket {}: {error}", path.display()));
    let dir = path.parent().unwrap_or_else(|| Path::new("/"));
    // Two that start at once must not both find a dead socket and each remove the other's new one.
    let lock = fs::File::open(dir).map_err(failed)?;
    for attempt in 0.. {
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(_) if attempt < 100 => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => return Err(failed(error.into())),
        }
    }
    make_way(path).await?;
    let listener = UnixListener::bind(path).map_err(failed)?;
    if let Some(group) = socket.group {
        chown(path, None, Some(group)).map_err(failed)?;
    }
    fs::set_permissions(path, Permissions::from_mode(socket.mode)).map_err(failed)?;
    let found = fs::symlink_metadata(path).map_err(failed)?;
    let file = SocketFile { path: path.clone(), identity: (found.dev(), found.ino()) };
    Ok(Bound { listener, file })
}

/// What is in the socket's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InPlace {
    /// Nothing.
    Nothing,
    /// A socket that somebody listens on.
    Live,
    /// A socket that nobody listens on.
    Dead,
    /// Another kind of file.
    Other,
}

/// Looks at what is there, and leaves it as it is.
pub async fn look(path: &Path) -> io::Result<InPlace> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(InPlace::Nothing),
        Err(error) => return Err(error),
    };
    if !found.file_type().is_socket() {
        return Ok(InPlace::Other);
    }
    let probe = tokio::time::timeout(Duration::from_secs(1), UnixStream::connect(path)).await;
    Ok(match probe {
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => InPlace::Dead,
        // Connected; or the backlog of somebody who is stopped or overloaded is full.
        Ok(Ok(_) | Err(_)) | Err(_) => InPlace::Live,
    })
}

async fn make_way(path: &Path) -> Result<(), ConfigError> {
    let shown = path.display();
    match look(path).await.map_err(|error| ConfigError(format!("the socket {shown}: {error}")))? {
        InPlace::Nothing => Ok(()),
        InPlace::Other => Err(ConfigError(format!(
            "{shown} is there and is not a socket; it was left alone: name another path with --socket"
        ))),
        InPlace::Dead => {
            fs::remove_file(path).map_err(|error| ConfigError(format!("the dead socket {shown}: {error}")))
        }
        InPlace::Live => Err(ConfigError(format!(
            "a sidecar is listening on {shown} already: end it with `pannier stop --address unix:{shown}`, or use \
             another --socket"
        ))),
    }
}
