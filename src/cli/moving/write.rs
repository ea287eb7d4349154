//! Writing an exported folder: into a folder of another name beside it, which takes its name when every file is on disk. What
//! was killed leaves nothing that could be taken for the export.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::FlockOperation;
use tempfile::TempDir;

use super::{
    bundle::{Item, refusal},
    manifest::Manifest,
    names::NAME_MAX,
    value,
};
use crate::cli::{
    outcome::{Failed, NO, Outcome},
    output::{self, shown},
};

/// Where a folder and its manifest go.
pub struct Destination {
    pub dir: PathBuf,
    pub manifest: PathBuf,
}

/// The directory a path is in.
pub fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

impl Destination {
    /// Checks that nothing is in the way.
    pub fn new(dir: &Path, manifest: Option<PathBuf>) -> Outcome<Self> {
        let dir = std::path::absolute(dir)?;
        let Some(name) = dir.file_name() else {
            return Err(Failed::new(NO, format!("{} cannot be a new folder", dir.display())));
        };
        let mut beside = name.to_owned();
        beside.push(".manifest.json");
        let manifest = manifest.map_or_else(|| Ok(dir.with_file_name(beside)), std::path::absolute)?;
        let place = Self { dir, manifest };
        match fs::symlink_metadata(&place.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&place.dir, &error)),
            Ok(found) => {
                let is_empty = found.is_dir()
                    && fs::read_dir(&place.dir).map_err(|error| failed(&place.dir, &error))?.next().is_none();
                if !is_empty {
                    let why = "is there already, and no empty folder: name a new one";
                    return Err(Failed::new(NO, format!("{} {why}", shown(&place.dir.to_string_lossy()))));
                }
            }
        }
        let named = shown(&place.manifest.to_string_lossy());
        if fs::symlink_metadata(&place.manifest).is_ok() {
            let why = "is there already: remove it, or name another manifest with --manifest";
            return Err(Failed::new(NO, format!("{named} {why}")));
        }
        if place.manifest.starts_with(&place.dir) {
            return Err(Failed::new(
                NO,
                format!("{named} would be in the folder: put the manifest elsewhere"),
            ));
        }
        Ok(place)
    }

    /// Writes all of it, durably; the manifest last. `on_file` is called for each file.
    pub fn write(&self, items: &[Item], mut manifest: Manifest, mut on_file: impl FnMut()) -> Outcome {
        let texts = texts(&self.dir, items)?;
        let cannot = |error: io::Error| failed(&self.dir, &error);
        fs::create_dir_all(parent(&self.dir)).map_err(cannot)?;
        let staging = self.stage().map_err(cannot)?;
        // Held to the end: who finds the folder without it knows that it was left behind.
        let lock = File::open(staging.path()).map_err(cannot)?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| cannot(error.into()))?;
        for (item, text) in items.iter().zip(&texts) {
            write_file(&staging.path().join(&item.source), text).map_err(cannot)?;
            manifest.add(item, text);
            on_file();
        }
        settle(&lock, staging.path(), items).map_err(cannot)?;
        fs::rename(staging.path(), &self.dir).map_err(|error| match error.kind() {
            io::ErrorKind::ResourceBusy => {
                let why = "cannot be replaced (a mount point?): name a folder in it";
                Failed::new(NO, format!("{} {why}", shown(&self.dir.to_string_lossy())))
            }
            _ => cannot(error),
        })?;
        let _ = staging.keep();
        File::open(parent(&self.dir)).and_then(|parent| parent.sync_all()).map_err(cannot)?;
        manifest.write(&self.manifest).map_err(|error| failed(&self.manifest, &error))
    }

    /// A folder of mode 0700 beside; those that killed exports left are removed.
    fn stage(&self) -> io::Result<TempDir> {
        use std::os::unix::fs::PermissionsExt as _;
        let name = self.dir.file_name().unwrap_or_default().to_string_lossy();
        let prefix = format!(".{name}.export-");
        for entry in fs::read_dir(parent(&self.dir))?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                remove_left_over(&entry.path());
            }
        }
        let private = fs::Permissions::from_mode(0o700);
        tempfile::Builder::new().prefix(&prefix).permissions(private).tempdir_in(parent(&self.dir))
    }
}

fn remove_left_over(path: &Path) {
    let Ok(folder) = File::open(path) else { return };
    if rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok()
        && fs::remove_dir_all(path).is_ok()
    {
        output::note(&format!("{} of an export that was killed is removed", shown(&path.to_string_lossy())));
    }
}

fn failed(path: &Path, error: &io::Error) -> Failed {
    Failed::new(NO, format!("{}: {error}", shown(&path.to_string_lossy())))
}

/// What goes into the files, if each can be one.
fn texts(dir: &Path, items: &[Item]) -> Outcome<Vec<Vec<u8>>> {
    let mut refused = BTreeMap::new();
    let mut files: BTreeMap<&str, &Item> = BTreeMap::new();
    let mut texts = Vec::with_capacity(items.len());
    for item in items {
        let name = format!("{} {}", item.ty, item.id);
        if item.source.len() > NAME_MAX || item.source.contains('\0') {
            refused.insert(
                name.clone(),
                format!("its file's name would have {} bytes: at most {NAME_MAX}", item.source.len()),
            );
        }
        if let Some(other) = files.insert(&item.source, item) {
            let why = |other: &Item| format!("the same file as {} {}", other.ty, other.id);
            refused.insert(format!("{} {}", other.ty, other.id), why(item));
            refused.insert(name.clone(), why(other));
        }
        match value::to_text(&item.stored) {
            Ok(text) => texts.push(text),
            Err(why) => {
                refused.insert(name, why);
            }
        }
    }
    if refused.is_empty() { Ok(texts) } else { Err(refusal(&dir.to_string_lossy(), &refused)) }
}

fn write_file(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text)
}

/// Waits until the folder and its files are on disk. For thousands of small files one call is many times quicker than one each.
#[cfg(target_os = "linux")]
fn settle(folder: &File, _: &Path, _: &[Item]) -> io::Result<()> {
    Ok(rustix::fs::syncfs(folder)?)
}

/// The same, where there is no such call.
#[cfg(not(target_os = "linux"))]
fn settle(folder: &File, path: &Path, items: &[Item]) -> io::Result<()> {
    for item in items {
        File::open(path.join(&item.source))?.sync_all()?;
    }
    folder.sync_all()
}
