//! Whether a write has reached a replica. `WAIT` blocks its connection, so it goes on the bulk lane, behind a mark of its own
//! that is written there: what was acknowledged before the mark is in front of it in the stream to the replicas. All who ask
//! at about the same time share one mark and one WAIT.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use super::{Lane, Link, Op};

/// What a replica may take. One that takes longer is behind; the bulk lane is not held up any longer for it.
const WITHIN: Duration = Duration::from_secs(1);
/// The same where none was connected when that was last looked at.
const WITHOUT: Duration = Duration::from_millis(20);
/// How long the mark stays.
const MARK_MS: u32 = 1000;

/// Who waits, by shard. An entry without anybody: a WAIT is under way.
type Waiting = Arc<Mutex<HashMap<u64, Vec<oneshot::Sender<bool>>>>>;

/// A handle; clones share the same WAITs.
#[derive(Clone)]
pub struct Replicas {
    link: Link,
    waiting: Waiting,
}

impl Replicas {
    /// For `link`.
    pub fn new(link: Link) -> Self {
        Self { link, waiting: Waiting::default() }
    }

    /// Whether a replica has everything that was acknowledged so far in the slot of `mark`, a key that may be written. Without
    /// replicas the answer is no, almost at once; else it is there within a second, or by `deadline`.
    pub async fn have(&self, mark: &[u8], deadline: Instant) -> bool {
        let Some(shard) = self.link.shard_of_key(mark) else { return false };
        let (answer, answered) = oneshot::channel();
        let is_first = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let is_first = !waiting.contains_key(&shard);
            waiting.entry(shard).or_default().push(answer);
            is_first
        };
        if is_first {
            tokio::spawn(wait(self.clone(), shard, mark.to_vec()));
        }
        matches!(timeout_at(deadline, answered).await, Ok(Ok(true)))
    }
}

async fn wait(replicas: Replicas, shard: u64, mark: Vec<u8>) {
    loop {
        let asked = {
            let mut waiting = replicas.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            match waiting.get_mut(&shard) {
                Some(asked) if !asked.is_empty() => std::mem::take(asked),
                _ => {
                    waiting.remove(&shard);
                    return;
                }
            }
        };
        let patience = if replicas.link.has_replicas(&mark) { WITHIN } else { WITHOUT };
        let deadline = Instant::now() + WITHIN;
        let mut write = redis::cmd("SET");
        write.arg(&mark).arg(1).arg("PX").arg(MARK_MS);
        let have = replicas.link.run(Lane::Bulk, Op::Cmd(write), deadline).await.is_ok()
            && replicas
                .link
                .wait_replicas(Lane::Bulk, &mark, 1, Instant::now() + patience)
                .await
                .is_ok_and(|reached| reached > 0);
        for answer in asked {
            // Who does not listen any more has had its deadline.
            let _ = answer.send(have);
        }
    }
}
