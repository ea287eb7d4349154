//! One command or script call of a pipeline.

use redis::{Cmd, Pipeline, Value};

use super::{error::ServerError, script::Script, topology::slot};

/// Which connection a call takes. Calls of one lane stay in order; calls of two lanes do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Commits, reads, leases: everything that is small and wanted at once.
    Small,
    /// Archives, imports, scans: what may take its time and must not hold up the small ones.
    Bulk,
}

/// A command, or a call of a script.
#[derive(Clone, Debug)]
pub enum Op<'a> {
    /// A plain command.
    Cmd(Cmd),
    /// `EVALSHA`.
    Script {
        /// One of those that the link was started with.
        script: &'static Script,
        /// Every key that the script may touch.
        keys: Vec<Vec<u8>>,
        /// `ARGV`.
        args: Vec<Vec<u8>>,
    },
    /// `EVALSHA` with borrowed keys and arguments.
    ScriptRef {
        /// One of those that the link was started with.
        script: &'static Script,
        /// Every key that the script may touch.
        keys: &'a [&'a [u8]],
        /// `ARGV`.
        args: &'a [&'a [u8]],
    },
}

/// Commands that change nothing: when one of these gets no answer, nothing is in doubt.
const READS: &[&str] = &[
    "GET",
    "MGET",
    "STRLEN",
    "EXISTS",
    "TTL",
    "PTTL",
    "TYPE",
    "DUMP",
    "HGET",
    "HMGET",
    "HGETALL",
    "HLEN",
    "HKEYS",
    "HVALS",
    "HEXISTS",
    "HSTRLEN",
    "HSCAN",
    "SCAN",
    "SSCAN",
    "ZSCAN",
    "ZSCORE",
    "ZMSCORE",
    "ZRANGE",
    "ZRANGEBYSCORE",
    "ZCARD",
    "ZCOUNT",
    "SCARD",
    "SMEMBERS",
    "SISMEMBER",
    "LLEN",
    "LRANGE",
    "XLEN",
    "XRANGE",
    "PING",
    "INFO",
    "TIME",
    "MEMORY",
    "DBSIZE",
    "WAIT",
    "ROLE",
];

impl Op<'_> {
    /// Whether an unanswered call may have changed something.
    pub fn may_write(&self) -> bool {
        match self {
            Self::Cmd(cmd) => !name(cmd)
                .is_some_and(|name| READS.iter().any(|read| read.as_bytes().eq_ignore_ascii_case(name))),
            Self::Script { script, .. } | Self::ScriptRef { script, .. } => !script.is_read_only(),
        }
    }

    pub(super) fn script(&self) -> Option<&'static Script> {
        match self {
            Self::Cmd(_) => None,
            Self::Script { script, .. } | Self::ScriptRef { script, .. } => Some(script),
        }
    }

    /// A script whose keys are in two slots works on one server and on no cluster: found by every test of a debug build.
    fn assert_one_slot(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let home = self.key().map(slot);
        debug_assert!(
            match self {
                Self::Cmd(_) => true,
                Self::Script { keys, .. } => keys.iter().all(|key| Some(slot(key)) == home),
                Self::ScriptRef { keys, .. } => keys.iter().all(|key| Some(slot(key)) == home),
            },
            "keys of two slots: {:?}",
            self.script().map(|script| script.name)
        );
    }

    /// The key that tells in which hash slot it is to be done; all others of it are in the same one. `None`: anywhere.
    pub(super) fn key(&self) -> Option<&[u8]> {
        match self {
            Self::Cmd(cmd) => key(cmd),
            Self::Script { keys, .. } => keys.first().map(Vec::as_slice),
            Self::ScriptRef { keys, .. } => keys.first().copied(),
        }
    }

    fn to_cmd(&self) -> Cmd {
        match self {
            Self::Cmd(cmd) => cmd.clone(),
            Self::Script { script, keys, args } => evalsha(script, keys, args),
            Self::ScriptRef { script, keys, args } => evalsha(script, keys, args),
        }
    }
}

