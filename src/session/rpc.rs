//! The door of the session capability: proto in, proto out.

use std::{sync::Arc, time::Duration};

use prost::Message as _;
use tokio::{sync::mpsc, time::Instant};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::{
    Sessions, attach,
    commit::{self, Commit, Outcome},
    convert,
    head::{Head, Incarnation},
    hints::Hint,
    keys::SessionKeys,
    limits,
    name::SessionName,
    pages::{Cursor, Listed, Walk},
    parts::{Heading, Parts},
    store,
};
use crate::{
    error::{Error, Result},
    owner::catalog::{self, Owners, Place},
    proto::v1::{
        self,
        delete_session_request::Mode,
        session_service_server::{SessionService, SessionServiceServer},
    },
    rpc::{MESSAGE_MAX, OWNERS_DEFAULT, Reply, UNARY, answer},
    valkey::Lane,
};

const COMMIT: Duration = Duration::from_secs(10);
/// Replies of a stream that wait in the channel, of up to 1 MiB each.
const REPLIES: usize = 16;
const LIST_DEFAULT: u32 = 500;

/// The gRPC service.
pub fn service(sessions: Arc<Sessions>) -> SessionServiceServer<Handler> {
    SessionServiceServer::new(Handler { sessions })
        .max_decoding_message_size(MESSAGE_MAX)
        .max_encoding_message_size(MESSAGE_MAX)
}

/// Handles session calls.
pub struct Handler {
    sessions: Arc<Sessions>,
}

impl Handler {
    fn name(&self, namespace: String, session: String) -> Result<SessionName> {
        limits::id("session", &session)?;
        Ok(SessionName::new(&self.sessions.store.keyring.current(), limits::namespace(namespace)?, session))
    }

    async fn hint(&self, name: &SessionName, hint: Hint) {
        self.sessions.hints.publish(&self.sessions.store.link, name, hint).await;
    }

    async fn get_records(
        &self,
        request: v1::GetRecordsRequest,
        deadline: Instant,
    ) -> Result<v1::GetRecordsResponse> {
        let name = self.name(request.namespace, request.session)?;
        let _entered = self.sessions.busy.enter(&name)?;
        let ids = limits::queries("queries", request.queries)?;
        let (revision, incarnation, records) = self.sessions.store.get(&name, &ids, deadline).await?;
        let records = records.into_iter().map(convert::record_out).collect();
        let response = v1::GetRecordsResponse { records, revision, incarnation };
        if response.encoded_len() > limits::UNARY_BYTES {
            return Err(Error::too_large("queries", "the records do not fit in 4 MiB: use Attach"));
        }
        Ok(response)
    }

