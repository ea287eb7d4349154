//! The policies of all namespaces: in Valkey, where the scripts read their numbers, and a copy of each that is in use here. A copy
//! that is out of date is found out by the script, which answers with the policy as it is.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use redis::{Value, cmd};
use tokio::time::Instant;

use super::{
    names::CapNames,
    policy::{Policy, Stored},
    scripts,
};
use crate::{
    error::{Error, Reason, Result},
    owner::{
        namespace::Namespaces,
        reply::{Reply, pairs, unexpected},
    },
    valkey::{Lane, Op, decimal},
};

/// Policies of a namespace.
const POLICIES_MAX: u64 = 1_000;
/// Copies in memory; beyond, all are read again.
const COPIES_MAX: usize = 16 * 1024;
/// Bytes in front of the marks of a packed policy.
const HEAD: usize = 1 + 1 + 8 * 4 + 6 + 8 + 1;

/// Policies by namespace and name.
#[derive(Default)]
pub struct Copies {
    by_namespace: Mutex<HashMap<String, HashMap<String, Arc<Stored>>>>,
}

impl Copies {
    /// The copy, if there is one.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Stored>> {
        let all = self.by_namespace.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(namespace)?.get(name).cloned()
    }

    /// Remembers a policy.
    pub fn put(&self, namespace: &str, stored: Arc<Stored>) {
        let mut all = self.by_namespace.lock().unwrap_or_else(PoisonError::into_inner);
        if all.values().map(HashMap::len).sum::<usize>() >= COPIES_MAX {
            all.clear();
        }
        let name = stored.policy.name.clone();
        all.entry(namespace.to_owned()).or_default().insert(name, stored);
    }

    /// Forgets a policy.
    pub fn forget(&self, namespace: &str, name: &str) {
        let mut all = self.by_namespace.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of) = all.get_mut(namespace) {
            of.remove(name);
        }
    }
}

/// The policies of one database.
pub struct Policies {
    pub namespaces: Arc<Namespaces>,
    pub copies: Copies,
}

/// What became of a change.
pub struct Changed {
    pub stored: Arc<Stored>,
    pub created: bool,
    pub replayed: bool,
}

impl Policies {
    /// The policy of this name: the copy, or as it is stored.
    pub async fn get(&self, names: &CapNames, name: &str, deadline: Instant) -> Result<Option<Arc<Stored>>> {
        match self.copies.get(&names.namespace, name) {
            Some(stored) => Ok(Some(stored)),
            None => self.read(names, name, deadline).await,
        }
    }

    /// The policy of this name as it is stored.
    pub async fn read(&self, names: &CapNames, name: &str, deadline: Instant) -> Result<Option<Arc<Stored>>> {
        let field = names.field(&self.namespaces.keyring.current(), name);
        let mut read = cmd("HGET");
        read.arg(names.policies()).arg(&field[..]);
        match self.namespaces.link.run(Lane::Small, Op::Cmd(read), deadline).await? {
            Value::BulkString(packed) => self.open(names, field, &packed, deadline).await.map(Some),
            Value::Nil => {
                // A database that has lost its policies must not look like one that never had any.
                self.namespaces.existing(&names.namespace, deadline).await?;
                self.copies.forget(&names.namespace, name);
                Ok(None)
            }
            _ => Err(unexpected()),
        }
    }

    /// All policies of a namespace by name, and how many could not be opened.
    pub async fn list(&self, names: &CapNames, deadline: Instant) -> Result<(Vec<Arc<Stored>>, u32)> {
        let mut read = cmd("HGETALL");
        read.arg(names.policies());
        let fields = pairs(self.namespaces.link.run(Lane::Bulk, Op::Cmd(read), deadline).await?)?;
        if fields.is_empty() {
            self.namespaces.existing(&names.namespace, deadline).await?;
        }
        let (mut found, mut corrupt) = (Vec::new(), 0);
        for (field, packed) in fields {
            let Ok(field) = <[u8; 8]>::try_from(field) else {
                corrupt += 1;
                continue;
            };
            match self.open(names, field, &packed, deadline).await {
                Ok(stored) => found.push(stored),
                Err(error) if error.reason() == Reason::CorruptRecord => corrupt += 1,
                Err(error) => return Err(error),
            }
        }
        found.sort_by(|one, other| one.policy.name.cmp(&other.policy.name));
        Ok((found, corrupt))
    }

