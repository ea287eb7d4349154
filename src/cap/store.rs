//! Counting sends in Valkey: everything is judged and counted by one script, with the policies as they are there.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::SystemTime,
};

use tokio::time::Instant;

use super::{
    names::{CapNames, Subject},
    policies::{Copies, Policies},
    policy::{Rule, Stored},
    scripts,
};
use crate::{
    error::{Error, Reason, Result},
    owner::{
        namespace::Namespaces,
        reply::{Reply, unexpected},
    },
    proto::v1::CapScope,
    valkey::{Funnel, Op, Script},
};

/// Tries with policies, windows or counters that turn out to be out of date.
pub const TRIES: usize = 8;
/// The caps of one database.
pub struct Store {
    pub policies: Policies,
    pub funnel: Funnel,
    /// How far Valkey's clock is ahead of ours, ms: only to guess in which window we are, which the script then checks.
    ahead_ms: AtomicI64,
}

/// What is asked.
pub struct Asked<'a> {
    pub policies: &'a [String],
    pub subject: Subject<'a>,
    pub n: u64,
}

/// How a policy stands. `limit` 0: unlimited; `reset_ms` 0: nothing is used.
pub struct Usage {
    pub limit: u64,
    pub used: u64,
    pub reset_ms: u64,
}

/// What became of a send. `policy` is the place in the request.
pub enum Consumed {
    Allowed { usage: Vec<Usage>, reserved_until_ms: Option<u64>, replayed: bool },
    Denied { policy: usize, wait_ms: u64 },
    Never { policy: usize },
    Mismatch,
}

/// What consume would find of one policy.
pub struct Peeked {
    pub usage: Usage,
    pub never: bool,
    pub wait_ms: u64,
    /// When the unit that was asked for could go; `None`: too far away.
    pub unit_ms: Option<u64>,
}

/// What stands for a request in Valkey.
struct Prepared {
    stored: Vec<Arc<Stored>>,
    /// Of the policies that need one.
    windows: Vec<(u64, u64)>,
    /// Counter and reservations of each.
    keys: Vec<Vec<u8>>,
    inbound: Vec<u8>,
    recipient: Vec<u8>,
}

impl Prepared {
    /// The script for these rules.
    fn consume(&self) -> &'static Script {
        let script = |stored: &Arc<Stored>| match stored.policy.rule {
            Rule::Fixed(_) => &scripts::CONSUME_FIXED,
            Rule::Rolling { .. } => &scripts::CONSUME_ROLLING,
            Rule::Gcra { .. } => &scripts::CONSUME_BUCKET,
            Rule::Unique { .. } => &scripts::CONSUME_UNIQUE,
        };
        let mut all = self.stored.iter().map(script);
        match all.next() {
            Some(first) if all.all(|other| std::ptr::eq(first, other)) => first,
            _ => &scripts::CONSUME,
        }
    }

    /// What each policy adds to the arguments.
    fn push_args(&self, args: &mut Vec<Vec<u8>>) {
        for (stored, (start, end)) in self.stored.iter().zip(&self.windows) {
            let mut packed = Vec::with_capacity(28);
            packed.extend_from_slice(&stored.field);
            packed.extend_from_slice(&stored.revision.to_be_bytes());
            packed.extend_from_slice(&start.to_be_bytes()[2..]);
            packed.extend_from_slice(&end.to_be_bytes()[2..]);
            args.push(packed);
        }
    }
}

impl Store {
    /// Over the funnel's link.
    pub fn new(namespaces: Arc<Namespaces>, funnel: Funnel) -> Self {
        let policies = Policies { namespaces, copies: Copies::default() };
        Self { policies, funnel, ahead_ms: AtomicI64::new(0) }
    }

    pub(super) fn namespaces(&self) -> &Namespaces {
        &self.policies.namespaces
    }

    /// The caps of a namespace.
    pub fn names(&self, namespace: String) -> CapNames {
        let namespaces = self.namespaces();
        CapNames::new(&namespaces.link, &namespaces.keyring.current(), namespace)
    }

    /// Whether all policies are known here and say that sends go on without Valkey.
    pub fn fails_open(&self, namespace: &str, policies: &[String]) -> bool {
        policies.iter().all(|name| {
            self.policies.copies.get(namespace, name).is_some_and(|stored| stored.policy.fail_open)
        })
    }

