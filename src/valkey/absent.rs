//! *Is it truly not there?* An owner that is not found is absent only in the right database, and only when the index does not
//! list it.

use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use crate::crypto::OwnerTag;

use super::{
    error::{LinkError, ServerError},
    exchange::Inner,
    keys::ENVIRONMENT,
    op::{Lane, Op},
    server_info::text,
    store_identity::marker,
};

/// How often, and how far apart, an owner is looked for that the index lists and that is not there: it may be on its way
/// out this very moment.
const ABSENT_LOOKS: u32 = 3;
const ABSENT_APART: Duration = Duration::from_millis(100);

impl Inner {
    /// See [`super::Link::confirm_absent`].
    pub async fn confirm_absent(
        &self,
        kind: &str,
        tag: &OwnerTag,
        deadline: Instant,
    ) -> Result<(), LinkError> {
        let index = self.names.index(kind, tag.bucket());
        // A blob shares the tag of the session of its name: neither stands for the other.
        let key = self.names.owner(
            tag,
            match kind {
                "blob" => "b",
                "namespace" => "k",
                _ => "h",
            },
        );
        let command = |name: &str, args: &[&[u8]]| {
            let mut command = redis::cmd(name);
            command.arg(args);
            Op::Cmd(command)
        };
        for look in 1.. {
            // Only after the wait for a connection is it known which database is ours.
            self.shard(Some(&key), deadline).await?.wait_ready(deadline).await?;
            let id = self.store_id().unwrap_or_default();
            let mark = marker(id);
            let mut ops = vec![
                command("GET", &[ENVIRONMENT.as_bytes()]),
                command("ZSCORE", &[&index, mark.as_bytes()]),
                command("ZSCORE", &[&index, &tag.as_bytes()[..]]),
            ];
            // Looked for after the index: an owner made meanwhile is there by now.
            let last = command("EXISTS", &[&key]);
            let replies = if self.is_cluster() {
                let mut replies = self.send(Lane::Small, &ops, deadline).await?;
                replies.extend(self.send(Lane::Small, &[last], deadline).await?);
                replies
            } else {
                ops.push(last);
                self.send(Lane::Small, &ops, deadline).await?
            };
            if replies.iter().any(|reply| reply.as_ref().is_err_and(ServerError::is_of_a_slot)) {
                if Instant::now() + ABSENT_APART >= deadline {
                    return Err(ServerError::TryAgain.into());
                }
                tokio::time::sleep(ABSENT_APART).await;
                continue;
            }
            let replies = replies.into_iter().collect::<Result<Vec<_>, _>>()?;
            let [environment, marked, score, there] = &replies[..] else {
                return Err(LinkError::StoreChanged);
            };
            if text(environment).as_deref() != Some(&format!("{} {id}", self.names.env()))
                || *marked == Value::Nil
            {
                tracing::error!("the database was emptied, replaced, or has lost a part");
                self.store_changed();
                return Err(LinkError::StoreChanged);
            }
            let listed = match score {
                Value::Double(score) => *score >= 0.0,
                Value::BulkString(score) => !score.starts_with(b"-"),
                _ => false,
            };
            if !listed || *there != Value::Int(0) {
                return Ok(());
            }
            if look >= ABSENT_LOOKS || Instant::now() + ABSENT_APART >= deadline {
                tracing::error!(owner = %&tag.to_string()[..6], "the index lists an owner whose data is gone");
                return Err(LinkError::StoreChanged);
            }
            tokio::time::sleep(ABSENT_APART).await;
        }
        Ok(())
    }
}
