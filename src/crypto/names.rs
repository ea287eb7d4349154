//! Names as Valkey sees them: owner tags, record fields and the sealed names of the listing. Equal names give equal
//! blinded names under one key, and tell nothing under none.

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{KeyInit as _, Mac as _};

use super::{
    Context, RecordKeys, array_at,
    context::take_lp,
    envelope,
    kdf::{HmacSha256, Prk},
    lp,
};

/// HMAC-SHA256 under `key`.
pub(super) fn hmac(key: &[u8; 32]) -> HmacSha256 {
    match HmacSha256::new_from_slice(key) {
        Ok(hmac) => hmac,
        Err(_) => unreachable!("HMAC takes a key of any length"),
    }
}

/// The first `N` ≤ 32 bytes of the MAC over `label ‖ lp(p1) ‖ …`.
fn mac<const N: usize>(key: &HmacSha256, label: &[u8], parts: &[&str]) -> [u8; N] {
    let mut mac = key.clone();
    mac.update(label);
    for part in parts {
        #[allow(clippy::cast_possible_truncation)]
        mac.update(&(part.len() as u32).to_be_bytes());
        mac.update(part.as_bytes());
    }
    let full: [u8; 32] = mac.finalize().into_bytes().into();
    array_at(&full, 0).unwrap_or([0; N])
}

/// The blinded name of an owner; as text, the hash tag of its keys.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerTag([u8; 16]);

impl OwnerTag {
    /// Of `kind`, `namespace` and `name` (empty where the kind has none). A blob's tag is that of the session of the same
    /// name, so that the session's lease guards it in one slot.
    pub(super) fn new(index_key: &HmacSha256, kind: &str, namespace: &str, name: &str) -> Self {
        let kind = if kind == "blob" { "session" } else { kind };
        Self(mac(index_key, b"pannier/v1/owner", &[kind, namespace, name]))
    }

    /// A tag read from an index.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes, as index members hold them.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The index bucket, 0..=63.
    pub fn bucket(&self) -> u8 {
        self.0[0] & 63
    }
}

/// base64url without padding, 22 characters.
impl fmt::Display for OwnerTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for OwnerTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnerTag({self})")
    }
}

impl FromStr for OwnerTag {
    type Err = base64::DecodeSliceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 16];
        match URL_SAFE_NO_PAD.decode_slice(text, &mut bytes)? {
            16 => Ok(Self(bytes)),
            len => Err(base64::DecodeError::InvalidLength(len).into()),
        }
    }
}

/// The types with a code of their own, by code. 0 is the sentinel's and no client's type.
const TYPES: [&str; 12] = [
    "",
    "creds",
    "pre-key",
    "session",
    "sender-key",
    "sender-key-memory",
    "app-state-sync-key",
    "app-state-sync-version",
    "lid-mapping",
    "device-list",
    "tctoken",
    "identity-key",
];
const OTHER_TYPE: u8 = 255;

/// The type of a record as a field begins with it: one byte, or 255 and 8 bytes of HMAC for a type we do not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TypeCode {
    bytes: [u8; 9],
}

impl TypeCode {
    /// The field that keeps an empty session's hash in being.
    pub const SENTINEL: Self = Self { bytes: [0; 9] };

    fn known(code: u8) -> Self {
        Self { bytes: [code, 0, 0, 0, 0, 0, 0, 0, 0] }
    }

    /// The bytes, 1 or 9.
    pub fn as_bytes(&self) -> &[u8] {
        if self.bytes[0] == OTHER_TYPE { &self.bytes } else { &self.bytes[..1] }
    }

    /// The type's name if the code alone tells it; others have their sealed name in the owner's head.
    pub fn type_name(&self) -> Option<&'static str> {
        TYPES.get(usize::from(self.bytes[0])).copied().filter(|name| !name.is_empty())
    }

    /// A code from the front of a field, and what is behind it.
    pub fn split(field: &[u8]) -> Option<(Self, &[u8])> {
        match *field.first()? {
            OTHER_TYPE => {
                let (bytes, rest) = field.split_first_chunk::<9>()?;
                Some((Self { bytes: *bytes }, rest))
            }
            code if usize::from(code) < TYPES.len() => Some((Self::known(code), &field[1..])),
            _ => None,
        }
    }
}

/// The field of one record: type code ‖ name, 17 or 25 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RecordField {
    code: TypeCode,
    bytes: [u8; 25],
}

impl RecordField {
    /// The bytes of the field.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.code.as_bytes().len() + 16]
    }

    /// Its type.
    pub fn type_code(&self) -> TypeCode {
        self.code
    }
}

impl RecordKeys {
    /// The blinded name of a record.
    pub fn name(&self, ty: &str, id: &str) -> [u8; 16] {
        mac(&self.name, b"", &[ty, id])
    }

    /// The code of a type.
    pub fn type_code(&self, ty: &str) -> TypeCode {
        for (code, name) in (0u8..).zip(TYPES).skip(1) {
            if name == ty {
                return TypeCode::known(code);
            }
        }
        let mut bytes = [OTHER_TYPE; 9];
        bytes[1..].copy_from_slice(&mac::<8>(&self.name, b"", &[ty]));
        TypeCode { bytes }
    }

    /// The field of a record: its type's code and its name.
    pub fn field(&self, ty: &str, id: &str) -> RecordField {
        let code = self.type_code(ty);
        let mut bytes = [0; 25];
        let head = code.as_bytes();
        bytes[..head.len()].copy_from_slice(head);
        bytes[head.len()..head.len() + 16].copy_from_slice(&self.name(ty, id));
        RecordField { code, bytes }
    }
}

/// Seals the names that a listing shows. Derived from the index key, so that an owner can be listed by name although its
/// root key does not unwrap. Wiped on drop; no `Debug`.
pub struct IndexNameKey(pub(super) Prk);

impl IndexNameKey {
    pub(super) fn new(index_key: &Prk) -> Self {
        Self(Prk::new(&index_key.derive("pannier/v1/index-name")))
    }

    /// The namespace and name of the owner with this tag, sealed.
    ///
    /// # Panics
    /// When the operating system has no randomness.
    pub fn seal_name(&self, tag: &OwnerTag, namespace: &str, name: &str) -> Vec<u8> {
        let mut out = Vec::new();
        envelope::seal(&self.0, 0, 0, &Self::context(tag), &Self::plaintext(namespace, name), &mut out);
        out
    }

    /// Opens what [`IndexNameKey::seal_name`] made for the same tag; `None` when it is altered or another's.
    pub fn open_name(&self, tag: &OwnerTag, sealed: &[u8]) -> Option<(String, String)> {
        let opened = envelope::open(&self.0, &Self::context(tag), sealed).ok()?;
        let mut rest = &opened.plaintext[..];
        let namespace = str::from_utf8(take_lp(&mut rest)?).ok()?;
        let name = str::from_utf8(take_lp(&mut rest)?).ok()?;
        rest.is_empty().then(|| (namespace.to_owned(), name.to_owned()))
    }

    pub(super) fn context(tag: &OwnerTag) -> Context {
        Context::new("owner-name", &[tag.as_bytes()])
    }

    pub(super) fn plaintext(namespace: &str, name: &str) -> Vec<u8> {
        let mut plaintext = Vec::with_capacity(8 + namespace.len() + name.len());
        lp(&mut plaintext, namespace.as_bytes());
        lp(&mut plaintext, name.as_bytes());
        plaintext
    }
}
