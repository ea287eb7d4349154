//! Whether the keys of a keyring are those that the database knows under their ids. Two people who each add a key give it the
//! same id; the first one that the database learns is the one that counts.

use tokio::time::Instant;

use crate::{
    crypto::{KeyState, Keyring, seal_canary},
    valkey::{Lane, Link, LinkError, Op},
};

/// Another key than the database's has this id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "key {0} of the keyring is not the key {0} that this database knows: copy the keyring file from where the key was added, or \
     restore it from its backup"
)]
pub struct Mismatch(pub u32);

/// Has the database prove every key that is not disabled; a key that it does not know yet it learns.
///
/// # Errors
/// When Valkey does not answer inside the deadline. The inner one: a key is another.
pub async fn prove(
    link: &Link,
    keyring: &Keyring,
    deadline: Instant,
) -> Result<Result<(), Mismatch>, LinkError> {
    let used = keyring.ids().into_iter().filter(|(_, state)| *state != KeyState::Disabled);
    for (id, _) in used {
        if link.canary_opens(keyring, id, deadline).await? {
            continue;
        }
        // Written only where it may be missing: with its memory full the server would refuse to be asked to.
        let mut learn = redis::cmd("HSETNX");
        learn.arg(format!("{}meta", link.prefix())).arg(format!("canary:{id}"));
        learn.arg(seal_canary(keyring, id).unwrap_or_default());
        link.run(Lane::Small, Op::Cmd(learn), deadline).await?;
        if !link.canary_opens(keyring, id, deadline).await? {
            return Ok(Err(Mismatch(id)));
        }
    }
    Ok(Ok(()))
}
