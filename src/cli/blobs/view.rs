//! Blobs as JSON and as rows. Instants are RFC 3339 in UTC, digests hex.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    cli::output::{bytes, hex, instant, or_dash, shown},
    proto::v1,
};

/// One generation.
#[allow(clippy::struct_field_names)] // the names on the wire
#[derive(Serialize)]
pub struct Blob {
    pub namespace: String,
    pub blob: String,
    pub generation: u64,
    pub incarnation: u64,
    pub state: &'static str,
    pub size: u64,
    pub stored_bytes: u64,
    pub sha256: String,
    pub content_digest: String,
    pub labels: BTreeMap<String, String>,
    pub saved_at: Option<String>,
    pub gone_at: Option<String>,
}

/// What a save did.
#[derive(Serialize)]
pub struct Saved {
    pub outcome: &'static str,
    #[serde(flatten)]
    pub blob: Blob,
}

/// Everything of one name.
#[derive(Serialize)]
pub struct Generations {
    pub generations: Vec<Blob>,
    pub last_error: Option<LastError>,
}

/// A save or fetch that failed.
#[derive(Serialize)]
pub struct LastError {
    pub reason: String,
    pub message: String,
    pub at: Option<String>,
}

/// A soft-deleted incarnation.
#[derive(Serialize)]
pub struct Archive {
    pub namespace: String,
    pub blob: String,
    pub incarnation: u64,
    pub generation: u64,
    pub size: u64,
    pub generations: u32,
    pub deleted_at: Option<String>,
    pub purge_at: Option<String>,
}

impl From<v1::BlobInfo> for Blob {
    fn from(info: v1::BlobInfo) -> Self {
        let state = match info.state() {
            v1::GenerationState::Current => "current",
            v1::GenerationState::Kept => "kept",
            v1::GenerationState::Deleted => "deleted",
            v1::GenerationState::Dropped => "dropped",
            v1::GenerationState::Unspecified => "going",
        };
        Self {
            namespace: info.namespace,
            blob: info.blob,
            generation: info.generation,
            incarnation: info.incarnation,
            state,
            size: info.size,
            stored_bytes: info.stored_bytes,
            sha256: hex(&info.sha256),
            content_digest: hex(&info.content_digest),
            labels: info.labels.into_iter().collect(),
            saved_at: instant(info.saved_at),
            gone_at: instant(info.gone_at),
        }
    }
}

impl From<v1::BlobError> for LastError {
    fn from(error: v1::BlobError) -> Self {
        Self { reason: error.reason, message: error.message, at: instant(error.at) }
    }
}

impl From<v1::BlobArchive> for Archive {
    fn from(archive: v1::BlobArchive) -> Self {
        Self {
            namespace: archive.namespace,
            blob: archive.blob,
            incarnation: archive.incarnation,
            generation: archive.generation,
            size: archive.size,
            generations: archive.generations,
            deleted_at: instant(archive.deleted_at),
            purge_at: instant(archive.purge_at),
        }
    }
}

impl Blob {
    /// As `list` shows it.
    pub fn row(&self) -> Vec<String> {
        vec![
            shown(&self.blob),
            bytes(self.size),
            self.generation.to_string(),
            or_dash(self.saved_at.as_ref()),
        ]
    }

    /// As `generations` shows it.
    pub fn generation_row(&self) -> Vec<String> {
        vec![
            self.generation.to_string(),
            self.state.to_owned(),
            bytes(self.size),
            or_dash(self.saved_at.as_ref()),
            or_dash(self.gone_at.as_ref()),
            self.incarnation.to_string(),
        ]
    }
}

impl Archive {
    /// As `list --deleted` shows it.
    pub fn row(&self) -> Vec<String> {
        vec![
            shown(&self.blob),
            self.incarnation.to_string(),
            bytes(self.size),
            self.generations.to_string(),
            or_dash(self.deleted_at.as_ref()),
            or_dash(self.purge_at.as_ref()),
        ]
    }
}

impl LastError {
    /// For a person.
    pub fn text(&self) -> String {
        format!("last failure, {}: {} ({})", or_dash(self.at.as_ref()), shown(&self.message), self.reason)
    }
}
