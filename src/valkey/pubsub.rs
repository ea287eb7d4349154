//! Messages between sidecars. Best effort: what is sent while a connection is down is lost, so nothing may depend on it but
//! how soon something is noticed. Subscriptions come back with every new connection.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use redis::{PushInfo, PushKind, Value, aio::MultiplexedConnection};
use tokio::sync::broadcast;

/// Messages a slow reader may fall behind by before it loses some.
const BACKLOG: usize = 256;

/// Who wants to hear what.
#[derive(Default)]
pub(super) struct Hub {
    channels: Mutex<HashMap<Vec<u8>, broadcast::Sender<Bytes>>>,
}

impl Hub {
    /// A receiver for `channel`, and whether the server must be asked for it.
    pub fn join(&self, channel: &[u8]) -> (broadcast::Receiver<Bytes>, bool) {
        let mut channels = self.lock();
        if let Some(sender) = channels.get(channel) {
            return (sender.subscribe(), false);
        }
        let (sender, receiver) = broadcast::channel(BACKLOG);
        channels.insert(channel.to_vec(), sender);
        (receiver, true)
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
        if let Some(sender) = self.lock().get(&channel) {
            // Nobody listening is not an error.
            let _ = sender.send(payload.into());
        }
    }

    /// Subscribes a new connection to everything.
    pub async fn resume(&self, mut connection: MultiplexedConnection) -> Result<(), String> {
        let channels: Vec<Vec<u8>> = self.lock().keys().cloned().collect();
        if channels.is_empty() {
            return Ok(());
        }
        connection.subscribe(channels).await.map_err(|error| super::lanes::describe(&error))
    }

    /// Takes all subscriptions from a connection: they are at another one now.
    pub async fn leave(&self, mut connection: MultiplexedConnection) {
        let channels: Vec<Vec<u8>> = self.lock().keys().cloned().collect();
        if !channels.is_empty() {
            // If it fails the connection is gone, and they with it.
            let _ = connection.unsubscribe(channels).await;
        }
    }

    /// Unsubscribes from what nobody listens to any more.
    pub async fn sweep(&self, mut connection: MultiplexedConnection) {
        let unused: Vec<Vec<u8>> = {
            let mut channels = self.lock();
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
                unused.into_iter().filter(|channel| self.lock().contains_key(channel)).collect();
            if !back.is_empty() {
                let _ = connection.subscribe(back).await;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Vec<u8>, broadcast::Sender<Bytes>>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