/// Commands that name no key.
const KEYLESS: &[&str] = &["TIME", "SCAN", "INFO", "PUBLISH", "WAIT", "PING", "DBSIZE", "ROLE", "SCRIPT"];

/// The key of a plain command, which is its first argument.
pub(super) fn key(cmd: &Cmd) -> Option<&[u8]> {
    let mut args = cmd.args_iter();
    match (args.next(), args.next()) {
        (Some(redis::Arg::Simple(name)), Some(redis::Arg::Simple(key)))
            if !KEYLESS.iter().any(|keyless| keyless.as_bytes().eq_ignore_ascii_case(name)) =>
        {
            Some(key)
        }
        _ => None,
    }
}

/// The bytes of all calls, as one write.
pub(super) fn pack<'a, 'b: 'a>(ops: impl ExactSizeIterator<Item = &'a Op<'b>>) -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(ops.len());
    for op in ops {
        op.assert_one_slot();
        pipeline.add_command(op.to_cmd());
    }
    pipeline
}

/// The same for a node that is taking their slot over: it serves them only when told that we know.
pub(super) fn pack_asking<'a, 'b: 'a>(ops: impl ExactSizeIterator<Item = &'a Op<'b>>) -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(2 * ops.len());
    for op in ops {
        pipeline.cmd("ASKING");
        pipeline.add_command(op.to_cmd());
    }
    pipeline
}

/// A reply, with an error of the server told apart.
pub(super) fn reply(value: Value) -> Result<Value, ServerError> {
    match value {
        Value::ServerError(error) => Err(ServerError::from_reply(&error)),
        value => Ok(value),
    }
}

fn evalsha(script: &Script, keys: &[impl AsRef<[u8]>], args: &[impl AsRef<[u8]>]) -> Cmd {
    let bytes = keys.iter().map(|key| key.as_ref().len()).sum::<usize>()
        + args.iter().map(|arg| arg.as_ref().len()).sum::<usize>();
    let mut cmd = Cmd::with_capacity(3 + keys.len() + args.len(), bytes + 64);
    cmd.arg("EVALSHA").arg(script.sha()).arg(keys.len());
    for key in keys {
        cmd.arg(key.as_ref());
    }
    for arg in args {
        cmd.arg(arg.as_ref());
    }
    cmd
}

fn name(cmd: &Cmd) -> Option<&[u8]> {
    match cmd.args_iter().next() {
        Some(redis::Arg::Simple(name)) => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_write_can_have_an_unknown_outcome() {
        static WRITE: Script = Script::new("write", "#!lua\nreturn 1");
        static READ: Script = Script::new("read", "#!lua flags=no-writes\nreturn 1");
        let call = |script| Op::Script { script, keys: Vec::new(), args: Vec::new() };
        assert!(call(&WRITE).may_write());
        assert!(!call(&READ).may_write());
        assert!(!Op::Cmd(redis::cmd("hgetall")).may_write());
        assert!(Op::Cmd(redis::cmd("HSET")).may_write());
    }

    #[test]
    fn a_key_tells_the_slot() {
        static SCRIPT: Script = Script::new("one", "return 1");
        let mut get = redis::cmd("GET");
        get.arg("{tag}:h");
        assert_eq!(Op::Cmd(get).key(), Some(&b"{tag}:h"[..]));
        let mut scan = redis::cmd("scan");
        scan.arg(0);
        assert_eq!(Op::Cmd(scan).key(), None);
        let keys: &[&[u8]] = &[b"{tag}:h", b"{tag}:r"];
        assert_eq!(Op::ScriptRef { script: &SCRIPT, keys, args: &[] }.key(), Some(&b"{tag}:h"[..]));
    }

    #[test]
    #[should_panic(expected = "keys of two slots")]
    fn a_script_with_keys_of_two_slots_is_a_fault() {
        static SCRIPT: Script = Script::new("one", "return 1");
        let keys: &[&[u8]] = &[b"{tag}:h", b"{other}:h"];
        pack([Op::ScriptRef { script: &SCRIPT, keys, args: &[] }].iter());
    }
}
