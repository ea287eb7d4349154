//! BlobService.

use pannier::proto::v1::{self, blob_service_client::BlobServiceClient as Blob};

use super::Probe;
use crate::{setup::Facts, state::Kind};

pub fn probes(ns: &str, facts: &Facts) -> Vec<Probe> {
    let mut all = Vec::new();
    let ns = || ns.to_owned();
    let at = |blob: &str| blob.to_owned();
    probe!(all, Blob, stat_blob, "StatBlob", None, v1::StatBlobRequest { namespace: ns(), blob: at("blob") });
    probe!(
        all,
        Blob,
        list_blobs,
        "ListBlobs",
        None,
        v1::ListBlobsRequest { namespace: ns(), ..Default::default() }
    );
    probe!(
        all,
        Blob,
        list_generations,
        "ListGenerations",
        None,
        v1::ListGenerationsRequest { namespace: ns(), blob: at("blob") }
    );
    probe!(
        all,
        Blob,
        rollback_blob,
        "RollbackBlob",
        Some(Kind::Blob),
        v1::RollbackBlobRequest {
            namespace: ns(),
            blob: at("RollbackBlob"),
            generation: facts.fence("RollbackBlob"),
            ..Default::default()
        }
    );
    probe!(
        all,
        Blob,
        delete_blob,
        "DeleteBlob",
        Some(Kind::Blob),
        v1::DeleteBlobRequest { namespace: ns(), blob: at("DeleteBlob"), ..Default::default() }
    );
    probe!(
        all,
        Blob,
        restore_blob,
        "RestoreBlob",
        Some(Kind::Blob),
        v1::RestoreBlobRequest { namespace: ns(), blob: at("RestoreBlob"), ..Default::default() }
    );
    all
}