    /// Asks for leave to send.
    pub async fn consume(
        &self,
        names: &CapNames,
        asked: &Asked<'_>,
        send_id: &str,
        reserve_ms: Option<u64>,
        deadline: Instant,
    ) -> Result<Consumed> {
        let keyring = self.namespaces().keyring.current();
        let send = names.send(&keyring, send_id);
        let fingerprint =
            names.fingerprint(&keyring, asked.n, reserve_ms.is_some(), asked.subject, asked.policies);
        for _ in 0..TRIES {
            let prepared = self.prepare(names, asked, false, deadline).await?;
            let mut keys = vec![names.policies(), names.send_key(&send), prepared.inbound.clone()];
            keys.extend(prepared.keys.iter().cloned());
            let mut packed = Vec::with_capacity(37);
            packed.extend_from_slice(&asked.n.to_be_bytes()[1..]);
            packed.extend_from_slice(&reserve_ms.unwrap_or(0).to_be_bytes()[2..]);
            packed.extend_from_slice(&fingerprint);
            packed.extend_from_slice(&prepared.recipient);
            packed.extend_from_slice(&send[..8]);
            let mut args = vec![packed];
            prepared.push_args(&mut args);
            let mut reply = self.call(prepared.consume(), keys, args, deadline).await?;
            match reply.status() {
                "ALLOWED" => {
                    self.learn_clock(reply.number()?);
                    let till = reply.number()?;
                    let reserved_until_ms = reserve_ms.is_some().then_some(till);
                    return Ok(Consumed::Allowed {
                        usage: usages(&mut reply)?,
                        reserved_until_ms,
                        replayed: false,
                    });
                }
                "REPLAYED" => {
                    self.learn_clock(reply.number()?);
                    let (state, till) = (reply.word()?, reply.number()?);
                    let reserved_until_ms = (state == "R").then_some(till);
                    return Ok(Consumed::Allowed {
                        usage: usages(&mut reply)?,
                        reserved_until_ms,
                        replayed: true,
                    });
                }
                "DENIED" => {
                    self.learn_clock(reply.number()?);
                    return Ok(Consumed::Denied { policy: place(&mut reply)?, wait_ms: reply.number()? });
                }
                "NEVER" => {
                    self.learn_clock(reply.number()?);
                    return Ok(Consumed::Never { policy: place(&mut reply)? });
                }
                "MISMATCH" => return Ok(Consumed::Mismatch),
                "FULL" => {
                    return Err(Error::new(
                        Reason::Quota,
                        "256 reservations are open here: confirm or refund some",
                    ));
                }
                _ => self.renew(names, &prepared, reply, deadline).await?,
            }
        }
        Err(busy())
    }

    /// What consume would find; and until when the service window is open (ms, 0: it is closed). `unit` 0: not asked.
    pub async fn peek(
        &self,
        names: &CapNames,
        asked: &Asked<'_>,
        unit: u64,
        deadline: Instant,
    ) -> Result<(Vec<Peeked>, u64)> {
        for _ in 0..TRIES {
            let prepared = self.prepare(names, asked, true, deadline).await?;
            let mut keys = vec![names.policies(), names.policies(), prepared.inbound.clone()];
            keys.extend(prepared.keys.iter().cloned());
            let mut packed = Vec::with_capacity(22);
            packed.extend_from_slice(&asked.n.to_be_bytes()[1..]);
            packed.extend_from_slice(&unit.to_be_bytes()[1..]);
            packed.extend_from_slice(&prepared.recipient);
            let mut args = vec![packed];
            prepared.push_args(&mut args);
            let mut reply = self.call(&scripts::PEEK, keys, args, deadline).await?;
            if reply.status() != "OK" {
                self.renew(names, &prepared, reply, deadline).await?;
                continue;
            }
            let now = reply.number()?;
            self.learn_clock(now);
            let open_until = reply.number()?;
            let mut peeked = Vec::with_capacity(prepared.stored.len());
            for (stored, (_, end)) in prepared.stored.iter().zip(&prepared.windows) {
                let usage = usage(&mut reply)?;
                let (never, wait_ms) = (reply.number()? == 1, reply.number()?);
                let (unit_wait, windows) = (reply.number()?, reply.number()?);
                let unit_ms = match &stored.policy.rule {
                    Rule::Fixed(window) if windows > 0 => {
                        window.nth_after(*end, windows).map(|at| at.saturating_sub(now))
                    }
                    _ => Some(unit_wait),
                };
                peeked.push(Peeked { usage, never, wait_ms, unit_ms });
            }
            return Ok((peeked, open_until));
        }
        Err(busy())
    }

