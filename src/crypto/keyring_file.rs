//! The keyring's file: who may read it, and how it is made and replaced so that a crash leaves the old or the new one whole.

use std::{
    fs::{self, File, Permissions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown},
    path::Path,
};

use rustix::fs::{FlockOperation, flock};
use zeroize::Zeroizing;

use super::{Keyring, KeyringError};

/// A keyring of 256 keys has 40 KiB.
const MAX_LEN: u64 = 256 * 1024;

impl Keyring {
    /// Reads the keyring file at `path`.
    ///
    /// # Errors
    /// When it is missing ([`KeyringError::is_missing`]), readable by others, or no valid keyring.
    pub fn load(path: &Path) -> Result<Self, KeyringError> {
        read(path).map(|(keyring, ..)| keyring).map_err(|error| error.at(path))
    }

    /// Writes this keyring to a new file at `path`, mode 0600, on disk when this returns. A crash leaves a whole file or none.
    ///
    /// # Errors
    /// When there is a file already (it is left alone), or it cannot be written.
    pub fn save_new(&self, path: &Path) -> Result<(), KeyringError> {
        let made = write_beside(path, &self.to_toml(), |_| Ok(())).and_then(|temporary| {
            temporary.persist_noclobber(path).map_err(|refused| refused.error)?;
            sync_parent(path)
        });
        made.map_err(|error| {
            let what = match error.kind() {
                io::ErrorKind::AlreadyExists => {
                    "there is a file already, and it is never overwritten".to_owned()
                }
                io::ErrorKind::NotFound => "its directory does not exist: create it first".to_owned(),
                _ => format!("cannot be written: {error}"),
            };
            KeyringError::new(what).at(path)
        })
    }

    /// Replaces the keyring at `path` by what `change` makes of it; owner, group and mode stay. Two edits at once come one
    /// after the other. Comments stay where the file is laid out as we write it.
    ///
    /// # Errors
    /// When the file cannot be read or replaced, or `change` refuses; the file is then as it was.
    pub fn edit(
        path: &Path,
        change: impl FnOnce(&Self) -> Result<Self, KeyringError>,
    ) -> Result<Self, KeyringError> {
        // A link (Kubernetes mounts are) must go on pointing to the file.
        let target = fs::canonicalize(path).map_err(|error| unreadable(&error).at(path))?;
        let edited = locked(&target).and_then(|(keyring, text, file)| {
            let changed = change(&keyring)?;
            let text = changed.edit_text(&text).unwrap_or_else(|| changed.to_toml());
            let replaced = write_beside(&target, &text, |new| like(new, &file)).and_then(|temporary| {
                temporary.persist(&target).map_err(|refused| refused.error)?;
                sync_parent(&target)
            });
            replaced.map_err(|error| KeyringError::new(format!("cannot be replaced: {error}")))?;
            Ok(changed)
        });
        edited.map_err(|error| error.at(path))
    }
}

/// The keyring, its text and its file, locked against other edits. Whoever waited for the lock may hold a file that was replaced
/// meanwhile, and looks again.
fn locked(path: &Path) -> Result<(Keyring, Zeroizing<String>, File), KeyringError> {
    loop {
        let held = File::open(path).map_err(|error| unreadable(&error))?;
        flock(&held, FlockOperation::LockExclusive)
            .map_err(|error| KeyringError::new(format!("cannot be locked: {error}")))?;
        let (keyring, text, read) = read(path)?;
        let same = |a: &File, b: &File| -> io::Result<bool> {
            let (a, b) = (a.metadata()?, b.metadata()?);
            Ok((a.dev(), a.ino()) == (b.dev(), b.ino()))
        };
        if same(&held, &read).map_err(|error| unreadable(&error))? {
            return Ok((keyring, text, held));
        }
    }
}

fn read(path: &Path) -> Result<(Keyring, Zeroizing<String>, File), KeyringError> {
    let mut file = File::open(path).map_err(|error| unreadable(&error))?;
    check_access(&file)?;
    let mut text = Zeroizing::new(String::new());
    let len = file.metadata().map_err(|error| unreadable(&error))?.len();
    if len > MAX_LEN {
        return Err(KeyringError::new(format!("has {len} bytes: that is no keyring")));
    }
    // Room for all of it at once: a string that grows leaves copies behind that are not wiped.
    text.reserve_exact(usize::try_from(MAX_LEN.min(len + 1)).unwrap_or(0));
    (&mut file).take(MAX_LEN).read_to_string(&mut text).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => KeyringError::new("is not text"),
        _ => unreadable(&error),
    })?;
    Ok((Keyring::parse(&text)?, text, file))
}

fn unreadable(error: &io::Error) -> KeyringError {
    match error.kind() {
        io::ErrorKind::NotFound => KeyringError::missing("there is no such file"),
        io::ErrorKind::PermissionDenied => {
            KeyringError::new("may not be read: give it to the user that runs pannier, mode 0600")
        }
        _ => KeyringError::new(format!("cannot be read: {error}")),
    }
}

/// Others must neither read nor change it. Its group may read it when root or we own it: that is how Kubernetes mounts a
/// secret for a user of its own.
fn check_access(file: &File) -> Result<(), KeyringError> {
    let meta = file.metadata().map_err(|error| unreadable(&error))?;
    if !meta.is_file() {
        return Err(KeyringError::new("is no regular file"));
    }
    let mode = meta.mode() & 0o777;
    match refused(mode, meta.uid(), rustix::process::geteuid().as_raw()) {
        None => Ok(()),
        Some(why) => Err(KeyringError::new(format!(
            "is {why} (mode {mode:04o}): run chmod 600 on it (in Kubernetes: defaultMode 0440 with fsGroup)"
        ))),
    }
}

pub(super) fn refused(mode: u32, owner: u32, me: u32) -> Option<&'static str> {
    if mode & 0o007 != 0 {
        Some("open to every user")
    } else if mode & 0o020 != 0 {
        Some("writable by its group")
    } else if mode & 0o040 != 0 && owner != 0 && owner != me {
        Some("readable by its group and owned by another user")
    } else {
        None
    }
}

/// A temporary file beside `path` with `text` in it, on disk. Made with O_EXCL and mode 0600, whatever the umask.
fn write_beside(
    path: &Path,
    text: &str,
    prepare: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<tempfile::NamedTempFile> {
    let mut temporary = tempfile::Builder::new().prefix(".keyring-").tempfile_in(parent(path))?;
    temporary.as_file().set_permissions(Permissions::from_mode(0o600))?;
    prepare(temporary.as_file())?;
    temporary.write_all(text.as_bytes())?;
    temporary.as_file().sync_all()?;
    Ok(temporary)
}

/// Gives `new` the owner, group and mode of `old`: an edit by root must not take the file from the sidecar's user.
fn like(new: &File, old: &File) -> io::Result<()> {
    let (was, is) = (old.metadata()?, new.metadata()?);
    if (was.uid(), was.gid()) != (is.uid(), is.gid()) {
        fchown(new, Some(was.uid()), Some(was.gid()))?;
    }
    new.set_permissions(Permissions::from_mode(was.mode() & 0o777))
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A rename is on disk only once its directory is.
fn sync_parent(path: &Path) -> io::Result<()> {
    File::open(parent(path))?.sync_all()
}
