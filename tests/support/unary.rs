//! The unary calls on sessions, each in one line.

use std::time::Duration;

use pannier::proto::v1::{self, delete_session_request::Mode, session_service_client::SessionServiceClient};
use tonic::{Request, Response, Status, transport::Channel};

use super::{Sidecar, attach::Refused};

/// Longer than anything a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client of one sidecar; the namespace is the default one.
#[derive(Clone)]
pub struct Unary {
    pub client: SessionServiceClient<Channel>,
}

/// What a call gave, or why it was refused.
pub fn answer<T>(result: Result<Response<T>, Status>) -> Result<T, Refused> {
    result.map(Response::into_inner).map_err(|status| Refused::of_status(&status))
}

/// A commit of the session's first writer.
pub fn commit(session: &str, writer: &str, op_seq: u64, puts: Vec<v1::Put>) -> v1::CommitRecordsRequest {
    v1::CommitRecordsRequest {
        session: session.into(),
        writer_id: writer.into(),
        op_seq,
        puts,
        ..Default::default()
    }
}

impl Unary {
    pub fn of(sidecar: &Sidecar) -> Self {
        Self { client: sidecar.sessions() }
    }

    pub async fn get(&mut self, session: &str, ty: &str, ids: &[&str]) -> Result<Vec<v1::Record>, Refused> {
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        let queries = vec![v1::Query { r#type: ty.into(), ids }];
        let request = v1::GetRecordsRequest { session: session.into(), queries, ..Default::default() };
        Ok(answer(self.client.get_records(patient(request)).await)?.records)
    }

    pub async fn value(&mut self, session: &str, ty: &str, id: &str) -> Option<Vec<u8>> {
        let records = self.get(session, ty, &[id]).await.expect("get");
        records.into_iter().next().map(|record| record.value.to_vec())
    }

    pub async fn commit(
        &mut self,
        request: v1::CommitRecordsRequest,
    ) -> Result<v1::CommitRecordsResponse, Refused> {
        answer(self.client.commit_records(patient(request)).await)
    }

    pub async fn list(
        &mut self,
        request: v1::ListRecordsRequest,
    ) -> Result<v1::ListRecordsResponse, Refused> {
        answer(self.client.list_records(patient(request)).await)
    }

    /// All records of a walk in pages of `limit`, as they came.
    pub async fn walk(&mut self, session: &str, ty: &str, limit: u32) -> Vec<v1::Record> {
        let (mut all, mut cursor) = (Vec::new(), String::new());
        loop {
            let request = v1::ListRecordsRequest {
                session: session.into(),
                r#type: ty.into(),
                cursor,
                limit,
                ..Default::default()
            };
            let page = self.list(request).await.expect("a page");
            assert!(limit == 0 || page.records.len() <= limit as usize, "a page within its limit");
            all.extend(page.records);
            cursor = page.cursor;
            if cursor.is_empty() {
                return all;
            }
        }
    }

    pub async fn session(&mut self, session: &str) -> Result<v1::GetSessionResponse, Refused> {
        let request = v1::GetSessionRequest { session: session.into(), ..Default::default() };
        answer(self.client.get_session(patient(request)).await)
    }

    /// Of one that exists.
    pub async fn info(&mut self, session: &str) -> v1::SessionInfo {
        self.session(session).await.expect("get session").session.expect("it exists")
    }

    pub async fn delete(&mut self, session: &str, mode: Mode) -> Result<v1::DeleteSessionResponse, Refused> {
        let request =
            v1::DeleteSessionRequest { session: session.into(), mode: mode.into(), ..Default::default() };
        answer(self.client.delete_session(patient(request)).await)
    }

    pub async fn restore(
        &mut self,
        session: &str,
        incarnation: u64,
        replace: bool,
    ) -> Result<v1::RestoreSessionResponse, Refused> {
        let session = session.into();
        let request = v1::RestoreSessionRequest { session, incarnation, replace, ..Default::default() };
        answer(self.client.restore_session(patient(request)).await)
    }

    pub async fn break_lease(&mut self, session: &str) -> Result<v1::BreakLeaseResponse, Refused> {
        let request = v1::BreakLeaseRequest { session: session.into(), ..Default::default() };
        answer(self.client.break_lease(patient(request)).await)
    }
}

/// With a deadline that ends a test that hangs.
fn patient<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(PATIENCE);
    request
}
