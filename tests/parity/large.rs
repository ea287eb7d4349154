//! Blobs, and the calls on sessions that need no lease.

use pannier::proto::v1::{self, delete_blob_request, delete_session_request};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    Answer, World,
    terms::{Args, at, hex, word},
};
use crate::support::{
    attach::{Attach, open, put},
    blob::request_id,
    unary::answer,
};

pub async fn blobs(world: &World, call: &str, args: &mut Args) -> Answer {
    let namespace = world.namespace.clone();
    let blobs = world.sidecar.blobs();
    let mut client = blobs.raw.clone();
    let list = |deleted| v1::ListBlobsRequest { namespace: namespace.clone(), deleted, ..Default::default() };
    match call {
        "list" => {
            let page = answer(client.list_blobs(list(false)).await)?;
            return Ok(json!({ "blobs": page.blobs.iter().map(info).collect::<Vec<_>>() }));
        }
        "deleted" => {
            let page = answer(client.list_blobs(list(true)).await)?;
            return Ok(json!({ "archives": page.archives.iter().map(archive).collect::<Vec<_>>() }));
        }
        _ => {}
    }
    let blob = args.text("blob");
    let fence = args.number("fence").unwrap_or_default();
    let generation = args.number("generation").unwrap_or_default();
    match call {
        "save" => {
            let labels = args.object("labels");
            let header = v1::SaveBlobHeader {
                namespace,
                blob,
                request_id: request_id(),
                content_digest: args.bytes("content_digest").into(),
                fence,
                labels: labels
                    .iter()
                    .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
                    .collect(),
            };
            let saved = blobs.save_as(header, args.text("content").as_bytes()).await?;
            let outcome = word(saved.outcome().as_str_name(), "OUTCOME_");
            Ok(json!({ "outcome": outcome, "blob": info(&saved.blob.unwrap()) }))
        }
        "read" => {
            let request = v1::FetchBlobRequest { namespace, blob, generation };
            let (_, content) = blobs.fetch_as(request).await?;
            Ok(json!({ "size": content.len(), "sha256": hex(&Sha256::digest(&content)) }))
        }
        "stat" => {
            let found = answer(client.stat_blob(v1::StatBlobRequest { namespace, blob }).await)?;
            Ok(json!({
                "exists": found.exists, "blob": found.blob.as_ref().map(info), "uploads": found.uploads,
                "archives": found.archives.iter().map(archive).collect::<Vec<_>>(),
                "last_error": found.last_error.map(|error| error.reason),
            }))
        }
        "generations" => {
            let request = v1::ListGenerationsRequest { namespace, blob };
            let found = answer(client.list_generations(request).await)?.generations;
            Ok(json!({ "generations": found.iter().map(info).collect::<Vec<_>>() }))
        }
        "rollback" => {
            let request = v1::RollbackBlobRequest { namespace, blob, generation, fence };
            Ok(info(&answer(client.rollback_blob(request).await)?.blob.unwrap()))
        }
        "delete" => {
            let mode = if args.flag("shred") {
                delete_blob_request::Mode::Shred
            } else {
                delete_blob_request::Mode::Soft
            };
            let request = v1::DeleteBlobRequest { namespace, blob, mode: mode.into(), incarnation: 0, fence };
            Ok(json!({ "deleted": answer(client.delete_blob(request).await)?.deleted }))
        }
        "restore" => {
            let replace = args.flag("replace");
            let request = v1::RestoreBlobRequest { namespace, blob, incarnation: 0, replace, fence };
            Ok(info(&answer(client.restore_blob(request).await)?.blob.unwrap()))
        }
        _ => panic!("unknown call blobs.{call}"),
    }
}

fn info(blob: &v1::BlobInfo) -> Value {
    json!({
        "blob": blob.blob, "generation": blob.generation, "incarnation": blob.incarnation, "size": blob.size,
        "state": word(blob.state().as_str_name(), "GENERATION_STATE_"), "sha256": hex(&blob.sha256),
        "content_digest": hex(&blob.content_digest), "labels": blob.labels, "saved_at": at(blob.saved_at.as_ref()),
        "gone_at": at(blob.gone_at.as_ref()),
    })
}

fn archive(archive: &v1::BlobArchive) -> Value {
    json!({
        "blob": archive.blob, "incarnation": archive.incarnation, "generation": archive.generation,
        "size": archive.size, "generations": archive.generations,
    })
}