    /// Makes or changes a policy.
    pub async fn set(
        &self,
        names: &CapNames,
        policy: &Policy,
        request_id: &str,
        from_config: bool,
        deadline: Instant,
    ) -> Result<Changed> {
        let keys = self.namespaces.keys(&names.namespace, deadline).await?;
        let keyring = self.namespaces.keyring.current();
        let field = names.field(&keyring, &policy.name);
        let (letter, number) = policy.number();
        let args = vec![
            field.to_vec(),
            names.mark(&keyring, request_id),
            letter.into(),
            decimal(policy.flags()),
            decimal(policy.limit),
            decimal(number),
            names.definition(&keyring, &policy.definition()),
            keys.seal(&names.policy_context(field), &policy.encode()),
            decimal(POLICIES_MAX),
            if from_config { b"1".to_vec() } else { Vec::new() },
        ];
        let op = Op::Script { script: &scripts::SET_POLICY, keys: vec![names.policies()], args };
        let mut reply = Reply::parse(self.namespaces.link.run(Lane::Small, op, deadline).await?)?;
        match reply.status() {
            "OK" => {
                let (created, replayed) = (reply.number()? == 1, reply.number()? == 1);
                let packed = reply.bytes()?.ok_or_else(unexpected)?;
                let stored = self.open(names, field, &packed, deadline).await?;
                Ok(Changed { stored, created, replayed })
            }
            "FULL" => Err(Error::new(Reason::Quota, "a namespace has at most 1000 policies: delete some")),
            _ => Err(unexpected()),
        }
    }

    /// Takes a policy away; whether it was there.
    pub async fn delete(
        &self,
        names: &CapNames,
        name: &str,
        revision: u64,
        deadline: Instant,
    ) -> Result<bool> {
        let field = names.field(&self.namespaces.keyring.current(), name);
        let op = Op::Script {
            script: &scripts::DELETE_POLICY,
            keys: vec![names.policies()],
            args: vec![field.to_vec(), decimal(revision)],
        };
        let mut reply = Reply::parse(self.namespaces.link.run(Lane::Small, op, deadline).await?)?;
        self.copies.forget(&names.namespace, name);
        Ok(reply.number()? == 1)
    }

    /// Opens a packed policy and keeps a copy of it.
    pub async fn open(
        &self,
        names: &CapNames,
        field: [u8; 8],
        packed: &[u8],
        deadline: Instant,
    ) -> Result<Arc<Stored>> {
        let numbers = Numbers::parse(packed).ok_or_else(unexpected)?;
        let what = (names.namespace.as_str(), "cap policy");
        let opened =
            self.namespaces.open(what, &names.policy_context(field), numbers.sealed, deadline).await?;
        let policy =
            Policy::decode(&opened.plaintext, numbers.letter, numbers.flags, numbers.limit, numbers.window)
                .ok_or_else(|| {
                Error::new(Reason::NewerFormat, "a cap policy was written by a newer version: update pannier")
            })?;
        let stored = Arc::new(Stored {
            policy,
            revision: numbers.revision,
            definition: numbers.definition,
            updated_ms: numbers.updated_ms,
            from_config: numbers.flags & 8 != 0,
            field,
        });
        self.copies.put(&names.namespace, Arc::clone(&stored));
        Ok(stored)
    }
}

/// What of a policy is in clear.
struct Numbers<'a> {
    letter: u8,
    flags: u64,
    revision: u64,
    definition: u64,
    limit: u64,
    window: u64,
    updated_ms: u64,
    sealed: &'a [u8],
}

impl<'a> Numbers<'a> {
    fn parse(packed: &'a [u8]) -> Option<Self> {
        let (head, rest) = packed.split_at_checked(HEAD)?;
        let number =
            |at: usize, len: usize| head[at..at + len].iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
        let marks = usize::from(head[HEAD - 1]);
        Some(Self {
            letter: head[0],
            flags: u64::from(head[1]),
            revision: number(2, 8),
            definition: number(10, 8),
            limit: number(18, 8),
            window: number(26, 8),
            updated_ms: number(34, 6),
            sealed: rest.get(8 * marks..)?,
        })
    }
}
