//! What touches the file alone.

use std::path::Path;

use super::Place;
use crate::{
    cli::{
        outcome::{CONFIG, Failed, Outcome},
        output,
    },
    crypto::Keyring,
};

pub fn init(place: Place) -> Outcome {
    let (path, in_data_dir) = place.find()?;
    let dir = path.parent().unwrap_or_else(|| Path::new("."));
    // A new keyring beside data that another one sealed would only hide the loss.
    if in_data_dir && !path.exists() && dir.join("store-id").exists() {
        return Err(Failed::new(
            CONFIG,
            format!(
                "{} holds data that was sealed with a keyring that is not here: restore keyring.toml from its backup",
                dir.display()
            ),
        ));
    }
    if !dir.as_os_str().is_empty() && !dir.exists() {
        use std::os::unix::fs::DirBuilderExt as _;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    let (keyring, _text) = Keyring::generate();
    keyring.save_new(&path)?;
    output::note(&format!(
        "made {}. Back it up, apart from the data: without it nothing that is stored can be read",
        path.display()
    ));
    Ok(())
}

pub fn add(place: Place) -> Outcome {
    let (path, _) = place.find()?;
    let mut added = 0;
    Keyring::edit(&path, |keyring| {
        let (keyring, id) = keyring.with_new_key()?;
        added = id;
        Ok(keyring)
    })?;
    output::note(&format!(
        "key {added} was added, to decrypt only. Back up {}, copy it to every sidecar and send each a SIGHUP; then \
         `pannier keys promote {added}`",
        path.display()
    ));
    Ok(())
}

pub fn enable(id: u32, place: Place) -> Outcome {
    let (path, _) = place.find()?;
    Keyring::edit(&path, |keyring| keyring.with_enabled(id))?;
    output::note(&format!(
        "key {id} decrypts again. Copy {} to every sidecar and send each a SIGHUP",
        path.display()
    ));
    Ok(())
}
