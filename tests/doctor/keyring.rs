//! Whether the keyring is that of the database, and as it is now.

use std::{collections::BTreeMap, fs};

use pannier::proto::v1::KeyState;

use super::support::{self, doctor::Home, keys, pannier, path_str};

const P: KeyState = KeyState::Primary;
const D: KeyState = KeyState::DecryptOnly;
const X: KeyState = KeyState::Disabled;

#[tokio::test]
async fn a_keyring_from_before_a_step_of_a_rotation_is_named_and_teaches_nothing() {
    const AGE: &str = "keyring age";
    let (valkey, sidecar) = support::start().await;
    keys::make_sessions(&sidecar, "bot", 2).await;
    let home = Home::of(&valkey);
    let doctor = |keyring: &str, exit: i32| {
        keys::write(&home.keyring(), keyring);
        let meta = || valkey.command::<BTreeMap<String, Vec<u8>>>(&["HGETALL", "pannier:test:meta"]);
        let before = meta();
        let told = home.doctor(&[]);
        assert_eq!(meta(), before, "doctor has written something");
        assert_eq!(told.exit, exit, "{}", told.text);
        told
    };
    let file = || fs::read_to_string(sidecar.keyring()).unwrap();
    let first = file();
    doctor(&first, 0).says("valkey", AGE, "ok", "nothing was wrapped anew yet", "");

    keys::done(&sidecar, &["add"]);
    let added = file();
    // One that the database does not know is no fault; one that it knows, and that is not there, may be.
    doctor(&added, 0).says("valkey", AGE, "ok", "", "");
    keys::reload(&sidecar, &[(1, P), (2, D)]).await;
    doctor(&first, 0).says("valkey", AGE, "warn", "knows key 2, which the keyring does not have", "copy");

    keys::done(&sidecar, &["promote", "2"]);
    keys::reload(&sidecar, &[(1, D), (2, P)]).await;
    assert_eq!(keys::rewrap(&sidecar, 0).await.unwrap().moved, 2);
    let told = doctor(&first, 78);
    told.says("valkey", "keyring", "ok", "canaries", "");
    told.says("valkey", AGE, "fail", "wrapped under key 2, which it does not have", "copy the keyring.toml");
    doctor(&file(), 0).says("valkey", AGE, "ok", "it has key 2", "");
    doctor(&added, 0).says("valkey", AGE, "ok", "it has key 2", "");

    keys::done(&sidecar, &["disable", "1"]);
    keys::reload(&sidecar, &[(1, X), (2, P)]).await;
    doctor(&added, 78).says(
        "valkey",
        AGE,
        "fail",
        "key 1, its primary, was disabled",
        "copy the keyring.toml",
    );
    doctor(&file(), 0).says("valkey", AGE, "ok", "it has key 2", "");
    keys::done(&sidecar, &["remove", "1", "--yes"]);
    doctor(&file(), 0).says("valkey", AGE, "ok", "it has key 2", "");

    // Of another's nothing more is told than that.
    fs::remove_file(home.keyring()).unwrap();
    assert!(pannier(&["keys", "init", "--keyring", path_str(&home.keyring())]).status.success());
    let other = fs::read_to_string(home.keyring()).unwrap();
    let told = doctor(&other, 78);
    told.says("valkey", "keyring", "fail", "index_key is not the one", "restore keyring.toml");
    assert!(told.lines("valkey", AGE).is_empty(), "{}", told.text);
}
