//! SessionService.

use pannier::proto::v1::{self, session_service_client::SessionServiceClient as Session};

use super::Probe;
use crate::{state::Kind, support::attach::put};

pub fn probes(ns: &str) -> Vec<Probe> {
    let mut all = Vec::new();
    let ns = || ns.to_owned();
    let query = || vec![v1::Query { r#type: "session".into(), ids: vec!["1.0".into()] }];
    let at = |session: &str| session.to_owned();
    probe!(
        all,
        Session,
        get_records,
        "GetRecords",
        None,
        v1::GetRecordsRequest {
            namespace: ns(),
            session: at("read"),
            queries: query(),
            ..Default::default()
        }
    );
    probe!(
        all,
        Session,
        list_records,
        "ListRecords",
        None,
        v1::ListRecordsRequest { namespace: ns(), session: at("read"), ..Default::default() }
    );
    probe!(
        all,
        Session,
        get_session,
        "GetSession",
        None,
        v1::GetSessionRequest { namespace: ns(), session: at("read") }
    );
    probe!(
        all,
        Session,
        list_sessions,
        "ListSessions",
        None,
        v1::ListSessionsRequest { namespace: ns(), ..Default::default() }
    );
    probe!(
        all,
        Session,
        list_deleted,
        "ListDeleted",
        None,
        v1::ListDeletedRequest { namespace: ns(), ..Default::default() }
    );
    let puts = vec![put("session", "1.0", *b"new"), put("session", "2.0", *b"new")];
    probe!(
        all,
        Session,
        commit_records,
        "CommitRecords",
        Some(Kind::Session),
        v1::CommitRecordsRequest {
            namespace: ns(),
            session: at("CommitRecords"),
            writer_id: "w".into(),
            op_seq: 1,
            puts: puts.clone(),
            ..Default::default()
        }
    );
    probe!(
        all,
        Session,
        delete_session,
        "DeleteSession",
        Some(Kind::Session),
        v1::DeleteSessionRequest { namespace: ns(), session: at("DeleteSession"), ..Default::default() }
    );
    probe!(
        all,
        Session,
        restore_session,
        "RestoreSession",
        Some(Kind::Session),
        v1::RestoreSessionRequest { namespace: ns(), session: at("RestoreSession"), ..Default::default() }
    );
    probe!(
        all,
        Session,
        break_lease,
        "BreakLease",
        Some(Kind::Session),
        v1::BreakLeaseRequest { namespace: ns(), session: at("BreakLease"), ..Default::default() }
    );
    all
}
