//! Which session is meant, and what names it in Valkey: an HMAC, never the name itself.

use crate::{
    crypto::{Context, Keyring, OwnerTag},
    valkey::Link,
};

/// The kind of owner in tags, contexts and the index.
pub const KIND: &str = "session";

/// A session of a namespace.
#[derive(Clone)]
pub struct SessionName {
    /// The bot, number or tenant.
    pub namespace: String,
    /// The session's own name.
    pub session: String,
    tag: OwnerTag,
}

impl SessionName {
    /// Names a session; the caller has checked the lengths.
    pub fn new(keyring: &Keyring, namespace: String, session: String) -> Self {
        let tag = keyring.owner_tag(KIND, &namespace, &session);
        Self { namespace, session, tag }
    }

    /// A session of which only the tag is known: enough to find its keys, not to open anything.
    pub fn of_tag(tag: OwnerTag) -> Self {
        Self { namespace: String::new(), session: String::new(), tag }
    }

    /// The HMAC that stands for it in key names.
    pub fn tag(&self) -> &OwnerTag {
        &self.tag
    }

    /// The head's key.
    pub fn head(&self, link: &Link) -> Vec<u8> {
        link.owner_key(&self.tag, "h")
    }

    /// The key of an incarnation's records.
    pub fn records(&self, link: &Link, incarnation: u64) -> Vec<u8> {
        link.owner_key(&self.tag, &format!("r:{incarnation}"))
    }

    /// What a wrapped root key of this session is bound to.
    pub fn key_context(&self) -> Context {
        Context::new(KIND, &[self.namespace.as_bytes(), self.session.as_bytes()])
    }

    /// What a record is bound to.
    pub fn record_context(&self, ty: &str, id: &str) -> Context {
        Context::new(
            KIND,
            &[self.namespace.as_bytes(), self.session.as_bytes(), ty.as_bytes(), id.as_bytes()],
        )
    }

    /// What another sealed part of the head is bound to.
    pub fn part_context(&self, part: &str) -> Context {
        Context::new(part, &[self.namespace.as_bytes(), self.session.as_bytes()])
    }

    /// Stands for a writer in the head; the same over all incarnations.
    pub fn writer(&self, keyring: &Keyring, writer: &str) -> [u8; 8] {
        let tag = keyring.owner_tag("session-writer", &self.tag.to_string(), writer);
        let mut short = [0; 8];
        short.copy_from_slice(&tag.as_bytes()[..8]);
        short
    }

    /// Stands for an owner in the head.
    pub fn owner(&self, keyring: &Keyring, owner: &str) -> [u8; 16] {
        *keyring.owner_tag("session-owner", &self.tag.to_string(), owner).as_bytes()
    }
}
