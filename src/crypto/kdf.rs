//! Key derivation: HKDF-Expand over uniformly random 32-byte keys, so no extract step is needed.

use aes_gcm::{Aes256Gcm, KeyInit as _, Nonce, Tag, aead::AeadInOut as _};
use hkdf::Hkdf;
use hmac::Hmac;
use secrecy::{ExposeSecret as _, SecretBox};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::fill_random;

pub(super) type HmacSha256 = Hmac<Sha256>;
/// A key at rest in memory: boxed, so that moving it leaves no copies behind, and wiped on drop. No `Debug` shows it.
pub(super) struct Secret32(SecretBox<[u8; 32]>);

impl Secret32 {
    pub(super) fn random() -> Self {
        Self(SecretBox::init_with_mut(|bytes: &mut [u8; 32]| fill_random(bytes)))
    }

    pub(super) fn copy_of(bytes: &[u8; 32]) -> Self {
        Self(SecretBox::init_with_mut(|secret: &mut [u8; 32]| secret.copy_from_slice(bytes)))
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        self.0.expose_secret()
    }

    pub(super) fn same(&self, other: &Self) -> bool {
        self.bytes().ct_eq(other.bytes()).into()
    }
}

impl Clone for Secret32 {
    fn clone(&self) -> Self {
        Self::copy_of(self.bytes())
    }
}

pub(super) const SALT_LEN: usize = 24;
pub(super) const COMMITMENT_LEN: usize = 32;
pub(super) const TAG_LEN: usize = 16;

/// A 32-byte key ready to derive from. Its HMAC states are wiped on drop (the `zeroize` feature of `sha2`).
pub(super) struct Prk(Hkdf<Sha256>);

impl Prk {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        match Hkdf::from_prk(key) {
            Ok(hkdf) => Self(hkdf),
            Err(_) => unreachable!("32 bytes are a whole SHA-256 output"),
        }
    }

    pub(super) fn expand(&self, info: &[&[u8]], out: &mut [u8]) {
        if self.0.expand_multi_info(info, out).is_err() {
            unreachable!("every output here is far below 255 blocks");
        }
    }

    /// The key that `label` names.
    pub(super) fn derive(&self, label: &str) -> Zeroizing<[u8; 32]> {
        let mut key = Zeroizing::new([0; 32]);
        self.expand(&[label.as_bytes()], &mut *key);
        key
    }

    /// One record's own key, nonce and commitment. The header holds the record's salt.
    pub(super) fn okm(&self, header: &[u8]) -> Okm {
        let mut okm = Okm(Zeroizing::new([0; 76]));
        self.expand(&[b"pannier/v1/okm", header], &mut *okm.0);
        okm
    }
}

/// `key[32] ‖ nonce[12] ‖ commitment[32]`. The commitment says which key sealed a record before anything is decrypted:
/// AES-GCM alone lets one ciphertext open under two keys.
pub(super) struct Okm(Zeroizing<[u8; 76]>);

impl Okm {
    fn cipher(&self) -> Aes256Gcm {
        match Aes256Gcm::new_from_slice(&self.0[..32]) {
            Ok(cipher) => cipher,
            Err(_) => unreachable!("a key of 32 bytes"),
        }
    }

    fn nonce(&self) -> Nonce<aes_gcm::aead::consts::U12> {
        let mut nonce = Nonce::default();
        nonce.copy_from_slice(&self.0[32..44]);
        nonce
    }

    pub(super) fn commitment(&self) -> &[u8] {
        &self.0[44..]
    }

    pub(super) fn commits_to(&self, commitment: &[u8]) -> bool {
        self.commitment().ct_eq(commitment).into()
    }

    /// Encrypts `body` in place and gives its tag.
    pub(super) fn encrypt(&self, aad: &[u8], body: &mut [u8]) -> [u8; TAG_LEN] {
        match self.cipher().encrypt_inout_detached(&self.nonce(), aad, body.into()) {
            Ok(tag) => tag.into(),
            Err(_) => unreachable!("bodies are far below the 64 GiB of AES-GCM"),
        }
    }

    /// Decrypts `body` in place; `false` leaves it as it was.
    pub(super) fn decrypt(&self, aad: &[u8], body: &mut [u8], tag: [u8; TAG_LEN]) -> bool {
        let tag = Tag::from(tag);
        self.cipher().decrypt_inout_detached(&self.nonce(), aad, body.into(), &tag).is_ok()
    }
}
