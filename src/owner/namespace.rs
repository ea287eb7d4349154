//! The root keys of namespaces: what claims, conversations and caps are sealed under. Made when something is sealed for the
//! first time, never with a TTL, kept only wrapped.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use redis::{Value, cmd};
use tokio::time::Instant;

use super::{index::Index, keys::unwrap_error, reply::unexpected, scripts};
use crate::{
    crypto::{
        Context, OpenError, Opened, OwnerTag, RecordKeys, RootKey, SharedKeyring, UnwrapError, unwrap, wrap,
    },
    error::{Error, Reason, Result},
    telemetry,
    valkey::{Lane, Link, Op},
};

/// The kind of owner in tags, contexts and the index.
pub const KIND: &str = "namespace";
/// The epoch of root keys; nothing raises it yet.
const EPOCH: u32 = 1;
/// Namespaces whose keys are kept in memory; the oldest goes first.
const CACHED: usize = 1024;

/// The keys of one namespace. No `Debug`.
pub struct NamespaceKeys {
    epoch: u32,
    /// The primary key when it was unwrapped: with a new one it is read again.
    primary: u32,
    record: RecordKeys,
}

impl NamespaceKeys {
    /// Seals `plaintext` for its place.
    pub fn seal(&self, context: &Context, plaintext: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.record.seal(self.epoch, 0, context, plaintext, &mut out);
        out
    }

    /// Opens what was sealed for this place.
    pub fn open(&self, context: &Context, sealed: &[u8]) -> Result<Opened, OpenError> {
        self.record.open(context, sealed)
    }

    /// Opens what a walk has found; `context` makes its place from the plaintext, which that then proves.
    pub fn open_unnamed(
        &self,
        sealed: &[u8],
        context: impl FnOnce(&[u8]) -> Option<Context>,
    ) -> Result<Opened, OpenError> {
        self.record.open_unnamed(sealed, context)
    }
}

/// The namespaces of one database.
pub struct Namespaces {
    pub(crate) link: Link,
    pub(crate) keyring: Arc<SharedKeyring>,
    cache: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    by_name: HashMap<String, Arc<NamespaceKeys>>,
    order: VecDeque<String>,
}

impl Namespaces {
    /// Over `link`.
    pub fn new(link: Link, keyring: Arc<SharedKeyring>) -> Self {
        Self { link, keyring, cache: Mutex::default() }
    }

    /// The keys of a namespace; made if it has none.
    pub async fn keys(&self, namespace: &str, deadline: Instant) -> Result<Arc<NamespaceKeys>> {
        if let Some(keys) = self.cached(namespace) {
            return Ok(keys);
        }
        let tag = self.keyring.current().owner_tag(KIND, namespace, "");
        let wrapped = match self.wrapped(&tag, deadline).await? {
            Some(wrapped) => {
                // Whoever made it may not have come to say so; from now on its loss is noticed.
                Index { link: &self.link, kind: KIND }.set(&tag, 0, deadline).await?;
                wrapped
            }
            None => self.make(namespace, &tag, deadline).await?,
        };
        self.unwrap(namespace, &wrapped, deadline).await
    }

    /// The keys of a namespace, if it has any: where nothing was ever sealed there are none.
    pub async fn existing(&self, namespace: &str, deadline: Instant) -> Result<Option<Arc<NamespaceKeys>>> {
        if let Some(keys) = self.cached(namespace) {
            return Ok(Some(keys));
        }
        let tag = self.keyring.current().owner_tag(KIND, namespace, "");
        if let Some(wrapped) = self.wrapped(&tag, deadline).await? {
            return self.unwrap(namespace, &wrapped, deadline).await.map(Some);
        }
        self.link.confirm_absent(KIND, &tag, deadline).await?;
        Ok(None)
    }

