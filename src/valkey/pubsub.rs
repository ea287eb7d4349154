//! Messages between sidecars. Best effort: what is sent while a connection is down is lost, so nothing may depend on it but
//! how soon something is noticed. Subscriptions come back with every new connection.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use bytes::Bytes;
use redis::{PushInfo, PushKind, Value, aio::MultiplexedConnection};
use tokio::sync::broadcast;

use super::lanes::Generation;

/// Messages a slow reader may fall behind by before it loses some.
const BACKLOG: usize = 256;

/// Who wants to hear what.
#[derive(Default)]
pub(super) struct Hub {
    heard: Mutex<Heard>,
}

#[derive(Default)]
struct Heard {
    channels: HashMap<Vec<u8>, broadcast::Sender<Bytes>>,
    /// The connections that were subscribed to all of them last, or are being so: before calls may use them. A channel that
    /// comes meanwhile must be asked for there, or nobody ever does.
    at: Weak<Generation>,
}

impl Hub {
    /// A receiver for `channel`, and where the server must be asked for it, if it must.
    pub fn join(&self, channel: &[u8]) -> (broadcast::Receiver<Bytes>, Option<Arc<Generation>>) {
        let mut heard = self.lock();
        if let Some(sender) = heard.channels.get(channel) {
            return (sender.subscribe(), None);
        }
        let (sender, receiver) = broadcast::channel(BACKLOG);
        heard.channels.insert(channel.to_vec(), sender);
        (receiver, heard.at.upgrade())
    }

    /// Hands a message on.
    pub fn deliver(&self, push: PushInfo) {
        if push.kind != PushKind::Message {
            return;
        }
        let mut data = push.data.into_iter();
        let (Some(Value::BulkString(channel)), Some(Value::BulkString(payload))) = (data.next(), data.next())
        else {
            return;
        };
        if let Some(sender) = self.lock().channels.get(&channel) {
            // Nobody listening is not an error.
            let _ = sender.send(payload.into());
        }
    }

    /// Subscribes new connections to everything, and to what comes from now on.
    pub async fn resume(&self, generation: &Arc<Generation>) -> Result<(), String> {
        let channels: Vec<Vec<u8>> = {
            let mut heard = self.lock();
            heard.at = Arc::downgrade(generation);
            heard.channels.keys().cloned().collect()
        };
        if channels.is_empty() {
            return Ok(());
        }
        generation.probe_lane().subscribe(channels).await.map_err(|error| super::lanes::describe(&error))
    }

    /// Takes all subscriptions from a connection: they are at another one now.
    pub async fn leave(&self, mut connection: MultiplexedConnection) {
        let channels: Vec<Vec<u8>> = self.lock().channels.keys().cloned().collect();
        if !channels.is_empty() {
            // If it fails the connection is gone, and they with it.
            let _ = connection.unsubscribe(channels).await;
        }
    }

    /// Unsubscribes from what nobody listens to any more.
    pub async fn sweep(&self, mut connection: MultiplexedConnection) {
        let unused: Vec<Vec<u8>> = {
            let channels = &mut self.lock().channels;
            let unused = channels.iter().filter(|(_, sender)| sender.receiver_count() == 0);
            let unused: Vec<Vec<u8>> = unused.map(|(channel, _)| channel.clone()).collect();
            for channel in &unused {
                channels.remove(channel);
            }
            unused
        };
        if !unused.is_empty() {
            // If it fails the connection is gone, and the subscription with it.
            let _ = connection.unsubscribe(&unused).await;
            // Somebody may have come back while the server was being told.
            let back: Vec<_> =
                unused.into_iter().filter(|channel| self.lock().channels.contains_key(channel)).collect();
            if !back.is_empty() {
                let _ = connection.subscribe(back).await;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
