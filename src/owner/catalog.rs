//! Lists the owners of one kind by walking its index: 64 buckets of tags, whose names the owners' own hashes hold sealed.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use redis::{Value, cmd};
use tokio::time::Instant;

use crate::{
    crypto::{Keyring, OwnerTag},
    error::{Error, Result},
    valkey::{Lane, Link, Op},
};

pub use crate::valkey::BUCKETS;

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

/// What a listing reads of each owner.
pub trait Listed: Sized {
    /// The kind whose index is walked.
    const KIND: &'static str;
    /// The key of the owner's hash, behind its tag.
    const KEY: &'static str;

    /// From HGETALL; `None` when it is not there.
    fn parse(fields: Value) -> Result<Option<Self>>;

    /// The owner's name, as `IndexNameKey` sealed it.
    fn sealed_name(&self) -> &[u8];
}

/// One page: the owners of a namespace by name.
pub struct Owners<T> {
    pub found: Vec<(String, T)>,
    /// "" ends.
    pub cursor: String,
    pub corrupt: u32,
}

/// The next owners of a namespace that are `wanted`.
pub async fn owners<T: Listed>(
    (link, keyring): (&Link, &Keyring),
    namespace: &str,
    mut place: Place,
    limit: usize,
    wanted: impl Fn(&T) -> bool,
    deadline: Instant,
) -> Result<Owners<T>> {
    let (mut found, mut corrupt, mut looked_at) = (Vec::new(), 0, 0);
    while place.bucket < BUCKETS {
        let tags = bucket(link, T::KIND, place.bucket, deadline).await?;
        let from = place.last.map_or(0, |last| tags.partition_point(|tag| *tag.as_bytes() <= last));
        for batch in tags[from..].chunks(HEADS) {
            for (tag, owner) in read::<T>(link, batch, deadline).await? {
                if found.len() >= limit || looked_at >= LOOKED_AT_MAX {
                    return Ok(Owners { found, cursor: place.encode(), corrupt });
                }
                place.last = Some(*tag.as_bytes());
                looked_at += 1;
                let Some(owner) = owner.filter(&wanted) else { continue };
                match keyring.index_name_key().open_name(&tag, owner.sealed_name()) {
                    Some((ns, name)) if ns == namespace => found.push((name, owner)),
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
pub async fn bucket(link: &Link, kind: &str, bucket: u8, deadline: Instant) -> Result<Vec<OwnerTag>> {
    let mut read = cmd("ZRANGE");
    read.arg(link.index_key(kind, bucket)).arg(0).arg(-1);
    let reply = link.run(Lane::Bulk, Op::Cmd(read), deadline).await?;
    let mut tags = tags(&reply);
    tags.sort_unstable_by_key(|tag| *tag.as_bytes());
    Ok(tags)
}

async fn read<T: Listed>(
    link: &Link,
    tags: &[OwnerTag],
    deadline: Instant,
) -> Result<Vec<(OwnerTag, Option<T>)>> {
    let ops: Vec<_> = tags
        .iter()
        .map(|tag| {
            let mut read = cmd("HGETALL");
            read.arg(link.owner_key(tag, T::KEY));
            Op::Cmd(read)
        })
        .collect();
    let replies = link.read(Lane::Bulk, &ops, deadline).await?;
    tags.iter().zip(replies).map(|(tag, fields)| Ok((*tag, T::parse(fields)?))).collect()
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
