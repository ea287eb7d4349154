//! Between the domain and the wire.

use super::{
    body::Layout,
    index::{BlobIndex, Generation, State},
    manifest::Manifest,
    name::BlobName,
};
use crate::{proto::v1, rpc::timestamp};

/// One generation.
pub fn info(
    name: &BlobName,
    index: &BlobIndex,
    generation: u64,
    found: &Generation,
    manifest: Manifest,
) -> v1::BlobInfo {
    let state = match found.state {
        _ if generation == index.current => v1::GenerationState::Current,
        State::Kept => v1::GenerationState::Kept,
        State::Archived => v1::GenerationState::Deleted,
        State::Dropped => v1::GenerationState::Dropped,
        State::Uploading | State::Garbage => v1::GenerationState::Unspecified,
    };
    v1::BlobInfo {
        state: state.into(),
        stored_bytes: found.stored,
        gone_at: timestamp(index.gone_ms(found)),
        ..saved(name, generation, found.incarnation, found.saved_ms, manifest)
    }
}

/// The current generation, as a save has just made it.
pub fn saved(
    name: &BlobName,
    generation: u64,
    incarnation: u64,
    saved_ms: u64,
    manifest: Manifest,
) -> v1::BlobInfo {
    v1::BlobInfo {
        namespace: name.namespace.clone(),
        blob: name.blob.clone(),
        generation,
        incarnation,
        state: v1::GenerationState::Current.into(),
        size: manifest.size,
        sha256: manifest.sha256.to_vec().into(),
        content_digest: manifest.content_digest.into(),
        saved_at: timestamp(saved_ms),
        labels: manifest.labels.into_iter().collect(),
        stored_bytes: Layout::of(manifest.size).stored(),
        gone_at: None,
    }
}

/// Newest first.
pub fn archives(name: &BlobName, index: &BlobIndex) -> Vec<v1::BlobArchive> {
    let archives = index.archives.iter().rev();
    archives
        .map(|archive| {
            let ours = |found: &&Generation| {
                found.state == State::Archived && found.incarnation == archive.incarnation
            };
            let count = index.generations.values().filter(ours).count();
            v1::BlobArchive {
                namespace: name.namespace.clone(),
                blob: name.blob.clone(),
                incarnation: archive.incarnation,
                generation: archive.current,
                size: index.generations.get(&archive.current).map_or(0, |found| found.size),
                generations: u32::try_from(count).unwrap_or(u32::MAX),
                deleted_at: timestamp(archive.deleted_ms),
                purge_at: timestamp(archive.purge_ms),
            }
        })
        .collect()
}
