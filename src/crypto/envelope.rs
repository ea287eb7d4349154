//! Envelope v1: one sealed record. A random salt in the header gives each record its own key, nonce and commitment, so
//! nothing counts nonces; header and context are authenticated, so neither can be altered or swapped.
//!
//! ```text
//! 0 'P' | 1 version 1 | 2 suite 1 | 3 flags | 4 u32be epoch | 8 u64be revision | 16 salt[24] | 40 commitment[32]
//! 72 ciphertext ‖ tag[16]
//! ```

use thiserror::Error;
use zeroize::Zeroizing;

use super::{
    Context, array_at, compress,
    kdf::{COMMITMENT_LEN, Prk, SALT_LEN, TAG_LEN},
    random_salt,
};

pub(super) const MAGIC: u8 = b'P';
pub(super) const VERSION: u8 = 1;
const SUITE_RECORD: u8 = 1;
const FLAG_ZSTD: u8 = 1;
const HEADER_LEN: usize = 40;
const BODY_AT: usize = HEADER_LEN + COMMITMENT_LEN;

/// What an envelope adds to its body, in bytes.
pub const OVERHEAD: usize = BODY_AT + TAG_LEN;

/// The most a compressed body may give, in bytes: a value of 16 MiB and room for its type and id.
pub const MAX_PLAINTEXT: usize = 16 * 1024 * 1024 + 64 * 1024;

/// Why an envelope does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// Not an envelope: too short or not ours.
    #[error("this is no sealed record")]
    Malformed,
    /// A version, suite or flag that this build does not know.
    #[error("sealed in a format this version does not know")]
    UnknownFormat,
    /// Altered, moved here from elsewhere, or sealed with another key.
    #[error("altered, moved or sealed with another key")]
    Corrupt,
}

/// An opened record. Holds a secret, so it has no `Debug`.
pub struct Opened {
    /// The owner's revision that was foreseen when it was sealed; 0 for records without one.
    pub revision: u64,
    /// The owner's epoch.
    pub epoch: u32,
    /// What was sealed, wiped on drop.
    pub plaintext: Zeroizing<Vec<u8>>,
}

/// The revision an envelope claims, unchecked; `None` when it is no envelope.
pub fn envelope_revision(envelope: &[u8]) -> Option<u64> {
    if envelope.len() < OVERHEAD || envelope[..2] != [MAGIC, VERSION] {
        return None;
    }
    array_at(envelope, 8).map(u64::from_be_bytes)
}

/// Appends `plaintext` sealed under `key` to `out`, compressed where that pays.
pub(super) fn seal(key: &Prk, epoch: u32, revision: u64, ctx: &Context, plaintext: &[u8], out: &mut Vec<u8>) {
    let salt = random_salt();
    out.reserve(OVERHEAD + plaintext.len());
    let start = begin(epoch, revision, &salt, out);
    // What is above the bound would not open again: it stays uncompressed.
    if compress::append_compressed(plaintext, MAX_PLAINTEXT, out) {
        out[start + 3] = FLAG_ZSTD;
    } else {
        out.extend_from_slice(plaintext);
    }
    finish(key, start, ctx, out);
}

/// As [`seal`], with everything that is otherwise chosen for the caller given: for known answers.
#[cfg(test)]
pub(super) fn seal_with(
    key: &Prk,
    (epoch, revision, flags): (u32, u64, u8),
    salt: &[u8; SALT_LEN],
    ctx: &Context,
    body: &[u8],
) -> Vec<u8> {
    let mut out = Vec::new();
    begin(epoch, revision, salt, &mut out);
    out[3] = flags;
    out.extend_from_slice(body);
    finish(key, 0, ctx, &mut out);
    out
}

/// Appends the header and room for the commitment; gives where they start.
fn begin(epoch: u32, revision: u64, salt: &[u8; SALT_LEN], out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[MAGIC, VERSION, SUITE_RECORD, 0]);
    out.extend_from_slice(&epoch.to_be_bytes());
    out.extend_from_slice(&revision.to_be_bytes());
    out.extend_from_slice(salt);
    out.extend_from_slice(&[0; COMMITMENT_LEN]);
    start
}

