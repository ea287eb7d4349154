//! Which sidecars run on this database, and with which keys: a hash, one field a sidecar. Each writes itself down again and
//! again; Valkey's clock says who has stopped doing so. Host and process are sealed like every name.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use redis::{Value, cmd};
use tokio::time::{Instant, sleep, timeout};

use super::{Rotation, scripts};
use crate::{
    crypto::{KeyState, Keyring},
    error::Result,
    owner::reply::{self, pairs},
    valkey::{Lane, Link, LinkState, Op, decimal},
};

/// Between two signs of life.
const EVERY: Duration = Duration::from_secs(30);
/// Without a sign of life for longer, a sidecar counts as gone.
pub const ALIVE: Duration = Duration::from_secs(90);
/// What one sign of life may take.
const CALL: Duration = Duration::from_secs(5);
/// What the last one, at a stop, may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// A sidecar that is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sidecar {
    /// Another one with each start.
    pub id: String,
    /// `host:pid`; None when it does not open.
    pub name: Option<String>,
    /// Of Pannier.
    pub version: String,
    /// By its own clock, ms.
    pub started_ms: u64,
    /// By Valkey's clock, ms.
    pub seen_ms: u64,
    /// Its keyring.
    pub keys: Vec<(u32, KeyState)>,
}

impl Sidecar {
    /// What a person knows it by.
    pub fn shown(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.id)
    }

    /// How it uses a key; None: it does not have it.
    pub fn state_of(&self, id: u32) -> Option<KeyState> {
        self.keys.iter().find(|(key, _)| *key == id).map(|(_, state)| *state)
    }

    /// Whether it can open what is wrapped under a key.
    pub fn opens(&self, id: u32) -> bool {
        matches!(self.state_of(id), Some(KeyState::Primary | KeyState::DecryptOnly))
    }

    /// `seen started version keys name`; the keys are `1p,2d,3x`.
    fn parse(keyring: &Keyring, id: &str, entry: &str) -> Option<Self> {
        let mut words = entry.split(' ');
        let (seen_ms, started_ms) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let version = words.next()?.to_owned();
        let keys = words.next()?.split(',').map(|key| {
            let (id, state) = key.split_at_checked(key.len().checked_sub(1)?)?;
            Some((id.parse().ok()?, STATES.iter().find(|(_, letter)| *letter == state)?.0))
        });
        let keys = keys.collect::<Option<Vec<_>>>()?;
        let sealed = URL_SAFE_NO_PAD.decode(words.next().unwrap_or_default()).unwrap_or_default();
        let name = keyring.index_name_key().open_name(&keyring.owner_tag(KIND, "", id), &sealed);
        let name = name.map(|(host, process)| format!("{host}:{process}"));
        Some(Self { id: id.to_owned(), name, version, started_ms, seen_ms, keys })
    }
}

/// Of tags.
const KIND: &str = "sidecar";
const STATES: [(KeyState, &str); 3] =
    [(KeyState::Primary, "p"), (KeyState::DecryptOnly, "d"), (KeyState::Disabled, "x")];

fn key(link: &Link) -> Vec<u8> {
    registry_key(link.env()).into_bytes()
}

/// The sidecars that are alive, by name. An entry that cannot be read (a later version's) is an error and not nobody: what asks
/// wants to be sure.
///
/// # Errors
/// When Valkey does not answer inside the deadline.
pub async fn sidecars(link: &Link, keyring: &Keyring, deadline: Instant) -> Result<Vec<Sidecar>> {
    let mut read = cmd("HGETALL");
    read.arg(key(link));
    let mut replies =
        link.read(Lane::Small, &[Op::Cmd(read), Op::Cmd(cmd("TIME"))], deadline).await?.into_iter();
    let mut next = || replies.next().unwrap_or(Value::Nil);
    alive(keyring, next(), &next())
}

/// The name of the registry's key.
pub fn registry_key(env: &str) -> String {
    format!("pannier:{env}:sidecars")
}

/// The same, from what `HGETALL` and `TIME` gave.
///
/// # Errors
/// When an entry cannot be read.
pub fn alive(keyring: &Keyring, entries: Value, now: &Value) -> Result<Vec<Sidecar>> {
    let (entries, now_ms) = (pairs(entries)?, reply::micros(now)? / 1000);
    let mut found = Vec::with_capacity(entries.len());
    for (id, entry) in entries {
        let text = |bytes| String::from_utf8(bytes).map_err(|_| reply::unexpected());
        let (id, entry) = (text(id)?, text(entry)?);
        let sidecar = Sidecar::parse(keyring, &id, &entry).ok_or_else(reply::unexpected)?;
        if sidecar.seen_ms + u64::try_from(ALIVE.as_millis()).unwrap_or(0) >= now_ms {
            found.push(sidecar);
        }
    }
    found.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
    Ok(found)
}

impl Rotation {
    /// Its id among [`sidecars`].
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(super) async fn stay_registered(&self) {
        let (mut changes, mut state) = (self.keyring.changes(), self.link.state());
        loop {
            changes.mark_unchanged();
            let ready = matches!(*state.borrow_and_update(), LinkState::Ready { .. });
            // A database that sleeps is not woken for it, and one that is away is told when it is back.
            if ready && let Err(error) = self.register(&self.entry(), Instant::now() + CALL).await {
                tracing::debug!(%error, "this sidecar could not say that it is there");
            }
            tokio::select! {
                () = sleep(EVERY) => {}
                Ok(()) = changes.changed() => {}
                Ok(()) = state.changed() => {}
            }
        }
    }

    /// Takes this sidecar out: it stops. Without an answer it is given up; then it is collected later.
    pub async fn leave(&self) {
        if self.link.is_ready() {
            let _ = timeout(FAREWELL, self.register("", Instant::now() + FAREWELL)).await;
        }
    }

    fn entry(&self) -> String {
        let keyring = self.keyring.current();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let tag = keyring.owner_tag(KIND, "", &self.id);
        let name = keyring.index_name_key().seal_name(&tag, &host, &std::process::id().to_string());
        let keys: Vec<String> = keyring
            .ids()
            .into_iter()
            .map(|(id, state)| {
                let letter = STATES.iter().find(|(one, _)| *one == state).map_or("x", |(_, letter)| letter);
                format!("{id}{letter}")
            })
            .collect();
        let version = env!("CARGO_PKG_VERSION");
        format!("{} {version} {} {}", self.started_ms, keys.join(","), URL_SAFE_NO_PAD.encode(name))
    }

    async fn register(&self, entry: &str, deadline: Instant) -> Result<()> {
        let args = vec![
            self.id.clone().into_bytes(),
            entry.as_bytes().to_vec(),
            decimal(u64::try_from(ALIVE.as_millis()).unwrap_or(0)),
        ];
        let op = Op::Script { script: &scripts::REGISTER, keys: vec![key(&self.link)], args };
        self.link.run(Lane::Small, op, deadline).await?;
        Ok(())
    }
}
