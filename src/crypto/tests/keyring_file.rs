//! The file itself: modes, making, replacing, reading again.

use std::{
    env, fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use super::{keyring_of, root};
use crate::crypto::{
    Context, KeyState, Keyring, Reload, SharedKeyring, UnwrapError, keyring_file::refused, unwrap, wrap,
};

fn place() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("keyring.toml");
    (dir, path)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn left_in(dir: &TempDir) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_new_file_is_private_and_never_overwrites() {
    let (dir, path) = place();
    let (keyring, text) = Keyring::generate();
    keyring.save_new(&path).unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(fs::read_to_string(&path).unwrap(), *text);
    assert!(Keyring::load(&path).unwrap().same(&keyring));

    let refused = Keyring::generate().0.save_new(&path).unwrap_err().to_string();
    assert!(refused.contains("never overwritten") && refused.contains(path.to_str().unwrap()), "{refused}");
    assert_eq!(fs::read_to_string(&path).unwrap(), *text);
    assert_eq!(left_in(&dir), ["keyring.toml"]);

    let nowhere = dir.path().join("no/keyring.toml");
    assert!(keyring.save_new(&nowhere).unwrap_err().to_string().contains("create it first"));
}

/// The umask belongs to the whole process, so another one tries.
#[test]
fn the_umask_has_no_say() {
    if let Some(path) = env::var_os("PANNIER_TEST_SAVE_TO") {
        return Keyring::generate().0.save_new(Path::new(&path)).unwrap();
    }
    for umask in ["000", "077", "777"] {
        let (_dir, path) = place();
        let run = Command::new("sh")
            .args([
                "-c",
                "umask $1; exec \"$2\" --exact crypto::tests::keyring_file::the_umask_has_no_say",
                "sh",
                umask,
            ])
            .arg(env::current_exe().unwrap())
            .env("PANNIER_TEST_SAVE_TO", &path)
            .output()
            .unwrap();
        assert!(run.status.success(), "{run:?}");
        assert_eq!(mode(&path), 0o600, "umask {umask}");
    }
}

#[test]
fn who_may_have_access() {
    let (me, root, other) = (1000, 0, 1001);
    for (mode, owner) in [(0o600, me), (0o400, me), (0o640, me), (0o440, root), (0o400, other), (0o700, me)] {
        assert_eq!(refused(mode, owner, me), None, "{mode:o}");
    }
    for (mode, owner, why) in [
        (0o644, me, "open to every user"),
        (0o602, me, "open to every user"),
        (0o601, root, "open to every user"),
        (0o660, me, "writable by its group"),
        (0o620, root, "writable by its group"),
        (0o640, other, "owned by another user"),
    ] {
        assert!(refused(mode, owner, me).is_some_and(|said| said.contains(why)), "{mode:o}");
    }
}

#[test]
fn a_file_that_others_can_read_is_refused_by_name() {
    let (_dir, path) = place();
    Keyring::generate().0.save_new(&path).unwrap();
    for (bad, why) in
        [(0o644, "open to every user (mode 0644): run chmod 600"), (0o660, "writable by its group")]
    {
        set_mode(&path, bad);
        let refused = Keyring::load(&path).unwrap_err();
        assert!(!refused.is_missing());
        let refused = refused.to_string();
        assert!(refused.contains(why) && refused.contains(path.to_str().unwrap()), "{refused}");
    }
    set_mode(&path, 0o440);
    Keyring::load(&path).unwrap();
}

#[test]
fn what_is_no_file_or_no_text_is_refused() {
    let (dir, path) = place();
    let missing = Keyring::load(&path).unwrap_err();
    assert!(missing.is_missing() && missing.to_string().contains("no such file"));
    set_mode(dir.path(), 0o700);
    assert!(Keyring::load(dir.path()).unwrap_err().to_string().contains("no regular file"));
    for (bytes, why) in
        [(vec![0xff; 9], "is not text"), (vec![b'#'; 300_000], "has 300000 bytes"), (vec![], "index_key")]
    {
        fs::write(&path, bytes).unwrap();
        set_mode(&path, 0o600);
        let refused = Keyring::load(&path).unwrap_err();
        assert!(!refused.is_missing() && refused.to_string().contains(why), "{refused}");
    }
}

#[test]
fn an_edit_replaces_the_file_behind_a_link_and_keeps_its_mode() {
    let (dir, path) = place();
    let (keyring, _) = Keyring::generate();
    keyring.save_new(&path).unwrap();
    set_mode(&path, 0o640);
    let link = dir.path().join("link");
    symlink(&path, &link).unwrap();
    let edited = Keyring::edit(&link, |keyring| Ok(keyring.with_new_key()?.0)).unwrap();
    assert_eq!(edited.ids().len(), 2);
    assert!(Keyring::load(&path).unwrap().same(&edited));
    assert_eq!(mode(&path), 0o640);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());

    let before = fs::read(&path).unwrap();
    let refused = Keyring::edit(&path, |keyring| keyring.with_primary(9)).unwrap_err().to_string();
    assert!(refused.contains("there is no key 9") && refused.contains("keyring.toml"), "{refused}");
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(left_in(&dir), ["keyring.toml", "link"]);
}

