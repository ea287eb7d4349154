//! Claims in Valkey: one key each, one script each decision.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::scripts;
use crate::{
    crypto::{Context, Keyring, OwnerTag},
    error::Result,
    owner::{
        namespace::Namespaces,
        reply::{Reply, unexpected},
        request::{blinded, mark},
    },
    valkey::{Funnel, Op, Script, decimal},
};

/// The kind of owner in tags and contexts.
const KIND: &str = "claim";
/// How long a released claim leaves a trace: longer than any call is sent again.
const TRACE: Duration = Duration::from_secs(5 * 60);

/// Which claim is meant.
pub struct ClaimKey {
    namespace: String,
    key: String,
    tag: OwnerTag,
}

impl ClaimKey {
    /// Names a claim; the caller has checked the lengths.
    pub fn new(keyring: &Keyring, namespace: String, key: String) -> Self {
        let tag = keyring.owner_tag(KIND, &namespace, &key);
        Self { namespace, key, tag }
    }

    fn context(&self) -> Context {
        Context::new(KIND, &[self.namespace.as_bytes(), self.key.as_bytes()])
    }
}

/// How a key is to be claimed.
pub struct Terms<'a> {
    pub request_id: &'a str,
    /// Empty: none.
    pub fingerprint: &'a [u8],
    pub in_progress_ms: u64,
    pub retention_ms: u64,
    pub complete: bool,
}

/// What became of a claim. Instants are ms since the Unix epoch.
#[derive(Debug, PartialEq, Eq)]
pub enum Claimed {
    New { fence: u64, until_ms: u64, takeover: bool, replayed: bool },
    InProgress { wait_ms: u64 },
    Duplicate { until_ms: u64, result: Vec<u8> },
    Mismatch,
}

/// The claims of one database.
pub struct Store {
    pub namespaces: Arc<Namespaces>,
    pub funnel: Funnel,
}

impl Store {
    /// Names a claim.
    pub fn name(&self, namespace: String, key: String) -> ClaimKey {
        ClaimKey::new(&self.namespaces.keyring.current(), namespace, key)
    }

    /// Claims a key.
    pub async fn claim(&self, key: &ClaimKey, terms: &Terms<'_>, deadline: Instant) -> Result<Claimed> {
        let keyring = self.namespaces.keyring.current();
        let fingerprint = if terms.fingerprint.is_empty() {
            Vec::new()
        } else {
            // Bytes as text, one to one.
            let text: String = terms.fingerprint.iter().map(|byte| char::from(*byte)).collect();
            blinded(&keyring, "claim-fingerprint", &key.tag, &text)[..8].to_vec()
        };
        let args = vec![
            mark(&keyring, &key.tag, terms.request_id),
            fingerprint,
            decimal(terms.in_progress_ms),
            decimal(terms.retention_ms),
            if terms.complete { b"1".to_vec() } else { Vec::new() },
        ];
        let mut reply = self.call(&scripts::CLAIM, key, args, deadline).await?;
        Ok(match reply.status() {
            word @ ("NEW" | "TAKEOVER") => {
                let takeover = word == "TAKEOVER";
                let (fence, until_ms) = (reply.number()?, reply.number()?);
                Claimed::New { fence, until_ms, takeover, replayed: reply.number()? == 1 }
            }
            "IN_PROGRESS" => Claimed::InProgress { wait_ms: reply.number()? },
            "DUPLICATE" => {
                let until_ms = reply.number()?;
                let sealed = reply.bytes()?.unwrap_or_default();
                let result = self.open(key, &sealed, deadline).await?;
                Claimed::Duplicate { until_ms, result }
            }
            "MISMATCH" => Claimed::Mismatch,
            _ => return Err(unexpected()),
        })
    }

    async fn open(&self, key: &ClaimKey, sealed: &[u8], deadline: Instant) -> Result<Vec<u8>> {
        if sealed.is_empty() {
            return Ok(Vec::new());
        }
        let what = (key.namespace.as_str(), "claim result");
        let opened = self.namespaces.open(what, &key.context(), sealed, deadline).await?;
        Ok(opened.plaintext.to_vec())
    }

    /// Ends a claim: when the key is free again (ms, 0: it is already), or `None`: it is not the caller's any more.
    pub async fn complete(
        &self,
        key: &ClaimKey,
        (request_id, fence): (&str, u64),
        result: &[u8],
        retention_ms: Option<u64>,
        deadline: Instant,
    ) -> Result<Option<u64>> {
        let sealed = if result.is_empty() {
            Vec::new()
        } else {
            self.namespaces.keys(&key.namespace, deadline).await?.seal(&key.context(), result)
        };
        let args = vec![
            self.mark(key, request_id),
            decimal(fence),
            retention_ms.map(decimal).unwrap_or_default(),
            sealed,
        ];
        until("COMPLETED", self.call(&scripts::COMPLETE, key, args, deadline).await?)
    }

    /// Gives a claim more time: until when (ms), or `None`: it is not the caller's any more.
    pub async fn extend(
        &self,
        key: &ClaimKey,
        (request_id, fence): (&str, u64),
        in_progress_ms: u64,
        deadline: Instant,
    ) -> Result<Option<u64>> {
        let args = vec![self.mark(key, request_id), decimal(fence), decimal(in_progress_ms)];
        until("EXTENDED", self.call(&scripts::EXTEND, key, args, deadline).await?)
    }

    /// Gives a claim back; `false`: it is not the caller's any more.
    pub async fn release(
        &self,
        key: &ClaimKey,
        (request_id, fence): (&str, u64),
        deadline: Instant,
    ) -> Result<bool> {
        let trace = u64::try_from(TRACE.as_millis()).unwrap_or(u64::MAX);
        let args = vec![self.mark(key, request_id), decimal(fence), decimal(trace)];
        match self.call(&scripts::RELEASE, key, args, deadline).await?.status() {
            "RELEASED" => Ok(true),
            "LEASE_LOST" => Ok(false),
            _ => Err(unexpected()),
        }
    }

    fn mark(&self, key: &ClaimKey, request_id: &str) -> Vec<u8> {
        mark(&self.namespaces.keyring.current(), &key.tag, request_id)
    }

    async fn call(
        &self,
        script: &'static Script,
        key: &ClaimKey,
        args: Vec<Vec<u8>>,
        deadline: Instant,
    ) -> Result<Reply> {
        let op = Op::Script { script, keys: vec![self.namespaces.link.owner_key(&key.tag, "c")], args };
        Reply::parse(self.funnel.run(op, deadline).await?)
    }
}

fn until(word: &str, mut reply: Reply) -> Result<Option<u64>> {
    match reply.status() {
        status if status == word => reply.number().map(Some),
        "LEASE_LOST" => Ok(None),
        _ => Err(unexpected()),
    }
}
