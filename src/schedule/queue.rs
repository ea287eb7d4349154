//! One queue as a sidecar knows it: its name and keys, and what its callers share.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use tokio::sync::watch;

use crate::{
    crypto::{Context, Keyring, OwnerTag},
    owner::request::blinded,
    valkey::Link,
};

/// The kind of owner in contexts and the index.
pub const KIND: &str = "queue";
/// Jobs of one hash.
pub const IN_BUCKET: u64 = 1000;
/// Keys that every script gets before the buckets.
pub const FIXED: usize = 14;
const SUFFIXES: [&str; FIXED] =
    ["h", "u", "ux", "due", "rdy", "lse", "done", "dead", "grp", "ga", "lim", "h", "c", "cn"];
/// Buckets in which the next ready jobs are looked for before Valkey has said where they are.
const GUESSES: usize = 6;

/// A queue of a namespace.
pub struct QueueName {
    /// The bot, number or tenant.
    pub namespace: String,
    /// The queue's own name.
    pub queue: String,
    tag: OwnerTag,
    context: Context,
}

impl QueueName {
    /// Names a queue; the caller has checked the lengths.
    pub fn new(keyring: &Keyring, namespace: &str, queue: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            queue: queue.to_owned(),
            tag: keyring.owner_tag(KIND, namespace, queue),
            context: Context::new("job", &[namespace.as_bytes(), queue.as_bytes()]),
        }
    }

    /// The HMAC that stands for it in key names.
    pub fn tag(&self) -> &OwnerTag {
        &self.tag
    }

    /// What a part of this queue is bound to.
    pub fn context(&self, parts: &[&[u8]]) -> Context {
        self.context.with(parts)
    }

    /// Stands for a job's id.
    pub fn blinded_id(&self, keyring: &Keyring, id: &str) -> [u8; 16] {
        blinded(keyring, "job-id", &self.tag, id)
    }

    /// The start of the tag: what logs may show.
    pub fn short(&self) -> String {
        self.tag.to_string().chars().take(8).collect()
    }
}

/// What the calls of one sidecar share of a queue.
pub struct Queue {
    pub name: QueueName,
    keys: Vec<Vec<u8>>,
    bucket_prefix: Vec<u8>,
    /// Where messages about it go, without the letter that says which.
    channel: Vec<u8>,
    /// It is known to exist.
    pub known: AtomicBool,
    /// The last job number seen.
    seq: AtomicU64,
    /// Buckets in which jobs were ready lately, the latest last.
    ready_in: Mutex<Vec<u64>>,
    /// Counts up when there may be something to lease.
    pulse: watch::Sender<u64>,
}

impl Queue {
    /// Of this name.
    pub fn new(link: &Link, name: QueueName) -> Self {
        let keys = SUFFIXES.iter().map(|suffix| link.owner_key(&name.tag, suffix)).collect();
        let bucket_prefix = link.owner_key(&name.tag, "j:");
        let channel = link.owner_key(&name.tag, "");
        Self {
            name,
            keys,
            bucket_prefix,
            channel,
            known: AtomicBool::new(false),
            seq: AtomicU64::new(0),
            ready_in: Mutex::default(),
            pulse: watch::Sender::new(0),
        }
    }

    /// The key at a place of the fixed list.
    pub fn key(&self, at: usize) -> &[u8] {
        &self.keys[at]
    }

    /// The head.
    pub fn head(&self) -> &[u8] {
        &self.keys[0]
    }

    /// The fixed list.
    pub fn fixed(&self) -> &[Vec<u8>] {
        &self.keys
    }

    /// The keys of buckets, which follow the fixed list, and a script's first argument.
    pub fn buckets(&self, buckets: &[u64]) -> (Vec<Vec<u8>>, Vec<u8>) {
        let mut packed = Vec::with_capacity(6 * buckets.len());
        for bucket in buckets {
            packed.extend(&bucket.to_be_bytes()[2..]);
        }
        (buckets.iter().map(|bucket| self.bucket(*bucket)).collect(), packed)
    }

    /// KEYS of a script, and its first argument.
    pub fn keys(&self, buckets: &[u64]) -> (Vec<Vec<u8>>, Vec<u8>) {
        let (own, packed) = self.buckets(buckets);
        (self.keys.iter().cloned().chain(own).collect(), packed)
    }

    /// The key of a bucket.
    pub fn bucket(&self, bucket: u64) -> Vec<u8> {
        let mut key = self.bucket_prefix.clone();
        key.extend(bucket.to_string().into_bytes());
        key
    }

    /// A further key of this queue.
    pub fn extra_key(&self, suffix: &str) -> Vec<u8> {
        let mut key = self.channel.clone();
        key.extend(suffix.as_bytes());
        key
    }

    /// Where is said that there may be something to lease.
    pub fn wake_channel(&self) -> Vec<u8> {
        self.extra_key("n")
    }

    /// Where events are told.
    pub fn event_channel(&self) -> Vec<u8> {
        self.extra_key("e")
    }

    /// The bucket of the next job, as far as is known, and the one after.
    pub fn next_buckets(&self) -> Vec<u64> {
        let next = (self.seq.load(Ordering::Relaxed) + 1) / IN_BUCKET;
        vec![next, next + 1]
    }

    /// A number that was given out.
    pub fn seen(&self, seq: u64) {
        self.seq.fetch_max(seq, Ordering::Relaxed);
    }

    /// Buckets in which ready jobs may be.
    pub fn ready_buckets(&self) -> Vec<u64> {
        let mut buckets = self.ready_in.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let newest = self.seq.load(Ordering::Relaxed) / IN_BUCKET;
        // A bucket is worked through in order: the one after the last comes next.
        let after = buckets.last().map(|last| last + 1).filter(|after| *after <= newest);
        for bucket in after.into_iter().chain([newest]) {
            if !buckets.contains(&bucket) {
                buckets.push(bucket);
            }
        }
        buckets
    }

    /// Jobs were ready there.
    pub fn was_ready_in(&self, bucket: u64) {
        let mut buckets = self.ready_in.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.last() == Some(&bucket) {
            return;
        }
        buckets.retain(|one| *one != bucket);
        buckets.push(bucket);
        if buckets.len() > GUESSES {
            buckets.remove(0);
        }
    }

    /// There may be something to lease.
    pub fn wake(&self) {
        self.pulse.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Hears of it.
    pub fn pulse(&self) -> watch::Receiver<u64> {
        self.pulse.subscribe()
    }
}
