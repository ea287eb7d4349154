//! Root keys of sessions, unwrapped: one per incarnation, shared by all who use it, wiped when nobody does.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use super::name::SessionName;
use crate::crypto::{Keyring, OwnerTag, RecordKeys, RootKey, SharedKeyring, UnwrapError, unwrap, wrap};

/// The epoch of root keys; nothing raises it yet.
const EPOCH: u32 = 1;
/// Root keys kept for unary calls; attached sessions hold their own.
const CACHED: usize = 4096;

/// The keys of one incarnation of a session. No `Debug`.
pub struct SessionKeys {
    /// Which incarnation they belong to.
    pub incarnation: u64,
    /// Written into each record's header.
    pub epoch: u32,
    /// Seals records and blinds their names.
    pub record: RecordKeys,
}

impl SessionKeys {
    /// Fresh keys for a new incarnation, and the same wrapped.
    pub fn generate(keyring: &Keyring, name: &SessionName, incarnation: u64) -> (Self, Vec<u8>) {
        let root = RootKey::generate();
        let wrapped = wrap(keyring, &root, EPOCH, &name.key_context()).to_vec();
        (Self { incarnation, epoch: EPOCH, record: root.record_keys() }, wrapped)
    }

    /// Opens a wrapped root key.
    pub fn unwrap(
        keyring: &SharedKeyring,
        name: &SessionName,
        incarnation: u64,
        wrapped: &[u8],
    ) -> Result<Self, UnwrapError> {
        let (root, epoch) = unwrap(keyring, wrapped, &name.key_context())?;
        Ok(Self { incarnation, epoch, record: root.record_keys() })
    }

    /// Seals a part of the head.
    pub fn seal_part(&self, name: &SessionName, part: &str, plaintext: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.record.seal(self.epoch, 0, &name.part_context(part), plaintext, &mut out);
        out
    }

    /// Opens a part of the head; `None` when it does not open.
    pub fn open_part(&self, name: &SessionName, part: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let opened = self.record.open(&name.part_context(part), sealed).ok()?;
        Some(opened.plaintext.to_vec())
    }
}

/// A bounded cache: the oldest entry goes first, and its keys are wiped with their last user. With a new primary key all go:
/// from then on what is used proves to be wrapped under a key that is still there.
#[derive(Default)]
pub struct KeyCache {
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    /// The primary key when these were unwrapped.
    primary: u32,
    by_tag: HashMap<OwnerTag, Arc<SessionKeys>>,
    order: VecDeque<OwnerTag>,
}

impl Entries {
    fn under(&mut self, primary: u32) -> &mut Self {
        if self.primary != primary {
            *self = Self { primary, ..Self::default() };
        }
        self
    }
}

impl KeyCache {
    /// The keys of this very incarnation, if they were unwrapped while `primary` was the primary key.
    pub fn get(&self, tag: &OwnerTag, incarnation: u64, primary: u32) -> Option<Arc<SessionKeys>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.under(primary).by_tag.get(tag).filter(|keys| keys.incarnation == incarnation).cloned()
    }

    /// Remembers keys that were unwrapped, or made, while `primary` was the primary key.
    pub fn put(&self, tag: &OwnerTag, keys: Arc<SessionKeys>, primary: u32) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = entries.under(primary);
        if entries.by_tag.insert(*tag, keys).is_none() {
            entries.order.push_back(*tag);
            if entries.order.len() > CACHED
                && let Some(oldest) = entries.order.pop_front()
            {
                entries.by_tag.remove(&oldest);
            }
        }
    }

    /// Forgets the keys of a session.
    pub fn drop(&self, tag: &OwnerTag) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.by_tag.remove(tag).is_some() {
            entries.order.retain(|one| one != tag);
        }
    }
}