    async fn list_records(
        &self,
        request: v1::ListRecordsRequest,
        deadline: Instant,
    ) -> Result<v1::ListRecordsResponse> {
        let name = self.name(request.namespace, request.session)?;
        let _entered = self.sessions.busy.enter(&name)?;
        if !request.r#type.is_empty() {
            limits::record_type("type", &request.r#type)?;
        }
        let walk = Walk {
            ty: request.r#type,
            cursor: Cursor::parse(&request.cursor)?,
            limit: limits::page(request.limit, LIST_DEFAULT)?,
            ids_only: request.ids_only,
        };
        let store = &self.sessions.store;
        let (head, keys) = store.existing(&name, deadline).await?;
        let op = store.list_op(&name, &keys, &walk, Some(&head));
        let step = match Listed::parse(store.link.run(Lane::Bulk, op, deadline).await?)? {
            Listed::Step { scan, fields } => walk.page(&keys, &name, scan, fields),
            Listed::Moved { .. } | Listed::Gone => return Err(store::busy()),
            Listed::Lost => return Err(store.lost(&name, deadline).await),
        };
        let (mut records, mut too_large) = (Vec::new(), Vec::new());
        for record in step.records {
            if record.value.len() > limits::UNARY_BYTES - 2 * limits::MESSAGE_BYTES {
                too_large.push(v1::RecordRef { r#type: record.ty, id: record.id });
            } else {
                records.push(convert::record_out(record));
            }
        }
        let cursor = step.next.map(|next| next.encode()).unwrap_or_default();
        Ok(v1::ListRecordsResponse { records, cursor, corrupt: step.corrupt, too_large })
    }

    async fn commit_records(
        &self,
        request: v1::CommitRecordsRequest,
        deadline: Instant,
    ) -> Result<v1::CommitRecordsResponse> {
        let name = self.name(request.namespace, request.session)?;
        let _entered = self.sessions.busy.enter(&name)?;
        limits::id("writer_id", &request.writer_id)?;
        let durability = v1::Durability::try_from(request.min_durability)
            .map_err(|_| Error::bad_field("min_durability", "is no known level"))?;
        let store = &self.sessions.store;
        let heading = Heading {
            writer: commit::writer(&store.keyring.current(), &name, &request.writer_id),
            op_seq: request.op_seq,
            expected_revision: request.expected_revision,
            incarnation: (request.incarnation != 0).then_some(request.incarnation),
            attributes: convert::attributes("attributes", request.attributes)?,
        };
        let mut parts = Parts::new();
        parts.add(&self.sessions.budget, "", request.puts, request.deletes, Vec::new())?;
        let (wanted, _permit): (Commit, _) = parts.finish("", heading)?;
        let fence = (request.fence != 0).then_some(request.fence);
        let (base_revision, revision, replayed) = match store.commit(&name, &wanted, fence, deadline).await? {
            Outcome::Applied { base, revision } => (base, revision, false),
            Outcome::Replayed { revision } => (0, revision, true),
            Outcome::OutOfOrder { last, .. } => return Err(commit::out_of_order(last)),
            Outcome::Fenced { deleted } => return Err(commit::fenced(deleted)),
            Outcome::Refused(error) => return Err(error),
            Outcome::Reseal { .. } | Outcome::Gone | Outcome::Held { .. } | Outcome::Lost => {
                return Err(store::busy());
            }
        };
        if !replayed {
            self.hint(&name, Hint::Records).await;
        }
        let level = match durability {
            v1::Durability::Replicas if store.replicas.have(&store.mark(&name), deadline).await => durability,
            _ => convert::durability_out(store.link.durability()),
        };
        Ok(v1::CommitRecordsResponse {
            base_revision,
            revision,
            replayed,
            durability: level.into(),
            durability_met: level >= durability,
        })
    }

    async fn get_session(
        &self,
        request: v1::GetSessionRequest,
        deadline: Instant,
    ) -> Result<v1::GetSessionResponse> {
        let name = self.name(request.namespace, request.session)?;
        let store = &self.sessions.store;
        let (head, now_us) = store.head(&name, deadline).await?;
        let Some(head) = head else {
            store.link.confirm_absent(super::KIND, name.tag(), deadline).await?;
            return Ok(v1::GetSessionResponse { exists: false, session: None, archives: Vec::new() });
        };
        let session = match head.live {
            0 => None,
            _ => Some(convert::info(
                &name,
                &head,
                &*store.live_keys(&name, &head, deadline).await?,
                now_us / 1000,
            )),
        };
        Ok(v1::GetSessionResponse {
            exists: session.is_some(),
            session,
            archives: self.archives(&name, &head),
        })
    }

    /// Newest first. One whose key does not unwrap is listed without its counts by type.
    fn archives(&self, name: &SessionName, head: &Head) -> Vec<v1::ArchiveInfo> {
        let archived = head.archives().into_iter().rev();
        let archived =
            archived.filter_map(|incarnation| Some((incarnation, head.incarnations.get(&incarnation)?)));
        archived.map(|(incarnation, one)| self.archive(name, incarnation, one)).collect()
    }

    fn archive(&self, name: &SessionName, incarnation: u64, one: &Incarnation) -> v1::ArchiveInfo {
        let keys =
            SessionKeys::unwrap(&self.sessions.store.keyring, name, incarnation, &one.wrapped_key).ok();
        let counts = keys.map(|keys| store::counts(name, &keys, Some(one))).unwrap_or_default();
        v1::ArchiveInfo {
            namespace: name.namespace.clone(),
            session: name.session.clone(),
            incarnation,
            revision: one.revision,
            counts: convert::counts_out(counts),
            deleted_at: convert::timestamp(one.deleted_ms),
            purge_at: convert::timestamp(one.purge_ms),
        }
    }

    async fn owners(
        &self,
        namespace: &str,
        place: Place,
        limit: usize,
        wanted: impl Fn(&Head) -> bool,
        deadline: Instant,
    ) -> Result<Owners<Head>> {
        let store = &self.sessions.store;
        let keyring = store.keyring.current();
        catalog::owners((&store.link, &keyring), namespace, place, limit, wanted, deadline).await
    }

    async fn list_sessions(
        &self,
        request: v1::ListSessionsRequest,
        deadline: Instant,
    ) -> Result<v1::ListSessionsResponse> {
        let namespace = limits::namespace(request.namespace)?;
        let limit = limits::page(request.limit, OWNERS_DEFAULT)?;
        let place = Place::parse(&request.cursor)?;
        let store = &self.sessions.store;
        let owners = self.owners(&namespace, place, limit, |head| head.live != 0, deadline).await?;
        let (mut corrupt, now_ms) = (owners.corrupt, store.now_ms(deadline).await?);
        let mut sessions = Vec::with_capacity(owners.found.len());
        for (session, head) in owners.found {
            let name = SessionName::new(&store.keyring.current(), namespace.clone(), session);
            match store.live_keys(&name, &head, deadline).await {
                Ok(keys) => sessions.push(convert::info(&name, &head, &keys, now_ms.max(head.clock_ms))),
                Err(_) => corrupt += 1,
            }
        }
        Ok(v1::ListSessionsResponse { sessions, cursor: owners.cursor, corrupt })
    }

    async fn list_deleted(
        &self,
        request: v1::ListDeletedRequest,
        deadline: Instant,
    ) -> Result<v1::ListDeletedResponse> {
        let limit = limits::page(request.limit, OWNERS_DEFAULT)?;
        let store = &self.sessions.store;
        if !request.session.is_empty() {
            let name = self.name(request.namespace, request.session)?;
            let head = store.head(&name, deadline).await?.0;
            let archives = head.map(|head| self.archives(&name, &head)).unwrap_or_default();
            return Ok(v1::ListDeletedResponse { archives, cursor: String::new(), corrupt: 0 });
        }
        let namespace = limits::namespace(request.namespace)?;
        let place = Place::parse(&request.cursor)?;
        let has_archive = |head: &Head| !head.archive_list.is_empty();
        let owners = self.owners(&namespace, place, limit, has_archive, deadline).await?;
        let mut archives = Vec::new();
        for (session, head) in owners.found {
            let name = SessionName::new(&store.keyring.current(), namespace.clone(), session);
            archives.extend(self.archives(&name, &head));
        }
        Ok(v1::ListDeletedResponse { archives, cursor: owners.cursor, corrupt: owners.corrupt })
    }

    async fn delete_session(
        &self,
        request: v1::DeleteSessionRequest,
        deadline: Instant,
    ) -> Result<v1::DeleteSessionResponse> {
        let mode = Mode::try_from(request.mode).map_err(|_| Error::bad_field("mode", "is no known way"))?;
        let name = self.name(request.namespace, request.session)?;
        let incarnation = (request.incarnation != 0).then_some(request.incarnation);
        let store = &self.sessions.store;
        let response = if mode == Mode::Shred {
            let deleted = store.shred(&name, incarnation, deadline).await?;
            v1::DeleteSessionResponse { deleted, archive: None, oldest_archive_dropped: false }
        } else {
            match store.delete(&name, incarnation, deadline).await? {
                None => {
                    v1::DeleteSessionResponse { deleted: false, archive: None, oldest_archive_dropped: false }
                }
                Some(archived) => {
                    let head = store.head(&name, deadline).await?.0.unwrap_or_default();
                    let kept = self.archives(&name, &head);
                    v1::DeleteSessionResponse {
                        deleted: true,
                        archive: kept.into_iter().find(|one| one.incarnation == archived.incarnation),
                        oldest_archive_dropped: archived.dropped_oldest,
                    }
                }
            }
        };
        if response.deleted {
            self.hint(&name, Hint::Lease).await;
        }
        Ok(response)
    }

    async fn restore_session(
        &self,
        request: v1::RestoreSessionRequest,
        deadline: Instant,
    ) -> Result<v1::RestoreSessionResponse> {
        let name = self.name(request.namespace, request.session)?;
        let incarnation = (request.incarnation != 0).then_some(request.incarnation);
        let store = &self.sessions.store;
        let oldest_archive_dropped = store.restore(&name, incarnation, request.replace, deadline).await?;
        self.hint(&name, Hint::Lease).await;
        let (head, keys) = store.existing(&name, deadline).await?;
        let session = Some(convert::info(&name, &head, &keys, head.clock_ms));
        Ok(v1::RestoreSessionResponse { session, oldest_archive_dropped })
    }

    async fn break_lease(
        &self,
        request: v1::BreakLeaseRequest,
        deadline: Instant,
    ) -> Result<v1::BreakLeaseResponse> {
        let name = self.name(request.namespace, request.session)?;
        let (broken, fence) = self.sessions.store.break_lease(&name, request.fence, deadline).await?;
        self.hint(&name, Hint::Lease).await;
        Ok(v1::BreakLeaseResponse { broken, fence })
    }
}

#[tonic::async_trait]
impl SessionService for Handler {
    type AttachStream = ReceiverStream<std::result::Result<v1::AttachResponse, Status>>;

    async fn attach(&self, request: Request<Streaming<v1::AttachRequest>>) -> Reply<Self::AttachStream> {
        let (sender, receiver) = mpsc::channel(REPLIES);
        tokio::spawn(attach::serve(Arc::clone(&self.sessions), request.into_inner(), sender));
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn get_records(&self, request: Request<v1::GetRecordsRequest>) -> Reply<v1::GetRecordsResponse> {
        answer(request, UNARY, |request, deadline| self.get_records(request, deadline)).await
    }

    async fn list_records(&self, request: Request<v1::ListRecordsRequest>) -> Reply<v1::ListRecordsResponse> {
        answer(request, UNARY, |request, deadline| self.list_records(request, deadline)).await
    }

    async fn commit_records(
        &self,
        request: Request<v1::CommitRecordsRequest>,
    ) -> Reply<v1::CommitRecordsResponse> {
        answer(request, COMMIT, |request, deadline| self.commit_records(request, deadline)).await
    }

    async fn get_session(&self, request: Request<v1::GetSessionRequest>) -> Reply<v1::GetSessionResponse> {
        answer(request, UNARY, |request, deadline| self.get_session(request, deadline)).await
    }

    async fn list_sessions(
        &self,
        request: Request<v1::ListSessionsRequest>,
    ) -> Reply<v1::ListSessionsResponse> {
        answer(request, UNARY, |request, deadline| self.list_sessions(request, deadline)).await
    }

    async fn list_deleted(&self, request: Request<v1::ListDeletedRequest>) -> Reply<v1::ListDeletedResponse> {
        answer(request, UNARY, |request, deadline| self.list_deleted(request, deadline)).await
    }

    async fn delete_session(
        &self,
        request: Request<v1::DeleteSessionRequest>,
    ) -> Reply<v1::DeleteSessionResponse> {
        answer(request, UNARY, |request, deadline| self.delete_session(request, deadline)).await
    }

    async fn restore_session(
        &self,
        request: Request<v1::RestoreSessionRequest>,
    ) -> Reply<v1::RestoreSessionResponse> {
        answer(request, UNARY, |request, deadline| self.restore_session(request, deadline)).await
    }

    async fn break_lease(&self, request: Request<v1::BreakLeaseRequest>) -> Reply<v1::BreakLeaseResponse> {
        answer(request, UNARY, |request, deadline| self.break_lease(request, deadline)).await
    }
}
