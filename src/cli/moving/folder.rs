//! Reading a folder of `useMultiFileAuthState`: every file, none through a link, and none that changes meanwhile.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, statat};

use super::{
    bundle::{Gathered, Item, Skip},
    manifest::Manifest,
    names,
    value::{self, VALUE_MAX},
};
use crate::cli::{
    outcome::{Failed, NO, Outcome},
    output::shown,
};

/// How a file looked. Another look means that somebody wrote.
#[derive(Clone, PartialEq, Eq)]
struct Look(u64, i64, i64, i64);

/// Reads all of it. `on_file` is called for each file.
pub fn read(
    dir: &Path,
    skip: &mut Skip,
    manifest: Option<&Manifest>,
    mut on_file: impl FnMut(usize),
) -> Outcome<Gathered> {
    let cannot = |error: io::Error| Failed::new(NO, format!("{}: {error}", shown(&dir.to_string_lossy())));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(dir, flags, Mode::empty()).map_err(|error| cannot(error.into()))?;
    let folder = File::from(folder);
    let mut gathered = Gathered::default();
    let mut looks = BTreeMap::new();
    let files = list(&folder, skip, &mut gathered).map_err(cannot)?;
    let all = files.len();
    for file in files {
        match open(&folder, &file) {
            Ok((text, look)) => {
                looks.insert(file.clone(), look);
                take(&mut gathered, file, text, manifest);
            }
            Err(why) => gathered.refuse(file, why),
        }
        on_file(all);
    }
    if let Some(manifest) = manifest {
        for file in manifest.files().filter(|file| !looks.contains_key(*file)) {
            if !skip.takes(file) {
                gathered.refuse(file, "missing: the manifest lists it");
            }
        }
    }
    skip.check()?;
    refuse_changed(&folder, &looks, skip, &mut gathered).map_err(cannot)?;
    Ok(gathered)
}

/// The names of files, sorted, without those to skip.
fn list(folder: &File, skip: &mut Skip, gathered: &mut Gathered) -> io::Result<Vec<String>> {
    let mut files = Vec::new();
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        match name.to_str() {
            Ok(name) if skip.takes(name) => gathered.skipped.push(name.to_owned()),
            Ok(name) => files.push(name.to_owned()),
            Err(_) => {
                let name = name.to_string_lossy();
                if skip.takes(&name) {
                    gathered.skipped.push(name.into_owned());
                } else {
                    gathered.refuse(name, "its name is not UTF-8");
                }
            }
        }
    }
    files.sort();
    gathered.skipped.sort();
    Ok(files)
}

fn open(folder: &File, file: &str) -> Result<(Vec<u8>, Look), String> {
    // Never through a link, and never waiting for the other end of a pipe.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = openat(folder, file, flags, Mode::empty()).map_err(|error| match error {
        rustix::io::Errno::LOOP | rustix::io::Errno::MLINK => "a symbolic link".to_owned(),
        error => io::Error::from(error).to_string(),
    })?;
    let stat = fstat(&opened).map_err(|error| io::Error::from(error).to_string())?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Err("a folder".to_owned()),
        _ => return Err("no regular file".to_owned()),
    }
    let mut text = Vec::new();
    let most = VALUE_MAX as u64 + 1;
    File::from(opened).take(most).read_to_end(&mut text).map_err(|error| error.to_string())?;
    Ok((text, look(&stat)))
}

// The fields' types differ between systems.
#[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, clippy::cast_possible_wrap)]
fn look(stat: &rustix::fs::Stat) -> Look {
    Look(stat.st_ino as u64, stat.st_size as i64, stat.st_mtime as i64, stat.st_mtime_nsec as i64)
}

fn take(gathered: &mut Gathered, file: String, text: Vec<u8>, manifest: Option<&Manifest>) {
    let read = match manifest {
        Some(manifest) => manifest.check(&file, text),
        None => names::of_file(&file)
            .and_then(|(ty, id)| Ok(Item { source: file.clone(), ty, id, stored: value::from_text(text)? })),
    };
    match read {
        Ok(item) => gathered.items.push(item),
        Err(why) => gathered.refuse(file, why),
    }
}

fn refuse_changed(
    folder: &File,
    looks: &BTreeMap<String, Look>,
    skip: &mut Skip,
    gathered: &mut Gathered,
) -> io::Result<()> {
    const CHANGED: &str = "changed while it was read: stop the bot first";
    let mut again = Gathered::default();
    for file in list(folder, skip, &mut again)? {
        let now = statat(folder, &file, AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| look(&stat));
        let before = looks.get(&file);
        if before.is_none() || before != now.as_ref() {
            // One that was refused already keeps its reason.
            gathered.refuse(file, CHANGED);
        }
    }
    let gone = looks.keys().filter(|file| statat(folder, *file, AtFlags::SYMLINK_NOFOLLOW).is_err());
    gathered.refuse_all(gone.map(String::as_str), CHANGED);
    Ok(())
}