    /// With the recipient's service window if that is `wanted`; the rules that look at it get it anyway.
    async fn prepare(
        &self,
        names: &CapNames,
        asked: &Asked<'_>,
        wanted: bool,
        deadline: Instant,
    ) -> Result<Prepared> {
        let keyring = self.namespaces().keyring.current();
        let now = self.now_ms();
        let (mut stored, mut windows) = (Vec::new(), Vec::new());
        let mut keys = Vec::with_capacity(2 * asked.policies.len());
        let mut any_unique = false;
        for (n, name) in asked.policies.iter().enumerate() {
            let one = self.policies.get(names, name, deadline).await?.ok_or_else(|| no_policy(n))?;
            check_scope(&one, asked.subject)?;
            let unique = matches!(one.policy.rule, Rule::Unique { .. });
            any_unique |= unique;
            windows.push(match &one.policy.rule {
                Rule::Fixed(window) => window.around(now).ok_or_else(|| {
                    Error::new(Reason::Internal, "the clock of Valkey is out of all bounds")
                })?,
                _ => (0, 0),
            });
            keys.extend(names.counter_keys(unique, &names.counter(&keyring, &one, asked.subject)));
            stored.push(one);
        }
        let (inbound, recipient) = if any_unique || (wanted && !asked.subject.recipient.is_empty()) {
            (names.inbound(&keyring, asked.subject), names.recipient(&keyring, asked.subject.recipient))
        } else {
            (names.no_inbound(), vec![0; 8])
        };
        Ok(Prepared { stored, windows, keys, inbound, recipient })
    }

    /// Takes up what the script knew better.
    async fn renew(
        &self,
        names: &CapNames,
        prepared: &Prepared,
        mut reply: Reply,
        deadline: Instant,
    ) -> Result<()> {
        match reply.status() {
            "STALE_WINDOW" => self.learn_clock(reply.number()?),
            "STALE_POLICY" => {
                let stored = prepared.stored.get(place(&mut reply)?).ok_or_else(unexpected)?;
                let packed = reply.bytes()?.ok_or_else(unexpected)?;
                self.policies.open(names, stored.field, &packed, deadline).await?;
            }
            "NO_POLICY" => {
                let place = place(&mut reply)?;
                let stored = prepared.stored.get(place).ok_or_else(unexpected)?;
                if self.policies.read(names, &stored.policy.name, deadline).await?.is_none() {
                    return Err(no_policy(place));
                }
            }
            _ => return Err(unexpected()),
        }
        Ok(())
    }

    fn now_ms(&self) -> u64 {
        local_ms().saturating_add_signed(self.ahead_ms.load(Ordering::Relaxed))
    }

    fn learn_clock(&self, server_ms: u64) {
        let ahead = i64::try_from(server_ms).unwrap_or(0) - i64::try_from(local_ms()).unwrap_or(0);
        self.ahead_ms.store(ahead, Ordering::Relaxed);
    }

    pub(super) async fn call(
        &self,
        script: &'static Script,
        keys: Vec<Vec<u8>>,
        args: Vec<Vec<u8>>,
        deadline: Instant,
    ) -> Result<Reply> {
        Reply::parse(self.funnel.run(Op::Script { script, keys, args }, deadline).await?)
    }
}

fn local_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(0)
}

/// A policy's place, which Lua counts from 1.
fn place(reply: &mut Reply) -> Result<usize> {
    let place = usize::try_from(reply.number()?).map_err(|_| unexpected())?;
    place.checked_sub(1).ok_or_else(unexpected)
}

fn usage(reply: &mut Reply) -> Result<Usage> {
    Ok(Usage { limit: reply.number()?, used: reply.number()?, reset_ms: reply.number()? })
}

fn usages(reply: &mut Reply) -> Result<Vec<Usage>> {
    let mut usages = Vec::with_capacity(reply.left() / 3);
    while reply.left() > 0 {
        usages.push(usage(reply)?);
    }
    Ok(usages)
}

fn check_scope(stored: &Stored, subject: Subject<'_>) -> Result<()> {
    let unique = matches!(stored.policy.rule, Rule::Unique { .. });
    let (sender, recipient) = match stored.policy.scope {
        CapScope::Unspecified | CapScope::Namespace => (false, false),
        CapScope::Sender => (true, false),
        CapScope::Recipient => (false, true),
        CapScope::Pair => (true, true),
    };
    if (recipient || unique) && subject.recipient.is_empty() {
        return Err(Error::bad_field("recipient", "is needed by one of the policies"));
    }
    if sender && subject.sender.is_empty() {
        return Err(Error::bad_field("sender", "is needed by one of the policies"));
    }
    Ok(())
}

fn no_policy(place: usize) -> Error {
    Error::new(Reason::PolicyNotFound, format!("policies[{place}]: there is no such policy: set it first"))
}

pub fn busy() -> Error {
    Error::new(Reason::Busy, "the policies keep changing: try again")
}
