//! Taking a session's lease, and making the session where there is none.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    commit::{self, OWNER_PART},
    head::Head,
    keys::SessionKeys,
    name::{KIND, SessionName},
    reply::{self, Reply},
    scripts,
    store::{Store, TRIES, busy, millis, not_found},
};
use crate::{
    error::{Error, Reason, Result},
    valkey::{Lane, Op},
};

/// What an Open asks for.
pub struct OpenTerms {
    pub owner: String,
    pub writer: [u8; 8],
    pub take_over: bool,
    pub lease_ttl: Duration,
    pub min_revision: u64,
    pub must_exist: bool,
    /// Fence and revision of a broken stream.
    pub resume: Option<(u64, u64)>,
}

/// What an Open gives.
pub struct Opened {
    pub fence: u64,
    pub revision: u64,
    pub created: bool,
    pub resumed: bool,
    pub last_op: u64,
    pub keys: Arc<SessionKeys>,
    /// As read just before.
    pub head: Head,
}

/// Another owner's live lease.
pub struct Held {
    pub owner: Option<String>,
    pub left: Duration,
    pub until_ms: u64,
}

impl Held {
    /// As an error for the one who was refused.
    pub fn error(&self) -> Error {
        let until = jiff::Timestamp::from_millisecond(i64::try_from(self.until_ms).unwrap_or(i64::MAX));
        let error = Error::new(
            Reason::SessionHeld,
            "another owner holds the session: wait for its lease to end, or take it over",
        )
        .retry_after(self.left);
        let error = until.map_or(error.clone(), |until| error.with("until", until));
        match &self.owner {
            Some(owner) => error.with("owner", owner),
            None => error,
        }
    }
}

impl Store {
    /// Takes the lease, making the session if there is none. The inner error: another owner holds it.
    pub async fn open(
        &self,
        name: &SessionName,
        terms: &OpenTerms,
        deadline: Instant,
    ) -> Result<std::result::Result<Opened, Held>> {
        for _ in 0..TRIES {
            let (head, now) = self.head(name, deadline).await?;
            let exists = head.as_ref().is_some_and(|head| head.live != 0);
            if head.is_none() {
                self.link.confirm_absent(KIND, name.tag(), deadline).await?;
            }
            if !exists && terms.must_exist {
                return Err(not_found());
            }
            let head = head.unwrap_or_default();
            let proposed = now.max(head.fence + 1);
            let (keys, wrapped) = if exists {
                (self.live_keys(name, &head, deadline).await?, Vec::new())
            } else {
                let (keys, wrapped) = SessionKeys::generate(&self.keyring.current(), name, proposed);
                (Arc::new(keys), wrapped)
            };
            let creates = !exists && terms.min_revision <= head.revision && terms.resume.is_none();
            if creates {
                self.index_making(name, deadline).await?;
            }
            let op = self.open_op(name, terms, &keys, &head, proposed, wrapped);
            let mut reply = Reply::parse(self.link.run(Lane::Small, op, deadline).await?)?;
            match reply.status() {
                "OK" => {
                    let (fence, revision) = (reply.number()?, reply.number()?);
                    let _incarnation = reply.number()?;
                    let opened = Opened {
                        fence,
                        revision,
                        created: reply.number()? == 1,
                        resumed: reply.number()? == 1,
                        last_op: reply.number()?,
                        keys: Arc::clone(&keys),
                        head,
                    };
                    if opened.created {
                        self.keys.put(name.tag(), keys, self.keyring.current().primary_id());
                        self.index_made(name, &opened.head, deadline).await?;
                    }
                    return Ok(Ok(opened));
                }
                "AGAIN" => {}
                "HELD" => {
                    let sealed = reply.bytes()?.unwrap_or_default();
                    let (until_ms, now_ms) = (reply.number()?, reply.number()?);
                    return Ok(Err(held(name, &keys, &sealed, until_ms, now_ms)));
                }
                "FENCED" => return Err(commit::fenced(reply.word()? == "DELETED")),
                "NOT_FOUND" => return Err(not_found()),
                "STALE" => return Err(commit::stale(reply.number()?)),
                "LOST" => return Err(self.lost(name, deadline).await),
                _ => return Err(reply::unexpected()),
            }
        }
        Err(busy())
    }

    fn open_op(
        &self,
        name: &SessionName,
        terms: &OpenTerms,
        keys: &SessionKeys,
        head: &Head,
        proposed: u64,
        wrapped: Vec<u8>,
    ) -> Op<'static> {
        let number = crate::valkey::decimal;
        let flag = |on: bool| if on { b"1".to_vec() } else { Vec::new() };
        let keyring = self.keyring.current();
        let (resume_fence, resume_revision) = match terms.resume {
            Some((fence, revision)) => (number(fence), number(revision)),
            None => (Vec::new(), Vec::new()),
        };
        let args = vec![
            number(head.live),
            number(proposed),
            name.owner(&keyring, &terms.owner).to_vec(),
            keys.seal_part(name, OWNER_PART, terms.owner.as_bytes()),
            flag(terms.take_over),
            number(millis(terms.lease_ttl)),
            flag(terms.must_exist),
            number(terms.min_revision),
            resume_fence,
            resume_revision,
            terms.writer.to_vec(),
            wrapped,
            keyring.index_name_key().seal_name(name.tag(), &name.namespace, &name.session),
        ];
        let keys = vec![name.head(&self.link), name.records(&self.link, keys.incarnation)];
        Op::Script { script: &scripts::OPEN, keys, args }
    }
}

/// The owner's name and time of a live lease.
pub fn held(name: &SessionName, keys: &SessionKeys, sealed_owner: &[u8], until_ms: u64, now_ms: u64) -> Held {
    let owner =
        keys.open_part(name, OWNER_PART, sealed_owner).and_then(|bytes| String::from_utf8(bytes).ok());
    Held { owner, left: Duration::from_millis(until_ms.saturating_sub(now_ms)), until_ms }
}
