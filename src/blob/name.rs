//! Which blob is meant, and what names it in Valkey: the tag of the session of the same name, so that one script sees both.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::{
    crypto::{Context, Keyring, OwnerTag},
    valkey::Link,
};

/// The kind of owner in contexts and the index.
pub const KIND: &str = "blob";

/// A blob of a namespace.
#[derive(Clone)]
pub struct BlobName {
    /// The bot, number or tenant.
    pub namespace: String,
    /// The blob's own name.
    pub blob: String,
    tag: OwnerTag,
}

impl BlobName {
    /// Names a blob; the caller has checked the lengths.
    pub fn new(keyring: &Keyring, namespace: String, blob: String) -> Self {
        let tag = keyring.owner_tag(KIND, &namespace, &blob);
        Self { namespace, blob, tag }
    }

    /// A blob of which only the tag is known: enough to find its keys, not to open anything.
    pub fn of_tag(tag: OwnerTag) -> Self {
        Self { namespace: String::new(), blob: String::new(), tag }
    }

    /// The HMAC that stands for it in key names.
    pub fn tag(&self) -> &OwnerTag {
        &self.tag
    }

    /// The key of the index.
    pub fn index(&self, link: &Link) -> Vec<u8> {
        link.owner_key(&self.tag, "b")
    }

    /// The key of the manifests, by generation.
    pub fn manifests(&self, link: &Link) -> Vec<u8> {
        link.owner_key(&self.tag, "b:m")
    }

    /// The key of one part.
    pub fn part(&self, link: &Link, generation: u64, number: u32) -> Vec<u8> {
        link.owner_key(&self.tag, &format!("b:{generation}:{number}"))
    }

    /// The key of the head of the session of the same name.
    pub fn session(&self, link: &Link) -> Vec<u8> {
        link.owner_key(&self.tag, "h")
    }

    /// What the wrapped root key is bound to.
    pub fn key_context(&self) -> Context {
        Context::new(KIND, &[self.namespace.as_bytes(), self.blob.as_bytes()])
    }

    /// What a generation's manifest and body are bound to.
    pub fn generation_context(&self, generation: u64) -> Context {
        self.key_context().with(&[generation.to_string().as_bytes()])
    }

    /// What the sealed last error is bound to.
    pub fn error_context(&self) -> Context {
        Context::new("blob-error", &[self.namespace.as_bytes(), self.blob.as_bytes()])
    }

    /// Stands for a request id in the index.
    pub fn request(&self, keyring: &Keyring, request_id: &str) -> [u8; 16] {
        *keyring.owner_tag("blob-request", &self.tag.to_string(), request_id).as_bytes()
    }

    /// Stands for the digest of a content in the index. One that a client gave never equals one that was computed.
    pub fn digest(&self, keyring: &Keyring, digest: &Digest<'_>) -> [u8; 16] {
        let text = match digest {
            Digest::Given(bytes) => format!("given {}", URL_SAFE_NO_PAD.encode(bytes)),
            Digest::Sha256(bytes) => format!("sha256 {}", URL_SAFE_NO_PAD.encode(bytes)),
        };
        *keyring.owner_tag("blob-digest", &self.tag.to_string(), &text).as_bytes()
    }

    /// The start of the tag: what logs may show.
    pub fn short(&self) -> String {
        self.tag.to_string().chars().take(8).collect()
    }
}

/// By what two contents are the same.
pub enum Digest<'a> {
    /// The client's own.
    Given(&'a [u8]),
    /// Of all bytes.
    Sha256(&'a [u8; 32]),
}
