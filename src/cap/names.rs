//! What names a cap's keys in Valkey: HMACs, all in the one hash slot of the namespace.

use super::policy::Stored;
use crate::{
    crypto::{Context, Keyring, OwnerTag},
    owner::request::{blinded, mark},
    proto::v1::CapScope,
    valkey::Link,
};

/// The kind of owner in tags and contexts.
const KIND: &str = "cap";

/// The caps of one namespace.
pub struct CapNames {
    pub namespace: String,
    tag: OwnerTag,
    prefix: Vec<u8>,
}

/// Who sends to whom; empty: not said.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    pub sender: &'a str,
    pub recipient: &'a str,
}

impl CapNames {
    /// Of a namespace.
    pub fn new(link: &Link, keyring: &Keyring, namespace: String) -> Self {
        let tag = keyring.owner_tag(KIND, &namespace, "");
        let prefix = link.owner_key(&tag, "");
        Self { namespace, tag, prefix }
    }

    fn key(&self, kind: char, id: &[u8]) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.prefix.len() + 1 + id.len());
        key.extend_from_slice(&self.prefix);
        key.extend(kind.to_string().bytes());
        key.extend_from_slice(id);
        key
    }

    /// All policies.
    pub fn policies(&self) -> Vec<u8> {
        self.key('p', b"")
    }

    /// Stands for a policy's name.
    pub fn field(&self, keyring: &Keyring, policy: &str) -> [u8; 8] {
        let mut field = [0; 8];
        field.copy_from_slice(&blinded(keyring, "cap-policy", &self.tag, policy)[..8]);
        field
    }

    /// Stands for what makes a policy's counters what they are.
    pub fn definition(&self, keyring: &Keyring, definition: &str) -> Vec<u8> {
        blinded(keyring, "cap-definition", &self.tag, definition)[..8].to_vec()
    }

    /// What a policy's text is sealed for.
    pub fn policy_context(&self, field: &[u8; 8]) -> Context {
        Context::new(KIND, &[self.namespace.as_bytes(), b"policy", field])
    }

    /// Stands for a send: 16 bytes in its key, the first 8 of them in reservations.
    pub fn send(&self, keyring: &Keyring, send_id: &str) -> [u8; 16] {
        blinded(keyring, "cap-send", &self.tag, send_id)
    }

    /// The key of a send.
    pub fn send_key(&self, send: &[u8; 16]) -> Vec<u8> {
        self.key('s', send)
    }

    /// The keys of a counter, by what [`CapNames::counter`] gave: counter and reservations.
    pub fn counter_keys(&self, unique: bool, counter: &[u8]) -> [Vec<u8>; 2] {
        [self.key(if unique { 'u' } else { 'c' }, counter), self.key('r', counter)]
    }

    /// Which counter of a policy a send is in.
    pub fn counter(&self, keyring: &Keyring, stored: &Stored, subject: Subject<'_>) -> [u8; 16] {
        let (sender, recipient) = match stored.policy.scope {
            CapScope::Unspecified | CapScope::Namespace => ("", ""),
            CapScope::Sender => (subject.sender, ""),
            CapScope::Recipient => ("", subject.recipient),
            CapScope::Pair => (subject.sender, subject.recipient),
        };
        let mut text = String::with_capacity(64 + sender.len() + recipient.len());
        for part in [&stored.policy.name, sender, recipient] {
            text.push_str(&part.len().to_string());
            text.push(':');
            text.push_str(part);
        }
        text.push_str(&stored.definition.to_string());
        blinded(keyring, "cap-counter", &self.tag, &text)
    }

    /// Stands for a recipient among those of a `unique` policy.
    pub fn recipient(&self, keyring: &Keyring, recipient: &str) -> Vec<u8> {
        blinded(keyring, "cap-recipient", &self.tag, recipient)[..8].to_vec()
    }

    /// The key of a service window.
    pub fn inbound(&self, keyring: &Keyring, subject: Subject<'_>) -> Vec<u8> {
        let text = format!("{}:{}{}", subject.sender.len(), subject.sender, subject.recipient);
        self.key('i', &blinded(keyring, "cap-inbound", &self.tag, &text))
    }

    /// A service window that nobody ever has: for calls that name no recipient.
    pub fn no_inbound(&self) -> Vec<u8> {
        self.key('i', b"")
    }

    /// Stands for everything that makes one send the same as another.
    pub fn fingerprint(
        &self,
        keyring: &Keyring,
        n: u64,
        reserve: bool,
        subject: Subject<'_>,
        policies: &[String],
    ) -> Vec<u8> {
        let mut text = format!("{n} {reserve} ");
        for part in [subject.sender, subject.recipient].into_iter().chain(policies.iter().map(String::as_str))
        {
            text.push_str(&part.len().to_string());
            text.push(':');
            text.push_str(part);
        }
        blinded(keyring, "cap-same-send", &self.tag, &text)[..8].to_vec()
    }

    /// Stands for a request.
    pub fn mark(&self, keyring: &Keyring, request_id: &str) -> Vec<u8> {
        mark(keyring, &self.tag, request_id)
    }
}