pub async fn sessions(world: &World, call: &str, args: &mut Args) -> Answer {
    let namespace = world.namespace.clone();
    let mut client = world.sidecar.sessions();
    if call == "list" {
        let page =
            answer(client.list_sessions(v1::ListSessionsRequest { namespace, ..Default::default() }).await)?;
        return Ok(json!({ "sessions": page.sessions.iter().map(session_of).collect::<Vec<_>>() }));
    }
    let session = args.text("session");
    match call {
        "open" => {
            let open = v1::Open { namespace, ..open(&session, "parity") };
            Attach::open(world.sidecar.channel(), open).await?.close().await;
            Ok(json!({}))
        }
        "commit" => {
            let request = v1::CommitRecordsRequest {
                namespace,
                session,
                writer_id: request_id(),
                op_seq: 1,
                puts: args.list("puts", |one| put(&one.text("type"), &one.text("id"), one.text("value"))),
                deletes: args
                    .list("deletes", |one| v1::RecordRef { r#type: one.text("type"), id: one.text("id") }),
                expected_revision: args.number("expected_revision"),
                ..Default::default()
            };
            let done = answer(client.commit_records(request).await)?;
            Ok(
                json!({ "base_revision": done.base_revision, "revision": done.revision, "replayed": done.replayed }),
            )
        }
        "get" => {
            let wanted = args.object("wanted");
            let texts = |ids: &Value| {
                ids.as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect()
            };
            let queries =
                wanted.iter().map(|(ty, ids)| v1::Query { r#type: ty.clone(), ids: texts(ids) }).collect();
            let found =
                answer(client.get_records(v1::GetRecordsRequest { namespace, session, queries }).await)?;
            let records: Vec<_> = found.records.iter().map(record).collect();
            Ok(json!({ "records": records, "revision": found.revision, "incarnation": found.incarnation }))
        }
        "records" => {
            let (ty, ids_only) = (args.text("type"), args.flag("ids_only"));
            let request =
                v1::ListRecordsRequest { namespace, session, r#type: ty, ids_only, ..Default::default() };
            let mut page = answer(client.list_records(request).await)?;
            assert_eq!(page.cursor, "", "more than a page");
            page.records.sort_by_key(|one| (one.r#type.clone(), one.id.clone()));
            Ok(json!({ "records": page.records.iter().map(record).collect::<Vec<_>>() }))
        }
        "info" => {
            let found = answer(client.get_session(v1::GetSessionRequest { namespace, session }).await)?;
            Ok(if found.exists { session_of(&found.session.unwrap()) } else { json!({ "exists": false }) })
        }
        "deleted" => {
            let request = v1::ListDeletedRequest { namespace, session, ..Default::default() };
            let archives = answer(client.list_deleted(request).await)?.archives;
            let archives: Vec<_> = archives
                .iter()
                .map(|one| json!({ "session": one.session, "incarnation": one.incarnation, "revision": one.revision }))
                .collect();
            Ok(json!({ "archives": archives }))
        }
        "delete" => {
            let mode = if args.flag("shred") {
                delete_session_request::Mode::Shred
            } else {
                delete_session_request::Mode::Soft
            };
            let request = v1::DeleteSessionRequest { namespace, session, mode: mode.into(), incarnation: 0 };
            Ok(json!({ "deleted": answer(client.delete_session(request).await)?.deleted }))
        }
        "restore" => {
            let replace = args.flag("replace");
            let request = v1::RestoreSessionRequest { namespace, session, incarnation: 0, replace };
            Ok(session_of(&answer(client.restore_session(request).await)?.session.unwrap()))
        }
        "break_lease" => {
            let request = v1::BreakLeaseRequest { namespace, session, fence: 0 };
            Ok(json!({ "broken": answer(client.break_lease(request).await)?.broken }))
        }
        _ => panic!("unknown call sessions.{call}"),
    }
}

fn record(record: &v1::Record) -> Value {
    let value = std::str::from_utf8(&record.value).unwrap();
    json!({ "type": record.r#type, "id": record.id, "value": value, "revision": record.revision })
}

fn session_of(session: &v1::SessionInfo) -> Value {
    let counts: Vec<_> =
        session.counts.iter().map(|one| json!({ "type": one.r#type, "records": one.records })).collect();
    json!({
        "exists": true, "session": session.session, "incarnation": session.incarnation,
        "revision": session.revision, "counts": counts, "fence": session.fence,
    })
}
