//! What comes after a send was counted: it is confirmed, or given back; and what a recipient has written opens its service window.

use tokio::time::Instant;

use super::{
    names::{CapNames, Subject},
    scripts,
    store::{Store, TRIES, busy},
};
use crate::{error::Result, owner::reply::unexpected, valkey::decimal};

/// How long a refund is remembered: longer than any call is sent again.
const REFUND_MS: u64 = 3600 * 1000;
/// Meta's customer service window.
pub const SERVICE_WINDOW_MS: u64 = 24 * 3600 * 1000;

/// What became of a confirmation or a refund.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    Done,
    Lapsed,
    Unknown,
}

impl Store {
    /// Makes a reservation final (`confirm`), or gives back what a send took.
    pub async fn settle(
        &self,
        names: &CapNames,
        send_id: &str,
        request_id: &str,
        confirm: bool,
        deadline: Instant,
    ) -> Result<Settled> {
        let keyring = self.namespaces().keyring.current();
        let send = names.send(&keyring, send_id);
        let (key, mark) = (names.send_key(&send), names.mark(&keyring, request_id));
        for _ in 0..TRIES {
            let mut found =
                self.call(&scripts::SEND, vec![key.clone()], vec![mark.clone()], deadline).await?;
            // What was done before is the other script's to judge; of a send that is not remembered nothing is said.
            let _before = if found.left() > 0 { found.bytes()? } else { None };
            let mut keys = vec![key.clone()];
            while found.left() > 0 {
                let unique = found.word()? == "U";
                let counter = found.bytes()?.ok_or_else(unexpected)?;
                keys.extend(names.counter_keys(unique, &counter));
            }
            let what = if confirm { b"K" } else { b"F" };
            let args = vec![mark.clone(), what.to_vec(), send[..8].to_vec(), decimal(REFUND_MS)];
            let reply = self.call(&scripts::SETTLE, keys, args, deadline).await?;
            match reply.status() {
                "CONFIRMED" | "REFUNDED" => return Ok(Settled::Done),
                "LAPSED" => return Ok(Settled::Lapsed),
                "NONE" => return Ok(Settled::Unknown),
                "MOVED" => {}
                _ => return Err(unexpected()),
            }
        }
        Err(busy())
    }

    /// Opens a recipient's service window; until when (ms).
    pub async fn note_inbound(
        &self,
        names: &CapNames,
        subject: Subject<'_>,
        request_id: &str,
        deadline: Instant,
    ) -> Result<u64> {
        let keyring = self.namespaces().keyring.current();
        let args = vec![names.mark(&keyring, request_id), decimal(SERVICE_WINDOW_MS)];
        let keys = vec![names.inbound(&keyring, subject)];
        self.call(&scripts::INBOUND, keys, args, deadline).await?.number()
    }
}
