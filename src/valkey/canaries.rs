//! *Are these its keys?* The database keeps a keyed hash of the index key, a canary for each key that it was written with, the key that
//! everything was last wrapped under, and the keys that were given up. Nothing is learnt from a keyring before all that is known of
//! it fits, so that another one teaches the database nothing.

use std::collections::HashMap;

use redis::{Cmd, Pipeline, Value, cmd};

use crate::crypto::{KeyState, Keyring, SharedKeyring, check_canary, seal_canary};

use super::store_identity::{Refusal, Store};

/// What says which key everything was last wrapped under.
pub const REWRAPPED: &str = "rewrapped";
const INDEX: &str = "index";
const CANARY: &str = "canary:";
/// Looks: at what is known, at the index key that was learnt, at the canaries that were.
const LOOKS: usize = 3;

/// Why a keyring is not this database's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", self.found(), self.todo())]
pub enum Mismatch {
    /// Names would be blinded in another way: nothing stored would be found, which must not look like "no session".
    Index,
    /// Another key than the database's has this id.
    Another(u32),
    /// Everything is wrapped under a key that is not there.
    Old(u32),
    /// Its primary was given up: what it wraps nobody else could open.
    Disabled(u32),
}

impl Mismatch {
    /// What is wrong.
    pub fn found(self) -> String {
        match self {
            Self::Index => "the keyring's index_key is not the one this database was written with".into(),
            Self::Another(id) => {
                format!("key {id} of the keyring is not the key {id} this database was written with")
            }
            Self::Old(id) => format!(
                "the keyring is an old one: everything in this database was wrapped under key {id}, which it does not have or has \
                 disabled"
            ),
            Self::Disabled(id) => format!(
                "the keyring is an old one: key {id}, its primary, was disabled in the keyring of this database"
            ),
        }
    }

    /// What to do about it.
    pub fn todo(self) -> &'static str {
        match self {
            Self::Index => "restore keyring.toml from its backup",
            Self::Another(_) => {
                "restore keyring.toml from its backup, or copy it from where the key was added"
            }
            Self::Old(_) | Self::Disabled(_) => {
                "copy the keyring.toml that is in use, or restore it from its newest backup"
            }
        }
    }

    /// Whether it is the right one as it was before.
    pub fn is_of_age(self) -> bool {
        matches!(self, Self::Old(_) | Self::Disabled(_))
    }
}

/// How a keyring and a database that fit stand to each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The key that everything was last wrapped under.
    pub rewrapped: Option<u32>,
    /// Keys that the database has learnt since, and this keyring cannot use.
    pub lacking: Vec<u32>,
    /// Keys that the database does not know yet.
    pub unknown: Vec<u32>,
    index_unknown: bool,
}

impl Standing {
    /// Holds a keyring against the database's hash, as `HGETALL` gave it.
    pub fn of(keyring: &Keyring, meta: Value) -> Result<Self, Mismatch> {
        let known = Known::read(meta);
        let index = known.0.get(INDEX);
        if index.is_some_and(|index| *index != index_hash(keyring).as_bytes()) {
            return Err(Mismatch::Index);
        }
        let usable = usable(keyring);
        let mut unknown = Vec::new();
        for id in &usable {
            match known.0.get(&canary_field(*id)) {
                Some(canary) if check_canary(keyring, *id, canary) => {}
                Some(_) => return Err(Mismatch::Another(*id)),
                None => unknown.push(*id),
            }
        }
        let rewrapped = known.number(REWRAPPED);
        if let Some(id) = rewrapped.filter(|id| !usable.contains(id)) {
            return Err(Mismatch::Old(id));
        }
        let is_given_up = |id: u32| known.0.contains_key(&disabled_field(id));
        if is_given_up(keyring.primary_id()) {
            return Err(Mismatch::Disabled(keyring.primary_id()));
        }
        let ids = known.0.keys().filter_map(|field| field.strip_prefix(CANARY)?.parse().ok());
        // A key from before was of no use any more when everything was wrapped anew.
        let is_lacking = |id: &u32| !usable.contains(id) && !is_given_up(*id) && rewrapped < Some(*id);
        let mut lacking: Vec<u32> = ids.filter(is_lacking).collect();
        lacking.sort_unstable();
        Ok(Self { rewrapped, lacking, unknown, index_unknown: index.is_none() })
    }