/// Encrypts the body behind the header in place and fills in commitment and tag.
fn finish(key: &Prk, start: usize, ctx: &Context, out: &mut Vec<u8>) {
    let (header, rest) = out[start..].split_at_mut(HEADER_LEN);
    let (commitment, body) = rest.split_at_mut(COMMITMENT_LEN);
    let okm = key.okm(header);
    commitment.copy_from_slice(okm.commitment());
    let tag = okm.encrypt(&aad(header, ctx), body);
    out.extend_from_slice(&tag);
}

/// An envelope taken apart, its commitment checked: the key is the one that sealed it, and the header what was sealed.
struct Parts<'a> {
    okm: super::kdf::Okm,
    header: &'a [u8],
    body: &'a [u8],
    tag: [u8; TAG_LEN],
    epoch: u32,
    revision: u64,
    compressed: bool,
}

impl<'a> Parts<'a> {
    fn of(key: &Prk, envelope: &'a [u8]) -> Result<Self, OpenError> {
        if envelope.len() < OVERHEAD || envelope[0] != MAGIC {
            return Err(OpenError::Malformed);
        }
        if envelope[1] != VERSION || envelope[2] != SUITE_RECORD {
            return Err(OpenError::UnknownFormat);
        }
        let (header, rest) = envelope.split_at(HEADER_LEN);
        let (commitment, rest) = rest.split_at(COMMITMENT_LEN);
        let (Some(epoch), Some(revision), Some((body, tag))) =
            (array_at(header, 4), array_at(header, 8), rest.split_last_chunk::<TAG_LEN>())
        else {
            return Err(OpenError::Malformed);
        };
        let okm = key.okm(header);
        if !okm.commits_to(commitment) {
            return Err(OpenError::Corrupt);
        }
        // Only now is the header known to be what was sealed: an unknown flag is a newer format, not a flipped bit.
        let flags = header[3];
        if flags & !FLAG_ZSTD != 0 {
            return Err(OpenError::UnknownFormat);
        }
        Ok(Self {
            okm,
            header,
            body,
            tag: *tag,
            epoch: u32::from_be_bytes(epoch),
            revision: u64::from_be_bytes(revision),
            compressed: flags & FLAG_ZSTD != 0,
        })
    }

    /// The body, decrypted and proven.
    fn decrypt(&self, ctx: &Context) -> Result<Zeroizing<Vec<u8>>, OpenError> {
        let mut body = Zeroizing::new(self.body.to_vec());
        if !self.okm.decrypt(&aad(self.header, ctx), &mut body, self.tag) {
            return Err(OpenError::Corrupt);
        }
        Ok(body)
    }

    fn opened(&self, body: Zeroizing<Vec<u8>>) -> Result<Opened, OpenError> {
        let plaintext = if self.compressed {
            compress::decompress(&body, MAX_PLAINTEXT).ok_or(OpenError::Corrupt)?
        } else {
            body
        };
        Ok(Opened { revision: self.revision, epoch: self.epoch, plaintext })
    }
}

/// Opens an envelope that [`seal`] made under the same key and context.
pub(super) fn open(key: &Prk, ctx: &Context, envelope: &[u8]) -> Result<Opened, OpenError> {
    let parts = Parts::of(key, envelope)?;
    parts.opened(parts.decrypt(ctx)?)
}

/// Opens an envelope whose context only its own plaintext tells: `context` gets the plaintext before it is proven, and
/// what it makes of that must prove it.
pub(super) fn open_unnamed(
    key: &Prk,
    envelope: &[u8],
    context: impl FnOnce(&[u8]) -> Option<Context>,
) -> Result<Opened, OpenError> {
    let parts = Parts::of(key, envelope)?;
    let mut body = Zeroizing::new(parts.body.to_vec());
    // Counter mode is its own inverse: "encrypting" the ciphertext gives the plaintext, without a proof.
    parts.okm.encrypt(&[], &mut body);
    let peeked = parts.opened(body)?;
    let ctx = context(&peeked.plaintext).ok_or(OpenError::Corrupt)?;
    parts.decrypt(&ctx)?;
    Ok(peeked)
}

/// The additional data: `header ‖ context`.
pub(super) fn aad(header: &[u8], ctx: &Context) -> Vec<u8> {
    [header, ctx.as_bytes()].concat()
}