    /// Opens a record of the namespace. What does not open is tried once more with the key as it is stored now; `what` names
    /// its type in the error.
    pub async fn open(
        &self,
        (namespace, what): (&str, &str),
        context: &Context,
        sealed: &[u8],
        deadline: Instant,
    ) -> Result<Opened> {
        let keys = self.keys(namespace, deadline).await?;
        let error = match keys.open(context, sealed) {
            Ok(opened) => return Ok(opened),
            Err(OpenError::Corrupt) => {
                self.forget(namespace);
                match self.keys(namespace, deadline).await?.open(context, sealed) {
                    Ok(opened) => return Ok(opened),
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        Err(open_error(error, what))
    }

    fn cached(&self, namespace: &str) -> Option<Arc<NamespaceKeys>> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let primary = self.keyring.current().primary_id();
        cache.by_name.get(namespace).filter(|keys| keys.primary == primary).cloned()
    }

    fn forget(&self, namespace: &str) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.by_name.remove(namespace).is_some() {
            cache.order.retain(|one| one != namespace);
        }
    }

    async fn wrapped(&self, tag: &OwnerTag, deadline: Instant) -> Result<Option<Vec<u8>>> {
        let mut read = cmd("HGET");
        read.arg(self.link.owner_key(tag, "k")).arg("k");
        match self.link.run(Lane::Small, Op::Cmd(read), deadline).await? {
            Value::BulkString(wrapped) => Ok(Some(wrapped)),
            Value::Nil => Ok(None),
            _ => Err(unexpected()),
        }
    }

    /// A lost database must not look like a new namespace, so its absence is proven first.
    async fn make(&self, namespace: &str, tag: &OwnerTag, deadline: Instant) -> Result<Vec<u8>> {
        self.link.confirm_absent(KIND, tag, deadline).await?;
        let index = Index { link: &self.link, kind: KIND };
        index.making(tag, deadline).await?;
        let keyring = self.keyring.current();
        let wrapped = wrap(&keyring, &RootKey::generate(), EPOCH, &context(namespace));
        let name = keyring.index_name_key().seal_name(tag, namespace, "");
        let op = Op::Script {
            script: &scripts::NAMESPACE,
            keys: vec![self.link.owner_key(tag, "k")],
            args: vec![wrapped.to_vec(), name],
        };
        let Value::BulkString(stored) = self.link.run(Lane::Small, op, deadline).await? else {
            return Err(unexpected());
        };
        index.made(tag, 0, deadline).await?;
        Ok(stored)
    }

    async fn unwrap(&self, namespace: &str, wrapped: &[u8], deadline: Instant) -> Result<Arc<NamespaceKeys>> {
        let primary = self.keyring.current().primary_id();
        let opened: Result<_, UnwrapError> = unwrap(&self.keyring, wrapped, &context(namespace));
        let (root, epoch) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                let kind = (KIND, Reason::CorruptRecord);
                return Err(unwrap_error(&self.link, &self.keyring, kind, wrapped, error, deadline).await);
            }
        };
        let keys = Arc::new(NamespaceKeys { epoch, primary, record: root.record_keys() });
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.by_name.insert(namespace.to_owned(), Arc::clone(&keys)).is_none() {
            cache.order.push_back(namespace.to_owned());
            if cache.order.len() > CACHED
                && let Some(oldest) = cache.order.pop_front()
            {
                cache.by_name.remove(&oldest);
            }
        }
        Ok(keys)
    }
}

fn context(namespace: &str) -> Context {
    Context::new(KIND, &[namespace.as_bytes(), b""])
}

/// What a record that does not open means; `what` is its type.
pub fn open_error(error: OpenError, what: &str) -> Error {
    telemetry::could_not_open(&error);
    match error {
        OpenError::UnknownFormat => Error::new(
            Reason::NewerFormat,
            format!("a {what} was written by a newer version: update pannier"),
        ),
        OpenError::Malformed | OpenError::Corrupt => Error::new(
            Reason::CorruptRecord,
            format!("a {what} was altered, moved or cut short: it cannot be read any more"),
        ),
    }
    .with("type", what)
}
