//! What a write is about, as anybody can see it, without what differs from run to run.

use pannier::proto::v1;

use super::support::{Sidecar, small::rid};

/// What a write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Session,
    Blob,
    Chat,
    Cap,
    Queue,
    /// Seen only by claiming it again, at the end.
    Claim,
    /// Nothing shows it.
    Untold,
}

/// The owner that is named after this RPC.
pub async fn of(sidecar: &Sidecar, namespace: &str, rpc: &str, kind: Kind) -> String {
    let (ns, name) = (namespace.to_owned(), rpc.to_owned());
    match kind {
        Kind::Session => {
            let request = v1::GetSessionRequest { namespace: ns, session: name };
            let answer = sidecar.sessions().get_session(request).await.unwrap().into_inner();
            let (revision, held) = answer
                .session
                .map_or((0, false), |one| (one.revision, one.lease.is_some_and(|lease| lease.live)));
            format!(
                "exists {} revision {revision} held {held} archives {}",
                answer.exists,
                answer.archives.len()
            )
        }
        Kind::Blob => {
            let request = v1::StatBlobRequest { namespace: ns, blob: name };
            let answer = sidecar.blobs().raw.clone().stat_blob(request).await.unwrap().into_inner();
            let size = answer.blob.map(|blob| blob.size);
            format!("size {size:?} archives {}", answer.archives.len())
        }
        Kind::Chat => {
            let request = v1::GetConversationRequest { namespace: ns, id: name };
            let state =
                sidecar.conversations().get_conversation(request).await.unwrap().into_inner().state.unwrap();
            format!("exists {} step {}", state.exists, state.step)
        }
        Kind::Cap => {
            let get = v1::GetPolicyRequest { namespace: ns.clone(), name: name.clone() };
            if sidecar.caps().get_policy(get).await.is_err() {
                return "no policy".into();
            }
            let peek = v1::PeekRequest { namespace: ns, policies: vec![name], ..Default::default() };
            let usage =
                sidecar.caps().peek(peek).await.unwrap().into_inner().policies.remove(0).usage.unwrap();
            format!("used {} remaining {:?}", usage.used, usage.remaining)
        }
        Kind::Queue => {
            let mut client = v1::schedule_service_client::ScheduleServiceClient::new(sidecar.channel());
            let list =
                v1::ListCronsRequest { namespace: ns.clone(), queue: name.clone(), ..Default::default() };
            let crons = client.list_crons(list).await.unwrap().into_inner().crons.len();
            let request = v1::GetQueueRequest { namespace: ns, queue: name };
            let queue = client.get_queue(request).await.unwrap().into_inner().queue.unwrap_or_default();
            let concurrency = queue.settings.and_then(|settings| settings.concurrency);
            // One that was deleted is counted for a minute more.
            let counts = v1::QueueCounts { crons: 0, ..queue.counts.unwrap_or_default() };
            format!("{counts:?} crons {crons} paused {} concurrency {concurrency:?}", queue.paused)
        }
        Kind::Claim | Kind::Untold => String::new(),
    }
}

/// How a claim by somebody else ends: it tells what has become of it.
pub async fn claimed_again(sidecar: &Sidecar, namespace: &str, rpc: &str) -> String {
    let claim = v1::ClaimRequest {
        namespace: namespace.into(),
        request_id: rid(),
        key: rpc.into(),
        ..Default::default()
    };
    format!("{:?}", sidecar.dedup().claim(claim).await.unwrap().into_inner().outcome())
}
