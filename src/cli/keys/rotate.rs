//! The steps that could lock somebody out. Each takes the flags of `serve`, asks the database who runs and what is wrapped under
//! which key, and only then changes the file.

use std::time::Duration;

use clap::Args;
use tokio::time::Instant;

use crate::{
    cli::{
        outcome::{Failed, NO, Outcome, UNAVAILABLE},
        output,
    },
    config::{Config, Flags},
    crypto::{KeyState, Keyring, KeyringError},
    error::Error,
    rotation::{Sidecar, census, note_disabled, note_used_again, sidecars},
    server::{Visit, visit},
    valkey::install_crypto_provider,
};

/// What connecting may take.
const CONNECT: Duration = Duration::from_secs(15);
/// What counting may take.
const COUNT: Duration = Duration::from_secs(600);

/// Makes a key the primary: what is made from now on is wrapped under it.
///
/// Refused while a running sidecar does not know the key: it could not open what the others make. Takes the flags of `serve`,
/// to find keyring and database as it does.
#[derive(Args, Debug)]
#[command(
    args_override_self = true,
    after_help = "Examples:
  pannier keys promote 2
  pannier keys promote 2 --keyring /etc/pannier/keyring.toml --valkey-url-file /run/secrets/valkey --env prod"
)]
pub struct Promote {
    /// The key's id.
    id: u32,
    #[command(flatten)]
    flags: Flags,
}

/// Disables a key: nothing is opened with it any more.
///
/// Refused while it is the primary, here or of a running sidecar, and while anything is wrapped under it. `pannier keys enable` takes
/// it back. Takes the flags of `serve`, to find keyring and database as it does.
#[derive(Args, Debug)]
#[command(
    args_override_self = true,
    after_help = "Examples:
  pannier keys disable 1
  pannier keys disable 1 --keyring /etc/pannier/keyring.toml --valkey-url-file /run/secrets/valkey --env prod"
)]
pub struct Disable {
    /// The key's id.
    id: u32,
    #[command(flatten)]
    flags: Flags,
}

/// Takes a disabled key out of the file, for good.
///
/// Refused while anything is wrapped under it. Backups of the database that are older than the rewrap need the key: keep it with
/// them. Takes the flags of `serve`, to find keyring and database as it does.
#[derive(Args, Debug)]
#[command(
    args_override_self = true,
    after_help = "Examples:
  pannier keys remove 1
  pannier keys remove 1 --yes --valkey-url-file /run/secrets/valkey --env prod"
)]
pub struct Remove {
    /// The key's id.
    id: u32,
    /// Do not ask for the id.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    flags: Flags,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::new(UNAVAILABLE, error.to_string())
    }
}

/// The file, and the database that it belongs to.
struct Place {
    config: Config,
    visit: Visit,
    running: Vec<Sidecar>,
}

impl Place {
    /// `change` is refused first where the file alone forbids it.
    async fn open(
        flags: &Flags,
        change: impl FnOnce(&Keyring) -> Result<Keyring, KeyringError>,
    ) -> Outcome<Self> {
        let config = Config::from_process(flags)?;
        change(&Keyring::load(&config.keyring)?)?;
        install_crypto_provider();
        let visit = visit(&config, CONNECT).await?;
        let keyring = visit.keyring.current();
        let running = sidecars(&visit.link, &keyring, Instant::now() + CONNECT).await?;
        Ok(Self { config, visit, running })
    }

    /// Refuses while a sidecar is in the way.
    fn refuse_while(&self, what: &str, todo: &str, is_in_the_way: impl Fn(&Sidecar) -> bool) -> Outcome {
        let named: Vec<_> = self
            .running
            .iter()
            .filter(|sidecar| is_in_the_way(sidecar))
            .map(|sidecar| output::shown(sidecar.shown()))
            .collect();
        if named.is_empty() {
            return Ok(());
        }
        Err(Failed::new(NO, format!("{what}: {}. {todo}", named.join(", "))))
    }

