//! `pannier keys`: the keyring file. What needs a running sidecar's help (a new primary, rewrapping) is not here.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;

use super::{
    Format,
    outcome::{CONFIG, Failed, Outcome},
    output::{self, json, table},
};
use crate::{
    config::{default_data_dir, process_environment},
    crypto::{Keyring, KeyringError},
};

/// Makes and shows the keyring that everything is sealed with.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  pannier keys init --keyring /etc/pannier/keyring.toml
  pannier keys status --json")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// The keyring's file [env: `PANNIER_KEYRING`; default: <data-dir>/keyring.toml]
    #[arg(long, global = true, value_name = "FILE")]
    keyring: Option<PathBuf>,
    /// The data directory [env: `PANNIER_DATA_DIR`; default: the user's data directory]
    #[arg(long, global = true, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Makes a new keyring. A file that is there is never overwritten.
    Init,
    /// Lists the keys: id and state, never the secret.
    Status {
        #[command(flatten)]
        format: Format,
    },
    /// Adds a key that only decrypts. Copy the file to every sidecar before anything is sealed with it.
    Add,
}

impl From<KeyringError> for Failed {
    fn from(error: KeyringError) -> Self {
        Self::new(CONFIG, error.to_string())
    }
}

#[derive(Serialize)]
struct Key {
    id: u32,
    state: &'static str,
}

pub fn run(arguments: Arguments) -> Outcome {
    let given = |flag: Option<PathBuf>, variable: &str| {
        flag.or_else(|| process_environment(variable).filter(|value| !value.is_empty()).map(PathBuf::from))
    };
    let data_dir =
        given(arguments.data_dir, "PANNIER_DATA_DIR").or_else(|| default_data_dir(&process_environment));
    let keyring = given(arguments.keyring, "PANNIER_KEYRING");
    let in_data_dir = keyring.is_none();
    let path = keyring
        .or_else(|| Some(data_dir?.join("keyring.toml")))
        .ok_or_else(|| Failed::new(CONFIG, "no HOME: say where the keyring is with --keyring"))?;
    match arguments.command {
        Command::Init => init(&path, in_data_dir),
        Command::Add => {
            let mut added = 0;
            Keyring::edit(&path, |keyring| {
                let (keyring, id) = keyring.with_new_key()?;
                added = id;
                Ok(keyring)
            })?;
            output::note(&format!(
                "key {added} was added, to decrypt only. Back up {}, copy it to every sidecar and send each a SIGHUP",
                path.display()
            ));
            Ok(())
        }
        Command::Status { format } => {
            let keys: Vec<Key> = Keyring::load(&path)?
                .ids()
                .into_iter()
                .map(|(id, state)| Key { id, state: state.as_str() })
                .collect();
            if format.json {
                return json(&keys);
            }
            table(
                &["id", "state"],
                keys.iter().map(|key| vec![key.id.to_string(), key.state.to_owned()]).collect(),
            )
        }
    }
}

fn init(path: &Path, in_data_dir: bool) -> Outcome {
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
    keyring.save_new(path)?;
    output::note(&format!(
        "made {}. Back it up, apart from the data: without it nothing that is stored can be read",
        path.display()
    ));
    Ok(())
}
