//! The manifest of a generation: what its body must be. Sealed under the blob's key for this very generation.

use std::collections::BTreeMap;

use super::{keys::BlobKeys, name::BlobName};
use crate::{
    crypto::{OpenError, lp, take_lp},
    error::{Error, Reason, Result},
    telemetry,
};

/// What is known of a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Bytes.
    pub size: u64,
    /// Of the content.
    pub sha256: [u8; 32],
    /// As the client gave it.
    pub content_digest: Vec<u8>,
    /// As the client gave them.
    pub labels: BTreeMap<String, String>,
}

impl Manifest {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.size.to_be_bytes());
        out.extend_from_slice(&self.sha256);
        lp(&mut out, &self.content_digest);
        for (name, value) in &self.labels {
            lp(&mut out, name.as_bytes());
            lp(&mut out, value.as_bytes());
        }
        out
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (size, rest) = bytes.split_first_chunk::<8>()?;
        let (sha256, mut rest) = rest.split_first_chunk::<32>()?;
        let mut manifest = Self {
            size: u64::from_be_bytes(*size),
            sha256: *sha256,
            content_digest: take_lp(&mut rest)?.to_vec(),
            labels: BTreeMap::new(),
        };
        while !rest.is_empty() {
            let mut text = || String::from_utf8(take_lp(&mut rest)?.to_vec()).ok();
            manifest.labels.insert(text()?, text()?);
        }
        Some(manifest)
    }

    /// Seals it.
    pub fn seal(&self, keys: &BlobKeys, name: &BlobName, generation: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let context = name.generation_context(generation);
        keys.record.seal(keys.epoch, generation, &context, &self.encode(), &mut out);
        out
    }

    /// Opens what was stored for `generation`.
    pub fn open(keys: &BlobKeys, name: &BlobName, generation: u64, sealed: Option<&[u8]>) -> Result<Self> {
        let Some(sealed) = sealed else { return Err(corrupt("the manifest is missing")) };
        match keys
            .record
            .open(&name.generation_context(generation), sealed)
            .inspect_err(telemetry::could_not_open)
        {
            Ok(opened) if opened.revision == generation => {
                Self::decode(&opened.plaintext).ok_or_else(|| corrupt("the manifest is of an unknown shape"))
            }
            Err(OpenError::UnknownFormat) => Err(Error::new(
                Reason::NewerFormat,
                "the blob was written by a newer Pannier: update this one",
            )),
            Ok(_) | Err(OpenError::Malformed | OpenError::Corrupt) => {
                Err(corrupt("the manifest was altered or moved here"))
            }
        }
    }
}

/// A generation is damaged.
pub fn corrupt(what: &str) -> Error {
    Error::new(
        Reason::CorruptBlob,
        format!("{what}: the blob cannot be read; roll back to another generation, or save it anew"),
    )
    .with("type", "blob")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back_as_it_went_in() {
        let manifest = Manifest {
            size: 1 << 40,
            sha256: [7; 32],
            content_digest: b"digest".to_vec(),
            labels: [("a".to_owned(), String::new()), ("né".to_owned(), "📦".to_owned())].into(),
        };
        let bytes = manifest.encode();
        assert_eq!(Manifest::decode(&bytes), Some(manifest));
        for len in 0..50 {
            assert_eq!(Manifest::decode(&bytes[..len]), None, "{len}");
        }
    }
}
