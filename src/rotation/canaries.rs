//! Whether a keyring is this database's, asked while a sidecar runs; and what a rotation has the database remember, so that copies of
//! the keyring from before are known as such.

use redis::{Cmd, Value};
use tokio::time::Instant;

use crate::{
    crypto::Keyring,
    valkey::{Lane, Link, LinkError, Mismatch, Op, REWRAPPED, Standing, disabled_field, question},
};

/// Has the database prove every key that is not disabled; a key that it does not know yet it learns.
///
/// # Errors
/// When Valkey does not answer inside the deadline. The inner one: the keyring is not this database's.
pub async fn prove(
    link: &Link,
    keyring: &Keyring,
    deadline: Instant,
) -> Result<Result<(), Mismatch>, LinkError> {
    let meta = link.meta_key();
    loop {
        let known = ask(link, question(&meta), deadline).await?;
        let standing = match Standing::of(keyring, known) {
            Ok(standing) => standing,
            Err(mismatch) => return Ok(Err(mismatch)),
        };
        let lessons = standing.lessons(keyring, &meta);
        if lessons.is_empty() {
            return Ok(Ok(()));
        }
        for lesson in lessons {
            ask(link, lesson, deadline).await?;
        }
    }
}

/// Notes that everything is wrapped under this key: a keyring without it is an old copy.
pub(super) async fn note_rewrapped(link: &Link, id: u32, deadline: Instant) -> Result<(), LinkError> {
    let mut note = redis::cmd("HSET");
    note.arg(link.meta_key()).arg(REWRAPPED).arg(id);
    ask(link, note, deadline).await.map(|_| ())
}

/// Notes that this key is given up: a keyring that has it as its primary is an old copy.
///
/// # Errors
/// When Valkey does not answer inside the deadline, or takes no writes.
pub async fn note_disabled(link: &Link, id: u32, deadline: Instant) -> Result<(), LinkError> {
    let mut note = redis::cmd("HSET");
    note.arg(link.meta_key()).arg(disabled_field(id)).arg(1);
    ask(link, note, deadline).await.map(|_| ())
}

/// Takes that back.
///
/// # Errors
/// When Valkey does not answer inside the deadline.
pub async fn note_used_again(link: &Link, id: u32, deadline: Instant) -> Result<(), LinkError> {
    let mut note = redis::cmd("HDEL");
    note.arg(link.meta_key()).arg(disabled_field(id));
    ask(link, note, deadline).await.map(|_| ())
}

async fn ask(link: &Link, command: Cmd, deadline: Instant) -> Result<Value, LinkError> {
    link.run(Lane::Small, Op::Cmd(command), deadline).await
}
