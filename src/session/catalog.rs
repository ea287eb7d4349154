//! Lists sessions and archives by walking the index: 64 buckets of owner tags, whose names the heads hold sealed.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use redis::{Value, cmd};
use tokio::time::Instant;

use super::{
    head::Head,
    name::{KIND, SessionName},
    store::Store,
};
use crate::{
    crypto::OwnerTag,
    error::{Error, Result},
    valkey::{Lane, Op},
};

/// Buckets of an index.
pub const BUCKETS: u8 = 64;
/// Heads read in one write.
const HEADS: usize = 100;
/// Heads looked at for one page.
const LOOKED_AT_MAX: usize = 2_000;

/// Where a listing stands.
#[derive(Clone, Default)]
pub struct Place {
    bucket: u8,
    /// The last tag looked at in the bucket.
    last: Option<[u8; 16]>,
}

impl Place {
    /// "" begins.
    pub fn parse(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let malformed = || Error::bad_field("cursor", "is none that this call has given");
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| malformed())?;
        match bytes.split_first() {
            Some((bucket, [])) if *bucket < BUCKETS => Ok(Self { bucket: *bucket, last: None }),
            Some((bucket, last)) if *bucket < BUCKETS => {
                Ok(Self { bucket: *bucket, last: Some(last.try_into().map_err(|_| malformed())?) })
            }
            _ => Err(malformed()),
        }
    }

    fn encode(&self) -> String {
        let mut bytes = vec![self.bucket];
        bytes.extend(self.last.iter().flatten());
        URL_SAFE_NO_PAD.encode(bytes)
    }
}

/// One page: the owners of a namespace with their heads.
pub struct Owners {
    pub found: Vec<(SessionName, Head)>,
    /// "" ends.
    pub cursor: String,
    pub corrupt: u32,
}

impl Store {
    /// The next owners of a namespace that have what `wanted` asks of their head.
    pub async fn owners(
        &self,
        namespace: &str,
        mut place: Place,
        limit: usize,
        wanted: impl Fn(&Head) -> bool,
        deadline: Instant,
    ) -> Result<Owners> {
        let (mut found, mut corrupt, mut looked_at) = (Vec::new(), 0, 0);
        let keyring = self.keyring.current();
        while place.bucket < BUCKETS {
            let tags = self.bucket(place.bucket, deadline).await?;
            let from = place.last.map_or(0, |last| tags.partition_point(|tag| *tag.as_bytes() <= last));
            for batch in tags[from..].chunks(HEADS) {
                for (tag, head) in self.heads(batch, deadline).await? {
                    if found.len() >= limit || looked_at >= LOOKED_AT_MAX {
                        return Ok(Owners { found, cursor: place.encode(), corrupt });
                    }
                    place.last = Some(*tag.as_bytes());
                    looked_at += 1;
                    let Some(head) = head.filter(&wanted) else { continue };
                    match keyring.index_name_key().open_name(&tag, &head.sealed_name) {
                        Some((ns, session)) if ns == namespace => {
                            found.push((SessionName::new(&keyring, ns, session), head));
                        }
                        Some(_) => {}
                        None => corrupt += 1,
                    }
                }
            }
            place = Place { bucket: place.bucket + 1, last: None };
            if found.len() >= limit && place.bucket < BUCKETS {
                return Ok(Owners { found, cursor: place.encode(), corrupt });
            }
        }
        Ok(Owners { found, cursor: String::new(), corrupt })
    }

    /// The tags of one bucket, sorted.
    async fn bucket(&self, bucket: u8, deadline: Instant) -> Result<Vec<OwnerTag>> {
        let mut read = cmd("ZRANGE");
        read.arg(self.link.index_key(KIND, bucket)).arg(0).arg(-1);
        let reply = self.link.run(Lane::Bulk, Op::Cmd(read), deadline).await?;
        let mut tags = tags(&reply);
        tags.sort_unstable_by_key(|tag| *tag.as_bytes());
        Ok(tags)
    }

    /// The heads of some owners.
    pub(super) async fn heads(
        &self,
        tags: &[OwnerTag],
        deadline: Instant,
    ) -> Result<Vec<(OwnerTag, Option<Head>)>> {
        let ops: Vec<_> = tags
            .iter()
            .map(|tag| {
                let mut read = cmd("HGETALL");
                read.arg(self.link.owner_key(tag, "h"));
                Op::Cmd(read)
            })
            .collect();
        let replies = self.read(Lane::Bulk, &ops, deadline).await?;
        tags.iter().zip(replies).map(|(tag, reply)| Ok((*tag, Head::parse(reply)?))).collect()
    }
}

/// Owner tags in a reply; the index's own mark is none.
pub fn tags(reply: &Value) -> Vec<OwnerTag> {
    let Value::Array(members) = reply else { return Vec::new() };
    members
        .iter()
        .filter_map(|member| match member {
            Value::BulkString(bytes) => <[u8; 16]>::try_from(bytes.as_slice()).ok().map(OwnerTag::from_bytes),
            _ => None,
        })
        .collect()
}