#[test]
fn edits_at_the_same_time_are_all_kept() {
    let (_dir, path) = place();
    Keyring::generate().0.save_new(&path).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5 {
                    Keyring::edit(&path, |keyring| Ok(keyring.with_new_key()?.0)).unwrap();
                }
            });
        }
    });
    let ids: Vec<_> = Keyring::load(&path).unwrap().ids().into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, (1..=21).collect::<Vec<_>>());
}

#[test]
fn a_key_that_was_added_meanwhile_is_found_by_reading_once_more() {
    let (_dir, path) = place();
    let old = keyring_of(&[(1, KeyState::Primary, 0x00)]);
    old.save_new(&path).unwrap();
    let shared = SharedKeyring::load(&path).unwrap();
    assert_eq!(shared.reload().unwrap(), Reload::Unchanged);

    let newer = Keyring::edit(&path, |keyring| keyring.with_new_key()?.0.with_primary(2)).unwrap();
    let context = Context::new("session", &[b"default", b"bot-1"]);
    let wrapped = wrap(&newer, &root(), 1, &context);
    assert_eq!(shared.current().primary_id(), 1);
    assert!(unwrap(&shared, &wrapped, &context).is_ok());
    // It opens what is there; nothing is wrapped under it before the database has proved it.
    assert_eq!(shared.current().primary_id(), 1);
    assert_eq!(shared.reload().unwrap(), Reload::Changed { new_primary: true });

    let unknown = wrap(&keyring_of(&[(9, KeyState::Primary, 0x90)]), &root(), 1, &context);
    assert_eq!(unwrap(&shared, &unknown, &context).err(), Some(UnwrapError::UnknownKeyId(9)));
    Keyring::edit(&path, |keyring| keyring.with_disabled(1)).unwrap();
    assert_eq!(shared.reload().unwrap(), Reload::Changed { new_primary: false });
    Keyring::edit(&path, |keyring| keyring.with_enabled(1)?.with_primary(1)).unwrap();
    assert_eq!(shared.reload().unwrap(), Reload::Changed { new_primary: true });
}

/// Whoever runs this wrote down which key is whose: an edit must not lose it.
#[test]
fn an_edit_keeps_comments_and_layout() {
    let (_dir, path) = place();
    keyring_of(&[(1, KeyState::Primary, 0x00), (2, KeyState::DecryptOnly, 0x80)]).save_new(&path).unwrap();
    let secret = |text: &str, id: usize| text.split("secret = ").nth(id).unwrap()[..46].to_owned();
    let text = fs::read_to_string(&path).unwrap();
    let noted = text
        .replace("[[key]]\nid = 1", "# the first, 2026\n[[key]]\n  id=1 # one")
        .replace("state = \"primary\"", "state   =  'primary'   # until spring")
        + "# the end\n";
    fs::write(&path, &noted).unwrap();
    set_mode(&path, 0o600);

    let promoted = Keyring::edit(&path, |keyring| keyring.with_primary(2)).unwrap();
    let after = fs::read_to_string(&path).unwrap();
    assert!(Keyring::load(&path).unwrap().same(&promoted));
    for kept in ["# the first, 2026", "id=1 # one", "# until spring", "# the end", "# Pannier keyring."] {
        assert!(after.contains(kept), "{kept}: {after}");
    }
    assert!(after.contains("state   =  \"decrypt_only\"   # until spring"), "{after}");

    Keyring::edit(&path, |keyring| keyring.with_disabled(1)).unwrap();
    let removed = Keyring::edit(&path, |keyring| keyring.without(1)).unwrap();
    let last = fs::read_to_string(&path).unwrap();
    assert!(
        !last.contains(&secret(&text, 1)) && last.contains(&secret(&text, 2)),
        "a removed key leaves nothing"
    );
    assert!(last.contains("# the end"));
    let added = Keyring::edit(&path, |keyring| Ok(keyring.with_new_key()?.0)).unwrap();
    assert!(Keyring::load(&path).unwrap().same(&added) && !added.same(&removed));
    assert!(fs::read_to_string(&path).unwrap().contains("# the end"));

    // What is written in another way is written anew, whole.
    let odd = format!(
        "index_key = {}\nkey = [{{ id = 7, state = \"primary\", secret = {} }}]\n",
        secret(&text, 2),
        secret(&text, 1)
    );
    fs::write(&path, odd).unwrap();
    let edited = Keyring::edit(&path, |keyring| Ok(keyring.with_new_key()?.0)).unwrap();
    assert!(Keyring::load(&path).unwrap().same(&edited));
    assert_eq!(edited.ids(), [(7, KeyState::Primary), (8, KeyState::DecryptOnly)]);
}

#[test]
fn a_file_that_is_refused_leaves_what_is_in_use() {
    let (_dir, path) = place();
    keyring_of(&[(1, KeyState::Primary, 0x00)]).save_new(&path).unwrap();
    let shared = SharedKeyring::load(&path).unwrap();
    let replace = |text: &str| {
        fs::write(&path, text).unwrap();
        shared.reload().unwrap_err().to_string()
    };
    assert!(replace("").contains("index_key is missing"));
    assert!(replace(&Keyring::generate().1).contains("must never change"));
    fs::remove_file(&path).unwrap();
    assert!(shared.reload().unwrap_err().is_missing());
    assert_eq!(shared.current().ids(), [(1, KeyState::Primary)]);
}