    /// Refuses while anything is wrapped under the key.
    async fn refuse_while_needed(&self, id: u32) -> Outcome {
        let wrapped = census(&self.visit.link, Instant::now() + COUNT).await?.of(id);
        if wrapped.all() == 0 {
            return Ok(());
        }
        Err(Failed::new(
            NO,
            format!(
                "key {id} still wraps {} root keys ({} sessions, {} archives, {} blobs, {} namespaces): run `pannier keys \
                 rewrap` first",
                wrapped.all(),
                wrapped.sessions,
                wrapped.archives,
                wrapped.blobs,
                wrapped.namespaces
            ),
        ))
    }

    /// Has the database know that nobody wraps under the key any more. A full Valkey takes no note.
    async fn give_up(&self, id: u32) {
        if let Err(error) = note_disabled(&self.visit.link, id, Instant::now() + CONNECT).await {
            output::note(&format!(
                "that key {id} is given up could not be noted ({error}): a copy of the keyring in which it is the primary is not \
                 refused"
            ));
        }
    }

    /// Changes the file, and says what comes next.
    async fn edit(
        self,
        done: &str,
        change: impl FnOnce(&Keyring) -> Result<Keyring, KeyringError>,
    ) -> Outcome {
        Keyring::edit(&self.config.keyring, change)?;
        let running = match self.running.len() {
            0 => "No sidecar runs".to_owned(),
            1 => "1 sidecar runs: copy the file to it and send it a SIGHUP".to_owned(),
            many => format!("{many} sidecars run: copy the file to each and send it a SIGHUP"),
        };
        output::note(&format!("{done} in {}. {running}", self.config.keyring.display()));
        self.visit.end().await;
        Ok(())
    }
}

impl Promote {
    pub async fn run(self) -> Outcome {
        let id = self.id;
        let place = Place::open(&self.flags, |keyring| keyring.with_primary(id)).await?;
        place.refuse_while(
            &format!("key {id} is not known to every running sidecar. It is missing, or disabled, at"),
            "Copy the keyring file there and send a SIGHUP first (`pannier keys status` shows who knows which)",
            |sidecar| !sidecar.opens(id),
        )?;
        // Given up once: by now everybody has it again.
        let within = Instant::now() + CONNECT;
        note_used_again(&place.visit.link, id, within).await.map_err(Error::from)?;
        place.edit(&format!("key {id} is the primary now"), |keyring| keyring.with_primary(id)).await?;
        output::note("When every sidecar has it: pannier keys rewrap");
        Ok(())
    }
}

impl Disable {
    pub async fn run(self) -> Outcome {
        let id = self.id;
        let place = Place::open(&self.flags, |keyring| keyring.with_disabled(id)).await?;
        // Before the count: whoever has another primary makes nothing under this key any more.
        place.refuse_while(
            &format!("key {id} is still the primary of a running sidecar, which wraps what is new under it"),
            "Copy the keyring file there and send a SIGHUP first",
            |sidecar| sidecar.state_of(id) == Some(KeyState::Primary),
        )?;
        place.refuse_while_needed(id).await?;
        place.give_up(id).await;
        place.edit(&format!("key {id} is disabled"), |keyring| keyring.with_disabled(id)).await
    }
}

impl Remove {
    pub async fn run(self) -> Outcome {
        let id = self.id;
        let place = Place::open(&self.flags, |keyring| keyring.without(id)).await?;
        place.refuse_while(
            &format!("key {id} is still in use by a running sidecar"),
            "Copy the keyring file there and send a SIGHUP first",
            |sidecar| sidecar.opens(id),
        )?;
        place.refuse_while_needed(id).await?;
        output::confirm(
            self.yes,
            "This takes the key away for good: backups of the database from before the rewrap cannot be read without it",
            &id.to_string(),
        )?;
        // Where it was disabled by hand.
        place.give_up(id).await;
        place.edit(&format!("key {id} is gone"), |keyring| keyring.without(id)).await
    }
}
