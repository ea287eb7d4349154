//! The body of a blob: sealed in segments, so that neither side ever holds more than one, and each proves itself before a
//! byte of it is used. A segment's place and whether it is the last are in its nonce (STREAM, big endian counter): none can be
//! left out, moved, repeated or cut off unnoticed.
//!
//! ```text
//! 'P' 01 02 00 | u32be epoch | u64be generation | salt[24] | commitment[32]          the preamble, 72 bytes
//! then segments: ciphertext of 64 KiB (the last one of what is left, perhaps nothing) ‖ tag[16]
//! okm 71 bytes = key[32] ‖ nonce prefix[7] ‖ commitment[32];  AAD of every segment = header (bytes 0..40) ‖ context
//! ```

use aead_stream::{NewStream as _, StreamBE32, StreamPrimitive as _};
use aes_gcm::{
    Aes256Gcm, KeyInit as _,
    aead::{Buffer, Error as AeadError},
};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::{
    Context, OpenError, array_at,
    envelope::{MAGIC, VERSION, aad},
    kdf::{COMMITMENT_LEN, Prk, SALT_LEN, TAG_LEN},
    random_salt,
};

/// Bytes of plaintext in a segment; the last has 1..=this, or none when the body is empty.
pub const SEGMENT: usize = 64 * 1024;
/// What a segment gains when it is sealed, in bytes.
pub const SEAL_OVERHEAD: usize = TAG_LEN;
/// Bytes in front of the first segment.
pub const PREAMBLE: usize = HEADER_LEN + COMMITMENT_LEN;

const SUITE_BLOB: u8 = 2;
const HEADER_LEN: usize = 40;
const OKM_LEN: usize = 71;

/// `k_blob` of one owner. Wiped on drop; no `Debug`.
pub struct BlobKey(pub(super) Prk);

impl BlobKey {
    /// Begins a body.
    ///
    /// # Panics
    /// When the operating system has no randomness.
    pub fn sealer(&self, epoch: u32, generation: u64, ctx: &Context) -> SegmentSealer {
        self.sealer_with(epoch, generation, &random_salt(), ctx)
    }

    /// As [`BlobKey::sealer`] with a given salt: for known answers.
    pub(super) fn sealer_with(
        &self,
        epoch: u32,
        generation: u64,
        salt: &[u8; SALT_LEN],
        ctx: &Context,
    ) -> SegmentSealer {
        let mut preamble = Vec::with_capacity(PREAMBLE);
        preamble.extend_from_slice(&[MAGIC, VERSION, SUITE_BLOB, 0]);
        preamble.extend_from_slice(&epoch.to_be_bytes());
        preamble.extend_from_slice(&generation.to_be_bytes());
        preamble.extend_from_slice(salt);
        let (stream, commitment) = self.stream(&preamble);
        let aad = aad(&preamble, ctx);
        preamble.extend_from_slice(&*commitment);
        SegmentSealer { stream, aad, position: 0, preamble }
    }

    /// Goes on with what [`BlobKey::sealer`] began, given its preamble.
    ///
    /// # Errors
    /// The preamble is none, of a newer format, or was made under another key.
    pub fn opener(
        &self,
        generation: u64,
        ctx: &Context,
        preamble: &[u8],
    ) -> Result<SegmentOpener, OpenError> {
        if preamble.len() != PREAMBLE || preamble[0] != MAGIC {
            return Err(OpenError::Malformed);
        }
        if preamble[1] != VERSION || preamble[2] != SUITE_BLOB {
            return Err(OpenError::UnknownFormat);
        }
        let (header, commitment) = preamble.split_at(HEADER_LEN);
        let (stream, expected) = self.stream(header);
        if !bool::from(expected.as_slice().ct_eq(commitment)) {
            return Err(OpenError::Corrupt);
        }
        // Only now is the header known to be what was sealed.
        if header[3] != 0 {
            return Err(OpenError::UnknownFormat);
        }
        if array_at(header, 8).map(u64::from_be_bytes) != Some(generation) {
            return Err(OpenError::Corrupt);
        }
        Ok(SegmentOpener { stream, aad: aad(header, ctx), position: 0 })
    }

    fn stream(&self, header: &[u8]) -> (StreamBE32<Aes256Gcm>, Zeroizing<[u8; COMMITMENT_LEN]>) {
        let mut okm = Zeroizing::new([0; OKM_LEN]);
        self.0.expand(&[b"pannier/v1/okm", header], &mut *okm);
        let (Ok(cipher), Ok(prefix)) = (Aes256Gcm::new_from_slice(&okm[..32]), okm[32..39].try_into()) else {
            unreachable!("a key of 32 bytes and a prefix of 7")
        };
        let mut commitment = Zeroizing::new([0; COMMITMENT_LEN]);
        commitment.copy_from_slice(&okm[39..]);
        (StreamBE32::from_aead(cipher, &prefix), commitment)
    }
}

/// Seals the segments of one body, in order.
pub struct SegmentSealer {
    stream: StreamBE32<Aes256Gcm>,
    aad: Vec<u8>,
    position: u32,
    preamble: Vec<u8>,
}

impl SegmentSealer {
    /// What comes before the first segment.
    pub fn preamble(&self) -> &[u8] {
        &self.preamble
    }

    /// Appends the next segment, sealed, to `out`. The caller keeps to [`SEGMENT`] and gives the last as such.
    pub fn seal(&mut self, segment: &[u8], last: bool, out: &mut Vec<u8>) {
        out.reserve(segment.len() + SEAL_OVERHEAD);
        let mut tail = Tail::behind(out);
        tail.out.extend_from_slice(segment);
        if self.stream.encrypt_in_place(self.position, last, &self.aad, &mut tail).is_err() {
            unreachable!("segments are far below the 64 GiB of AES-GCM");
        }
        self.position += 1;
    }
}

/// Opens the segments of one body, in order.
pub struct SegmentOpener {
    stream: StreamBE32<Aes256Gcm>,
    aad: Vec<u8>,
    position: u32,
}

impl SegmentOpener {
    /// Appends the plaintext of the next sealed segment to `out`; on failure `out` is as it was.
    ///
    /// # Errors
    /// It was altered, is not the next one, or is (not) the last against what `last` says.
    pub fn open(&mut self, sealed: &[u8], last: bool, out: &mut Vec<u8>) -> Result<(), OpenError> {
        let from = out.len();
        let mut tail = Tail::behind(out);
        tail.out.extend_from_slice(sealed);
        if self.stream.decrypt_in_place(self.position, last, &self.aad, &mut tail).is_err() {
            out.truncate(from);
            return Err(OpenError::Corrupt);
        }
        self.position += 1;
        Ok(())
    }
}

/// The end of a vector as a buffer of its own, so that a segment is sealed where it will stay.
struct Tail<'a> {
    out: &'a mut Vec<u8>,
    from: usize,
}

impl<'a> Tail<'a> {
    fn behind(out: &'a mut Vec<u8>) -> Self {
        Self { from: out.len(), out }
    }
}

impl AsRef<[u8]> for Tail<'_> {
    fn as_ref(&self) -> &[u8] {
        &self.out[self.from..]
    }
}

impl AsMut<[u8]> for Tail<'_> {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.out[self.from..]
    }
}

impl Buffer for Tail<'_> {
    fn extend_from_slice(&mut self, other: &[u8]) -> Result<(), AeadError> {
        self.out.extend_from_slice(other);
        Ok(())
    }

    fn truncate(&mut self, len: usize) {
        self.out.truncate(self.from + len);
    }
}