    /// What the database is to learn now; nothing: it knows all. The index key comes first, by itself: whose it is may go on.
    pub fn lessons(&self, keyring: &Keyring, meta: &str) -> Vec<Cmd> {
        // Only what is missing is written: with its memory full the server would refuse to be asked to.
        let learn = |field: &str, value: Vec<u8>| {
            let mut learn = cmd("HSETNX");
            learn.arg(meta).arg(field).arg(value);
            learn
        };
        if self.index_unknown {
            return vec![learn(INDEX, index_hash(keyring).into_bytes())];
        }
        let canary = |id: &u32| Some(learn(&canary_field(*id), seal_canary(keyring, *id)?));
        self.unknown.iter().filter_map(canary).collect()
    }
}

/// What the database is asked.
pub fn question(meta: &str) -> Cmd {
    let mut read = cmd("HGETALL");
    read.arg(meta);
    read
}

struct Known(HashMap<String, Vec<u8>>);

impl Known {
    fn read(meta: Value) -> Self {
        let Value::Map(fields) = meta else { return Self(HashMap::new()) };
        let text = |value| match value {
            Value::BulkString(bytes) => Some(bytes),
            _ => None,
        };
        let fields = fields
            .into_iter()
            .filter_map(|(field, value)| Some((String::from_utf8(text(field)?).ok()?, text(value)?)));
        Self(fields.collect())
    }

    fn number(&self, field: &str) -> Option<u32> {
        str::from_utf8(self.0.get(field)?).ok()?.parse().ok()
    }
}

impl Store<'_> {
    /// Holds a keyring against this database, in one round trip; `learn`: then tells it what it does not know yet.
    pub async fn prove(&self, keyring: &Keyring, learn: bool) -> Result<Result<Standing, Mismatch>, Refusal> {
        let meta = self.names.meta();
        let mut lessons = Vec::new();
        for _ in 0..LOOKS {
            let mut pipeline = Pipeline::new();
            for command in lessons.into_iter().chain([question(&meta)]) {
                pipeline.add_command(command);
            }
            let found = self.send(&pipeline).await?.pop().unwrap_or_default();
            let standing = match Standing::of(keyring, found) {
                Ok(standing) => standing,
                Err(mismatch) => return Ok(Err(mismatch)),
            };
            lessons = standing.lessons(keyring, &meta);
            if !learn || lessons.is_empty() {
                return Ok(Ok(standing));
            }
        }
        Err(Refusal::Unreachable("a canary that was written is not there".into()))
    }

    /// Makes sure that the keyring is this database's, before anything is used.
    pub async fn accept_keys(&self, keyring: &SharedKeyring) -> Result<(), Refusal> {
        match self.prove(&keyring.current(), true).await? {
            Ok(standing) => {
                for id in standing.lacking {
                    tracing::warn!("{}; {}", lacks(id), LACKS_TODO);
                }
                Ok(())
            }
            Err(mismatch) => {
                // While running, the file may be the right one by now.
                keyring.want();
                Err(Refusal::Human(mismatch.to_string()))
            }
        }
    }
}

/// That the database knows a key that a keyring cannot use.
pub(super) fn lacks(id: u32) -> String {
    format!(
        "the database knows key {id}, which the keyring does not have or has disabled: what is wrapped under it does not open here"
    )
}

/// What to do about it.
pub(super) const LACKS_TODO: &str = "copy the keyring.toml that has it, or enable it";

/// The field of the database's hash that proves a key.
pub(super) fn canary_field(id: u32) -> String {
    format!("{CANARY}{id}")
}

/// The one that says that a key was given up.
pub fn disabled_field(id: u32) -> String {
    format!("disabled:{id}")
}

fn index_hash(keyring: &Keyring) -> String {
    keyring.owner_tag("meta", "index", "").to_string()
}

fn usable(keyring: &Keyring) -> Vec<u32> {
    let ids = keyring.ids().into_iter();
    ids.filter_map(|(id, state)| (state != KeyState::Disabled).then_some(id)).collect()
}
