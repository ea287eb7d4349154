//! Whether a keyring is this database's: its keys are those that the database knows under their ids, and the one that everything
//! was last wrapped under is among them. Two people who each add a key give it the same id; the first one that the database
//! learns is the one that counts.

use redis::Value;
use tokio::time::Instant;

use super::Rotation;
use crate::{
    crypto::{KeyState, Keyring, seal_canary},
    valkey::{Lane, Link, LinkError, LinkState, Op, canary_field},
};

/// The field that says which key everything was last wrapped under.
const REWRAPPED: &str = "rewrapped";

/// Why a keyring is not this database's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// Another key than the database's has this id.
    #[error(
        "key {0} of the keyring is not the key {0} that this database knows: copy the keyring file from where the key was added, \
         or restore it from its backup"
    )]
    Another(u32),
    /// Everything is wrapped under a key that is not there.
    #[error(
        "the keyring is an old one: everything in this database was wrapped under key {0}, which it does not have or has disabled. \
         Copy the keyring file that is in use, or restore it from its backup"
    )]
    Old(u32),
}

/// Has the database prove every key that is not disabled; a key that it does not know yet it learns.
///
/// # Errors
/// When Valkey does not answer inside the deadline. The inner one: the keyring is not this database's.
pub async fn prove(
    link: &Link,
    keyring: &Keyring,
    deadline: Instant,
) -> Result<Result<(), Mismatch>, LinkError> {
    let used = keyring.ids().into_iter().filter(|(_, state)| *state != KeyState::Disabled);
    let used: Vec<u32> = used.map(|(id, _)| id).collect();
    let mut read = redis::cmd("HGET");
    read.arg(link.meta_key()).arg(REWRAPPED);
    if let Value::BulkString(id) = link.run(Lane::Small, Op::Cmd(read), deadline).await?
        && let Some(id) = str::from_utf8(&id).ok().and_then(|id| id.parse().ok())
        && !used.contains(&id)
    {
        return Ok(Err(Mismatch::Old(id)));
    }
    for id in used {
        if link.canary_opens(keyring, id, deadline).await? {
            continue;
        }
        // Written only where it may be missing: with its memory full the server would refuse to be asked to.
        let mut learn = redis::cmd("HSETNX");
        learn.arg(link.meta_key()).arg(canary_field(id));
        learn.arg(seal_canary(keyring, id).unwrap_or_default());
        link.run(Lane::Small, Op::Cmd(learn), deadline).await?;
        if !link.canary_opens(keyring, id, deadline).await? {
            return Ok(Err(Mismatch::Another(id)));
        }
    }
    Ok(Ok(()))
}

/// Notes that everything is wrapped under this key.
pub(super) async fn note_rewrapped(link: &Link, id: u32, deadline: Instant) -> Result<(), LinkError> {
    let mut note = redis::cmd("HSET");
    note.arg(link.meta_key()).arg(REWRAPPED).arg(id);
    link.run(Lane::Small, Op::Cmd(note), deadline).await.map(|_| ())
}

impl Rotation {
    /// Waits until the database is there for the first time, and gives why the keyring is not its; else never ends.
    pub async fn mismatch_at_start(&self) -> Mismatch {
        let mut state = self.link.state();
        loop {
            if state.wait_for(|state| matches!(state, LinkState::Ready { .. })).await.is_err() {
                return std::future::pending().await;
            }
            match prove(&self.link, &self.keyring.current(), Instant::now() + super::reload::PROVE_WITHIN)
                .await
            {
                Ok(Ok(())) => return std::future::pending().await,
                Ok(Err(mismatch)) => return mismatch,
                Err(error) => tracing::debug!(%error, "the keyring could not be proved yet"),
            }
            tokio::time::sleep(super::reload::AGAIN).await;
        }
    }
}
