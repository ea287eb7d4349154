//! Hints between sidecars that something about a session has changed, over one pub/sub channel. Only hints: whoever gets
//! one asks Valkey, and whoever misses one finds out a little later.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{
    sync::{broadcast::error::RecvError, mpsc},
    time::{Duration, Instant},
};

use super::name::SessionName;
use crate::{crypto::OwnerTag, valkey::Link};

/// Hints that wait for a listener; more would say nothing new.
const WAITING: usize = 4;
/// A hint is not worth a longer wait.
const PUBLISH: Duration = Duration::from_secs(1);

/// What has happened to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Its lease was released, taken or broken, or it was deleted or restored.
    Lease,
    /// Records were changed by somebody without the lease.
    Records,
}

type Listeners = HashMap<OwnerTag, Vec<mpsc::Sender<Hint>>>;

/// Who wants to know.
#[derive(Clone, Default)]
pub struct Hints {
    listeners: Arc<Mutex<Listeners>>,
}

impl Hints {
    /// Hints about one session, until the receiver is dropped.
    pub fn listen(&self, name: &SessionName) -> mpsc::Receiver<Hint> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.entry(*name.tag()).or_default().push(sender);
        receiver
    }

    /// Forgets listeners that have gone.
    pub fn forget(&self, name: &SessionName) {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(senders) = listeners.get_mut(name.tag()) {
            senders.retain(|sender| !sender.is_closed());
            if senders.is_empty() {
                listeners.remove(name.tag());
            }
        }
    }

    fn deliver(&self, tag: &OwnerTag, hint: Hint) {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        for sender in listeners.get(tag).into_iter().flatten() {
            // A full queue holds hints enough.
            let _ = sender.try_send(hint);
        }
    }

    /// Passes on what other sidecars (and this one) publish, until the link ends.
    pub async fn follow(self, link: Link) {
        let mut messages = link.subscribe(&channel(&link)).await;
        loop {
            match messages.recv().await {
                Ok(message) => {
                    if let Some((tag, hint)) = decode(&message) {
                        self.deliver(&tag, hint);
                    }
                }
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// Tells everybody.
    pub async fn publish(&self, link: &Link, name: &SessionName, hint: Hint) {
        self.deliver(name.tag(), hint);
        let mut message = name.tag().as_bytes().to_vec();
        message.push(hint as u8);
        let _ = link.publish(&channel(link), &message, Instant::now() + PUBLISH).await;
    }
}

fn channel(link: &Link) -> Vec<u8> {
    format!("{}sessions", link.prefix()).into_bytes()
}

fn decode(message: &[u8]) -> Option<(OwnerTag, Hint)> {
    let (tag, rest) = message.split_first_chunk::<16>()?;
    let hint = match rest {
        [0] => Hint::Lease,
        [1] => Hint::Records,
        _ => return None,
    };
    Some((OwnerTag::from_bytes(*tag), hint))
}
