//! `pannier keys`: the keyring file and its rotation. `init`, `add` and `enable` touch the file alone; what could lock
//! somebody out (`promote`, `disable`, `remove`) asks the database first; `rewrap` and `status` ask the running sidecar.

mod file;
mod rewrap;
mod rotate;
mod status;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::outcome::{CONFIG, Failed, Outcome};
use crate::{
    config::{default_data_dir, process_environment},
    crypto::KeyringError,
};

/// The keyring that everything is sealed with: makes it, shows it, rotates its keys.
///
/// A rotation: add a key; copy the file to every sidecar and send each a SIGHUP; promote the key; copy and SIGHUP again; rewrap;
/// disable the old key, and later remove it. Calls go on all the while. See docs/keys.md.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  pannier keys init --keyring /etc/pannier/keyring.toml
  pannier keys status                              which key wraps how much, and which sidecar knows which
  pannier keys add                                 then copy the file and send each sidecar a SIGHUP
  pannier keys promote 2 --valkey-url-file /run/secrets/valkey --env prod
  pannier keys rewrap
  pannier keys disable 1 --valkey-url-file /run/secrets/valkey --env prod")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Makes a new keyring. A file that is there is never overwritten.
    Init(Place),
    /// Adds a key that only decrypts. Copy the file to every sidecar before anything is sealed with it.
    Add(Place),
    /// Makes a disabled key one that only decrypts.
    Enable {
        /// The key's id.
        id: u32,
        #[command(flatten)]
        place: Place,
    },
    Promote(rotate::Promote),
    Rewrap(rewrap::Rewrap),
    Disable(rotate::Disable),
    Remove(rotate::Remove),
    Status(status::Status),
}

/// Where the file is.
#[derive(Args, Debug)]
struct Place {
    /// The keyring's file [env: `PANNIER_KEYRING`; default: <data-dir>/keyring.toml]
    #[arg(long, value_name = "FILE")]
    keyring: Option<PathBuf>,
    /// The data directory [env: `PANNIER_DATA_DIR`; default: the user's data directory]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl Place {
    /// The file's path, and whether it is that of a data directory.
    fn find(self) -> Outcome<(PathBuf, bool)> {
        let given = |flag: Option<PathBuf>, variable: &str| {
            flag.or_else(|| {
                process_environment(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
            })
        };
        let data_dir =
            given(self.data_dir, "PANNIER_DATA_DIR").or_else(|| default_data_dir(&process_environment));
        let keyring = given(self.keyring, "PANNIER_KEYRING");
        let in_data_dir = keyring.is_none();
        let path = keyring
            .or_else(|| Some(data_dir?.join("keyring.toml")))
            .ok_or_else(|| Failed::new(CONFIG, "no HOME: say where the keyring is with --keyring"))?;
        Ok((path, in_data_dir))
    }
}

impl From<KeyringError> for Failed {
    fn from(error: KeyringError) -> Self {
        Self::new(CONFIG, error.to_string())
    }
}

pub async fn run(arguments: Arguments) -> Outcome {
    match arguments.command {
        Command::Init(place) => file::init(place),
        Command::Add(place) => file::add(place),
        Command::Enable { id, place } => file::enable(id, place),
        Command::Promote(command) => command.run().await,
        Command::Rewrap(command) => command.run().await,
        Command::Disable(command) => command.run().await,
        Command::Remove(command) => command.run().await,
        Command::Status(command) => command.run().await,
    }
}
